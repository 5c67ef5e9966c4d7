"""Any words are arguments or a FlagError; any arguments survive being written as flags."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.shell.flags import FlagError, Flags, read_flags
from skillpouch.shell.prompt import system_prompt
from skillpouch.shell.toolbox import ToolDef
from skillpouch.shell.usage import usage_page

pytestmark = pytest.mark.slow

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,3}(_[a-z]{1,3})?", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = st.integers(min_value=-(10**40), max_value=10**40)
NUMBERS = INTEGERS | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)

# Pairs of a schema and the values that fit it.
SCALARS: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "integer"}, INTEGERS),
    ({"type": "number"}, NUMBERS),
    ({"type": "string"}, TEXTS),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "object"}, OBJECTS),
    ({"type": ["integer", "null"]}, INTEGERS | st.none()),
    ({"anyOf": [{"type": "boolean"}, {"type": "object"}]}, st.booleans() | OBJECTS),
    ({"enum": ["red", "green", 3, None, True]}, st.sampled_from(["red", "green", 3, None, True])),
    ({"$ref": "#/$defs/Count"}, INTEGERS),
]
LISTS: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "array", "items": schema}, st.lists(values, max_size=4)) for schema, values in SCALARS
]
KINDS = st.sampled_from([*SCALARS, *LISTS, ({}, TEXTS), ({"type": "array"}, st.lists(TEXTS))])


@st.composite
def calls(draw: st.DrawFn) -> tuple[ToolDef, dict[str, Any]]:
    kinds = draw(st.dictionaries(NAMES, KINDS, max_size=5))
    chosen = draw(st.sets(st.sampled_from(sorted(kinds)))) if kinds else set()
    schema = {
        "type": "object",
        "properties": {name: schema for name, (schema, _) in kinds.items()},
        "additionalProperties": False,
        "$defs": {"Count": {"type": "integer"}},
    }
    values = {name: draw(kinds[name][1]) for name in sorted(chosen)}
    return ToolDef("tool", "A tool").with_schema(schema), values


def spelled(name: str, value: Any, data: st.DataObject) -> list[str]:
    """Write one argument as a person might; each way means the same."""
    flag = f"--{name.replace('_', data.draw(st.sampled_from('-_')))}"
    if isinstance(value, bool) and data.draw(st.booleans()):
        return [flag if value else f"--no-{flag[2:]}"]
    if isinstance(value, list) and (not value or data.draw(st.booleans())):
        return [flag, json.dumps(value)]
    if isinstance(value, list):
        return [word for item in value for word in (flag, _text(item, in_list=True))]
    return [f"{flag}={_text(value)}"] if data.draw(st.booleans()) else [flag, _text(value)]


def _text(value: Any, *, in_list: bool = False) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    # Text that is itself a JSON list would be the list: it is written as the item of one.
    return json.dumps([value]) if in_list and value.lstrip().startswith("[") else value


def _is_switch_only(schema: dict[str, Any], value: Any) -> bool:
    return isinstance(value, bool) and "enum" in schema


@given(call=calls(), data=st.data())
@settings(deadline=None)
def test_any_arguments_written_as_flags_are_read_back_equal(
    call: tuple[ToolDef, dict[str, Any]], data: st.DataObject
) -> None:
    tool, values = call
    words: list[str] = []
    for name, value in values.items():
        if _is_switch_only(tool.input_schema["properties"][name], value):
            words += [f"--{name}={json.dumps(value)}"]
        else:
            words += spelled(name, value, data)

    found = read_flags(words, tool, None).params

    assert found == values
    assert json.dumps(found) == json.dumps(values)


@given(call=calls())
@settings(deadline=None)
def test_any_arguments_written_as_json_are_read_back_equal(
    call: tuple[ToolDef, dict[str, Any]],
) -> None:
    tool, values = call
    text = json.dumps(values)

    assert read_flags(["--json", text], tool, None).params == values
    assert read_flags(["--stdin-json"], tool, text).params == values


WORDS = st.lists(
    TEXTS
    | st.text(max_size=8)
    | st.sampled_from(
        ["--", "-", "--json", "--stdin-json", "--help", "--no-a", "--a", "-a", "--a="]
    )
    | st.builds("--{}={}".format, NAMES, TEXTS)
    | JSON.map(json.dumps),
    max_size=8,
)
KEYWORDS = """
type enum const anyOf oneOf allOf items properties required $ref default nullable
additionalProperties patternProperties description a
"""
ANY_SCHEMA = st.recursive(
    JSON | st.fixed_dictionaries({"$ref": st.sampled_from(["#", "#/x", "#/properties/a", "x"])}),
    lambda inner: st.dictionaries(
        st.sampled_from(KEYWORDS.split()),
        inner | st.lists(inner, max_size=3) | st.sampled_from(["array", "object", "integer", "#"]),
        max_size=4,
    ),
    max_leaves=12,
)


@given(words=WORDS, schema=ANY_SCHEMA, stdin=st.none() | TEXTS | JSON.map(json.dumps))
@settings(deadline=None, max_examples=200)
def test_any_words_for_any_schema_are_flags_or_a_flag_error(
    words: list[str], schema: Any, stdin: str | None
) -> None:
    whole = schema if isinstance(schema, dict) else {"properties": {"a": schema}}
    tool = ToolDef("tool", "A tool").with_schema({"properties": {"a": schema}, **whole})

    try:
        found: Flags | FlagError = read_flags(words, tool, stdin)
    except FlagError as error:
        found = error

    assert isinstance(found, Flags | FlagError)
    assert usage_page(tool)
    assert system_prompt("api", [tool], budget=40)
