"""The server as a program on standard streams: clean output, endings, and rubbish on its input."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WriteSkill
from tests.servers.mcp.conftest import ECHO
from tests.servers.mcp.serving import ERAS, PATIENCE_SECONDS, Era, arguments_for, over_stdio
from tests.servers.mcp.test_running import is_slow_running, until
from tests.servers.mcp.test_tools import text_of
from tests.servers.processes import signal_other_thread

pytestmark = pytest.mark.slow

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


class Program:
    """A server that a test talks to in bytes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def write(self, *messages: Any) -> None:
        for message in messages:
            raw = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._stdin.write(raw + b"\n")

    async def read(self) -> Any:
        line = await asyncio.wait_for(self._stdout.readline(), PATIENCE_SECONDS)
        return json.loads(line)

    async def answer_to(self, number: int) -> Any:
        while (message := await self.read()).get("id") != number:
            pass
        return message

    async def refusal(self, name: str) -> Any:
        """Call until the server says that it takes no more: a signal is obeyed in its own time."""
        for number in range(1_000, 100_000):
            self.write(call(number, name, {"text": "x"}))
            answer = await self.answer_to(number)
            if "error" in answer:
                return answer["error"]
            await asyncio.sleep(0.02)
        raise AssertionError

    def close(self) -> None:
        self._stdin.close()

    async def end(self) -> int:
        return await asyncio.wait_for(self.process.wait(), PATIENCE_SECONDS)


@asynccontextmanager
async def started(*words: str) -> AsyncIterator[Program]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=64 * 1024 * 1024,
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.usefixtures("new_manager")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_lists_and_calls(tmp_path: Path, workspace: Path, era: Era) -> None:
    words = arguments_for(tmp_path / "skills", workspace=workspace)
    async with over_stdio(*words, era=era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("demo__makes", {})

    assert names == ["demo__echo", "demo__fail", "demo__makes", "demo__slow"]
    link = result.content[1]
    assert link.type == "resource_link"
    assert (text_of(result), link.uri) == ("done", f"file://{workspace}/made.txt")


@pytest.mark.promise("mcp-4")
async def test_nothing_but_messages_is_written_to_standard_output(
    write_skill: WriteSkill, tmp_path: Path, workspace: Path
) -> None:
    text = "import os, sys\nprint('noise')\nos.write(1, b'more')\nsys.stderr.write('worse')\n"
    write_skill("loud", files={"scripts/shout.py": text})
    words = arguments_for(tmp_path / "skills", workspace=workspace)

    async with started(*words) as server:
        server.write(HELLO, READY, call(1, "loud__shout"), call(2, "nobody"))
        server.close()
        output = b"" if server.process.stdout is None else await server.process.stdout.read()

    messages = {message["id"]: message for message in map(json.loads, output.splitlines())}
    assert set(messages) == {0, 1, 2}
    assert messages[1]["result"]["content"][0]["text"].endswith("noise")
    assert messages[2]["error"]["code"] == -32602


@pytest.mark.usefixtures("new_manager")
async def test_rubbish_is_answered_and_what_follows_it_is_served(
    tmp_path: Path, workspace: Path
) -> None:
    rubbish = (b"{", b"\xff\xfe\x00", b"[]", b'"text"', b"{" * 100_000, b'{"jsonrpc": "1.0"}')
    async with started(*arguments_for(tmp_path / "skills", workspace=workspace)) as server:
        server.write(HELLO, READY, *rubbish, b"", call(1, "demo__echo", {"text": "still"}))
        answer = await server.answer_to(1)

    assert answer["result"]["structuredContent"] == {"said": "still"}


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_running_call_finish_and_ends_the_server(
    write_skill: WriteSkill, tmp_path: Path, workspace: Path, number: signal.Signals
) -> None:
    text = (
        "import pathlib, time\npathlib.Path('started').touch()\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\nprint('finished')\n"
    )
    write_skill("waits", files={"scripts/wait.py": text, "scripts/echo.py": ECHO})
    async with started(*arguments_for(tmp_path / "skills", workspace=workspace)) as server:
        server.write(HELLO, READY, call(1, "waits__wait"))
        await until((workspace / "started").exists)
        server.process.send_signal(number)
        refused = await server.refusal("waits__echo")
        (workspace / "go").touch()
        answer = await server.answer_to(1)
        code = await server.end()

    assert refused["data"] == {"code": "server_stopping"}
    assert answer["result"]["content"][0]["text"] == "finished"
    assert code == 0


@pytest.mark.promise("stop-1")
@pytest.mark.usefixtures("new_manager")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_heard_whichever_thread_the_kernel_hands_it_to(
    tmp_path: Path, workspace: Path, number: signal.Signals
) -> None:
    async with started(*arguments_for(tmp_path / "skills", workspace=workspace)) as server:
        server.write(HELLO, READY, call(1, "demo__echo", {"text": "here"}))
        await server.answer_to(1)
        signal_other_thread(server.process.pid, number)
        code = await server.end()

    assert code == 0


@pytest.mark.usefixtures("new_manager")
async def test_a_server_without_input_ends_by_itself(tmp_path: Path, workspace: Path) -> None:
    words = arguments_for(tmp_path / "skills", workspace=workspace)
    none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdin=none, stdout=pipe, stderr=pipe
    )

    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)

    assert (process.returncode, out) == (0, b"")
    assert b"Traceback" not in err


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.usefixtures("new_manager")
async def test_a_second_signal_ends_calls_too(tmp_path: Path, workspace: Path) -> None:
    async with started(*arguments_for(tmp_path / "skills", workspace=workspace)) as server:
        server.write(HELLO, READY, call(1, "demo__slow"))
        await until((workspace / "started").exists)
        server.process.send_signal(signal.SIGTERM)
        await server.refusal("demo__echo")
        server.process.send_signal(signal.SIGTERM)
        code = await server.end()

    assert code == 0
    await until(lambda: not is_slow_running(workspace))


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.promise("mcp-5")
@pytest.mark.usefixtures("new_manager")
@pytest.mark.parametrize("ending", ["client", "server"])
async def test_after_kill_9_of_client_or_server_nothing_is_left_running(
    tmp_path: Path, workspace: Path, ending: str
) -> None:
    script = tmp_path / "client.py"
    script.write_text(
        "import json, subprocess, sys, time\n"
        "server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"for message in {[HELLO, READY, call(1, 'demo__slow')]!r}:\n"
        "    server.stdin.write(json.dumps(message).encode() + b'\\n')\n"
        "server.stdin.flush()\nprint(server.pid, flush=True)\ntime.sleep(600)\n"
    )
    words = arguments_for(tmp_path / "skills", workspace=workspace)
    async with started(str(script), sys.executable, *words) as client:
        server = int(await client.read())
        await until((workspace / "started").exists)

        os.kill(client.process.pid if ending == "client" else server, signal.SIGKILL)

        await until(lambda: not is_slow_running(workspace))
        await until(lambda: not is_running(server))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_an_unknown_extra_or_address_is_a_usage_error(
    tmp_path: Path, workspace: Path, write_skill: WriteSkill
) -> None:
    write_skill()
    words = arguments_for(tmp_path / "skills", workspace=workspace, more=("--http", "0.0.0.0:0"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stderr=asyncio.subprocess.PIPE
    )
    _, error = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)

    assert process.returncode == 2
    assert b"hint: add --token-file FILE, or listen at 127.0.0.1" in error
