"""One argparse argument at a time: what a caller may pass, and the words it becomes."""

from textwrap import dedent
from typing import Any

import pytest

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Signature


def read(body: str) -> Signature:
    head = "import argparse, json\nfrom pathlib import Path\nparser = argparse.ArgumentParser()\n"
    return read_python(head + dedent(body) + "\nargs = parser.parse_args()\n")


def read_one(call: str) -> tuple[dict[str, Any], ArgvArgument, bool]:
    """Return the property, the plan and whether it is required, for a script with one argument."""
    signature = read(f"parser.add_argument({call})")
    assert signature.uncertain == ""
    schema, plan = signature.interface.input_schema, signature.interface.plan
    assert schema is not None
    assert plan is not None
    [argument] = plan
    assert isinstance(argument, ArgvArgument)
    return (
        schema["properties"][argument.name],
        argument,
        argument.name in schema.get("required", ()),
    )


def test_a_positional_is_required_and_named_as_it_is_written() -> None:
    assert read_one("'in-file', help='What to read'") == (
        {"type": "string", "description": "What to read"},
        ArgvArgument(name="in-file", after_dashes=True),
        True,
    )


def test_a_flag_is_named_by_its_first_long_form() -> None:
    assert read_one("'-o', '--out-file', '--output'") == (
        {"type": "string"},
        ArgvArgument(name="out_file", flag="--out-file", others=("-o", "--output")),
        False,
    )


def test_dest_and_prefix_chars_count_as_in_argparse() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser(prefix_chars="+")
        parser.add_argument("+x", "++long-name", required=True)
        parser.add_argument("+y", dest="other")
        parser.parse_args()
    """

    interface = read_python(dedent(text)).interface

    assert interface.plan == (
        ArgvArgument(name="long_name", flag="++long-name", others=("+x",)),
        ArgvArgument(name="other", flag="+y"),
    )
    assert interface.input_schema is not None
    assert interface.input_schema["required"] == ["long_name"]


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("int", "integer"),
        ("float", "number"),
        ("str", "string"),
        ("Path", "string"),
        ("bool", "string"),  # argparse calls bool("false"), which is true
        ("json.loads", "string"),
        ("open", "string"),
        ("argparse.FileType('w')", "string"),
        ("lambda text: int(text)", "string"),
        ("somewhere.unknown", "string"),
    ],
)
def test_a_type_is_checked_only_when_its_text_is_certain(type_: str, kind: str) -> None:
    schema, _, _ = read_one(f"'--x', type={type_}")

    assert schema == {"type": kind}


@pytest.mark.parametrize(
    ("choices", "schema"),
    [
        ("choices=['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("choices=('a', 'b')", {"type": "string", "enum": ["a", "b"]}),
        ("choices={'a': 1, 'b': 2}", {"type": "string", "enum": ["a", "b"]}),
        ("choices=sorted(['b', 'a'])", {"type": "string", "enum": ["a", "b"]}),
        ("choices=list({'a': 1}.keys())", {"type": "string", "enum": ["a"]}),
        ("choices=[1, 2], type=int", {"type": "integer", "enum": [1, 2]}),
        ("choices=range(1, 4), type=int", {"type": "integer", "minimum": 1, "maximum": 3}),
        ("choices=load_choices()", {"type": "string"}),
        ("choices=['1', '2'], type=int", {"type": "integer"}),  # nothing could ever match
        ("choices=[1, 2], type=positive", {"type": "string", "enum": ["1", "2"]}),
    ],
)
def test_choices_become_an_enum_of_what_a_caller_passes(
    choices: str, schema: dict[str, Any]
) -> None:
    assert read_one(f"'--x', {choices}")[0] == schema


def test_an_enum_class_gives_its_values_when_it_is_the_type() -> None:
    text = """
        import argparse, enum
        class Mode(enum.Enum):
            FAST = "fast"
            SLOW = "slow"
        parser = argparse.ArgumentParser()
        parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.FAST)
        parser.add_argument("--by-value", choices=[mode.value for mode in Mode])
        parser.parse_args()
    """

    schema = read_python(dedent(text)).interface.input_schema

    assert schema is not None
    assert schema["properties"] == {
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
        "by_value": {"type": "string", "enum": ["fast", "slow"]},
    }


@pytest.mark.parametrize(
    ("call", "schema", "nargs"),
    [
        ("'x', nargs='?'", {"type": "string"}, "?"),
        ("'x', nargs='*'", {"type": "array", "items": {"type": "string"}}, "*"),
        ("'x', nargs='*', action='extend'", {"type": "array", "items": {"type": "string"}}, "*"),
        ("'x', nargs='+'", {"type": "array", "items": {"type": "string"}, "minItems": 1}, "+"),
        ("'x', nargs=argparse.REMAINDER", {"type": "array", "items": {"type": "string"}}, "..."),
        (
            "'--x', nargs=2, type=float",
            {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
            2,
        ),
    ],
)
def test_nargs_decides_whether_there_is_a_list(
    call: str, schema: dict[str, Any], nargs: str | int
) -> None:
    read_schema, argument, _ = read_one(call)

    assert (read_schema, argument.nargs) == (schema, nargs)


@pytest.mark.parametrize(
    ("call", "schema", "action"),
    [
        ("'--x', action='store_true'", {"type": "boolean"}, "store_true"),
        (
            "'--no-x', dest='x', action='store_false'",
            {"type": "boolean", "description": "false passes --no-x", "default": True},
            "store_false",
        ),
        ("'--x', action='store_const', const=3", {"type": "boolean"}, "store_const"),
        ("'--x', action='count', default=0", {"type": "integer", "minimum": 0}, "count"),
        ("'--x', action='append'", {"type": "array", "items": {"type": "string"}}, "append"),
        (
            "'--x', action='append', nargs=2, type=int",
            {
                "type": "array",
                "items": {
                    "type": "array",
                    "items": {"type": "integer"},
                    "minItems": 2,
                    "maxItems": 2,
                },
            },
            "append",
        ),
        (
            "'--x', action='extend', nargs='+'",
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "extend",
        ),
        (
            "'--x', action=argparse.BooleanOptionalAction, default=True",
            {"type": "boolean", "default": True},
            "boolean_optional",
        ),
    ],
)
def test_an_action_decides_the_shape(call: str, schema: dict[str, Any], action: str) -> None:
    read_schema, argument, _ = read_one(call)

    assert (read_schema, argument.action) == (schema, action)


def test_a_boolean_optional_knows_the_flag_that_says_no() -> None:
    _, argument, _ = read_one("'--color', action=argparse.BooleanOptionalAction")

    assert argument == ArgvArgument(
        name="color", flag="--color", action="boolean_optional", off_flag="--no-color"
    )


def test_an_action_of_the_script_is_a_switch_when_it_takes_no_value() -> None:
    text = """
        import argparse
        class Upper(argparse.Action):
            def __call__(self, parser, namespace, values, option_string=None):
                setattr(namespace, self.dest, values.upper())
        class Now(argparse.Action):
            def __init__(self, option_strings, dest, **kwargs):
                super().__init__(option_strings, dest, nargs=0, **kwargs)
        parser = argparse.ArgumentParser()
        parser.add_argument("--name", action=Upper)
        parser.add_argument("--now", action=Now)
        parser.parse_args()
    """

    interface = read_python(dedent(text)).interface

    assert interface.plan == (
        ArgvArgument(name="name", flag="--name"),
        ArgvArgument(name="now", flag="--now", action="store_true"),
    )


@pytest.mark.parametrize(
    "call", ["'--version', action='version', version='1'", "'--h', action='help'"]
)
def test_an_argument_that_only_prints_is_left_out(call: str) -> None:
    signature = read(f"parser.add_argument({call})")

    assert signature.interface.plan == ()


@pytest.mark.parametrize(
    ("help_", "description"),
    [
        ("'How many (default: %(default)s)', default=3", "How many (default: 3)"),
        ("'One of %(choices)s', choices=['a', 'b']", "One of a, b"),
        ("'100%% of %(prog)s'", "100% of this script"),
        ("'Kept in %(default)s', default=find_home()", "Kept in …"),
        ("f'Part of {LIMIT}'", "Part of 10"),
        ("'Two ' + 'parts'", "Two parts"),
        ("'%d at most' % LIMIT", "10 at most"),
    ],
)
def test_help_is_read_with_its_placeholders_filled_in(help_: str, description: str) -> None:
    signature = read(f"LIMIT = 10\nparser.add_argument('--x', help={help_})")

    assert signature.interface.input_schema is not None
    assert signature.interface.input_schema["properties"]["x"]["description"] == description


def test_suppressed_help_still_leaves_an_argument() -> None:
    assert read_one("'--secret', help=argparse.SUPPRESS, default=argparse.SUPPRESS")[0] == {
        "type": "string"
    }


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        ("default=3, type=int", {"default": 3}),
        ("default='3', type=int", {"default": 3}),
        ("default=None", {}),
        ("default=5", {"default": "5"}),
        ("default=compute()", {}),
        ("default=['a'], nargs='*'", {"default": ["a"]}),
    ],
)
def test_a_default_is_shown_as_a_caller_would_pass_it(default: str, shown: dict[str, Any]) -> None:
    schema, _, _ = read_one(f"'--x', {default}")

    assert {key: value for key, value in schema.items() if key == "default"} == shown
