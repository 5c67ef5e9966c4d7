"""HostClient: finds the job host of a folder, starts it if there is none, and speaks to it."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from skillpouch.execution.detached import start_detached
from skillpouch.jobs.host_socket import (
    LOG,
    PROTOCOL,
    connect,
    message_bytes,
    open_log,
    read_message,
)
from skillpouch.jobs.job import (
    FINAL,
    JobEnding,
    JobHostError,
    JobRow,
    JobState,
    JobStoreError,
    JobTimeoutError,
    JobUpdate,
    NewJob,
    queued_row,
)
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import error_from_json
from skillpouch.runtime.loop_thread import run_blocking, run_on_thread

if TYPE_CHECKING:
    from pathlib import Path

HOST = "skillpouch.servers.job_host"
_STARTING_SECONDS = 60.0
_POLL_SECONDS = 0.2  # for jobs that another process runs itself: it has no socket
_MOST_TRIES = 20
_ENDING_SECONDS = 5.0  # a process that exits waits no longer for the jobs that it ran itself
_NO_OUTPUT = 2**62  # an offset after everything


class _LostError(Exception):
    """The host closed the connection before it answered."""


class _Connection:
    """One connection, on the loop thread; replies find their requests by number."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0
        self.sent_setups: set[str] = set()
        self.is_open = True
        self._task = asyncio.ensure_future(self._listen())

    async def request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        self._last += 1
        number = self._last
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        try:
            if not self.is_open:
                raise _LostError
            self._writer.write(message_bytes({**message, "n": number}))
            with suppress(ConnectionError):  # then `_listen` ends, and the reply with it
                await self._writer.drain()
            return await reply
        finally:
            del self._waiting[number]

    async def _listen(self) -> None:
        try:
            while (message := await read_message(self._reader)) is not None:
                reply = self._waiting.get(message.get("n", 0))
                if reply is not None and not reply.done():
                    reply.set_result(message)
        finally:
            self.is_open = False
            self._writer.close()
            for reply in self._waiting.values():
                if not reply.done():
                    reply.set_exception(_LostError())


class HostClient:
    """The host of one folder, for this process. Its methods may be awaited on any loop."""

    def __init__(self, store: JobStore) -> None:
        if store.directory is None:
            raise JobStoreError(None, "there is no home directory", hint="set XDG_STATE_HOME")
        self.store = store
        self.directory = store.directory
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.answering: set[asyncio.Task[None]] = set()  # by the approvers of callers
        self.here: dict[str, asyncio.Task[JobState]] = {}  # jobs that this process runs itself
        self._started: dict[str, None] = {}  # jobs that the host was given last

    def run_here(self, job_id: str, running: Coroutine[Any, Any, JobState]) -> None:
        """Run a job on this loop, the loop thread, and know it until it has ended."""
        _clients.end_at_exit()
        task = self.here[job_id] = asyncio.ensure_future(running)
        task.add_done_callback(lambda _: self.here.pop(job_id, None))

    async def end_here(self) -> None:
        """End the jobs that this process runs itself: it exits."""
        tasks = list(self.here.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_ENDING_SECONDS)

    async def start(self, job: NewJob, secrets: Mapping[str, str]) -> JobRow:
        """Have the host keep a job; when this returns, it is on the disk."""
        return await run_on_thread(self._start(job, secrets))

    async def wait(self, job_id: str, timeout: float | None = None) -> JobEnding:
        """Wait until a job has ended; raise JobTimeoutError if it has not in time.

        Its result comes along, unless it is large, or the host that ran it is gone.
        """
        return await run_on_thread(self._wait(job_id, timeout))

    async def cancel(self, job_id: str) -> JobState:
        """Have a job ended, and return its state after that."""
        return await run_on_thread(self._cancel(job_id))

    async def look(self) -> None:
        """Have the host look at the store: a question was answered."""
        await run_on_thread(self._request({"op": "look"}))

    async def follow(self, job_id: str, offset: int) -> AsyncIterator[JobUpdate]:
        """Yield what a job writes and reports, until it has ended."""
        seen: dict[str, Any] = {"state": "", "offset": offset, "progress": None}
        while True:
            row = await run_on_thread(self._changed(job_id, seen))
            found = await asyncio.to_thread(self.store.output, job_id, seen["offset"])
            seen = {
                "state": row.state,
                "offset": found.next_offset,
                "progress": _told(row),
            }
            yield JobUpdate(
                state=row.state,
                output=found.data,
                next_offset=found.next_offset,
                progress=row.progress,
            )
            if found.is_final and not found.data:
                return

    async def changed(self, row: JobRow, *, seconds: float) -> None:
        """Wait until a job is no longer what it was, for so long at most."""
        seen = {"state": row.state, "offset": _NO_OUTPUT, "progress": _told(row)}
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await run_on_thread(self._changed(row.id, seen))

    async def _start(self, job: NewJob, secrets: Mapping[str, str]) -> JobRow:
        told = {name: getattr(job, name) for name in _TOLD}
        message = {"op": "start", "job": told, "secrets": dict(secrets)}
        reply = await self._request(message, setup=(job.setup_hash, job.setup))
        if "error" in reply:
            raise error_from_json(reply["error"])
        self._started[job.id] = None
        while len(self._started) > _MOST_STARTED:
            self._started.pop(next(iter(self._started)))
        return queued_row(job, reply["created_ns"])

    async def _wait(self, job_id: str, timeout: float | None) -> JobEnding:
        try:
            async with asyncio.timeout(timeout):
                return await self._until_final(job_id)
        except TimeoutError:
            row = await asyncio.to_thread(self.store.get, job_id)
            if row.state in FINAL:
                return JobEnding(state=row.state)
            raise JobTimeoutError(job_id, timeout or 0.0, row.state) from None

    async def _until_final(self, job_id: str) -> JobEnding:
        if job_id in self._started:  # the host knows it: no look into the store is needed
            del self._started[job_id]
            reply = await self._request({"op": "wait", "id": job_id})
            if reply.get("state") in FINAL:
                return _ending(reply)
        while True:
            row = await asyncio.to_thread(self.store.get, job_id)
            if row.state in FINAL:
                return JobEnding(state=row.state)
            if job_id in self.here:
                await asyncio.wait([self.here[job_id]])
            elif row.own:
                await asyncio.sleep(_POLL_SECONDS)
            else:
                reply = await self._request({"op": "wait", "id": job_id})
                if reply.get("state") in FINAL:
                    return _ending(reply)

    async def _cancel(self, job_id: str) -> JobState:
        row = await asyncio.to_thread(self.store.get, job_id)
        if row.state in FINAL:
            return row.state
        if job_id in self.here:
            self.here[job_id].cancel()
        elif row.own:
            await asyncio.to_thread(self.store.cancel, job_id)
        else:
            reply = await self._request({"op": "cancel", "id": job_id})
            if "error" in reply:
                raise error_from_json(reply["error"])
        return (await self._until_final(job_id)).state

    async def _changed(self, job_id: str, seen: Mapping[str, Any]) -> JobRow:
        while True:
            row = await asyncio.to_thread(self.store.get, job_id)
            found = await asyncio.to_thread(self.store.output, job_id, seen["offset"], most_bytes=1)
            if found.data or (row.state, _told(row)) != (seen["state"], seen["progress"]):
                return row
            if row.state in FINAL:
                return row
            if job_id in self.here:  # its output is looked at now and then, its end is heard
                await asyncio.wait([self.here[job_id]], timeout=_POLL_SECONDS)
            elif row.own:
                await asyncio.sleep(_POLL_SECONDS)
            else:
                await self._request({"op": "changed", "id": job_id, "seen": dict(seen)})

    async def _request(
        self, message: Mapping[str, Any], setup: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request to the host, again if it dies: each is harmless if it arrives twice."""
        for _ in range(_MOST_TRIES):
            sent = dict(message)
            try:
                connection = await self._connected()
                if setup is not None and setup[0] not in connection.sent_setups:
                    sent["setup"] = setup[1]
                reply = await connection.request(sent)
            except _LostError:
                continue
            if reply.get("code") == "unknown_setup" and setup is not None:
                connection.sent_setups.discard(setup[0])
                continue
            if setup is not None:
                connection.sent_setups.add(setup[0])
            return reply
        raise JobHostError(f"it ended {_MOST_TRIES} times without an answer", hint=self._log_hint)

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the loop thread was started anew
            self._loop, self._connection, self._connecting = loop, None, None
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(_look_at)
        # Whoever is cancelled leaves a connection for the next one, not half of one.
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _STARTING_SECONDS
        while (line := await asyncio.to_thread(connect, self.directory)) is None:
            if loop.time() > deadline:
                why = f"none listens after {_STARTING_SECONDS:g} s"
                raise JobHostError(why, hint=self._log_hint)
            # A host could not use a damaged file either: its caller is told why.
            await asyncio.to_thread(self.store.jobs, limit=1)
            await asyncio.to_thread(self._start_host)
        reader, writer = await asyncio.open_unix_connection(sock=line)
        connection = _Connection(reader, writer)
        hello = await connection.request({"op": "hello"})
        if hello.get("protocol") != PROTOCOL:
            writer.close()
            why = "another version of Skillpouch runs it"
            raise JobHostError(why, hint="end it, or wait until it is idle")
        self._connection = connection
        return connection

    def _start_host(self) -> None:
        log = open_log(self.directory)
        try:
            ready = start_detached(HOST, [str(self.directory)], log)
        except OSError as error:
            raise JobHostError(f"it cannot be started: {error}") from None
        finally:
            os.close(log)
        # Closed when it listens, when another host has the lock, or when it fails.
        try:
            os.read(ready, 1)
        finally:
            os.close(ready)

    @property
    def _log_hint(self) -> str:
        return f"see {self.directory / LOG}"


_MOST_STARTED = 1024


def _ending(reply: Mapping[str, Any]) -> JobEnding:
    return JobEnding(state=reply["state"], result=reply.get("result"), error=reply.get("failure"))


_TOLD = ("id", "tool", "setup_hash", "call", "session", "owner", "retries")


def _look_at(task: "asyncio.Task[_Connection]") -> None:
    # Without this, asyncio reports the error of a connection for which nobody waits any more.
    if not task.cancelled():
        task.exception()


def _told(row: JobRow) -> list[Any] | None:
    progress = row.progress
    return None if progress is None else [progress.done, progress.total, progress.message]


class _Clients:
    """The clients of this process; a forked child begins without any."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[Path | None, HostClient] = {}
        self.ends_at_exit = False

    def end_at_exit(self) -> None:
        """Have the jobs of this process ended before it exits, while there are threads."""
        if self.ends_at_exit:
            return
        self.ends_at_exit = True
        # Functions of `atexit` come too late: a job needs threads to keep its end and its changes,
        # and those of concurrent.futures are ended by the same list, in the reverse order.
        import concurrent.futures.thread  # noqa: F401 - it must be on the list before

        register = getattr(threading, "_register_atexit", None)
        if register is not None:
            with suppress(RuntimeError):  # the process exits already
                register(self._end)

    def _end(self) -> None:
        for client in list(self.known.values()):
            if client.here:
                run_blocking(client.end_here())

    def of(self, store: JobStore) -> HostClient:
        with self.lock:
            if store.directory not in self.known:
                self.known[store.directory] = HostClient(store)
            return self.known[store.directory]


_clients = _Clients()
os.register_at_fork(after_in_child=_clients.forget)
client_of = partial(_clients.of)
