"""Every backend of ours, and one of another package, keeps the rules; one that does not is told."""

import asyncio
import importlib
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, Tool, tool
from skillpouch.backends import Backend, backend_of
from skillpouch.builtins.own_tools import workspace_tools
from skillpouch.calls import ToolCall
from skillpouch.needs import Need
from skillpouch.results import ToolResult
from skillpouch.testing import BackendCases, ContractError, check_backend
from skillpouch.tools import Binary, External, Http, InlineScript
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_the_backend_of_another_package_keeps_the_rules(example: Path, work: Path) -> None:
    del example
    sqlite3.connect(work / "data.db").close()
    backend = importlib.import_module("skillpouch_example.backend").SqliteBackend()

    def query(text: str) -> tuple[External, dict[str, Any]]:
        return External(type="sqlite", options={"query": text}), {}

    cases = BackendCases(
        works=query("SELECT 1 AS one"),
        fails=query("SELECT * FROM nowhere"),
        waits=query(FOREVER),
        streams=query("SELECT 'a' AS letter"),
        tells=query("SELECT :CONTRACT_SECRET AS told"),
    )

    check_backend(backend, cases, workspace=work)


def test_scripts_keep_the_rules(write_skill: WriteSkill, work: Path) -> None:
    files = {
        "scripts/works.py": "def handler(args):\n    return {'a': 1}\n",
        "scripts/fails.py": "def handler(args):\n    raise ValueError('no')\n",
        "scripts/waits.sh": "sleep 100\n",
        "scripts/streams.sh": "echo one; echo two >&2\n",
        "scripts/tells.sh": 'echo "$CONTRACT_SECRET"\n',
    }
    manager = SkillManager(write_skill("demo", files=files).parent, workspace=work)
    tools: dict[str, Any] = {
        each.id.partition(".")[2]: (each, {}) for each in manager.get_skill_tools("demo")
    }

    check_backend(backend_of(tools["works"][0]), BackendCases(**tools), workspace=work)


def test_inline_scripts_keep_the_rules(work: Path) -> None:
    def bash(text: str) -> tuple[InlineScript, dict[str, Any]]:
        return InlineScript(interpreter="bash", text=text), {}

    cases = BackendCases(
        works=bash("echo '[1]'"),
        fails=bash("echo no >&2; exit 3"),
        waits=bash("sleep 100"),
        streams=bash("echo one; echo two"),
        tells=bash('echo "$CONTRACT_SECRET"'),
    )

    check_backend(backend_for(cases), cases, workspace=work)


def test_programs_keep_the_rules(work: Path) -> None:
    def program(path: str, template: str) -> tuple[Binary, dict[str, Any]]:
        return Binary(path=path, args_template=template), {}

    cases = BackendCases(
        works=program("/bin/echo", "fine"),
        fails=program("/bin/cat", "nowhere"),
        waits=program("/bin/sleep", "100"),
        streams=program("/bin/echo", "streamed"),
        tells=program("/usr/bin/printenv", "CONTRACT_SECRET"),
    )

    check_backend(backend_for(cases), cases, workspace=work)


@pytest.fixture
def service() -> Iterator[str]:
    """A web service: /works, /fails, /waits, and /tells, which says what it was sent."""
    over = threading.Event()

    class Service(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            if self.path == "/waits":
                over.wait(100)
            said = self.headers.get("X-Key", "").encode() if self.path == "/tells" else b'"fine"'
            self.send_response(500 if self.path == "/fails" else 200)
            self.send_header("Content-Type", "text/plain" if "tells" in self.path else "text/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}"
    over.set()
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_requests_keep_the_rules(service: str, work: Path) -> None:
    def get(path: str) -> tuple[Http, dict[str, Any]]:
        headers = {"X-Key": "${env:CONTRACT_SECRET}"} if path == "tells" else {}
        return Http(url=f"{service}/{path}", method="GET", headers=headers), {}

    cases = BackendCases(
        works=get("works"),
        fails=get("fails"),
        waits=get("waits"),
        streams=get("works"),
        tells=get("tells"),
    )
    host = Need(kind="host", value=service.removeprefix("http://"))

    check_backend(backend_for(cases), cases, workspace=work, granted=[host])


@tool
def double(number: int) -> int:
    """Double a number."""
    return number * 2


@tool
def refuse() -> str:
    """Refuse."""
    raise ValueError("no")


@tool
async def wait() -> None:
    """Wait."""
    await asyncio.sleep(100)


def test_functions_keep_the_rules(work: Path) -> None:
    cases = BackendCases(works=(double, {"number": 2}), fails=(refuse, {}), waits=(wait, {}))

    check_backend(backend_for(cases), cases, workspace=work)


def test_our_own_tools_keep_the_rules(work: Path) -> None:
    (bash,) = [each for each in workspace_tools() if each.name == "bash"]

    def run(command: str) -> tuple[Tool, dict[str, Any]]:
        return bash, {"command": command}

    cases = BackendCases(
        works=run("echo fine"),
        fails=run("exit 3"),
        waits=run("sleep 100"),
        streams=run("echo one; echo two"),
    )

    check_backend(backend_for(cases), cases, workspace=work)


def backend_for(cases: BackendCases) -> Backend:
    case = cases.works[0]
    return backend_of(case if isinstance(case, Tool) else replace(double, runs=case))


class Bad:
    """Breaks the rule that the options of a tool name."""

    left: list["subprocess.Popen[bytes]"] = []  # noqa: RUF012 - what tests have to end
    running = 0

    async def run(self, call: ToolCall) -> ToolResult:
        runs = call.tool.runs
        assert isinstance(runs, External)
        result = ToolResult(tool=call.tool.id, outcome="ok", content="fine", stdout="fine")
        gave: ToolResult = await getattr(self, runs.type)(result)
        return gave

    async def fine(self, result: ToolResult) -> ToolResult:
        return result

    async def raises(self, result: ToolResult) -> ToolResult:
        raise KeyError(result.outcome)

    async def text(self, result: ToolResult) -> Any:
        return result.content

    async def other(self, result: ToolResult) -> ToolResult:
        return replace(result, tool="another")

    async def no_json(self, result: ToolResult) -> ToolResult:
        return replace(result, structured={1, 2})

    async def blocks(self, result: ToolResult) -> ToolResult:
        time.sleep(1.0)
        return result

    async def stubborn(self, result: ToolResult) -> ToolResult:
        ends = time.monotonic() + 4.5
        while time.monotonic() < ends:
            try:
                await asyncio.sleep(4.5)
            except asyncio.CancelledError:
                continue
        return result

    async def leaves(self, result: ToolResult) -> ToolResult:
        self.left.append(subprocess.Popen(["sleep", "101"]))
        await asyncio.sleep(100)
        return result

    async def alone(self, result: ToolResult) -> ToolResult:
        self.running += 1
        try:
            await asyncio.sleep(0.05)
            return replace(result, outcome="failed") if self.running > 1 else result
        finally:
            self.running -= 1


def kind(name: str) -> tuple[External, dict[str, Any]]:
    return External(type=name), {}


FINE = kind("fine")


@pytest.mark.parametrize(
    ("cases", "rule"),
    [
        (BackendCases(works=kind("raises")), "raises nothing: it raised KeyError: 'ok'"),
        (BackendCases(works=kind("text")), "a call that works returns a ToolResult, not a str"),
        (BackendCases(works=kind("other")), "the result names the id of the tool that ran"),
        (BackendCases(works=kind("no_json")), "`structured` is a value that JSON has"),
        (BackendCases(works=FINE, fails=FINE), "a call that fails has another outcome than 'ok'"),
        (BackendCases(works=FINE, fails=kind("raises")), "a call that fails returns a ToolResult"),
        (BackendCases(works=FINE, streams=FINE), "what is printed goes to `on_output`"),
        (BackendCases(works=FINE, tells=FINE), "is given its value, in `call.access.secrets`"),
        (BackendCases(works=FINE, waits=kind("blocks")), "it does not block the event loop"),
        (BackendCases(works=FINE, waits=kind("stubborn")), "its coroutine still runs"),
        (BackendCases(works=FINE, waits=kind("leaves")), "leaves no process at its time limit"),
        (BackendCases(works=kind("alone")), "8 calls at once all work"),
    ],
    ids=lambda each: each[:30] if isinstance(each, str) else "",
)
def test_a_backend_that_breaks_a_rule_is_told_which(
    cases: BackendCases, rule: str, work: Path
) -> None:
    try:
        with pytest.raises(ContractError, match="Bad breaks") as told:
            check_backend(Bad(), cases, workspace=work)
    finally:
        for process in Bad.left:
            process.kill()
            process.wait()
        Bad.left.clear()

    assert [each for each in told.value.broken if rule in each]
    assert isinstance(told.value, AssertionError)


def test_all_broken_rules_are_told_at_once(work: Path) -> None:
    cases = BackendCases(works=kind("no_json"), fails=FINE, streams=FINE)

    with pytest.raises(ContractError, match="Bad breaks 3 rules:\n- ") as told:
        check_backend(Bad(), cases, workspace=work)

    assert len(told.value.broken) == 3
