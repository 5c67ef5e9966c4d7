"""What the journal costs a call: two records, committed, by one caller and by many at once.

Compared with handing both records to one thread that commits for all who wait.
"""

import argparse
import asyncio
import queue
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from skillpouch.journal.journal import Journal
from skillpouch.journal.records import INSERT_START, UPDATE, CallEnd, Started, end_row, start_row
from skillpouch.journal.store import open_store

STARTED = Started(
    tool="text-tools.slugify",
    skill="text-tools",
    digest="0" * 64,
    session="session-1",
    arguments={"text": "Hello World", "separator": "-", "limit": 40},
    approved_by="default",
)
FINISHED = CallEnd(
    outcome="ok",
    content="hello-world " * 20,
    exit_code=0,
    output_bytes=240,
    duration_ms=2.5,
    protections={"fs": "romount+landlock4", "net": "netns+seccomp", "tree": "pidns"},
)
CALLERS = 64


class WriterThread:
    """The other way: one thread takes what has gathered and commits it together."""

    def __init__(self, directory: Path) -> None:
        self._connection = open_store(directory)
        self._waiting: queue.SimpleQueue[tuple[str, tuple[object, ...], list[int], threading.Lock]]
        self._waiting = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def call(self) -> None:
        start = start_row(STARTED)
        number = self._write(INSERT_START, (1, *start))
        self._write(UPDATE, (*end_row(FINISHED), number, start[0]))

    def _write(self, query: str, row: tuple[object, ...]) -> int:
        done = threading.Lock()
        done.acquire()
        answer: list[int] = []
        self._waiting.put((query, row, answer, done))
        done.acquire()
        return answer[0]

    def _serve(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            self._commit(self._connection, batch)

    def _commit(self, connection: sqlite3.Connection, batch: list) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for query, row, answer, _ in batch:
            answer.append(connection.execute(query, row).lastrowid or 0)
        connection.execute("COMMIT")
        for *_, done in batch:
            done.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        journal = Journal(Path(folder) / "direct", required=True)
        writer = WriterThread(Path(folder) / "thread")

        def direct() -> None:
            journal.ended(journal.started(STARTED), FINISHED)

        one_caller("direct", direct, calls)
        one_caller("writer thread", writer.call, calls // 4)
        many_callers("direct", direct, calls)
        many_callers("writer thread", writer.call, calls)
        many_tasks("direct", direct, calls)
        journal.close()


def one_caller(name: str, call: Callable[[], None], calls: int) -> None:
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e6)
    cuts = statistics.quantiles(times, n=1000)
    figures = f"p50 {cuts[499]:7.1f}   p99 {cuts[989]:7.1f}   p99.9 {cuts[998]:8.1f} µs"
    print(f"{name + ', one caller':<32} {figures} for both records")


def many_callers(name: str, call: Callable[[], None], calls: int) -> None:
    each = calls // CALLERS

    def work() -> None:
        for _ in range(each):
            call()

    threads = [threading.Thread(target=work) for _ in range(CALLERS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(name, "threads", each * CALLERS, time.perf_counter() - started)


def many_tasks(name: str, call: Callable[[], None], calls: int) -> None:
    each = calls // CALLERS

    async def work() -> None:
        for _ in range(each):
            call()
            await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(*(work() for _ in range(CALLERS)))

    started = time.perf_counter()
    asyncio.run(all_of_them())
    report(name, "tasks", each * CALLERS, time.perf_counter() - started)


def report(name: str, kind: str, calls: int, seconds: float) -> None:
    print(f"{f'{name}, {CALLERS} {kind}':<32} {calls / seconds:8,.0f} calls/s")


if __name__ == "__main__":
    main()
