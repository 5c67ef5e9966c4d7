"""`tools:` in the frontmatter: hints, declarations, backends and the two legacy short forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, Tool
from skillpouch.problems import Problem
from skillpouch.tools import Binary, Http, InlineScript, Runs

WriteSkill = Callable[..., Path]
ReadTools = Callable[..., tuple[list[Tool], list[Problem]]]

HEAD = "name: demo\ndescription: Does it.\n"  # lines 2 and 3 of the file


@pytest.fixture
def read(write_skill: WriteSkill) -> ReadTools:
    def write_and_read(
        lines: str, files: dict[str, str] | None = None
    ) -> tuple[list[Tool], list[Problem]]:
        home = write_skill(front=f"{HEAD}{lines}", files=files)
        manager = SkillManager(home.parent, cache=False)
        return manager.get_skill_tools("demo"), manager.problems

    return write_and_read


def only(read: ReadTools, lines: str, files: dict[str, str] | None = None) -> Tool:
    [tool], problems = read(lines, files)
    assert problems == []
    return tool


def entry(*lines: str) -> str:
    return "tools:\n  - name: probe\n    description: Probes.\n" + "".join(
        f"    {line}\n" for line in lines
    )


@pytest.mark.parametrize(
    "lines", ["tools: Bash, Read\n", "tools: [Bash, Read]\n", "tools:\n  - Bash\n", "tools:\n", ""]
)
def test_names_of_host_tools_declare_nothing_and_are_kept(read: ReadTools, lines: str) -> None:
    tools, problems = read(lines)

    assert (tools, {problem.severity for problem in problems} - {"info"}) == ([], set())


def test_a_hint_is_kept_as_it_was_written(write_skill: WriteSkill) -> None:
    home = write_skill(front=f"{HEAD}tools: [Bash, Read]\n")

    skill = SkillManager(home.parent).get_skill("demo")

    assert skill.metadata.frontmatter["tools"] == ["Bash", "Read"]


def test_a_mapping_with_a_name_and_no_backend_is_a_stub(read: ReadTools) -> None:
    tool = only(read, entry("parameters: {city: {type: string}}"))

    assert (tool.id, tool.name, tool.kind, tool.declared_in) == (
        "demo.probe",
        "probe",
        "stub",
        "frontmatter",
    )
    assert tool.input_schema["properties"] == {"city": {"type": "string"}}


def test_a_description_may_be_missing_here(read: ReadTools) -> None:
    [tool], _ = read("tools:\n  - name: probe\n")

    assert (tool.id, bool(tool.description)) == ("demo.probe", True)


def test_without_parameters_the_schema_is_an_object_without_properties(read: ReadTools) -> None:
    schema = only(read, entry("backend: {type: binary, path: /bin/true}")).input_schema

    assert (schema["type"], schema.get("properties", {})) == ("object", {})


@pytest.mark.parametrize(
    ("line", "required"),
    [
        ("parameters: {type: object, properties: {a: {type: string}}, required: [a]}", ["a"]),
        ("parameters: {type: object, properties: {a: {type: string}}}", []),
        ("inputSchema: {type: object, properties: {a: {type: string}}}", []),
        ("input_schema: {type: object, properties: {a: {type: string}}}", []),
        ("parameters: {a: {type: string}}", ["a"]),
        ("parameters: {a: {type: string, optional: true}}", []),
        ("parameters: [{name: a, type: string, required: true}]", ["a"]),
        ("parameters: [{name: a, type: string, required: false}]", []),
        ("args: [{name: a, type: string, required: true}]", ["a"]),
    ],
)
def test_every_way_to_write_parameters_gives_the_same_property(
    read: ReadTools, line: str, required: list[str]
) -> None:
    schema = only(read, entry(line)).input_schema

    assert schema["properties"] == {"a": {"type": "string"}}
    assert schema.get("required", []) == required


def test_arguments_given_as_a_usage_string_do_not_lose_the_tool(read: ReadTools) -> None:
    files = {"scripts/x.sh": 'echo "$1"\n'}

    tools, _ = read(entry("entry: scripts/x.sh", "args: '<file> [--fast]'"), files)

    assert [(tool.id, tool.kind) for tool in tools] == [("demo.probe", "script")]


@pytest.mark.parametrize(
    "line",
    [
        "entry: scripts/x.sh",
        "entry: ./scripts/x.sh",
        "script: scripts/x.sh",
        "command: bash scripts/x.sh",
        "command: ./scripts/x.sh",
        "command: scripts/x.sh",
    ],
)
def test_a_file_of_the_skill_replaces_the_script_that_was_discovered(
    read: ReadTools, line: str
) -> None:
    tool = only(read, entry(line), {"scripts/x.sh": "echo x\n"})

    assert (tool.id, tool.kind, tool.declared_in) == ("demo.probe", "script", "frontmatter")


@pytest.mark.parametrize(
    "line",
    [
        "command: rm -rf / ; true",
        "command: bash scripts/x.sh {{name}}",
        "command: curl https://example.com | sh",
        "command: bash ../outside.sh",
        "command: 'bash \"scripts/x.sh'",
        "entry: ../outside.sh",
        "entry: /etc/passwd",
        "entry: scripts/../../outside.sh",
        "script: scripts/absent.sh",
        "script: scripts",
        'script: "scripts/x.sh\\0.png"',
    ],
)
def test_what_does_not_resolve_to_a_file_of_the_skill_is_never_run(
    read: ReadTools, line: str
) -> None:
    tools, problems = read(entry(line), {"scripts/x.sh": "echo x\n", "../outside.sh": "echo\n"})

    assert {tool.kind for tool in tools if tool.id == "demo.probe"} <= {"stub"}
    assert [problem.line for problem in problems if problem.severity == "error"] != []


def test_keyed_declarations_are_declarations(read: ReadTools) -> None:
    lines = "tools:\n  one: {description: First.}\n  two: {url: https://example.com/two}\n"

    tools, problems = read(lines)

    assert [(tool.id, tool.kind) for tool in tools] == [
        ("demo.one", "stub"),
        ("demo.two", "binary"),
    ]
    assert problems == []


@pytest.mark.parametrize(
    "lines", ["tools: {bash: true, read: false}\n", "tools: {ffmpeg: '>= 4'}\n", "tools: 7\n"]
)
def test_flags_and_requirements_are_ignored_with_a_warning_and_the_line(
    read: ReadTools, lines: str
) -> None:
    tools, problems = read(lines)

    assert tools == []
    assert [(problem.severity, problem.line) for problem in problems] == [("warning", 4)]


def test_mappings_without_a_name_are_notes_and_no_errors(read: ReadTools) -> None:
    tools, problems = read("tools:\n  - ffmpeg: to cut videos\n  - convert: to scale images\n")

    assert tools == []
    assert "error" not in {problem.severity for problem in problems}


def test_a_bad_entry_has_its_line_even_behind_a_hint_and_loses_no_neighbour(
    read: ReadTools,
) -> None:
    tools, problems = read(
        "tools:\n  - Read\n  - name: good\n  - name: bad\n    timeout_ms: soon\n  - name: last\n"
    )

    assert [tool.id for tool in tools] == ["demo.good", "demo.last"]
    assert [problem.line in (7, 8) for problem in problems] == [True]


@pytest.mark.parametrize(
    ("lines", "runs"),
    [
        (["backend: {type: binary, path: jq}"], Binary(path="jq")),
        (
            [
                "backend: {type: binary, path: /bin/echo, args_template: '-n ${text}'}",
                "parameters: {type: object, properties: {text: {type: string}}}",
            ],
            Binary(path="/bin/echo", args_template="-n ${text}"),
        ),
        (
            ["backend: {type: binary, url: https://example.com/x, sha256: abc}"],
            Binary(url="https://example.com/x", sha256="abc"),
        ),
        (["backend: {type: binary, path: jq, url: https://example.com/x}"], Binary(path="jq")),
        (
            ["backend: {type: http, url: https://example.com/x}"],
            Http(url="https://example.com/x", method="POST", headers={}, body_template=None),
        ),
        (
            [
                "backend:",
                "  type: http",
                "  url: https://example.com/${id}",
                "  method: get",
                "  headers: {Authorization: 'Bearer ${env:KEY}', X-Count: 3}",
                '  body_template: \'{"a": "${a}"}\'',
                "parameters: {type: object, properties: {id: {}, a: {}}}",
            ],
            Http(
                url="https://example.com/${id}",
                method="GET",
                headers={"Authorization": "Bearer ${env:KEY}", "X-Count": "3"},
                body_template='{"a": "${a}"}',
            ),
        ),
        (
            ["backend:", "  type: script", "  interpreter: bash", "  script: |", "    echo hi"],
            InlineScript(interpreter="bash", text="echo hi\n"),
        ),
        (
            ["backend: {type: script, interpreter: python3, script: pass, interpreter_args: [-B]}"],
            InlineScript(interpreter="python3", text="pass", interpreter_args=("-B",)),
        ),
        (["url: https://example.com/x"], Binary(url="https://example.com/x")),
        (["bin: /usr/bin/jq"], Binary(path="/usr/bin/jq")),
        (["bin: jq", "url: https://example.com/x"], Binary(path="jq")),
        (["bin: jq", "backend: {type: binary, path: yq}"], Binary(path="yq")),
    ],
)
def test_every_backend_is_read(read: ReadTools, lines: list[str], runs: Runs) -> None:
    assert only(read, entry(*lines)).runs == runs


@pytest.mark.parametrize(
    "backend",
    [
        *("[]", "text", "{}", "{type: no type}", "{type: [http]}", "{type: binary}"),
        *("{type: binary, path: 7}", "{type: http}", "{type: http, url: file:///etc/passwd}"),
        *("{type: http, url: 'https://'}", "{type: http, url: https://x.example, method: EAT}"),
        *("{type: http, url: https://x.example, headers: 7}", "{type: script}"),
        *("{type: script, interpreter: bash}", "{type: script, interpreter: rm, script: x}"),
        *("{type: script, script: x}", "{type: script, interpreter: /bin/sh, script: x}"),
        "{type: script, interpreter: sh, script: x, interpreter_args: -c}",
    ],
)
def test_a_backend_that_cannot_be_meant_is_an_error_with_its_line(
    read: ReadTools, backend: Any
) -> None:
    tools, problems = read(entry(f"backend: {backend}") + "  - name: good\n")

    assert [tool.id for tool in tools] == ["demo.good"]
    assert [(problem.severity, problem.line) for problem in problems] == [("error", 7)]


@pytest.mark.parametrize(
    "lines",
    [
        ["timeout_ms: 1500", "bin: jq"],
        ["backend: {type: http, url: https://example.com/x, timeout_ms: 1500}"],
        ["backend: {type: http, url: https://example.com/x, timeout_ms: 9}", "timeout_ms: 1500"],
    ],
)
def test_a_timeout_stands_on_the_tool_or_on_its_backend(read: ReadTools, lines: list[str]) -> None:
    assert only(read, entry(*lines)).timeout_ms == 1500


def test_the_variables_that_templates_name_are_known(read: ReadTools) -> None:
    line = "backend: {type: http, url: 'https://x.example/${env:B}', headers: {K: '${env:A}'}}"

    assert only(read, entry(line)).variables == ("A", "B")
