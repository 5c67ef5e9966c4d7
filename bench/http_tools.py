"""What an http tool costs: manager.call against a bare httpx2 request, kept-alive connections.

Interleaved in one run against one local server; the minimum and the median are compared.
"""

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from pathlib import Path

import httpx2

from kitbag import Policy, SkillManager
from kitbag.policy import Rule

BODY = b'{"city": "Paris", "temperature": 21, "wind": [1, 2, 3]}'
REPLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
) + BODY
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


LOCAL = Policy(rules=[Rule(verdict="allow", needs=["host"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kitbag-bench-") as folder:
        race(Path(folder), options.rounds)


def race(folder: Path, rounds: int) -> None:
    port = serve()
    home, workspace = folder / "skills/weather", folder / "work"
    home.mkdir(parents=True)
    workspace.mkdir()
    (home / "SKILL.md").write_text(SKILL.format(port=port))
    manager = SkillManager(folder / "skills", workspace=workspace, policy=LOCAL)
    times = asyncio.run(rounds_of(manager, f"http://127.0.0.1:{port}/v1/Paris", rounds))
    bare = times["httpx2, await"]
    for name, taken in times.items():
        low, middle = min(taken), statistics.median(taken)
        line = f"{name:<20} min {low:6.2f} ms   median {middle:6.2f} ms"
        print(f"{line}   x {low / min(bare):.2f} / {middle / statistics.median(bare):.2f}")


async def rounds_of(manager: SkillManager, url: str, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"httpx2, await": [], "acall": [], "call": []}
    arguments = {"city": "Paris", "days": 3}
    async with httpx2.AsyncClient(trust_env=False) as client:

        async def bare() -> object:
            return (await client.get(url, params={"days": 3})).json()

        contenders = {
            "httpx2, await": bare,
            "acall": lambda: manager.acall("weather.ask", arguments),
            # What `call` does, without blocking the loop that this is running on.
            "call": lambda: asyncio.to_thread(manager.call, "weather.ask", arguments),
        }
        for number in range(rounds + 20):
            for name, run in contenders.items():
                started = time.perf_counter()
                await run()
                if number >= 20:  # the first rounds import, connect and fill caches
                    times[name].append((time.perf_counter() - started) * 1e3)
    return times


def serve() -> int:
    """Start a server on a thread of its own, and return its port."""
    ready = threading.Event()
    port: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(REPLY)
        except asyncio.IncompleteReadError:
            writer.close()

    async def listen() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port.append(server.sockets[0].getsockname()[1])
        ready.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(listen()), daemon=True).start()
    ready.wait()
    return port[0]


if __name__ == "__main__":
    main()
