"""How many files of ours a call passes through, and how deep the one is that starts the work.

Counted by a profiler in every thread of the host. A walk *touches* the files of which a function
runs, and is as *deep* as the files that run, or wait, at the moment at which the work is started:
on the stack of the thread that starts it, and of every thread and task that waits for that. What
starts the work is a packet to a sandbox, the bytes of a request, the function of a tool, or a line
of a list. Finding the tool is counted by itself. With `-v`, the names of all files are shown.
"""

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "skillpouch"
SOURCE = str(Path(__file__).parent.parent / "src" / PACKAGE) + "/"
WARMING = 20  # calls, until a process waits for the next one
# What every thread of ours begins with, busy or not.
THREADS = ("idle_threads.py", "loop_thread.py")
DEMO = "---\nname: demo\ndescription: A handler.\n---\n"
HANDLER = '"""Say hello."""\n\n\ndef handler(args):\n    return "hello"\n'
ASK = """---
name: weather
description: Weather.
tools:
  - name: ask
    description: Ask.
    backend: {{type: http, method: GET, url: "http://127.0.0.1:{port}/"}}
    parameters: {{type: object}}
---
"""
SERVER = """
import asyncio
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nok"
class Talk(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(REPLY)
async def main():
    server = await asyncio.get_running_loop().create_server(Talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


class Steps:
    """Counts while `on`; `starts` are the functions of C that start the work."""

    def __init__(self) -> None:
        self.on = False
        self.starts: tuple[str, ...] = ()
        self.touched: set[str] = set()
        self.looked_up: set[str] = set()
        self.deep: list[str] = []

    def install(self) -> None:
        threading.setprofile(self.note)
        sys.setprofile(self.note)

    def begin(self, *starts: str) -> None:
        self.touched, self.looked_up, self.deep, self.starts = set(), set(), [], starts
        self.on = True

    def end(self) -> dict[str, Any]:
        self.on = False
        return {
            "touched": sorted(self.touched),
            "deep": self.deep,
            "looked_up": sorted(self.looked_up),
        }

    def note(self, frame: FrameType, event: str, called: Any) -> None:
        if not self.on:
            return
        if event == "call" and is_ours(frame):
            if not is_importing(frame):
                self.touched.add(name_of(frame))
                if is_looking_up(frame):
                    self.looked_up.add(name_of(frame))
        elif event == "c_call" and not self.deep and called.__name__ in self.starts:
            self.started(frame)

    def started(self, frame: FrameType | None) -> None:
        own = files_of(frame)
        if (
            own and frame is not None and frame.f_code.co_name != "_write_to_self"
        ):  # which wakes a loop
            self.deep = list(dict.fromkeys([*waiting(), *own]))


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(SOURCE)


def name_of(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(SOURCE)


def is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and is_ours(frame):
            return True
        frame = frame.f_back
    return False


# What an executor asks for a tool.
LOOKUPS = {("executor.py", "hold"), ("executor.py", "get")}


def is_looking_up(frame: FrameType | None) -> bool:
    """Tell whether a function runs because a name is looked up."""
    while frame is not None and frame.f_back is not None:
        if (name_of(frame.f_back), frame.f_code.co_name) in LOOKUPS and is_ours(frame):
            return True
        frame = frame.f_back
    return False


def files_of(frame: FrameType | None) -> list[str]:
    found = []
    while frame is not None:
        if is_ours(frame):
            found.append(name_of(frame))
        frame = frame.f_back
    return list(dict.fromkeys(reversed(found)))


def waiting() -> list[str]:
    """Return the files of threads that are blocked and of tasks that wait."""
    found: list[str] = []
    for thread, frame in sys._current_frames().items():  # noqa: SLF001 - there is no other way
        if thread != threading.get_ident():
            files = files_of(frame)
            found += files if set(files) - set(THREADS) else []
    for task in all_tasks():
        if not task.done() and task not in STANDING and task is not current():
            found += awaited(task.get_coro())
    return found


def all_tasks() -> list[Any]:
    """Return the tasks of all loops; `asyncio.all_tasks` tells only those of one."""
    known = vars(asyncio.tasks)
    return list(known["_scheduled_tasks" if "_scheduled_tasks" in known else "_all_tasks"])


STANDING: set[Any] = set()  # tasks that were there before the walk began


def current() -> Any:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def awaited(coroutine: Any) -> list[str]:
    found = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None and is_ours(frame):
            found.append(name_of(frame))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return found


steps = Steps()


def stand() -> None:
    STANDING.clear()
    STANDING.update(all_tasks())


def manager_of(folder: Path) -> Any:
    from skillpouch import SkillManager

    return SkillManager(folder / "skills", workspace=folder / "work")


def rest() -> None:
    time.sleep(0.05)  # a process is forked for the next call


def warm_call(folder: Path) -> dict[str, Any]:
    manager = manager_of(folder)
    for _ in range(WARMING):
        manager.call("demo.hello")
    rest()
    stand()
    steps.begin("sendmsg")
    manager.call("demo.hello")
    return steps.end()


def warm_acall(folder: Path) -> dict[str, Any]:
    manager = manager_of(folder)
    return asyncio.run(walk(lambda: manager.acall("demo.hello")))


async def walk(call: Callable[[], Any]) -> dict[str, Any]:
    for _ in range(WARMING):
        await call()
    await asyncio.sleep(0.05)
    stand()
    steps.begin("sendmsg")
    await asyncio.create_task(call())
    return steps.end()


def langchain(folder: Path) -> dict[str, Any]:
    from skillpouch.integrations.langchain import create_langchain_tools

    tools = create_langchain_tools(manager_of(folder))
    tool = next(each for each in tools if "hello" in each.name)
    return asyncio.run(walk(lambda: tool.ainvoke({})))


def http(folder: Path) -> dict[str, Any]:
    from skillpouch.needs import Need
    from skillpouch.trust.grants import Grants

    child = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        home = folder / "skills/weather"
        home.mkdir()
        (home / "SKILL.md").write_text(ASK.format(port=port))
        manager = manager_of(folder)
        host = Need(kind="host", value=f"127.0.0.1:{port}")
        Grants().grant(manager.get_skill("weather"), [host], by="bench")
        for _ in range(WARMING):
            manager.call("weather.ask")
        stand()
        steps.begin("send", "sendall", "sendmsg")
        manager.call("weather.ask")
        return steps.end()
    finally:
        child.kill()
        child.communicate()


def scripted(_: Path) -> dict[str, Any]:
    from skillpouch import ScriptedTool, ToolArgs, ToolDef

    def begin(_: ToolArgs) -> str:
        sys.setprofile(steps.note)  # the thread is the engine's
        steps.begin()
        return ""

    def get(_: ToolArgs) -> str:
        steps.started(inspect.currentframe())
        return "ok\n"

    tool = (
        ScriptedTool.builder("api", "inproc")
        .tool(ToolDef("begin", "Begin"), begin)
        .tool(ToolDef("get", "Get"), get)
        .build()
    )
    stand()
    for _ in range(3):
        assert tool.execute_sync("begin; get").stdout == "ok\n"
    return steps.end()


def listing(folder: Path) -> dict[str, Any]:
    words = [sys.executable, __file__, "--list", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    subprocess.run(words, check=True, capture_output=True)
    return json.loads((folder / "steps.json").read_text())


def list_here(folder: Path) -> None:
    sys.argv = [PACKAGE, "list", "--root", str(folder / "skills")]
    from skillpouch.cli import cli

    before, sys.stdout = sys.stdout, Printed()  # type: ignore[assignment]
    steps.begin("write")
    try:
        cli(standalone_mode=False)
    finally:
        sys.stdout = before
        (folder / "steps.json").write_text(json.dumps(steps.end()))


class Printed:
    """Standard output that tells who writes to it first."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        if steps.on and not steps.deep and text:
            steps.started(inspect.currentframe())
        return len(text)

    def flush(self) -> None:
        """Nothing: it keeps nothing."""

    def isatty(self) -> bool:
        return False


def mcp(folder: Path) -> dict[str, Any]:
    return asyncio.run(talk(folder))


async def talk(folder: Path) -> dict[str, Any]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = [__file__, "--serve", str(folder)]
    program = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(stdio_client(program)) as client:
        for _ in range(WARMING):
            await client.call_tool("demo__hello", {})
        await asyncio.sleep(0.1)
        server = int((folder / "pid").read_text())
        os.kill(server, signal.SIGUSR1)
        await asyncio.sleep(0.1)
        await client.call_tool("demo__hello", {})
        await asyncio.sleep(0.1)
        os.kill(server, signal.SIGUSR2)
        await asyncio.sleep(0.2)
    return json.loads((folder / "steps.json").read_text())


def serve_here(folder: Path) -> None:
    from skillpouch.servers.mcp import McpServer

    def begin(*_: object) -> None:
        stand()
        steps.begin("sendmsg")

    def end(*_: object) -> None:
        (folder / "steps.json").write_text(json.dumps(steps.end()))

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    (folder / "pid").write_text(str(os.getpid()))
    asyncio.run(McpServer(manager_of(folder), watch=False).serve_stdio())


WALKS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "warm script, call": warm_call,
    "warm script, acall": warm_acall,
    "LangChain tool": langchain,
    "MCP over stdio": mcp,
    "HTTP tool": http,
    "a command in a script": scripted,
    "list": listing,
}


def main() -> None:
    chosen = [name for name in WALKS if not sys.argv[1:] or name in sys.argv[1:]]
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="steps-") as made:
            folder = Path(made)
            os.environ["XDG_STATE_HOME"] = str(folder / "state")  # nobody else's grants
            scripts = folder / "skills/demo/scripts"
            scripts.mkdir(parents=True)
            (folder / "work").mkdir()
            (scripts.parent / "SKILL.md").write_text(DEMO)
            (scripts / "hello.py").write_text(HANDLER)
            show(name, WALKS[name](folder))


def show(name: str, found: dict[str, Any]) -> None:
    touched, deep, looked_up = found["touched"], found["deep"], found["looked_up"]
    print(f"{name:<22} touches {len(touched):3}, is {len(deep):2} deep: {' > '.join(deep)}")
    if looked_up:
        print(f"{'':<22} finds its tool in {len(looked_up)}: {' '.join(looked_up)}")
    if "-v" in sys.argv:
        print("   ", *touched)


if __name__ == "__main__":
    steps.install()
    if sys.argv[1:2] == ["--serve"]:
        serve_here(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--list"]:
        list_here(Path(sys.argv[2]))
    else:
        main()
