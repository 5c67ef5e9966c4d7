"""The arguments of `define_tool`, as models write them."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.builtins.authoring.request import (
    ToolRequest,
    javascript_module,
    read_definitions,
    read_request,
)
from skillpouch.errors import ToolFaultError

pytestmark = pytest.mark.slow

CODE = "return {'count': len(args['text'].split())}"


def request(**arguments: Any) -> ToolRequest:
    given = {"name": "count_words", "description": "Count words", "code": CODE}
    return read_request(given | arguments)


@pytest.mark.parametrize(
    ("said", "meant"),
    [("true", True), (True, True), ("True", True), ("false", False), (False, False), ("", False)],
)
def test_persistent_is_text_or_a_truth_value(said: object, meant: bool) -> None:
    assert request(persistent=said).persistent is meant


def test_persistent_is_nothing_else() -> None:
    with pytest.raises(ToolFaultError, match="neither 'true' nor 'false'"):
        request(persistent="forever")


@pytest.mark.parametrize(
    ("name", "skill"),
    [("fetch_weather", "fetch-weather"), ("a__b_", "a-b"), ("x1", "x1")],
)
def test_the_skill_is_named_after_the_tool(name: str, skill: str) -> None:
    assert request(name=name).skill == skill


TEXT = {"type": "string", "description": "the text"}


@pytest.mark.parametrize(
    "said",
    [
        {"text": TEXT},
        json.dumps({"text": TEXT}),
        {"type": "object", "properties": {"text": TEXT}, "required": ["text"]},
        [{"name": "text", **TEXT}],
    ],
)
def test_parameters_are_a_map_a_list_a_schema_or_the_text_of_one(said: object) -> None:
    assert request(parameters=said).parameters == {"text": TEXT}


@pytest.mark.parametrize("said", [None, "", " ", "{}", {}, []])
def test_no_parameters_are_none(said: object) -> None:
    assert request(parameters=said).parameters == {}


def test_definitions_are_completed_as_tools_json_wants_them() -> None:
    found = read_definitions(
        {
            "city": "string",
            "days_ahead": {"type": "integer"},
            "unit": {"enum": ["C", "F"], "optional": True},
            "note": {"type": ["string", "null"], "description": "a\n note"},
        }
    )

    assert found == {
        "city": {"type": "string", "description": "city"},
        "days_ahead": {"type": "number", "multipleOf": 1, "description": "days ahead"},
        "unit": {"type": "string", "description": "unit", "enum": ["C", "F"], "optional": True},
        "note": {"type": "string", "description": "a note"},
    }


@pytest.mark.parametrize(
    "said",
    [
        "{not json",
        "[1]",
        "3",
        {"a b": TEXT},
        {"": TEXT},
        {"__workDir": TEXT},
        {"x": {"type": "thing"}},
        {"x": {"description": "no type"}},
        {"x": {"type": "string", "pattern": "("}},
        {"type": "array", "items": {}},
        {"type": "object", "properties": {}, "$defs": {"a": {}}},
        {"x": 5},
    ],
)
def test_parameters_that_cannot_be_are_refused_with_an_example(said: object) -> None:
    with pytest.raises(ToolFaultError, match=r"^parameters: ") as raised:
        request(parameters=said)

    assert raised.value.kind == "invalid_argument"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "enum", "x", "optional"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.timeout(120)
@settings(deadline=None, max_examples=100)
@given(_JSON)
def test_any_parameters_are_definitions_or_refused(said: Any) -> None:
    try:
        found = read_definitions(said)
    except ToolFaultError:
        return

    for definition in found.values():
        assert definition["type"] in ("string", "number", "boolean", "object", "array")
        assert definition["description"]


JAVASCRIPT = "const { text } = args;\nreturn { count: text.split(' ').length };"


def test_javascript_is_seen_to_be_javascript() -> None:
    assert request(code=JAVASCRIPT).language == "javascript"
    assert request(code=CODE).language == "python"
    assert request(code="return 1", language="javascript").language == "javascript"


def test_a_mistake_in_python_is_told_as_one() -> None:
    with pytest.raises(ToolFaultError, match="code: line 1: ") as raised:
        request(code="return len(args")

    assert "language='javascript'" in raised.value.hint


def test_imports_stay_outside_the_function() -> None:
    module = javascript_module("import fs from 'node:fs';\nreturn fs.readdirSync('.');", "Lists.")

    assert module == (
        "// Lists.\n\nimport fs from 'node:fs';\n\n"
        "export default async function handler(args) {\nreturn fs.readdirSync('.');\n}\n"
    )


@pytest.mark.parametrize(
    "code",
    [
        "export default async function handler(args) { return 1; }",
        "export default (args) => 1;",
        "module.exports = (args) => 1;",
    ],
)
def test_a_javascript_module_stays_as_it_is(code: str) -> None:
    assert javascript_module(code, "One.") == f"// One.\n\n{code}\n"


@pytest.mark.parametrize("code", ["return 1; } evil(); {", "return {", "return [1);", "}"])
def test_javascript_that_would_leave_its_function_is_refused(code: str) -> None:
    with pytest.raises(ToolFaultError, match="has no matching bracket"):
        javascript_module(code, "One.")


def test_braces_in_strings_templates_and_patterns_are_no_braces() -> None:
    code = "return ['}', `{${1}}`, /[{]/.test('{')];"

    assert code in javascript_module(code, "One.")
