"""What a call leaves running ends with it, and its result says so, with a way that works."""

from pathlib import Path

import pytest

from skillpouch import SkillManager, ToolResult
from skillpouch.limits import Limits
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def result_of(home: Path, workspace: Path, tool: str = "demo.x", seconds: float = 20) -> ToolResult:
    limits = Limits(timeout_seconds=seconds)
    manager = SkillManager(home.parent, workspace=workspace, cache=False, limits=limits)
    return manager.call(tool)


SERVER = """
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print("http://localhost:%d" % server.server_port, flush=True)
server.serve_forever()
"""
STARTS = {
    "x.sh": """# Start.
exec 3< <(python3 "$(dirname "$0")/lib/server.py" 2>/dev/null)
read -r url <&3
echo started
""",
    "x.py": '''
"""Start."""
import pathlib, subprocess, sys
server = str(pathlib.Path(__file__).parent / "lib" / "server.py")
started = subprocess.Popen([sys.executable, server], stdout=subprocess.PIPE, start_new_session=True)
started.stdout.readline()
print("started")
''',
    "x.js": """// Start.
const child = require("child_process").spawn("python3", [__dirname + "/lib/server.py"],
  { detached: true, stdio: ["ignore", "pipe", "ignore"] });
child.stdout.once("data", () => { console.log("started"); process.exit(0); });
""",
}
PROGRAMS = {"x.sh": "bash", "x.py": "python3", "x.js": "node"}


@pytest.mark.parametrize("name", STARTS)
def test_a_server_that_ended_with_its_call_is_told_of(
    name: str, write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={f"scripts/{name}": STARTS[name], "scripts/lib/server.py": SERVER})

    result = result_of(home, workspace)

    note = (
        "note: it left a server running, which ended with the call, and which only the call itself"
        " could reach; start it and use it in one command of `run_for_skill`, or let the user start"
        f" it without Skillpouch: `{PROGRAMS[name]} {home}/scripts/{name}`"
    )
    assert (result.outcome, result.data, result.left_running) == ("ok", "started\n", "server")
    assert result.notes == (note,)


def test_more_time_is_not_the_advice_to_a_server_in_the_foreground(
    write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={"scripts/x.py": SERVER})

    result = result_of(home, workspace, seconds=8)

    assert (result.outcome, result.left_running) == ("timed_out", "server")
    assert "only the user can raise it" not in result.content
    assert "note: it runs a server, which ended with the call" in result.content
    assert f"`python3 {home}/scripts/x.py`" in result.content


USES_ITS_OWN = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen("http://localhost:%d" % server.server_port).close()
print("tested", flush=True)
threading.Event().wait()
"""


def test_a_call_that_uses_a_server_of_its_own_may_need_more_time(
    write_skill: WriteSkill, workspace: Path
) -> None:
    result = result_of(write_skill(files={"scripts/x.py": USES_ITS_OWN}), workspace, seconds=8)

    assert (result.outcome, result.left_running) == ("timed_out", "")
    assert "only the user can raise it" in result.content


def test_one_that_ends_its_server_itself_has_no_note(
    write_skill: WriteSkill, workspace: Path
) -> None:
    script = USES_ITS_OWN.replace("threading.Event().wait()", "")

    result = result_of(write_skill(files={"scripts/x.py": script}), workspace)

    assert (result.content, result.left_running) == ("tested", "")


WAITING = "import os, time\nos.write(1, b'.')\ntime.sleep(600)\n"
DETACHED = {
    "x.py": """
import pathlib, subprocess, sys
waiting = str(pathlib.Path(__file__).parent / "lib" / "waiting.py")
words = [sys.executable, waiting]
subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True).stdout.read(1)
print("watching")
""",
    "x.sh": """# Watch.
exec 3< <(nohup python3 "$(dirname "$0")/lib/waiting.py" 2>/dev/null)
read -r -n 1 <&3
echo watching
""",
}


@pytest.mark.parametrize("name", DETACHED)
def test_a_process_that_was_to_outlive_its_call_is_told_of(
    name: str, write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={f"scripts/{name}": DETACHED[name], "scripts/lib/waiting.py": WAITING})

    result = result_of(home, workspace)

    note = (
        "note: it left processes running in the background, which ended with the call; one that"
        " stays in the foreground can go on as a job: `skillpouch call demo.x --background`"
    )
    assert (result.outcome, result.data, result.left_running) == ("ok", "watching\n", "processes")
    assert result.notes == (note,)


def test_a_process_that_only_its_pipe_keeps_is_nothing_to_tell(
    write_skill: WriteSkill, workspace: Path
) -> None:
    script = "exec 3< <(echo .; exec sleep 600)\nread -r -n 1 <&3\necho done\n"

    result = result_of(write_skill(files={"scripts/x.sh": script}), workspace)

    assert (result.content, result.left_running) == ("done", "")


def test_a_command_that_leaves_a_server_is_told_to_use_it_at_once(
    write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={"scripts/lib/server.py": SERVER})
    manager = SkillManager(home.parent, workspace=workspace, cache=False, builtins=True)
    command = "exec 3< <(python3 scripts/lib/server.py 2>/dev/null); read -r url <&3; echo started"

    result = manager.call("run_for_skill", {"skill": "demo", "command": command})

    assert (result.data, result.left_running) == ("started\n", "server")
    assert result.notes[0].endswith("could reach; start it and use it in one command")
