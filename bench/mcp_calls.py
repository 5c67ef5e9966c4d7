"""MCP calls: a function against FastMCP serving the same one, and what MCP adds to a handler.

FastMCP lives in build/fastmcp, an environment of its own: `make bench` makes it. With `--load`,
also 2,000 calls, 64 at a time, over each transport and both protocols, and memory over 10,000.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from skillpouch import SkillManager, tool
from skillpouch.servers.mcp import McpServer

HERE = Path(__file__).parent
PEER = HERE.parent / "build/fastmcp/bin/python"
ROUNDS, CALLS = 15, 40
SKILL = "---\nname: demo\ndescription: A handler.\n---\n"
HANDLER = 'def handler(args):\n    """Say it again."""\n    return {"said": args.get("text")}\n'


def client_of(python: str, *words: str, mode: str = "auto") -> Client:
    program = StdioServerParameters(command=python, args=list(words), env=dict(os.environ))
    return Client(stdio_client(program), mode=mode)


async def times(client: Client, name: str, arguments: dict[str, object]) -> list[float]:
    taken = []
    for _ in range(CALLS):
        started = time.perf_counter()
        result = await client.call_tool(name, arguments)
        taken.append(time.perf_counter() - started)
        assert not result.is_error, result
    return taken


async def library(manager: SkillManager) -> list[float]:
    taken = []
    for _ in range(CALLS):
        started = time.perf_counter()
        await manager.acall("demo.echo", {"text": "hi"})
        taken.append(time.perf_counter() - started)
    return taken


async def compare(skills: Path, workspace: Path) -> None:
    manager = SkillManager(skills, workspace=workspace)
    found: dict[str, list[float]] = {name: [] for name in ("peer", "noop", "ours", "mcp", "lib")}
    async with (
        client_of(str(PEER), str(HERE / "mcp/peer.py")) as peer,
        client_of(sys.executable, str(HERE / "mcp/ours.py"), str(skills), str(workspace)) as ours,
    ):
        for client in (peer, ours):
            await client.list_tools()
            await times(client, "add", {"a": 1, "b": 2})
        await times(ours, "demo__echo", {"text": "hi"})
        await library(manager)
        for _ in range(ROUNDS):
            found["peer"] += await times(peer, "add", {"a": 1, "b": 2})
            found["ours"] += await times(ours, "add", {"a": 1, "b": 2})
            found["noop"] += await times(peer, "nothing", {})
            found["lib"] += await library(manager)
            found["mcp"] += await times(ours, "demo__echo", {"text": "hi"})
    middle = {name: statistics.median(values) * 1000 for name, values in found.items()}
    print(
        f"function over stdio: Skillpouch {middle['ours']:.2f} ms, FastMCP {middle['peer']:.2f} ms"
    )
    print(f"  ratio {middle['ours'] / middle['peer']:.2f} (at most 1)")
    added = middle["mcp"] - middle["lib"]
    print(f"confined handler: library {middle['lib']:.2f} ms, over MCP {middle['mcp']:.2f} ms")
    print(
        f"  MCP adds {added:.2f} ms, {added / middle['noop']:.2f} x FastMCP's no-op (at most 1.2)"
    )


async def load(skills: Path, workspace: Path) -> None:
    from tests.servers.mcp.serving import listening

    for mode in ("legacy", "auto"):
        words = (str(HERE / "mcp/ours.py"), str(skills), str(workspace))
        async with client_of(sys.executable, *words, mode=mode) as client:
            await burst(f"stdio {mode}", client)
        manager = SkillManager(skills, workspace=workspace)
        async with listening(McpServer(manager)) as url, Client(url, mode=mode) as client:
            await burst(f"http {mode}", client)


async def burst(what: str, client: Client, calls: int = 2_000, at_once: int = 64) -> None:
    places = asyncio.Semaphore(at_once)

    async def call(number: int) -> bool:
        async with places:
            result = await client.call_tool("demo__echo", {"text": str(number)})
            return result.structured_content == {"said": str(number)}

    started = time.perf_counter()
    right = sum(await asyncio.gather(*map(call, range(calls))))
    seconds = time.perf_counter() - started
    print(f"{what}: {right} of {calls} right, {calls / seconds:.0f} calls a second")


async def memory(skills: Path, workspace: Path) -> None:
    from tests.servers.mcp.serving import listening

    @tool
    async def nothing() -> str:
        """Do nothing."""
        return ""

    manager = SkillManager(skills, workspace=workspace)
    async with listening(McpServer(manager, tools=[nothing])) as url, Client(url) as client:
        sizes = []
        for _ in range(11):
            for _ in range(1_000):
                await client.call_tool("nothing", {})
            sizes.append(resident_mib())
    print(f"memory after each 1,000 calls, MiB: {', '.join(f'{size:.1f}' for size in sizes)}")


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        skills, workspace = Path(folder) / "skills", Path(folder) / "workspace"
        (skills / "demo/scripts").mkdir(parents=True)
        workspace.mkdir()
        (skills / "demo/SKILL.md").write_text(SKILL)
        (skills / "demo/scripts/echo.py").write_text(HANDLER)
        asyncio.run(compare(skills, workspace))
        if "--load" in sys.argv:
            sys.path.insert(0, str(HERE.parent))
            asyncio.run(load(skills, workspace))
            asyncio.run(memory(skills, workspace))


if __name__ == "__main__":
    main()
