import json

import pytest

from skillpouch.checks.strict import tools_json_problems
from skillpouch.problems import Problem

GOOD = {
    "name": "count_words",
    "description": "Counts words",
    "script": "scripts/count_words.js",
    "parameters": {
        "text": {"type": "string", "description": "The text"},
        "unit": {"type": "string", "description": "What", "enum": ["a", "b"], "optional": True},
    },
}


def messages(*tools: object) -> list[str]:
    return [problem.message for problem in tools_json_problems("t", json.dumps(tools).encode())]


def parameter(**definition: object) -> object:
    return {**GOOD, "parameters": {"x": definition}}


def test_the_manifest_of_the_draft_is_no_problem() -> None:
    assert messages(GOOD, {"name": "other", "description": "No script, no parameters"}) == []
    assert messages() == []


def test_a_problem_has_the_line_where_its_tool_starts() -> None:
    raw = b'[\n  {"name": "a",\n   "description": "A"},\n\n  {"name": "B", "description": "B"}\n]'

    assert tools_json_problems("x/tools.json", raw) == [
        Problem(
            path="x/tools.json",
            code="strict-tool-name",
            severity="warning",
            message="tool 'B': a name is lower-case letters, digits and '_', a letter first",
            line=5,
        )
    ]


@pytest.mark.parametrize(
    ("raw", "code", "line"),
    [
        (b"", "strict-json", 1),
        (b"[\n{'name': 1}]", "strict-json", 2),
        (b"[1,]", "strict-json", 1),
        (b"\xef\xbb\xbf[]", "strict-json", 1),
        (b"[\n\xff]", "strict-json", 2),
        (b"[NaN]", "strict-json", None),
        (b"[" * 60_000, "strict-json", None),
        (b'{"tools": []}', "strict-manifest", 1),
        (b'"text"', "strict-manifest", 1),
        (b"[\n\n7]", "strict-manifest", 3),
    ],
)
def test_a_file_that_is_no_array_of_objects_is_reported(
    raw: bytes, code: str, line: int | None
) -> None:
    assert [(p.code, p.line) for p in tools_json_problems("t", raw)] == [(code, line)]


@pytest.mark.parametrize("name", ["Count", "1st", "_x", "count-words", "a.b", "", "é", "a\n"])
def test_a_name_outside_the_pattern_is_reported(name: str) -> None:
    assert messages({**GOOD, "name": name}) == [
        f"tool {name!r}: a name is lower-case letters, digits and '_', a letter first"
    ]


def test_a_name_is_used_once() -> None:
    assert messages(GOOD, GOOD, GOOD) == ["tool 'count_words': the name appears twice"] * 2


def test_name_and_description_are_required() -> None:
    assert messages({}, {"name": "x", "description": " "}) == [
        "entry 1: 'name' must be text",
        "entry 1: 'description' must be text that is not empty",
        "tool 'x': 'description' must be text that is not empty",
    ]


@pytest.mark.parametrize("script", ["/bin/sh", "../x.py", "a/../../x.py", "", 7, None])
def test_a_script_stays_inside_the_skill(script: object) -> None:
    assert messages({**GOOD, "script": script}) == [
        "tool 'count_words': 'script' must be a relative path inside the skill"
    ]


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        ({**GOOD, "parameters": []}, "'parameters' must be an object"),
        (
            {**GOOD, "parameters": {"type": "object", "properties": {}}},
            "'parameters' must map each name to its definition, not be a JSON Schema",
        ),
        (
            {"name": "x", "description": "d", "input_schema": {}},
            "'input_schema' is not read: other runtimes see no parameters",
        ),
        (
            {**GOOD, "parameters": {"x": "string"}},
            "parameter 'x' must be an object with 'type' and 'description'",
        ),
        (
            parameter(type="integer", description="d"),
            "parameter 'x' needs a 'type' out of string, number, boolean, object, array",
        ),
        (
            parameter(type=["string"], description="d"),
            "parameter 'x' needs a 'type' out of string, number, boolean, object, array",
        ),
        (parameter(type="string"), "parameter 'x' needs a 'description'"),
        (
            parameter(type="string", description="d", enum="a"),
            "parameter 'x' has an 'enum' that is not an array",
        ),
        (
            parameter(type="string", description="d", optional="yes"),
            "parameter 'x' has an 'optional' that is not true or false",
        ),
    ],
)
def test_parameters_outside_the_rules_are_reported(tool: object, fault: str) -> None:
    assert [message.partition(": ")[2] for message in messages(tool)] == [fault]


@pytest.mark.parametrize("unit", [b"[", b'{"a":', b"1", b'"\\', b" "])
def test_a_hostile_megabyte_gives_problems(unit: bytes) -> None:
    assert tools_json_problems("t", b"[" + unit * (1_000_000 // len(unit)) + b"0]") != []
