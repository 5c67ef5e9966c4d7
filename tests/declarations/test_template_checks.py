"""What `skillpouch check` says about templates and the arguments that fill them."""

import json
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.problems import Problem
from tests.conftest import WriteSkill


def problems_of(write_skill: WriteSkill, tool: dict[str, Any]) -> list[Problem]:
    front = f"name: demo\ndescription: d\ntools: {json.dumps([tool])}\n"
    root = write_skill(front=front).parent
    manager = SkillManager(root, cache=False)
    assert manager.tools is not None
    return [problem for problem in manager.problems if problem.severity != "info"]


def tool(backend: dict[str, Any], *names: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    return {"name": "x", "description": "Does x.", "backend": backend, "parameters": schema}


@pytest.mark.parametrize("template", ["--in '${a}", "${a", "${}", "${file:a}"])
def test_a_bad_template_is_a_load_error_and_its_tool_is_lost(
    template: str, write_skill: WriteSkill
) -> None:
    declared = tool({"type": "binary", "path": "ls", "args_template": template}, "a")

    [problem] = problems_of(write_skill, declared)

    assert (problem.code, problem.severity) == ("template-invalid", "error")
    assert "at character" in problem.message


def test_a_placeholder_that_is_no_parameter_is_reported(write_skill: WriteSkill) -> None:
    template = "--in ${input_flie} $${literal} ${other}"
    declared = tool({"type": "binary", "path": "ls", "args_template": template}, "input_file")

    found = problems_of(write_skill, declared)

    assert [problem.code for problem in found] == ["placeholder-unknown"] * 2
    assert "did you mean ${input_file}?" in found[0].message
    assert "`parameters` has no such property" in found[1].message


def test_placeholders_of_http_tools_are_looked_at_everywhere(write_skill: WriteSkill) -> None:
    backend = {
        "type": "http",
        "url": "https://example.com/${a}",
        "headers": {"X": "${b}"},
        "body": {"list": ["${c}", 1]},
    }

    found = problems_of(write_skill, tool(backend, "a"))

    names = [problem.message.split("${")[1][0] for problem in found]
    assert names == ["b", "c"]


@pytest.mark.parametrize(
    "backend",
    [{"type": "script", "interpreter": "sh", "script": "env"}, {"type": "binary", "path": "env"}],
)
def test_two_parameters_that_want_one_variable_are_reported(
    backend: dict[str, Any], write_skill: WriteSkill
) -> None:
    [problem] = problems_of(write_skill, tool(backend, "chunk-size", "chunk_size", "other"))

    assert problem.code == "variable-collision"
    assert (
        "chunk-size and chunk_size would set the same variable TOOL_ARG_CHUNK_SIZE"
        in problem.message
    )


@pytest.mark.promise("call-7")
@pytest.mark.parametrize("template", ["--key ${env:API_KEY}", "a '--key=x${env:API_KEY}y' ${a}"])
def test_a_secret_on_a_command_line_is_refused_with_the_way_out(
    template: str, write_skill: WriteSkill
) -> None:
    declared = tool({"type": "binary", "path": "ls", "args_template": template}, "a")

    [problem] = problems_of(write_skill, declared)

    assert (problem.code, problem.severity) == ("secret-in-words", "error")
    for words in ("API_KEY", "environment", "standard input", "file descriptor"):
        assert words in problem.message


def test_addresses_and_hashes_may_differ_by_platform(write_skill: WriteSkill) -> None:
    url = {"linux-x86_64": "https://example.com/a", "any": "https://example.com/b"}
    good = tool({"type": "binary", "url": url, "sha256": {"any": "0" * 64}})
    assert problems_of(write_skill, good) == []


@pytest.mark.parametrize("field", ["url", "sha256"])
def test_a_mapping_that_is_not_of_platforms_is_refused(field: str, write_skill: WriteSkill) -> None:
    backend = {"type": "binary", "url": "https://example.com/x", field: {"linux": 1}}

    [problem] = problems_of(write_skill, tool(backend))

    assert problem.code == "backend-invalid"
