"""Flags and sub-commands of shell scripts as arguments and tools; in doubt, just words."""

from functools import partial
from typing import Any

import pytest

from skillpouch.arguments import value_problems
from skillpouch.signatures.argv import words
from skillpouch.signatures.shell.reading import read_shell
from skillpouch.signatures.signature import Interface, says_only_which

SCRIPT = """#!/usr/bin/env bash
# Render a page.
#
#   -o, --out-dir DIR   where the pages go
#   --format FORMAT     html or pdf
#   --dry-run           only say what would be done
set -euo pipefail
usage() { echo "usage: $0 [options] PAGE"; exit 2; }
OUT_DIR="pages"
FORMAT=""
DRY=false
TAGS=()
LEVEL=0
PAGE=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    -o|--out-dir) OUT_DIR="$2"; shift 2 ;;
    --format) FORMAT="$2"; shift 2 ;;
    --dry-run) DRY=true; shift ;;
    -t|--tag) TAGS+=("$2"); shift 2 ;;
    -v) LEVEL=$((LEVEL + 1)); shift ;;
    --copies) [[ "$2" =~ ^[0-9]+$ ]] || usage; COPIES="$2"; shift 2 ;;
    -h|--help) usage ;;
    -*) echo "unknown: $1"; exit 2 ;;
    *) PAGE="$1"; shift ;;
  esac
done
case "$FORMAT" in html|pdf) ;; *) echo "no such format"; exit 2 ;; esac
if [[ -z "$PAGE" ]]; then usage; fi
render "$PAGE"
"""


def interface_of(text: str, command: str = "") -> Interface:
    signature = read_shell(text)
    return signature.commands[command] if command else signature.interface


def schema_of(text: str, command: str = "") -> dict[str, Any]:
    schema = interface_of(text, command).input_schema
    assert schema
    return schema


def loop(items: str, after: str = "", before: str = "") -> str:
    return f'{before}\nwhile [ $# -gt 0 ]; do\n  case "$1" in\n{items}\n  esac\ndone\n{after}\n'


def test_a_loop_over_flags_gives_typed_arguments() -> None:
    assert schema_of(SCRIPT) == {
        "type": "object",
        "properties": {
            "out_dir": {
                "type": "string",
                "description": "where the pages go",
                "default": "pages",
            },
            "format": {"type": "string", "enum": ["html", "pdf"], "description": "html or pdf"},
            "dry_run": {"type": "boolean", "description": "only say what would be done"},
            "tag": {"type": "array", "items": {"type": "string"}},
            "level": {"type": "integer", "minimum": 0},
            "copies": {"type": "integer", "minimum": 0},
            "page": {"type": "string"},
        },
        "required": ["page"],
        "additionalProperties": False,
    }


def test_values_of_such_flags_are_words_of_their_own_whatever_they_hold() -> None:
    plan = interface_of(SCRIPT).plan or ()

    given = {"out_dir": "-x", "dry_run": True, "tag": ["a", "--b"], "level": 2, "page": "p"}

    assert words(plan, given) == [
        *("--out-dir", "-x", "--dry-run", "--tag", "a", "--tag", "--b", "-v", "-v", "p")
    ]


def test_a_word_that_the_loop_would_take_for_a_flag_is_refused() -> None:
    plan = interface_of(SCRIPT).plan or ()

    with pytest.raises(ValueError, match="would not take '-p'"):
        words(plan, {"page": "-p"})


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ('-o) if [ -n "$2" ]; then O="$2"; shift 2; else O=x; shift; fi ;;', "how many words -o"),
        (
            '-o) shift; while [ -n "$1" ]; do O+=("$1"); shift; done ;;',
            "'shift' is called in a loop",
        ),
        ('-o) O="$2"; shift ;;', "how many words -o takes is not clear"),
        ("-o) O=1; shift 2 ;;", "where the value of -o goes"),
        ("-o) O=1; shift $N ;;", "how many words it shifts"),
        ('-o) eval "O=$2"; shift 2 ;;', "'eval' is called"),
        ('-o) O="$2"; shift 2 ;;\n+([0-9])) N="$1"; shift ;;', "could match several"),
        (
            '-o) O="$2"; shift 2 ;;\n*) if [ "$N" = x ]; then A="$1"; else B="$1"; fi; shift ;;',
            "variable",
        ),
        ("-o) O=1; shift; break ;;", "what comes after -o is not clear"),
    ],
)
def test_a_loop_that_is_not_certain_stays_words_and_says_why(items: str, reason: str) -> None:
    signature = read_shell(loop(items))

    assert [part.name for part in signature.interface.plan or ()] == ["args"]  # type: ignore[union-attr]
    assert reason in signature.uncertain
    assert signature.uncertain_line is not None


def test_a_usage_that_shows_another_flag_refutes_what_was_read() -> None:
    text = loop(
        '--out) O="$2"; shift 2 ;;\n*) exit 1 ;;', before="# --out FILE  where to\n# --all  all"
    )

    signature = read_shell(text)

    assert list(signature.interface.input_schema["properties"]) == ["args"]  # type: ignore[index]
    assert signature.uncertain == "its usage shows --all, which it does not read"
    assert signature.uncertain_line == 2


def test_a_usage_that_shows_a_value_refutes_a_switch() -> None:
    text = loop("--out) O=1; shift ;;\n*) exit 1 ;;", before="# --out FILE  where to")

    assert read_shell(text).uncertain == "its usage shows a value for --out, which it does not take"


@pytest.mark.parametrize(
    ("after", "needed"),
    [
        ('[ -z "$O" ] && exit 1', ["out"]),
        ('if [ -z "$O" ]; then echo "--out is missing"; exit 1; fi', ["out"]),
        (': "${O:?is missing}"', ["out"]),
        ('[ -z "$O" ] && O=default', []),
        ('if [ -f x ]; then exit 0; fi\n[ -z "$O" ] && exit 1', []),
        ("", []),
    ],
)
def test_a_flag_is_needed_only_where_the_script_refuses(after: str, needed: list[str]) -> None:
    text = loop('--out) O="$2"; shift 2 ;;\n*) exit 1 ;;', after, before='O=""')

    assert schema_of(text).get("required", []) == needed


def test_words_after_the_flags_are_named_by_the_variables_they_go_to() -> None:
    text = loop(
        "-v) V=1; shift ;;\n--) shift; break ;;\n-*) exit 1 ;;\n*) break ;;",
        '[ $# -ge 1 ] || exit 1\nINPUT="$1"\nshift\nconvert "$INPUT" "$@"',
    )
    plan = interface_of(text).plan or ()

    assert list(schema_of(text)["properties"]) == ["v", "input", "args"]
    assert schema_of(text)["required"] == ["input"]
    assert words(plan, {"v": True, "input": "-a", "args": ["b"]}) == ["-v", "--", "-a", "b"]


COMMANDS = """
# notes.sh add <title> [tag]   Add a note
# notes.sh list                Show all notes
add() { local title="$1" tag="${2:-none}"; store "$title" "$tag"; }
case "${1:-}" in
  add) shift; add "$@" ;;
  list|ls) show ;;
  remote) case "$2" in get) url="$3"; fetch "$url" ;; set) push "$3" ;; *) exit 1 ;; esac ;;
  help|-h|--help|"") echo usage ;;
  *) echo "unknown: $1"; exit 1 ;;
esac
"""


def test_each_sub_command_is_a_tool_with_arguments_of_its_own() -> None:
    signature = read_shell(COMMANDS)

    assert list(signature.commands) == ["add", "list", "remote.get", "remote.set"]
    assert signature.commands["add"].description == "Add a note"
    assert schema_of(COMMANDS, "add") == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "tag": {"type": "string", "default": "none"}},
        "dependentRequired": {"tag": ["title"]},
        "additionalProperties": False,
    }
    assert schema_of(COMMANDS, "list")["properties"] == {}
    assert schema_of(COMMANDS, "remote.get")["properties"] == {"url": {"type": "string"}}
    assert list(schema_of(COMMANDS, "remote.set")["properties"]) == ["args"]
    assert words(signature.commands["add"].plan or (), {"title": "a", "tag": "b"}) == [
        "add",
        "a",
        "b",
    ]


def test_a_sub_command_that_is_not_certain_keeps_its_words_together() -> None:
    text = 'case "$1" in\n  run) exec "$2" "$@" ;;\n  list) show ;;\n  *) exit 1 ;;\nesac\n'

    assert list(schema_of(text, "run")["properties"]) == ["args"]
    assert schema_of(text, "list")["properties"] == {}


def test_a_regular_expression_may_hold_spaces_in_parentheses() -> None:
    item = 'check) if [[ "$2" =~ (rm -rf|sudo) ]]; then warn; fi ;;'
    text = f'case "$1" in\n  {item}\n  *) exit 1 ;;\nesac'

    assert list(read_shell(text).commands) == ["check"]


def test_a_case_that_only_sets_variables_gives_choices() -> None:
    text = 'case "$1" in\n  fast) N=1 ;;\n  slow) N=9 ;;\n  *) exit 1 ;;\nesac\nMODE="$1"\nrun $N\n'

    assert schema_of(text)["properties"] == {"mode": {"type": "string", "enum": ["fast", "slow"]}}


@pytest.mark.parametrize(
    "text",
    [
        'case "$1" in\n  start) go ;;\n  *) open "$1" ;;\nesac\n',
        'case "$1" in\n  start) go ;;\n  "") serve ;;\n  *) exit 1 ;;\nesac\n',
        'case "$1" in\n  st*) go ;;\n  *) exit 1 ;;\nesac\n',
    ],
)
def test_sub_commands_beside_which_other_words_mean_something_stay_words(text: str) -> None:
    signature = read_shell(text)

    assert signature.commands == {}
    assert list(schema_of(text)["properties"]) == ["args"]


def fits_schema(schema: dict[str, Any], given: dict[str, Any]) -> bool:
    return not value_problems(schema, given)


def test_words_are_optional_only_with_a_flag_that_ends_the_script() -> None:
    text = loop(
        '--sample) give "$2"; exit 0 ;;\n--list) show; exit 0 ;;\n-v) V=1; shift ;;\n'
        "-*) exit 1 ;;\n*) break ;;",
        '[ $# -eq 2 ] || exit 1\nHOOK="$1"\nINPUT="$2"\nrun "$HOOK" "$INPUT"',
    )
    schema, plan = schema_of(text), interface_of(text).plan or ()
    fits = partial(fits_schema, schema)

    assert "required" not in schema
    assert schema["dependentRequired"] == {"input": ["hook"]}
    assert says_only_which(schema["allOf"])
    described = "(required, unless sample or list is given)"
    assert schema["properties"]["hook"] == {"type": "string", "description": described}
    assert [fits(given) for given in ({"sample": "Stop"}, {"list": True})] == [True, True]
    assert fits({"hook": "h", "input": "i", "v": True})
    wrong: list[dict[str, object]] = [{}, {"v": True}, {"hook": "h"}, {"list": False}]
    assert not any(map(fits, wrong))
    assert words(plan, {"sample": "Stop"}) == ["--sample", "Stop"]


def test_a_needed_flag_is_optional_only_with_one_that_ends_the_script() -> None:
    text = loop(
        '--list) show; exit 0 ;;\n--out) O="$2"; shift 2 ;;\n*) P="$1"; shift ;;',
        '[ -z "$O" ] && exit 1\n[ -f "$P" ] || exit 1\nwrite "$O" "$P"',
        before='O=""\nP=""',
    )
    fits = partial(fits_schema, schema_of(text))

    assert [fits({"out": "o", "p": "p"}), fits({"list": True})] == [True, True]
    assert [fits({}), fits({"out": "o"}), fits({"p": "p"})] == [False, False, False]


@pytest.mark.parametrize(
    ("guard", "needed"),
    [
        ('[ ! -f "$FILE" ] && exit 1', ["file"]),
        ('[ ! -f "$FILE" ] && { echo "no $FILE" >&2; exit 2; }', ["file"]),
        ("[[ ! -d $FILE ]] && exit 1", ["file"]),
        ('[ -r "$FILE" ] || exit 1', ["file"]),
        ('test -s "$FILE" || { echo missing; exit 1; }', ["file"]),
        ('if [ ! -e "$FILE" ]; then echo missing; exit 1; fi', ["file"]),
        ('if [[ ! -f "$FILE" || ! -d "$OUT" ]]; then exit 1; fi', ["file", "out"]),
        ('if ! [ -f "$FILE" ]; then exit 1; fi', ["file"]),
        ("[ ! -f $FILE ] && exit 1", []),  # `[ ! -f ]` is false: bash goes on without a word
        ('[ ! -f "$FILE" ] && exit 0', []),
        ('[ ! -f "$FILE" ] && FILE=default', []),
        ('[ -f "$FILE" ] && exit 1', []),
        ('if [[ ! -f "$FILE" && ! -d "$OUT" ]]; then exit 1; fi', []),
        ('[ ! -f "$FILE.txt" ] && exit 1', []),
    ],
)
def test_a_word_is_needed_where_the_script_refuses_to_go_on_without_its_file(
    guard: str, needed: list[str]
) -> None:
    text = f'FILE="$1"\nOUT="$2"\n{guard}\nconvert "$FILE" "$OUT"\n'

    assert schema_of(text).get("required", []) == needed


def test_a_file_with_a_default_is_not_needed() -> None:
    text = 'FILE="${1:-notes.txt}"\n[ ! -f "$FILE" ] && exit 1\nread_notes "$FILE"\n'

    assert "required" not in schema_of(text)


FIRST = 'PAGE="$1"\nshift || true'


@pytest.mark.parametrize(
    ("after", "needed"),
    [
        ('[ -z "$PAGE" ] && exit 1', ["page"]),
        ('if [[ -z "$PAGE" || ! -f "$PAGE" ]]; then echo usage; exit 1; fi', ["page"]),
        ('[ -z "$PAGE" ] && PAGE=index', []),
        ("", []),
    ],
)
def test_a_word_before_the_flags_is_needed_where_the_script_refuses_after_them(
    after: str, needed: list[str]
) -> None:
    text = loop("-v) V=1; shift ;;\n*) shift ;;", f'{after}\nrender "$PAGE"', before=FIRST)

    assert schema_of(text).get("required", []) == needed


def test_flags_need_an_optional_word_that_stands_before_them() -> None:
    text = loop(
        '-v) V=1; shift ;;\n--to) T="$2"; shift 2 ;;\n*) exit 1 ;;', 'show "$PAGE"', before=FIRST
    )

    assert schema_of(text)["dependentRequired"] == {"v": ["page"], "to": ["page"]}


def test_a_case_of_a_later_word_gives_choices_and_no_sub_commands() -> None:
    text = 'file=$1\nas=${2:-html}\ncase $as in\n  html) web "$file" ;;\n  md) text "$file" ;;\n'
    text += "  *) echo no >&2; exit 2 ;;\nesac\n"

    assert schema_of(text)["properties"] == {
        "file": {"type": "string"},
        "as": {"type": "string", "default": "html", "enum": ["html", "md"]},
    }
