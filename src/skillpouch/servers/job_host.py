"""The job host: the process that runs the jobs of one user, and ends when there are none.

`python -m skillpouch.servers.job_host READY DIRECTORY` is how `skillpouch.jobs.host_client` starts
it: READY is a pipe that it closes as soon as it listens, or when another host is there already.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from skillpouch.execution.detached import detach

if __name__ == "__main__":
    detach()  # before anything large is loaded

from skillpouch.errors import SkillpouchError
from skillpouch.jobs.host_socket import (
    PROTOCOL,
    check_peer,
    listen,
    lock,
    message_bytes,
    open_folder,
    read_message,
)
from skillpouch.jobs.job import FINAL, JobHostError, NewJob
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import error_to_json
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.servers.job_queue import JobQueue

_log = logging.getLogger(__name__)
_MOST_SETUPS = 256
_TICK_SECONDS = 1.0
_PRUNE_TICKS = 600

Reply = dict[str, Any]
Message = dict[str, Any]
Value = TypeVar("Value")


class JobHost:
    """Listens for callers, and hands their jobs to a queue."""

    def __init__(self, directory: Path, folder: int) -> None:
        self._directory = directory
        self._folder = folder
        self._store = JobStore(directory)
        self._queue = JobQueue(self._store)
        self._setups: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_since = 0.0

    async def serve(self, ready: Callable[[], None]) -> None:
        """Serve until there has been nothing to do for a while, or until this is cancelled."""
        try:
            await self._queue.open()
            server = await self._listen()
            ready()
            self._touch()
            while not await self._is_over(server):
                if not server.is_serving():
                    server = await self._listen()
            server.close()
        finally:
            await self._queue.close()
            for task in self._tasks:
                task.cancel()
            self._store.close()

    async def _listen(self) -> asyncio.Server:
        line = listen(self._folder, self._directory)
        return await asyncio.start_unix_server(self._accept, sock=line)

    async def _is_over(self, server: asyncio.Server) -> bool:
        """Wait a moment; tell whether this process may end, and stop listening first."""
        for tick in range(_PRUNE_TICKS):
            if not tick:
                await self._queue.prune()
            await asyncio.sleep(_TICK_SECONDS)
            await self._queue.look()
            quiet = asyncio.get_running_loop().time() - self._idle_since
            if self._queue.is_busy or self._tasks or quiet < self._queue.idle_seconds:
                continue
            # Whoever connects from now on starts another host; whoever was heard left a row.
            server.close()
            if not self._tasks and await self._queue.is_empty():
                return True
            self._touch()
            return False
        return False

    def _touch(self) -> None:
        self._idle_since = asyncio.get_running_loop().time()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks: set[asyncio.Task[None]] = set()
        try:
            check_peer(writer.get_extra_info("socket"), self._directory)
            while (message := await read_message(reader)) is not None:
                task = asyncio.ensure_future(self._reply(message, writer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except JobHostError as error:
            _log.warning("a connection was refused: %s", error)
        finally:
            for task in tasks:
                task.cancel()
            writer.close()

    async def _reply(self, message: Message, writer: asyncio.StreamWriter) -> None:
        self._touch()
        answer = _ANSWERS.get(str(message.get("op")))
        current = asyncio.current_task()
        assert current is not None
        self._tasks.add(current)  # also of whoever waits: without this host it would start another
        try:
            reply = {} if answer is None else await answer(self, message)
        except SkillpouchError as error:
            reply = {"error": error_to_json(error), "code": error.code}
        finally:
            self._tasks.discard(current)
            self._touch()
        with suppress(ConnectionError, RuntimeError):
            writer.write(message_bytes({**reply, "n": message.get("n")}))
            await writer.drain()

    async def _hello(self, _: Message) -> Reply:
        return {"protocol": PROTOCOL, "pid": os.getpid()}

    async def _start(self, message: Message) -> Reply:
        facts = dict(message["job"])
        name = facts["setup_hash"]
        setup = message.get("setup") or self._setups.get(name)
        if setup is None:
            return {"code": "unknown_setup"}
        if len(self._setups) >= _MOST_SETUPS:
            self._setups.clear()
        self._setups[name] = setup
        job = NewJob(**facts, setup=setup)
        return {"created_ns": await self._queue.add(job, message.get("secrets") or {})}

    async def _wait(self, message: Message) -> Reply:
        job_id = str(message["id"])
        while True:
            changed = self._queue.changed(job_id)
            if not self._queue.has(job_id):
                ending = self._queue.ending_of(job_id)
                if ending is not None:
                    told = {"state": ending.state, "result": ending.result}
                    return {**told, "failure": ending.error}
                row = await self._queue.do(lambda: self._store.get(job_id))
                if row.state in FINAL:
                    return {"state": row.state}
            await changed

    async def _changed(self, message: Message) -> Reply:
        job_id, seen = str(message["id"]), message["seen"]
        changed = self._queue.changed(job_id)
        row = await self._queue.do(lambda: self._store.get(job_id))
        found = await self._queue.do(
            lambda: self._store.output(job_id, seen["offset"], most_bytes=1)
        )
        told = row.progress and [row.progress.done, row.progress.total, row.progress.message]
        if row.state == seen["state"] and told == seen["progress"] and not found.data:
            await changed
        return {}

    async def _cancel(self, message: Message) -> Reply:
        return {"state": await self._queue.cancel(str(message["id"]))}

    async def _look(self, _: Message) -> Reply:
        await self._queue.look()
        return {}


_Answer = Callable[[JobHost, Message], Coroutine[Any, Any, Reply]]
_ANSWERS: dict[str, _Answer] = {
    "hello": JobHost._hello,  # noqa: SLF001 - of this file
    "start": JobHost._start,  # noqa: SLF001
    "wait": JobHost._wait,  # noqa: SLF001
    "changed": JobHost._changed,  # noqa: SLF001
    "cancel": JobHost._cancel,  # noqa: SLF001
    "look": JobHost._look,  # noqa: SLF001
}


def main(words: list[str]) -> None:
    """Serve the jobs in a folder, unless another host does."""
    ready, directory = int(words[0]), Path(words[1])
    folder = open_folder(directory)
    held = lock(folder)
    if held is None:
        return
    os.ftruncate(held, 0)
    os.write(held, f"{os.getpid()}\n".encode())
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for a caller
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    run_blocking(JobHost(directory, folder).serve(lambda: os.close(ready)))


if __name__ == "__main__":
    main(sys.argv[1:])
