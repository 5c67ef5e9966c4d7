"""How a command is said to be written."""

from typing import Any

import pytest

from skillpouch.shell.toolbox import ToolDef
from skillpouch.shell.usage import usage_line, usage_page


def line(properties: dict[str, Any], **schema: Any) -> str:
    tool = ToolDef("get", "").with_schema({"type": "object", "properties": properties, **schema})
    return usage_line(tool)


def test_a_schema_that_says_nothing_about_required_is_shown_as_in_the_seed() -> None:
    assert line({"id": {"type": "integer"}}) == "get --id <integer>"


def test_what_may_be_left_out_stands_in_brackets() -> None:
    properties = {"id": {"type": "integer"}, "page": {"type": "integer"}}

    assert line(properties, required=["id"]) == "get --id <integer> [--page <integer>]"
    assert line(properties, required=[]) == "get [--id <integer>] [--page <integer>]"


def test_a_default_and_a_switch_may_be_left_out() -> None:
    properties = {"page": {"type": "integer", "default": 1}, "all": {"type": "boolean"}}

    assert line(properties) == "get [--page <integer>] [--all]"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a", "b", 3]}, "get --x <a|b|3>"),
        ({"enum": list(range(40))}, "get --x <0|1|2|3|4|5|6|7|8|9|10|11|…>"),
        ({"type": ["integer", "null"]}, "get --x <integer>"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "get --x <integer|string>"),
        ({"type": "array", "items": {"type": "string"}}, "get --x <string...>"),
        ({"type": "array"}, "get --x <array>"),
        ({}, "get --x <value>"),
        ({"$ref": "#/$defs/Unit"}, "get --x <c|f>"),
    ],
)
def test_a_flag_shows_its_type(schema: dict[str, Any], expected: str) -> None:
    assert line({"x": schema}, **{"$defs": {"Unit": {"enum": ["c", "f"]}}}) == expected


def test_a_tool_without_a_schema_is_written_by_its_name() -> None:
    assert usage_line(ToolDef("ping", "Ping it")) == "ping"


def test_the_page_of_a_tool_shows_types_choices_defaults_examples_and_output() -> None:
    tool = (
        ToolDef("weather", "Tell the weather.")
        .with_schema(
            {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "where\nit is"},
                    "unit": {"enum": ["c", "f"], "default": "c"},
                    "days": {"type": "array", "items": {"type": "integer"}},
                    "loud": {"type": "boolean", "default": False},
                },
                "required": ["city"],
            }
        )
        .with_output_schema({"type": "object", "properties": {"degrees": {"type": "number"}}})
        .with_examples("weather --city Rome", "weather Rome --unit f")
    )

    assert usage_page(tool) == (
        "Tell the weather.\n"
        "\n"
        "Usage: weather --city <string> [--unit <c|f>] [--days <integer...>] [--loud]\n"
        "\n"
        "Flags:\n"
        "  --city <string>      where it is; required\n"
        "  --unit <c|f>         default c\n"
        "  --days <integer...>  may be repeated\n"
        "  --loud               default false\n"
        "\n"
        "Examples:\n"
        "  weather --city Rome\n"
        "  weather Rome --unit f\n"
        "\n"
        'Output: {"type": "object", "properties": {"degrees": {"type": "number"}}}\n'
        "\n"
        "Arguments can also come as --json '{…}', or from a pipe with --stdin-json;\n"
        "words without a flag fill the flags above in order.\n"
    )


def test_hidden_characters_never_reach_a_page() -> None:
    tool = (
        ToolDef("x", "safe\x1b[2Jtext\u202e")
        .with_schema({"properties": {"a": {"enum": ["b\u200b"], "description": "c\x1b[0m"}}})
        .with_examples("x \x1b]0;t\x07")
    )

    assert usage_page(tool).isprintable() is False  # line ends
    assert "\x1b" not in usage_page(tool)
    assert "\u200b" not in usage_page(tool)
