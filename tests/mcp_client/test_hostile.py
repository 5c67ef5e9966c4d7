"""MCP servers that lie, or do not talk as they should: what they say reaches nobody unseen."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from skillpouch import SkillManager
from skillpouch.cli import cli
from skillpouch.errors import ToolSchemaError
from skillpouch.mcp_client import McpServers, parse_user_mcp
from skillpouch.policy.project import McpEntry
from tests.mcp_client.conftest import NewEntry

HOSTILE = Path(__file__).with_name("hostile_server.py")
ANY = {"type": "object"}
FINE = {"content": [{"type": "text", "text": "done"}]}
HIDDEN = "\u202e\u200b\x1b[31m"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def toml_of_hostile(folder: Path, tools: list[dict[str, Any]] | None, answer: Any = FINE) -> str:
    said = folder / "said.json"
    said.write_text(json.dumps({"tools": tools, "answer": answer}))
    words = [sys.executable, str(HOSTILE), str(said)]
    reads = [str(HOSTILE.parent), str(folder)]
    return f'[[mcp]]\nname = "bad"\ncommand = {json.dumps(words)}\nread = {json.dumps(reads)}\n'


def hostile(folder: Path, tools: list[dict[str, Any]] | None, answer: Any = FINE) -> McpEntry:
    return parse_user_mcp(toml_of_hostile(folder, tools, answer).encode())[0]


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": ANY, **more}


@pytest.mark.promise("mcp-9")
def test_a_name_that_hides_something_is_left_out_and_said(
    manager: SkillManager, tmp_path: Path
) -> None:
    bad = ["red\x1b[31m", "two\nlines", "end ", "", "x" * 200, "turned\u202earound"]
    tools = [named("good"), *map(named, bad), named("good", description="a second one")]

    with McpServers(manager, [hostile(tmp_path, tools)]) as servers:
        found = {tool.id: tool.description for tool in manager.tools}

    assert found == {"mcp:bad.good": "good"}
    assert servers.problems["bad"].code == "mcp_names"
    assert str(servers.problems["bad"]).isprintable()


@pytest.mark.promise("mcp-9")
def test_a_model_is_shown_only_the_words_that_a_person_would_see(
    manager: SkillManager, tmp_path: Path
) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "description": f"A{HIDDEN} word"}},
    }
    tools = [
        named("none", description=HIDDEN),
        {"name": "some", "description": f"Do {HIDDEN}it", "inputSchema": schema},
    ]

    with McpServers(manager, [hostile(tmp_path, tools)]):
        found = {tool.name: tool for tool in manager.tools}

    assert found["mcp__bad__none"].description == "none"
    assert found["mcp__bad__some"].description == "Do it"
    assert found["mcp__bad__some"].input_schema["properties"]["a"]["description"] == "A word"


def test_an_answer_outside_the_protocol_harms_no_other_server(
    manager: SkillManager, tmp_path: Path, new_entry: NewEntry
) -> None:
    wrong = hostile(tmp_path, [{"name": "x", "inputSchema": {"type": "array"}}])

    with McpServers(manager, [wrong, new_entry()]) as servers:
        added = manager.call("mcp:theirs.add", {"a": 1, "b": 2})

    assert added.structured == {"result": 3}
    assert list(servers.problems) == ["bad"]
    assert "inputSchema.type" in str(servers.problems["bad"])


def test_a_server_that_never_tells_its_tools_harms_no_other(
    manager: SkillManager, tmp_path: Path, new_entry: NewEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillpouch.mcp_client.connection._START_SECONDS", 10.0)

    with McpServers(manager, [hostile(tmp_path, None), new_entry()]) as servers:
        added = manager.call("mcp:theirs.add", {"a": 1, "b": 2})

    assert added.structured == {"result": 3}
    assert "'bad': it does not list its tools" in str(servers.problems["bad"])


@pytest.mark.parametrize("answer", [{"content": 7}, {"content": [{"type": "text"}]}])
def test_a_wrong_result_is_a_failed_call(
    manager: SkillManager, tmp_path: Path, answer: Any
) -> None:
    with McpServers(manager, [hostile(tmp_path, [named("go")], answer)]):
        result = manager.call("mcp:bad.go", {})

    assert (result.outcome, result.code) == ("failed", "mcp_error")
    assert "'bad' answered wrongly" in result.content


def test_a_value_that_breaks_the_servers_own_schema_is_a_failed_call(
    manager: SkillManager, tmp_path: Path
) -> None:
    promised = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answer = {"content": [], "structuredContent": {"n": "many"}}

    with McpServers(manager, [hostile(tmp_path, [named("go", outputSchema=promised)], answer)]):
        result = manager.call("mcp:bad.go", {})

    assert (result.outcome, result.code) == ("failed", "mcp_error")


@pytest.mark.parametrize(
    "schema",
    [{"pattern": "("}, {"$ref": "http://127.0.0.1:9/elsewhere"}, {"$ref": "#/nowhere"}],
)
def test_a_schema_that_is_none_keeps_its_tool_from_being_called(
    manager: SkillManager, tmp_path: Path, schema: dict[str, Any]
) -> None:
    tools = [{"name": "go", "inputSchema": {"type": "object", "properties": {"a": schema}}}]

    with (
        McpServers(manager, [hostile(tmp_path, tools)]),
        pytest.raises(ToolSchemaError, match=r"mcp:bad\.go"),
    ):
        manager.call("mcp:bad.go", {"a": "b"})


def test_the_command_line_lists_a_tool_that_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "skillpouch"
    settings.mkdir(mode=0o700)
    (settings / "mcp.toml").write_text(
        toml_of_hostile(tmp_path, [named("quiet", description=HIDDEN)])
    )
    (settings / "mcp.toml").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(cli, ["mcp", "--connect"])

    assert done.exit_code == 0
    assert "mcp:bad.quiet: quiet" in done.stdout


def test_the_command_line_says_where_servers_would_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(cli, ["mcp"])

    assert (done.exit_code, done.stdout) == (0, "")
    assert str(tmp_path / "skillpouch" / "mcp.toml") in done.stderr
