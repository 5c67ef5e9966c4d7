"""What an http tool costs: manager.call against a bare httpx2 request, kept-alive connections.

Interleaved in one run against one local server; the minimum and the median are compared.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from skillpouch import SkillManager
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants

WARMING = 20
ARGUMENTS = {"city": "Paris", "days": 3}

SERVER = """
import asyncio
BODY = b'{"city": "Paris", "temperature": 21, "wind": [1, 2, 3]}'
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"
REPLY = HEAD % len(BODY) + BODY
class Talk(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        while b"\\r\\n\\r\\n" in self.data:
            _, _, self.data = self.data.partition(b"\\r\\n\\r\\n")
            self.transport.write(REPLY)
async def main():
    server = await asyncio.get_running_loop().create_server(Talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
SKILL = """---
name: weather
description: Weather.
tools:
  - name: ask
    description: Ask.
    backend: {{type: http, method: GET, url: "http://127.0.0.1:{port}/v1/${{city}}"}}
    parameters: {{type: object, properties: {{city: {{type: string}}, days: {{type: integer}}}}}}
---
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder, serve() as port:
        race(Path(folder), port, options.rounds)


def race(folder: Path, port: int, rounds: int) -> None:
    os.environ["XDG_STATE_HOME"] = str(folder / "state")  # grants and journal of nobody else
    home, workspace = folder / "skills/weather", folder / "work"
    home.mkdir(parents=True)
    workspace.mkdir()
    (home / "SKILL.md").write_text(SKILL.format(port=port))
    manager = SkillManager(folder / "skills", workspace=workspace)
    host = Need(kind="host", value=f"127.0.0.1:{port}")
    Grants().grant(manager.get_skill("weather"), [host], by="bench")
    url = f"http://127.0.0.1:{port}/v1/Paris"
    asyncio.run(awaited(manager, url, rounds)).show()
    blocking(manager, url, rounds).show()


class Watch:
    """Wall and processor time of the rounds of each contender, the first being the bare one."""

    def __init__(self) -> None:
        self._taken: dict[str, list[tuple[float, float]]] = {}
        self._last = (0.0, 0.0)

    def start(self) -> None:
        self._last = (time.perf_counter(), time.process_time())

    def lap(self, name: str) -> None:
        now = (time.perf_counter(), time.process_time())
        self._taken.setdefault(name, []).append((now[0] - self._last[0], now[1] - self._last[1]))
        self._last = now

    def show(self) -> None:
        bare: tuple[float, float, float] | None = None
        for name, taken in self._taken.items():
            # The first rounds import, connect and fill caches.
            wall, cpu = ([each[kind] * 1e3 for each in taken[WARMING:]] for kind in (0, 1))
            found = (min(wall), statistics.median(wall), statistics.median(cpu))
            bare = bare or found
            told = (
                f"{one:6.2f} ms x {one / other:.2f}" for one, other in zip(found, bare, strict=True)
            )
            print(f"{name:<17}", *map(" ".join, zip(("min", "median", "cpu"), told, strict=True)))


async def awaited(manager: SkillManager, url: str, rounds: int) -> Watch:
    watch = Watch()
    async with httpx2.AsyncClient(trust_env=False) as client:
        for _ in range(rounds + WARMING):
            watch.start()
            (await client.get(url, params={"days": 3})).json()
            watch.lap("httpx2, await")
            await manager.acall("weather.ask", ARGUMENTS)
            watch.lap("acall")
    return watch


def blocking(manager: SkillManager, url: str, rounds: int) -> Watch:
    watch = Watch()
    with httpx2.Client(trust_env=False) as client:
        for _ in range(rounds + WARMING):
            watch.start()
            client.get(url, params={"days": 3}).json()
            watch.lap("httpx2, blocking")
            manager.call("weather.ask", ARGUMENTS)
            watch.lap("call")
    return watch


@contextmanager
def serve() -> Iterator[int]:
    """Start a server in a process of its own, so that it takes no time of this one."""
    child = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        yield int(child.stdout.readline())
    finally:
        child.kill()
        child.communicate()


if __name__ == "__main__":
    main()
