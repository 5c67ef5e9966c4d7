"""MCP servers as tools: found, checked, permitted, confined, recorded and ended like all others."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.errors import CallDeniedError, InvalidArgumentsError
from skillpouch.mcp_client import McpServers, parse_user_mcp
from skillpouch.policy import Rule
from skillpouch.shell.scripted_tool import ScriptedTool
from tests.mcp_client.conftest import THEIRS, NewEntry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_tools_of_a_server_are_listed_checked_and_called(
    manager: SkillManager, new_entry: NewEntry
) -> None:
    with McpServers(manager, [new_entry(tools='["add", "fail", "wipe"]')]) as servers:
        tools = {tool.id: (tool.name, tool.effects) for tool in manager.tools}
        result = manager.call("mcp:theirs.add", {"a": 1, "b": 2})
        failed = manager.call("mcp__theirs__fail", {})
        with pytest.raises(InvalidArgumentsError):
            manager.call("mcp:theirs.add", {"a": "one", "b": 2})
        with pytest.raises(CallDeniedError, match="destroy"):
            manager.call("mcp:theirs.wipe", {})

    assert servers.problems == {}
    assert tools == {
        "mcp:theirs.add": ("mcp__theirs__add", ("read", "execute")),
        "mcp:theirs.fail": ("mcp__theirs__fail", ("read", "execute", "write")),
        "mcp:theirs.wipe": ("mcp__theirs__wipe", ("read", "execute", "write", "destructive")),
    }
    assert (result.content, result.structured) == ("3", {"result": 3})
    assert (failed.outcome, failed.exit_code) == ("failed", 1)
    assert manager.tools == []


@pytest.mark.promise("mcp-6")
def test_a_server_sees_only_what_the_entry_gives_and_what_it_says_of_it_is_hidden(
    manager: SkillManager, new_entry: NewEntry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("THEIR_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("OTHER", "not yours")
    (tmp_path / "private.txt").write_text("private")

    with McpServers(manager, [new_entry(env='["THEIR_TOKEN"]')]):
        seen = manager.call("mcp:theirs.environment", {})
        read = manager.call("mcp:theirs.reach", {"path": str(tmp_path / "private.txt")})

    assert "hunter2" not in seen.content
    assert seen.structured["secret"] == "[redacted THEIR_TOKEN]"
    assert seen.structured["other"] == ""
    assert read.is_error


@pytest.mark.promise("mcp-6")
def test_a_server_has_the_profiles_that_its_entry_names(
    manager: SkillManager, new_entry: NewEntry
) -> None:
    plain = new_entry("plain")
    more = new_entry("more", **{"local-sockets": "true", "loopback": "true", "memory": '"2GiB"'})

    with McpServers(manager, [plain, more]):
        refused = [
            manager.call("mcp:plain.talk", {}),
            manager.call("mcp:plain.hold", {"mebibytes": 1100}),
        ]
        given = [
            manager.call("mcp:more.talk", {}),
            manager.call("mcp:more.hold", {"mebibytes": 1100}),
        ]

    assert [result.outcome for result in refused] == ["failed", "failed"]
    assert [result.content for result in given] == ["AF_UNIX AF_INET", str(1100 << 20)]


@pytest.mark.promise("fs-5")
def test_what_a_server_made_that_others_run_later_is_named(
    manager: SkillManager, new_entry: NewEntry, workspace: Path
) -> None:
    path = workspace / ".claude/settings.json"

    with McpServers(manager, [new_entry()]):
        result = manager.call("mcp:theirs.keep", {"path": str(path)})

    assert (result.structured, path.exists()) == ({"result": "kept"}, True)
    assert result.run_later == (".claude",)


def test_a_server_that_dies_loses_one_call_and_is_started_again(
    manager: SkillManager, new_entry: NewEntry
) -> None:
    with McpServers(manager, [new_entry()]):
        lost = manager.call("mcp:theirs.die", {})
        after = manager.call("mcp:theirs.add", {"a": 2, "b": 2})

    assert (lost.outcome, lost.code) == ("failed", "mcp_error")
    assert after.content == "4"


def test_a_server_that_cannot_be_started_says_why_and_harms_no_other(
    manager: SkillManager, new_entry: NewEntry
) -> None:
    broken = new_entry(
        "broken", command=f'["{sys.executable}", "-c", "raise SystemExit(\'no luck\')"]'
    )
    absent = new_entry("absent", command='["there-is-no-such-program"]')
    unset = new_entry("unset", env='["NOBODY_SET_THIS"]')

    with McpServers(manager, [broken, absent, unset, new_entry()]) as servers:
        result = manager.call("mcp:theirs.add", {"a": 1, "b": 1})

    assert result.content == "2"
    assert {name: str(error) for name, error in servers.problems.items()} == {
        "broken": "cannot start the MCP server 'broken': it ended before it was ready: no luck",
        "absent": "cannot start the MCP server 'absent': "
        "there is no program 'there-is-no-such-program'",
        "unset": "cannot start the MCP server 'unset': NOBODY_SET_THIS is not set",
    }


def test_a_rule_holds_for_the_tools_of_a_server(
    tmp_path: Path, workspace: Path, new_entry: NewEntry
) -> None:
    (tmp_path / "skills").mkdir()
    policy = Policy(rules=[Rule(verdict="deny", tools=["mcp:theirs.*"], reason="not today")])
    manager = SkillManager(tmp_path / "skills", workspace=workspace, policy=policy)

    with McpServers(manager, [new_entry()]), pytest.raises(CallDeniedError, match="not today"):
        manager.call("mcp:theirs.add", {"a": 1, "b": 1})


def test_a_bash_script_uses_a_server_beside_skills(
    manager: SkillManager, new_entry: NewEntry
) -> None:
    with McpServers(manager, [new_entry()]):
        response = ScriptedTool.over(manager).execute_sync(
            "mcp:theirs.add --a 1 --b $(mcp:theirs.add --a 2 --b 3)"
        )

    assert (response.exit_code, response.stdout.strip()) == (0, "6")


async def test_a_server_elsewhere_is_used_over_http(manager: SkillManager) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(THEIRS), str(port)], stderr=subprocess.DEVNULL)
    try:
        await answers(port)
        text = f'[[mcp]]\nname = "far"\nurl = "http://127.0.0.1:{port}/mcp"\n'
        async with McpServers(manager, parse_user_mcp(text.encode())) as servers:
            assert servers.problems == {}
            tool = manager.get_tool("mcp:far.add")
            result = await manager.acall("mcp:far.add", {"a": 20, "b": 22})
    finally:
        process.terminate()
        process.wait(60)

    assert (result.content, tool.effects) == ("42", ("read", "execute", "network"))


async def answers(port: int) -> None:
    """Wait until somebody listens."""
    async with asyncio.timeout(100):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return
