"""tools.json in all the shapes it comes in, and files that merely have that name."""

import json
from typing import Any

import pytest

from skillpouch.declarations.declared import Declared
from skillpouch.declarations.tools_json import read_tools_json
from skillpouch.problems import Problem
from skillpouch.tools import Http

PATH = "skill/tools.json"
GOOD = {"name": "good", "description": "Is good."}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def read(value: Any) -> tuple[list[Declared], list[Problem]]:
    text = value if isinstance(value, str) else json.dumps(value, indent=1)
    return read_tools_json(PATH, text.encode())


def names(value: Any) -> list[str]:
    return [tool.name for tool in read(value)[0]]


def only(entry: dict[str, Any]) -> Declared:
    [tool], problems = read([entry])
    assert problems == []
    return tool


@pytest.mark.parametrize(
    "value",
    [
        [GOOD],
        {"tools": [GOOD]},
        {"version": 1, "tools": [GOOD], "other": [1, 2]},
        [{"type": "function", "function": GOOD}],
        {"tools": [{"type": "function", "function": GOOD}]},
    ],
)
def test_an_array_an_object_around_one_and_openais_wrapper_declare_the_same_tool(
    value: Any,
) -> None:
    [tool], problems = read(value)

    assert (tool.name, tool.description, tool.source) == ("good", "Is good.", "tools.json")
    assert problems == []


def test_a_byte_order_mark_does_not_matter() -> None:
    assert names("\ufeff" + json.dumps([GOOD])) == ["good"]


@pytest.mark.parametrize("key", ["parameters", "input_schema", "inputSchema"])
def test_a_full_json_schema_is_kept_as_it_is(key: str) -> None:
    assert only(GOOD | {key: CITY}).input_schema == CITY


def test_the_schema_inside_openais_wrapper_is_found_and_what_stands_beside_it_counts() -> None:
    entry = {
        "type": "function",
        "function": GOOD | {"parameters": CITY},
        "script": "scripts/good.py",
        "timeout_ms": 5000,
    }

    tool = only(entry)

    assert (tool.input_schema, tool.script, tool.timeout_ms) == (CITY, "scripts/good.py", 5000)


def test_the_shorthand_makes_every_parameter_required_that_is_not_optional() -> None:
    parameters = {
        "city": {"type": "string", "description": "Which."},
        "days": {"type": "integer", "optional": True},
        "unit": {"type": "string", "enum": ["c", "f"], "optional": False},
    }

    schema = only(GOOD | {"parameters": parameters}).input_schema

    assert schema is not None
    assert schema["type"] == "object"
    assert schema["properties"] == {
        "city": {"type": "string", "description": "Which."},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["c", "f"]},
    }
    assert schema["required"] == ["city", "unit"]


@pytest.mark.parametrize("name", ["type", "properties", "required", "enum", "$ref", "items"])
def test_a_parameter_may_be_called_like_a_keyword_of_json_schema(name: str) -> None:
    schema = only(GOOD | {"parameters": {name: {"type": "string"}}}).input_schema

    assert schema is not None
    assert schema["properties"] == {name: {"type": "string"}}
    assert schema["required"] == [name]


def test_a_tool_that_says_nothing_of_parameters_leaves_them_open() -> None:
    assert only(GOOD).input_schema is None


@pytest.mark.parametrize("empty", [{}, {"type": "object", "properties": {}}])
def test_no_parameters_are_no_parameters(empty: dict[str, Any]) -> None:
    schema = only(GOOD | {"parameters": empty}).input_schema

    assert schema is not None
    assert (schema["type"], schema.get("properties", {})) == ("object", {})


def test_an_http_request_is_what_the_tool_runs() -> None:
    request = {
        "method": "get",
        "url": "https://api.example.com/{CITY}",
        "headers": {"X-Key": "{API_KEY}"},
        "body": {"q": "{CITY}"},
    }

    tool = only(GOOD | {"http": request})

    assert tool.runs == Http(
        url="https://api.example.com/{CITY}",
        method="GET",
        headers={"X-Key": "{API_KEY}"},
        extra={"body": {"q": "{CITY}"}},
    )


@pytest.mark.parametrize("name", ["count_words", "count-words", "c", "Count", "count2", "_x"])
def test_underscores_and_hyphens_are_fine_in_names(name: str) -> None:
    assert names([GOOD | {"name": name}]) == [name]


@pytest.mark.parametrize(
    "bad",
    [
        7,
        "good",
        None,
        [],
        {},
        {"name": "x"},
        {"description": "No name."},
        {"name": "", "description": "Empty."},
        {"name": "  ", "description": "Blank."},
        {"name": 7, "description": "A number."},
        {"name": ["x"], "description": "A list."},
        {"name": "two words", "description": "Spaces."},
        {"name": "new\nline", "description": "A line end."},
        {"name": "x", "description": ""},
        {"name": "x", "description": ["a"]},
        {"name": "x", "description": "d", "parameters": "text"},
        {"name": "x", "description": "d", "parameters": {"type": "array"}},
        {"name": "x", "description": "d", "parameters": {"type": "object", "properties": 7}},
        {"name": "x", "description": "d", "parameters": {"a": {"type": "object", "minimum": "x"}}},
        {"name": "x", "description": "d", "input_schema": {"type": "object", "required": "a"}},
        {"name": "x", "description": "d", "parameters": {"a": {"type": "string", "pattern": "("}}},
        {"name": "x", "description": "d", "script": 7},
        {"name": "x", "description": "d", "script": ["a"]},
        {"name": "x", "description": "d", "timeout_ms": "soon"},
        {"name": "x", "description": "d", "timeout_ms": -1},
        {"name": "x", "description": "d", "timeout_ms": True},
        {"name": "x", "description": "d", "effects": ["explode"]},
        {"name": "x", "description": "d", "effects": [{}]},
        {"name": "x", "description": "d", "http": {"url": 7}},
        {"name": "x", "description": "d", "http": {"url": "ftp://example.com"}},
        {"name": "x", "description": "d", "backend": {"type": "no type"}},
        {"type": "function", "function": "good"},
    ],
)
def test_a_bad_entry_is_reported_with_its_line_and_loses_no_neighbour(bad: Any) -> None:
    last = GOOD | {"name": "last"}
    text = f"[\n{json.dumps(GOOD)},\n{json.dumps(bad)},\n{json.dumps(last)}\n]"

    tools, problems = read(text)

    assert [tool.name for tool in tools] == ["good", "last"]
    assert [(problem.path, problem.line) for problem in problems] == [(PATH, 3)]
    assert problems[0].severity in ("warning", "error")


def test_of_a_name_declared_twice_the_second_is_an_error_with_its_line() -> None:
    text = f"[\n{json.dumps(GOOD)},\n{json.dumps({'name': 'good', 'description': 'Other.'})}\n]"

    tools, problems = read(text)

    assert [tool.description for tool in tools] == ["Is good."]
    assert [(problem.severity, problem.line) for problem in problems] == [("error", 3)]


def test_the_line_is_that_of_the_entry_whatever_stands_before_the_array() -> None:
    before = '{\n"tags": ["a", "b",\n"c"],\n'
    text = f'{before}"tools": [\n{{"name": "x"}},\n{json.dumps(GOOD)}\n]}}'

    tools, problems = read(text)

    assert [tool.name for tool in tools] == ["good"]
    assert [problem.line for problem in problems] == [5]


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "hammer", "price": 3}, {"name": "saw", "price": 5}],
        [{"name": "Hammer 3000", "description": "Hits nails."}],
        {"services": [{"name": "x", "url": "https://x.example"}]},
        {"tools": {"hammer": 3}},
        {"tools": "hammer"},
        ["hammer", "saw"],
        {},
        "7",
        "null",
        '"text"',
    ],
)
def test_a_file_that_declares_nothing_is_no_manifest_and_no_error(value: Any) -> None:
    tools, problems = read(value)

    assert tools == []
    assert [problem.severity for problem in problems] == ["info"]


@pytest.mark.parametrize("value", [[], {"tools": []}])
def test_an_empty_list_declares_nothing(value: Any) -> None:
    tools, problems = read(value)

    assert tools == []
    assert {problem.severity for problem in problems} <= {"info"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[\n{"name": "x",\n', 3),
        ("[1,\n\n2,]", 3),
        ("", 1),
        ("not json", 1),
        ('[{"name": "x", "description": NaN}]', 1),
        ("[Infinity]", 1),
        (f"[{'9' * 10_000}]", 1),
        ("[" * 60_000, 1),
        ('{"a":' * 12_000, 1),
        (json.dumps([GOOD]).encode("utf-16").decode("latin-1"), 1),
    ],
)
def test_what_is_not_json_is_one_error_with_its_line(text: str, line: int) -> None:
    tools, problems = read(text)

    assert tools == []
    assert [(problem.path, problem.severity) for problem in problems] == [(PATH, "error")]
    assert problems[0].line == line


def test_an_output_schema_and_effects_are_kept() -> None:
    tool = only(GOOD | {"output_schema": CITY, "effects": ["read", "network"]})

    assert (tool.output_schema, tool.effects) == (CITY, ("read", "network"))


def test_a_schema_that_points_elsewhere_is_never_fetched() -> None:
    remote = {"type": "object", "properties": {"a": {"$ref": "http://192.0.2.1/schema.json"}}}

    tools, problems = read([GOOD | {"name": "remote", "parameters": remote}, GOOD])

    assert "good" in [tool.name for tool in tools]
    assert len(tools) + len(problems) == 2


@pytest.mark.parametrize(
    ("backend", "code", "messages"),
    [
        (
            {"type": "binary", "path": "ls", "arg_template": "x", "cwd": "/"},
            "backend-field-unknown",
            [
                "a binary backend has no 'arg_template': did you mean 'args_template'?",
                (
                    "a binary backend has no 'cwd': "
                    "it has type, path, url, args_template, sha256, timeout_ms"
                ),
            ],
        ),
        (
            {"type": "script", "interpreter": "bash", "script": "ls", "scrpt": "", "env": {}},
            "backend-field-unknown",
            [
                "a script backend has no 'scrpt': did you mean 'script'?",
                (
                    "a script backend has no 'env': "
                    "it has type, interpreter, script, interpreter_args, timeout_ms"
                ),
            ],
        ),
        (
            {"type": "http", "url": "https://a.b/", "header": {}, "methd": "GET"},
            "http-field-unknown",
            [
                "an http backend has no 'header': did you mean 'headers'?",
                "an http backend has no 'methd': did you mean 'method'?",
            ],
        ),
    ],
)
def test_every_field_of_a_backend_that_is_none_is_reported(
    backend: dict[str, Any], code: str, messages: list[str]
) -> None:
    [tool], problems = read([GOOD | {"backend": backend}])

    assert tool.runs is not None
    assert [(p.code, p.severity, p.message) for p in problems] == [
        (code, "warning", message) for message in messages
    ]


@pytest.mark.parametrize("key", ["parameters", "input_schema", "args"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_type_that_is_none_is_reported_and_takes_any_value(key: str, *, listed: bool) -> None:
    wrong = {"type": "strng", "description": "Which city."}
    said: Any = [{"name": "city", **wrong}] if listed else {"city": wrong}

    [tool], problems = read([GOOD | {key: said}])

    assert tool.input_schema is not None
    assert tool.input_schema["properties"] == {"city": {"description": "Which city."}}
    assert [(p.code, p.severity, p.message) for p in problems] == [
        (
            "type-unknown",
            "warning",
            (
                "parameter 'city': 'strng' is not a type, so any value is accepted: "
                "did you mean 'string'?"
            ),
        )
    ]
