"""scripts/manifest.yml: lists and maps of tools, lists and maps of parameters."""

import json
from typing import Any

import pytest

from skillpouch.declarations.declared import Declared
from skillpouch.declarations.skill_tools import read_manifest
from skillpouch.problems import Problem

PATH = "skill/scripts/manifest.yml"
X = "{name: x, script: x.py}"
Z = "{name: z, script: z.py}"


def read(text: str) -> tuple[list[Declared], list[Problem]]:
    return read_manifest(PATH, text.encode())


def only(text: str) -> Declared:
    [tool], problems = read(text)
    assert problems == []
    return tool


@pytest.mark.parametrize(
    "text",
    [
        "tools:\n  - name: pdf\n    script: pdf.py\n    description: Reads.\n",
        "scripts:\n  - name: pdf\n    script: pdf.py\n    description: Reads.\n",
        "- {name: pdf, script: pdf.py, description: Reads.}\n",
        "tools:\n  pdf: {script: pdf.py, description: Reads.}\n",
        "\ufefftools:\r\n- name: pdf\r\n  script: scripts/pdf.py\r\n  description: Reads.\r\n",
        '{"tools": [{"name": "pdf", "script": "./pdf.py", "description": "Reads."}]}',
    ],
)
def test_a_list_or_a_map_of_tools_names_scripts_beside_the_manifest(text: str) -> None:
    tool = only(text)

    assert (tool.name, tool.script, tool.description, tool.source) == (
        "pdf",
        "scripts/pdf.py",
        "Reads.",
        "manifest",
    )


@pytest.mark.parametrize(
    "parameters",
    [
        "[{name: b, type: string, description: One.}, {name: a, type: integer, required: false}]",
        "{b: {type: string, description: One.}, a: {type: integer, optional: true}}",
        "{b: {type: string, description: One., required: true}, a: {type: int, required: false}}",
    ],
)
def test_parameters_as_a_list_or_a_map_keep_their_order(parameters: str) -> None:
    tool = only(f"tools: [{{name: pdf, script: pdf.py, parameters: {parameters}}}]")

    assert tool.input_schema is not None
    assert list(tool.input_schema["properties"].items()) == [
        ("b", {"type": "string", "description": "One."}),
        ("a", {"type": "integer"}),
    ]
    assert tool.input_schema["required"] == ["b"]


@pytest.mark.parametrize(
    ("written", "kind"),
    [("str", "string"), ("int", "integer"), ("float", "number"), ("bool", "boolean")],
)
def test_types_in_pythons_words_are_understood(written: str, kind: str) -> None:
    tool = only(f"tools: [{{name: x, script: x.py, parameters: {{a: {{type: {written}}}}}}}]")

    assert tool.input_schema is not None
    assert tool.input_schema["properties"] == {"a": {"type": kind}}


def test_a_type_nobody_knows_does_not_lose_the_tool() -> None:
    text = "tools: [{name: x, script: x.py, parameters: {a: {type: filename}}}]"

    assert [tool.name for tool in read(text)[0]] == ["x"]


def test_a_parameter_may_be_just_its_name() -> None:
    tool = only("tools: [{name: x, script: x.py, parameters: [a, b]}]")

    assert tool.input_schema is not None
    assert list(tool.input_schema["properties"]) == ["a", "b"]


def test_a_timeout_is_kept() -> None:
    assert only("tools: [{name: x, script: x.py, timeout_ms: 500}]").timeout_ms == 500


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"tools:\n- {X}\n- name: y\n- {Z}\n", 3),
        (f"tools:\n- {X}\n- 7\n- {Z}\n", 3),
        (f"tools:\n- {X}\n\n- script: y.py\n- {Z}\n", 4),
        (f"tools:\n- {X}\n- {X}\n- {Z}\n", 3),
        (f"scripts:\n- {X}\n- {X}\n- {Z}\n", 3),
        (f"- {X}\n- name: y\n- {Z}\n", 2),
        ("tools:\n  x: {script: x.py}\n  y: {description: None.}\n  z: z.py\n", 3),
        ("tools:\n  x: x.py\n  y:\n    script: y.py\n    timeout_ms: soon\n  z: z.py\n", 5),
    ],
)
def test_a_bad_entry_is_reported_with_its_line_and_loses_no_neighbour(text: str, line: int) -> None:
    tools, problems = read(text)

    assert [tool.name for tool in tools] == ["x", "z"]
    assert [(problem.path, problem.severity, problem.line) for problem in problems] == [
        (PATH, "error", line)
    ]


def test_a_key_given_twice_is_reported_with_its_line() -> None:
    tools, problems = read("tools:\n  - name: x\n    script: x.py\n    script: y.py\n")

    assert [tool.script for tool in tools] == ["scripts/x.py"]
    assert [(problem.severity, problem.line) for problem in problems] == [("warning", 4)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tools:\n  - name: x\n   script: x.py\n", 3),
        ("tools: &a []\n", 1),
        ("a: &a [1]\ntools: *a\n", 1),
        ("tools: !!set {x}\n", 1),
        ("tools: []\n---\ntools: []\n", 2),
        ("[" * 60_000, 1),
        ("tools:\n" + "".join(f"{' ' * level}- \n" for level in range(100)), 65),
    ],
)
def test_what_is_not_plain_yaml_is_one_error_with_its_line(text: str, line: int) -> None:
    tools, problems = read(text)

    assert tools == []
    assert [(problem.path, problem.severity, problem.line) for problem in problems] == [
        (PATH, "error", line)
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "tools: 7\n", "other: []\n", "text\n", "7"])
def test_a_manifest_without_tools_says_so(text: str) -> None:
    tools, problems = read(text)

    assert tools == []
    assert [problem.severity for problem in problems] == ["warning"]


@pytest.mark.parametrize(
    "raw", [b"\xff\xfe\x00t", b"tools:\n  - name: caf\xe9\n    script: x.py\n"]
)
def test_bytes_that_are_not_utf8_never_raise(raw: bytes) -> None:
    tools, problems = read_manifest(PATH, raw)

    assert tools or problems


@pytest.mark.parametrize("value", [None, True, 7, [], {}, [[]], {"a": []}])
@pytest.mark.parametrize("key", ["name", "script", "description", "parameters", "effects"])
def test_a_value_of_the_wrong_type_never_raises_and_loses_no_neighbour(
    key: str, value: Any
) -> None:
    entry = {"name": "x", "script": "x.py"} | {key: value}

    tools, _ = read(json.dumps({"tools": [entry, {"name": "good", "script": "good.py"}]}))

    assert "good" in [tool.name for tool in tools]
