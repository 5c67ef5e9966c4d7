#!/usr/bin/env bash
# Convert the text of a PDF file to Markdown or HTML.
#
# Usage: convert.sh FILE [markdown|html]
set -euo pipefail

file=${1:?which PDF file?}
format=${2:-markdown}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# A page begins on the first line and after an empty one; its first line is the heading.
case $format in
  markdown)
    python3 "$here/extract.py" "$file" | sed -e '1s/^/# /' -e '/^$/{n;s/^/# /;}'
    ;;
  html)
    python3 "$here/extract.py" "$file" |
      sed -e 's/&/\&amp;/g' -e 's/</\&lt;/g' -e 's/>/\&gt;/g' |
      sed -e '1{s|.*|<h1>&</h1>|;b' -e '}' -e '/^$/{n;s|.*|<h1>&</h1>|;b' -e '}' -e 's|.*|<p>&</p>|'
    ;;
  *)
    echo "unknown format '$format': use markdown or html" >&2
    exit 2
    ;;
esac
