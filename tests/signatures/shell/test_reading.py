from typing import Any

import pytest

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.shell.reading import read_shell
from skillpouch.signatures.signature import Interface, Signature

ARGS = Interface(
    convention="argv",
    input_schema={
        "type": "object",
        "properties": {"args": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": False,
    },
    plan=(ArgvArgument(name="args", nargs="*"),),
)
STDIN = Interface(convention="stdin")


def properties(text: str) -> Any:
    known = read_shell(text).interface.input_schema
    return known and known["properties"]


def required(text: str) -> Any:
    known = read_shell(text).interface.input_schema
    return known and known.get("required", [])


@pytest.mark.parametrize(
    "text",
    [
        'echo "$1"',
        "echo ${1:-default}",
        'run "$@"',
        "run $*",
        "while getopts 'ab:' opt; do :; done",
        'case "$1" in\n  --flag) FLAG=1 ;;\nesac',
        "if [ $# -lt 1 ]; then exit 1; fi",
        'echo "$(dirname "$1")"',
        "echo `basename $1`",
        "echo $(( $1 + 1 ))",
        "cat <<EOF\n$1\nEOF",
        'echo "it\'s $1"',
        "x=$(case a in a) echo 'b)';; esac); echo $1",
        "usage() {\n  echo hi\n}\necho $1",
        'main() { parse "$@"; }\nmain "$@"',
    ],
)
def test_a_script_that_reads_its_words_takes_any_number_of_them(text: str) -> None:
    assert read_shell(text).interface == ARGS


@pytest.mark.parametrize(
    "text",
    [
        "awk '{print $1}' file",
        'awk "{print \\$1}" file',
        "cat <<'EOF'\n$1 $@\nEOF",
        'cat <<"EOF"\n$1\nEOF',
        "cat <<\\EOF\n$1\nEOF",
        "cat <<-'EOF'\n\t$1\n\tEOF\n",
        "cat <<EOF\n\\$1\nEOF",
        "ls\n# echo $1",
        "echo a # $1",
        'greet() { echo "$1"; shift; }\ngreet Ada',
        "function greet {\n  echo $1\n}\ngreet Ada",
        "greet()\n{\n  if true; then echo ${1}; fi\n}",
        "greet() (\n  echo $1\n)",
        "echo $'\\'$1'",
        "echo $0 $? $$ $!",
        "perl -e 'print $1'",
    ],
)
def test_what_belongs_to_others_is_not_taken_for_the_words_of_a_script(text: str) -> None:
    assert read_shell(text).interface == STDIN


def test_positionals_that_are_named_in_order_are_typed() -> None:
    text = """#!/usr/bin/env bash
# Convert a file.
set -euo pipefail
INPUT="$1"   # the file to convert
FORMAT=${2:?format required}
OUTPUT="${3:-out.txt}"
readonly QUALITY="${4:-$DEFAULT_QUALITY}"
if [ "$1" = "--help" ]; then usage; fi
convert "$INPUT" "$OUTPUT"
"""

    assert read_shell(text) == Signature(
        reader="argv",
        interface=Interface(
            convention="argv",
            description="Convert a file.",
            input_schema={
                "type": "object",
                "properties": {
                    "input": {"type": "string", "description": "the file to convert"},
                    "format": {"type": "string"},
                    "output": {"type": "string", "default": "out.txt"},
                    "quality": {"type": "string"},
                },
                "required": ["input", "format"],
                "additionalProperties": False,
            },
            plan=(
                ArgvArgument(name="input"),
                ArgvArgument(name="format"),
                ArgvArgument(name="output", nargs="?", skippable=True),
                ArgvArgument(name="quality", nargs="?", skippable=True),
            ),
        ),
        variables=("DEFAULT_QUALITY",),
    )


def test_what_stands_before_a_needed_word_cannot_be_left_out() -> None:
    text = 'INPUT="$1"; OUTPUT="${2:-out.txt}"; FORMAT=${3:?format required}'

    assert required(text) == ["input", "output", "format"]
    assert properties(text)["output"] == {"type": "string", "default": "out.txt"}


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ('A="$1"\nB="$2"', []),
        ('set -u\nA="$1"\nB="${2:-x}"', ["a"]),
        ('set -euo pipefail\nA="$1"\nif [ -n "${2:-}" ]; then B="$2"; fi', ["a"]),
        ('A="${1:?no file}"', ["a"]),
        ('if [ $# -lt 2 ]; then usage; exit 1; fi\nA="$1"\nB="$2"\nC="$3"', ["a", "b"]),
        ('[ $# -eq 0 ] && exit 2\nA="$1"\nB="$2"', ["a"]),
        ('[ $# -ge 1 ] || { echo "usage: x A"; exit 1; }\nA="$1"', ["a"]),
        ('if [ -z "$1" ] || [ -z "$2" ]; then exit 1; fi\nA="$1"\nB="$2"', ["a", "b"]),
        ('die() { echo "$1"; exit 1; }\n[ -n "$1" ] || die "no file"\nA="$1"', ["a"]),
        ('A="$1"\nif [ -z "$A" ]; then echo "nothing to do"; exit 0; fi', []),
        ('if [ -f done ]; then exit 0; fi\nif [ -z "$1" ]; then exit 1; fi\nA="$1"', []),
        ('A="${1:-x}"\nif [ -z "$A" ]; then exit 1; fi', []),
        ('A="${1:-}"\nif [ -z "$A" ]; then exit 1; fi', ["a"]),
        ('A="$1"\n[ -z "$A" ] && A=default', []),
        ('A="$1"\nif [ -n "$A" ]; then echo; fi', []),
        ('A="$1"\nA="${A:-x}"', []),
        ('A="${1:-}"', []),
    ],
)
def test_a_word_is_needed_only_where_the_script_refuses_to_run_without(
    text: str, needed: list[str]
) -> None:
    assert required(text) == needed


def test_the_function_that_gets_all_words_names_them() -> None:
    text = 'main() {\n  local file="$1"\n  local mode="${2:-fast}"\n  run "$file"\n}\n\nmain "$@"\n'

    assert properties(text) == {
        "file": {"type": "string"},
        "mode": {"type": "string", "default": "fast"},
    }
    assert required(text) == []


@pytest.mark.parametrize(
    "text",
    [
        'A="$1"; run "$@"',
        'A="$1"; C="$3"',
        'A="$1"; echo "$2"',
        'A="prefix-$1"',
        'if true; then A="$1"; else B="$1"; fi',
        'if true; then shift; fi; A="$1"',
        'A="$1"; set -- x y',
        'A="$1"; if [ "$1" = "--fast" ]; then B=1; fi',
        'A="$1"; case "$1" in -v) B=1 ;; esac',
        'A="$1"; while getopts a: o; do :; done',
    ],
)
def test_positionals_taken_in_other_ways_become_words(text: str) -> None:
    assert read_shell(text).interface == ARGS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('A="$1"; shift; B="$1"', ["a", "b"]),
        ('A="$1"; shift; run "$@"', ["a", "args"]),
        ('if [ $# -gt 0 ]; then A="$1"; fi', ["a"]),
        ('(A="$1")', ["a"]),
        ('save() { local file="$2" mode="$1"; }; save "$1" "${2:-x}"', ["mode", "file"]),
    ],
)
def test_words_are_followed_through_shifts_and_functions(text: str, names: list[str]) -> None:
    assert list(properties(text)) == names


def test_a_later_word_needs_the_earlier_ones_unless_an_empty_one_means_the_same() -> None:
    schema = read_shell('A="$1"\nB="${2:-x}"\nC="$3"').interface.input_schema

    assert schema
    assert schema["dependentRequired"] == {"b": ["a"], "c": ["a"]}


def test_an_empty_word_is_no_default_for_a_script_that_counts_its_words() -> None:
    text = 'A="${1:-}"\nif [ $# -gt 1 ]; then B="$2"; fi\n'

    assert read_shell(text).interface.plan == (
        ArgvArgument(name="a", nargs="?"),
        ArgvArgument(name="b", nargs="?"),
    )


def test_the_variables_that_must_come_from_outside_are_known() -> None:
    text = """
curl -H "X: $API_KEY" "${BASE_URL}/x" "$HOME" "$lower" "${BASH_SOURCE[0]}" "$LC_ALL"
LOCAL=1; echo "$LOCAL"
REGION="${REGION:-eu}"; REGION="${REGION%/}"
: "${TOKEN:?must be set}"
: ${CACHE:=/tmp}
export EXPORTED; echo $EXPORTED
for NAME in A_B C_D; do echo $NAME; done
read -r ANSWER; echo $ANSWER
declare -A MAP; echo ${MAP[x]}
echo '$QUOTED' \\$ESCAPED  # $COMMENTED
cat <<EOF
${IN_TEXT}
EOF
cat <<'EOF'
$IN_LITERAL
EOF
late() { echo $SET_LATER; }
SET_LATER=1
"""

    assert read_shell(text).variables == (
        *("API_KEY", "BASE_URL", "CACHE", "EXPORTED", "IN_TEXT", "REGION", "TOKEN"),
    )


def test_sourced_files_are_imports() -> None:
    text = """
source lib.sh
. ./helpers.sh
source "$DIR/common.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib/deep.sh"
. "$(cd "$(dirname "$0")" && pwd)/twice.sh"
source /etc/profile
source ../up.sh || exit 1
# source no.sh
"""

    assert read_shell(text).imports == frozenset(
        {
            *("./lib.sh", "./helpers.sh", "./common.sh", "./lib/deep.sh", "./twice.sh"),
            *("/etc/profile", "../up.sh"),
        }
    )


@pytest.mark.parametrize(
    ("text", "has_entry"),
    [
        ("# A library\nset -e\nX=1\nlog() { echo hi; }\nexport X\n", False),
        ('DIR="$(cd "$(dirname "$0")" && pwd)"\nsource "$DIR/x.sh"\n', False),
        ("", False),
        ("echo hi", True),
        ("log() { echo hi; }\nlog", True),
        ('"$TOOL" --version', True),
        ("if true; then ls; fi", True),
        ('INPUT="$1"', True),
    ],
)
def test_a_script_that_only_defines_has_no_entry(text: str, has_entry: bool) -> None:
    assert read_shell(text).has_entry is has_entry


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ('read -p "Name? " NAME', True),
        ('read -r -p "Name? " NAME', True),
        ('read -rp "Name? " NAME', True),
        ("select x in a b; do :; done", True),
        ("while read -r line; do :; done < file", False),
        ("echo 'read -p'", False),
    ],
)
def test_a_script_that_asks_a_person_says_so(text: str, asks: bool) -> None:
    assert read_shell(text).reads_input is asks


def test_a_script_with_its_data_inside_is_not_read() -> None:
    signature = read_shell(f"# Unpack it.\n{'x' * 200_000}")

    assert signature.interface.description == "Unpack it."
    assert signature.uncertain == "the script is longer than 120,000 characters"
