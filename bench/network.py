"""What granted hosts cost: a call with and without them, and a request through the proxy.

python bench/network.py [rounds]

Interleaved in one run; minima and medians. The direct requests are made by a Python that is not
confined, to the same server of this machine.
"""

import asyncio
import http.server
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine

PYTHON = "/usr/bin/python3"
ENV = {"PATH": "/usr/bin:/bin"}
LARGE = 64 << 20
REQUESTS = """
import json, sys, time, urllib.request
urls, count, times = sys.argv[1:-1], int(sys.argv[-1]), []
for url in urls:
    for _ in range(count):
        start = time.perf_counter()
        answer = urllib.request.urlopen(url)
        while answer.read(1 << 20): pass
        times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        size = LARGE if self.path == "/large" else 2
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        piece = bytes(min(size, 1 << 20))
        for _ in range(size // len(piece)):
            self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


async def time_call(engine: Engine, confinement: Confinement) -> float:
    command = Command(argv=("/bin/true",), env=ENV, cwd=confinement.workspace)
    start = time.perf_counter()
    ended = await engine.run(command, confinement)
    assert ended.outcome == "ok", ended
    return time.perf_counter() - start


async def requests(engine: Engine, confinement: Confinement, *words: str) -> list[float]:
    argv = (PYTHON, "-c", REQUESTS, *words)
    ended = await engine.run(Command(argv=argv, env=ENV, cwd=confinement.workspace), confinement)
    times: list[float] = json.loads(ended.stdout.text)
    return times


async def direct(*words: str) -> list[float]:
    argv = [PYTHON, "-c", REQUESTS, *words]
    ran = await asyncio.to_thread(subprocess.run, argv, env=ENV, capture_output=True, check=True)
    times: list[float] = json.loads(ran.stdout)
    return times


def show(name: str, times: list[float], against: list[float] | None = None) -> None:
    low, middle = min(times) * 1e3, statistics.median(times) * 1e3
    line = f"{name:<34} min {low:8.2f} ms   median {middle:8.2f} ms"
    if against:
        line += f"   x {low / min(against) / 1e3:.2f}"
        line += f" / {middle / statistics.median(against) / 1e3:.2f}"
    print(line)


async def race(folder: Path, port: int, rounds: int) -> None:
    closed = Confinement(workspace=folder)
    granted = Confinement(workspace=folder, network="hosts", hosts=(f"127.0.0.1:{port}",))
    small, large = f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/large"
    times: dict[str, list[float]] = {
        name: [] for name in ("without", "with", "direct", "proxied", "direct, 64 MB", "64 MB")
    }
    async with Engine() as engine:
        for confinement in (closed, granted):
            await time_call(engine, confinement)
        for _ in range(rounds):
            times["without"].append(await time_call(engine, closed))
            times["with"].append(await time_call(engine, granted))
        for _ in range(max(1, rounds // 20)):
            times["direct"] += (await direct(small, "20"))[1:]
            times["proxied"] += (await requests(engine, granted, small, "20"))[1:]
            times["direct, 64 MB"] += await direct(large, "1")
            times["64 MB"] += await requests(engine, granted, large, "1")
    show("call, no network", times["without"])
    show("call, with hosts", times["with"], times["without"])
    show("request, direct", times["direct"])
    show("request, through the proxy", times["proxied"], times["direct"])
    show("64 MB, direct", times["direct, 64 MB"])
    show("64 MB, through the proxy", times["64 MB"], times["direct, 64 MB"])


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        serve()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    # A process of its own: in ours it would wait for the proxy, and the proxy for it.
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
            asyncio.run(race(Path(folder), port, rounds))
    finally:
        server.kill()
        server.wait()


def serve() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
