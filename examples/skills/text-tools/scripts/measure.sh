#!/usr/bin/env bash
: '
Count the lines, words and bytes of a file.
'
set -euo pipefail

counts=$(wc -lwc < "${1:?which file?}")
read -r lines words bytes <<< "$counts"
printf '{"lines": %d, "words": %d, "bytes": %d}\n' "$lines" "$words" "$bytes"
