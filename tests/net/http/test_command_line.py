"""`skillpouch call` with an http tool: permitted on the command line, answered as text and JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.net.http.conftest import MakeManager, Serve
from tests.net.http.servers import reply

pytestmark = pytest.mark.slow


def skillpouch(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "skillpouch", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_tool_is_denied_then_trusted_then_called(
    serve: Serve, manager_of: MakeManager, workspace: Path
) -> None:
    server = serve(reply('{"ok":true}', kind="application/json"))
    manager_of({"url": f"{server.url}/${{n}}"}, {"n": {"type": "integer"}})
    root = ("--root", str(workspace.parent / "skills"))

    denied = skillpouch("call", "demo.ask", "n=3", *root, cwd=workspace)
    trusted = skillpouch("trust", "demo", "--host", server.host, "--yes", *root, cwd=workspace)
    called = skillpouch("call", "demo.ask", "n=3", *root, cwd=workspace)
    as_json = skillpouch("call", "demo.ask", "n=3", "--json", *root, cwd=workspace)

    assert (denied.returncode, trusted.returncode) == (3, 0)
    assert f"skillpouch trust demo --host {server.host}" in denied.stderr
    assert called.stdout.startswith(f"HTTP 200 OK\n{server.url}/3\napplication/json\n\n{{\n")
    answer = json.loads(as_json.stdout)
    assert (answer["outcome"], answer["structured"]) == ("ok", {"ok": True})
    assert answer["http"]["status"] == 200
    assert [seen.target for seen in server.seen] == ["/3", "/3"]


def test_an_answer_that_is_no_success_exits_with_1(
    serve: Serve, manager_of: MakeManager, workspace: Path
) -> None:
    server = serve(reply("no such thing", "404 Not Found"))
    manager_of({"url": server.url})
    root = ("--root", str(workspace.parent / "skills"))
    skillpouch("trust", "demo", "--host", server.host, "--yes", *root, cwd=workspace)

    called = skillpouch("call", "demo.ask", *root, cwd=workspace)

    assert (called.returncode, called.stdout) == (1, "")
    assert called.stderr.startswith("HTTP 404 Not Found\n")
