"""What was read about flags and words, compared with what bash really does with them."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skillpouch.signatures.argv import ArgvArgument, words
from skillpouch.signatures.shell.reading import read_shell
from skillpouch.signatures.signature import Interface
from tests.signatures.shell.traced import trace


class Sample(NamedTuple):
    """A script, the tool it is read as, and the variable that gets each of its arguments."""

    text: str
    variables: Mapping[str, str]
    command: str = ""


USAGE = 'usage() { echo "usage: x [options]"; exit 2; }\ndie() { echo "$1" >&2; exit 1; }\n'
START = "#!/usr/bin/env bash\nOUT=first\nLIST=()\nWORDS=()\nVERBOSE=0\nNAME=\nA=\nB=\n" + USAGE

# Conditions of a loop, and the item that ends it where the condition does not.
LOOPS = {
    "while [[ $# -gt 0 ]]": "",
    "while [ $# -gt 0 ]": "",
    "while (( $# ))": "",
    'while [ -n "${1:-}" ]': "",
    "while test $# -ne 0": "",
    "until [ $# -eq 0 ]": "",
    "while true": '"") break ;;',
    "while :": '"") break ;;',
}
# How a flag takes its value, as (before `case`, name of the word, item, after `esac`).
VALUES = (
    ("", "$1", "PUT<$2>; shift 2", ""),
    ("", "$1", "shift; PUT<$1>; shift", ""),
    ("", "$1", "PUT<${2:?no value}>; shift 2", ""),
    ("", "${1:-}", '[ $# -ge 2 ] || die "no value"; PUT<$2>; shift 2', ""),
    ('key="$1"; shift;', "$key", "PUT<$1>; shift", ""),
    ("", "$1", 'if [[ -z "${2:-}" ]]; then usage; fi; PUT<$2>; shift; shift', ""),
    ("", "$1", "PUT<$2>; shift", "shift"),
)
# What becomes of other words: an item of the loop, what comes after it, the arguments it makes.
OTHERS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ('*) WORDS+=("$WORD"); shift ;;', "", {"words": "WORDS"}),
    ('-*) usage ;;\n*) NAME="$WORD"; shift ;;', "", {"name": "NAME"}),
    (
        (
            '-*) die "what is $WORD?" ;;\n*) if [[ -z "$A" ]]; then A="$WORD"; elif'
            ' [ -z "$B" ]; then B="$WORD"; else usage; fi; shift ;;'
        ),
        "",
        {"a": "A", "b": "B"},
    ),
    ("*) usage ;;", "", {}),
    (
        '*) WORDS+=("$WORD"); shift ;;',
        'set -- "${WORDS[@]}"\nA="$1"\nB="${2:-}"',
        {"a": "A", "b": "B"},
    ),
)


def put(item: str, assignment: str) -> str:
    return re.sub("PUT<(.*?)>", lambda match: assignment.format(match[1]), item)


def while_sample(loop: str, value: int, other: int) -> Sample:
    before, word, item, after = VALUES[value]
    rest, later, arguments = OTHERS[other]
    is_shifted = before.endswith("shift;")
    one = "" if is_shifted or after else "; shift"
    rest = rest.replace("$WORD", "$key" if before else "$1")
    if is_shifted or after:
        rest = rest.replace("; shift ;;", " ;;")
    text = f"""{START}
{loop}; do
  {before}
  case "{word}" in
    -o|--out) {put(item, 'OUT="{}"')} ;;
    -l|--list) {put(item, 'LIST+=("{}")')} ;;
    -v|--verbose) VERBOSE=1{one} ;;
    -h|--help) usage ;;
    {LOOPS[loop]}
    {rest}
  esac
  {after}
done
{later}
"""
    known = {"out": "OUT", "list": "LIST", "verbose": "VERBOSE"}
    return Sample(text, {**known, **arguments})


WHILE = [
    while_sample(loop, value, other)
    for number, (loop, value) in enumerate(itertools.product(LOOPS, range(len(VALUES))))
    for other in [number % len(OTHERS)]
]

JOINED = [
    Sample(
        f"""{START}
while [[ $# -gt 0 ]]; do
  case "$1" in
    --out=*) OUT="${{1#{cut}}}"; shift ;;
    --verbose) VERBOSE=1; shift ;;
    --) shift; break ;;
    -*) usage ;;
    *) break ;;
  esac
done
A="${{1:-}}"
""",
        {"out": "OUT", "verbose": "VERBOSE", "a": "A"},
    )
    for cut in ("*=", "--out=")
]

FOR = [
    Sample(
        f"""{START}
{loop}
  case "{word}" in
    --out=*) OUT="${{arg#{cut}}}" ;;
    -v|--verbose) VERBOSE=1 ;;
    -h|--help) usage ;;
    {other.replace("; shift ;;", " ;;").replace("$WORD", "$arg")}
  esac
done
""",
        {"out": "OUT", "verbose": "VERBOSE", **arguments},
    )
    for loop in ('for arg in "$@"; do', "for arg; do", "for arg do", 'for arg in "$@"\ndo')
    for word in ("$arg", "${arg}")
    for cut in ("*=", "--out=")
    for other, later, arguments in OTHERS[:4]
    if not later
]

GETOPTS = [
    Sample(
        f"""{START}
{before}
while getopts "{silent}o:l:vh" opt; do
  case {word} in
    o) OUT="$OPTARG" ;;
    l) LIST+=("$OPTARG") ;;
    v) VERBOSE=1 ;;
    h) usage ;;
    {other} usage ;;
  esac
done
{after}
""",
        {"out": "OUT", "list": "LIST", "verbose": "VERBOSE", **arguments},
    )
    for silent in ("", ":")
    for word in ('"$opt"', "$opt", "${opt}")
    for other in ("*)", r"\?|:)")
    for before, after, arguments in (
        ("", 'shift $((OPTIND - 1))\nA="${1:-}"\nB="${2:-}"', {"a": "A", "b": "B"}),
        ("OPTIND=1", 'shift "$((OPTIND-1))"\nA="$1"', {"a": "A"}),
        ("", "", {}),
    )
]

COMMANDS = [
    Sample(
        f"""{START}
add() {{
  local name="$1" note="${{2:-none}}"
  A="$name"; B="$note"
}}
list() {{
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --out) OUT="$2"; shift 2 ;;
      --verbose) VERBOSE=1; shift ;;
      *) usage ;;
    esac
  done
}}
{begin}
  add) {shift} add {rest} ;;
  list|ls) {shift} list {rest} ;;
  help|-h) usage ;;
  *) usage ;;
esac
{end}
""",
        variables,
        command,
    )
    for begin, shift, rest, end in (
        ('case "${1:-}" in', "shift;", '"$@"', ""),
        ('case "$1" in', "", '"${@:2}"', ""),
        ('cmd="${1:-help}"; shift || true; case "$cmd" in', "", '"$@"', ""),
        ('main() {\ncmd="$1"; shift\ncase "$cmd" in', "", '"$@"', '}\nmain "$@"'),
        (
            "if [ $# -lt 1 ]; then usage; fi\nACTION=$1\nshift\ncase $ACTION in",
            "",
            '"$@"',
            "exit 0",
        ),
    )
    for command, variables in (
        ("add", {"name": "A", "note": "B"}),
        ("list", {"out": "OUT", "verbose": "VERBOSE"}),
    )
]

FAMILIES = {"while": WHILE, "joined": JOINED, "for": FOR, "getopts": GETOPTS, "case": COMMANDS}
SAMPLES = [
    pytest.param(
        sample,
        id=f"{family}-{number}",
        marks=[] if number % max(1, len(samples) // 6) == 0 else [pytest.mark.exhaustive],
    )
    for family, samples in FAMILIES.items()
    for number, sample in enumerate(samples)
]


def interface_of(sample: Sample) -> Interface:
    signature = read_shell(sample.text)
    assert (signature.uncertain, signature.uncertain_line) == ("", None)
    return signature.commands[sample.command] if sample.command else signature.interface


def value_for(schema: Mapping[str, Any], name: str, style: str) -> Any:
    if schema["type"] == "boolean":
        return True
    if schema["type"] == "array":
        return [value_for(schema["items"], f"{name}{number}", style) for number in range(2)]
    return style.format(f"Zq.{name}.")


def argument_sets(interface: Interface) -> list[dict[str, Any]]:
    """Return every argument at once, each by itself, and values that look like something else."""
    assert interface.input_schema
    properties = interface.input_schema["properties"]
    all_of = {
        style: {name: value_for(schema, name, style) for name, schema in properties.items()}
        for style in ("{}", "{} b", "{}=c", "-{}")
    }
    plan = [each for each in interface.plan or () if isinstance(each, ArgvArgument)]
    flags = {each.name for each in plan if each.flag}
    dashed = {name: value for name, value in all_of["-{}"].items() if name in flags}
    single = [{name: value} for name, value in all_of["{}"].items()]
    return [{}, all_of["{}"], all_of["{} b"], all_of["{}=c"], dashed, *single]


def shown(value: Any, schema: Mapping[str, Any]) -> str:
    """Return a value as `declare -p` shows it."""
    if schema["type"] == "array":
        return "(" + " ".join(f'[{at}]="{each}"' for at, each in enumerate(value)) + ")"
    return '"1"' if value is True else f'"{value}"'


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_value_arrives_in_its_variable_and_in_no_other(
    sample: Sample, tmp_path: Path
) -> None:
    interface = interface_of(sample)
    assert interface.input_schema
    assert interface.plan is not None
    properties = interface.input_schema["properties"]
    script = tmp_path / "script.sh"
    # The trace shows what was before each command: one more, so that it shows the end.
    script.write_text(f"{sample.text}:\n")

    assert set(properties) == set(sample.variables)
    for given in argument_sets(interface):
        if not needed(interface, given) <= set(given):
            continue
        seen = trace(script, words(interface.plan, given), tmp_path)
        for name, variable in sample.variables.items():
            marked = [each for each in seen.held.get(variable, []) if each]
            if name in given and properties[name]["type"] != "boolean":
                assert marked[-1] == shown(given[name], properties[name]), (given, seen.output)
            elif name not in given:
                assert marked == [], (given, seen.output)
        switched = seen.values["VERBOSE"][-1] == '"1"'
        assert switched == bool(given.get("verbose")), (given, seen.output)


def needed(interface: Interface, given: Mapping[str, Any]) -> set[str]:
    """Return the arguments that a call with these must have, too."""
    schema = interface.input_schema or {}
    dependent = schema.get("dependentRequired", {})
    return {
        *schema.get("required", ()),
        *(each for name in given for each in dependent.get(name, ())),
    }
