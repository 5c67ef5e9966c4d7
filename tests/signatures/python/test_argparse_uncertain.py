"""What only the running script knows: the reader says so instead of guessing."""

from textwrap import dedent

import pytest

from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Signature


def read(body: str) -> Signature:
    head = "import argparse\nparser = argparse.ArgumentParser()\n\n"
    return read_python(head + body + "\nargs = parser.parse_args()\n")


def words_of(signature: Signature) -> list[str]:
    schema = signature.interface.input_schema
    return [] if schema is None else list(schema["properties"])


def why(text: str) -> tuple[str, int | None]:
    """Return why the script could not be read with certainty."""
    signature = read_python(dedent(text))
    assert words_of(signature) == ["args"]
    return signature.uncertain, signature.uncertain_line


@pytest.mark.parametrize(
    "call",
    [
        "*names",
        "'--x', **settings",
        "compute_name()",
        "'--x', nargs=count()",
        "'--x', action=make_action()",
        "'--x', action=elsewhere.Action",
    ],
)
def test_what_only_the_running_script_knows_makes_the_whole_script_untyped(call: str) -> None:
    signature = read(f"import elsewhere\nparser.add_argument('ok')\nparser.add_argument({call})")

    assert (words_of(signature), signature.interface.convention) == (["args"], "argv")
    assert signature.uncertain
    assert signature.uncertain_line == 6


@pytest.mark.parametrize("setting", ["help", "default", "metavar", "choices", "required"])
def test_a_setting_that_cannot_be_known_is_only_left_out(setting: str) -> None:
    schema = read(f"parser.add_argument('--x', {setting}=compute())").interface.input_schema

    assert schema == {
        "type": "object",
        "properties": {"x": {"type": "string"}},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "other.add_flags(parser)",
            "a parser is passed to other.add_flags, which is not in this file",
        ),
        ("sys.modules['x'].add(parser)", "a parser is passed to code that could not be followed"),
        ("parser = other.make(); parser.parse_args()", "its parser is made by other.make"),
        ("parser.parse_args(sys.argv[2:])", "only a part of the command line is parsed"),
        (
            "sub = parser.add_subparsers(); sub.add_parser(input())",
            "the name of a sub-command is computed at run time",
        ),
        (
            "argparse.ArgumentParser(parents=[other.base])",
            "a parser has a parent from another module",
        ),
    ],
)
def test_a_parser_out_of_sight_is_uncertain(line: str, reason: str) -> None:
    head = "import argparse, sys, other\nparser = argparse.ArgumentParser()"

    assert why(f"{head}\n{line}\nparser.parse_args()") == (reason, 3)


def test_a_script_that_chooses_between_two_parsers_is_uncertain() -> None:
    text = """
        import argparse, sys
        def first():
            parser = argparse.ArgumentParser()
            parser.add_argument("a")
            return parser.parse_args()
        def second():
            parser = argparse.ArgumentParser()
            parser.add_argument("b")
            return parser.parse_args()
        if __name__ == "__main__":
            first() if len(sys.argv) > 1 else second()
    """

    assert why(text) == ("more than one parser reads the command line", 4)
