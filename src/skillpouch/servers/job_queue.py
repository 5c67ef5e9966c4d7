"""JobQueue: takes jobs in order, within bounds, runs each once, and tells who waits for it."""

import asyncio
import logging
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from skillpouch.discovery.digest import snapshot_of
from skillpouch.environment import variable
from skillpouch.errors import PolicyFileError, SkillpouchError, UnknownToolError
from skillpouch.executor import ToolExecutor
from skillpouch.jobs.job import (
    FINAL,
    JobEnding,
    JobLostError,
    JobRow,
    JobState,
    JobStoreError,
    NewJob,
    as_job,
    running_job,
)
from skillpouch.jobs.job_run import (
    QUESTION_SECONDS,
    JobSecretsGoneError,
    JobSkillChangedError,
    ProgressRow,
    run_call,
)
from skillpouch.jobs.job_spec import JobCall, JobSetup, controls_of
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import error_to_json
from skillpouch.jobs.output_file import OutputWriter
from skillpouch.jobs.questions import KeptApprover
from skillpouch.manager import SkillManager
from skillpouch.policy.limit_rules import JobBounds
from skillpouch.policy.loading import read_job_bounds
from skillpouch.trust.errors import SecretUnsetError, SkillChangedError

_log = logging.getLogger(__name__)
_MOST_EXECUTORS = 32
_MOST_ENDINGS, _SMALL = 64, 256 * 1024  # results that whoever waits is sent with the state
_AGAIN_SECONDS = 1.0  # until a store that could not be written is tried again
Value = TypeVar("Value")
Secrets = Mapping[str, str]


class StoreThread:
    """Does what reads or writes the store on a thread of its own, and commits together what came.

    A commit waits for the disk: callers that come at once share one.
    """

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skillpouch-jobs")
        self._waiting: list[tuple[Callable[[], object], asyncio.Future[object]]] = []
        self._task: asyncio.Task[None] | None = None

    async def do(self, change: Callable[[], Value]) -> Value:
        """Return what a change of the store returns, when it is on the disk."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        self._waiting.append((change, done))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await done  # type: ignore[return-value]  # of this change

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(0)  # whoever is about to come shares the commit
            batch, self._waiting = self._waiting, []
            changes = [change for change, _ in batch]
            outcomes = await loop.run_in_executor(self._thread, self._commit, changes)
            for (_, done), outcome in zip(batch, outcomes, strict=True):
                if done.done():
                    continue  # nobody waits for it any more
                if isinstance(outcome, BaseException):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)

    def _commit(self, changes: list[Callable[[], object]]) -> list[object]:
        try:
            with self._store.together():
                return [_outcome(change) for change in changes]
        except SkillpouchError as error:  # none of them is on the disk
            return [error] * len(changes)

    def close(self) -> None:
        self._thread.shutdown()


def _outcome(change: Callable[[], object]) -> object:
    try:
        return change()
    except JobStoreError:
        raise
    except SkillpouchError as error:  # nothing was changed: the others are not affected
        return error


class _Rebuilt:
    """An executor that was made from a setup."""

    def __init__(self, executor: ToolExecutor, manager: SkillManager | None) -> None:
        self.executor = executor
        self._manager = manager
        self._seen: set[tuple[str, str]] = set()

    def knows(self, call: JobCall) -> bool:
        """Tell whether a call of exactly this skill was checked before."""
        return (call.place, call.digest) in self._seen

    def check(self, job_id: str, call: JobCall, *, was_asked: bool) -> None:
        """Refuse a skill that is not the one for which the job was started.

        If somebody `was_asked` about the job, other content is asked about again instead.
        """
        is_known = self.knows(call) and not was_asked
        if self._manager is not None and not is_known:
            self._manager.discover()  # it may be newer than what was read before
        try:
            tool = self.executor.source.get(call.tool)
        except UnknownToolError:
            raise JobSkillChangedError(job_id, call.tool) from None
        moved = self._manager is not None and not _is_same(tool.place, call.place)
        if tool.id != call.tool or moved:
            raise JobSkillChangedError(job_id, call.tool)
        if not was_asked and snapshot_of(tool.home).digest != call.digest:
            raise JobSkillChangedError(job_id, call.tool)
        self._seen.add((call.place, call.digest))


def _is_same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)


class JobQueue:
    """The jobs of this host: at most so many run at once, per user, session and tool."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._thread = StoreThread(store)
        self.do = self._thread.do
        self._process = 0
        self._bounds = JobBounds().of(os.cpu_count() or 1)
        self._running: dict[str, tuple[JobRow, asyncio.Task[None]]] = {}
        self._placed: dict[str, JobRow] = {}  # those that run, and do not wait for an answer
        self._returning: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._queued: set[str] = set()
        self._secrets: dict[str, Secrets] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._listeners: dict[str, asyncio.Future[None]] = {}
        self._wanted_end: set[str] = set()
        self._released: set[str] = set()
        self._filling: asyncio.Task[None] | None = None
        self._refill = False
        self._is_ending = False
        self._executors: OrderedDict[str, _Rebuilt] = OrderedDict()
        self._managers: OrderedDict[tuple[str, ...], SkillManager] = OrderedDict()
        self._approver: KeptApprover | None = None
        self._endings: OrderedDict[str, JobEnding] = OrderedDict()

    async def open(self) -> None:
        """Settle what an earlier host left, and begin."""
        self._bounds = await asyncio.to_thread(_bounds)
        self._process = await self.do(self._store.this_process)
        self._approver = KeptApprover(self._store, self._process, self)
        await self.do(partial(self._store.settle_hosts, self._process))
        await self.do(self._store.questions.expire)
        await self._approver.send_unsent()
        self._fill_soon()

    @property
    def idle_seconds(self) -> int:
        return self._bounds.idle_seconds

    @property
    def is_busy(self) -> bool:
        """Whether a job runs, or waits for an answer after it ran."""
        before = self._approver.before_run if self._approver else ()
        return any(job_id not in before for job_id in self._running)

    async def is_empty(self) -> bool:
        """Tell whether nothing is queued."""
        return not await self.do(partial(self._store.next_queued, 1))

    def has(self, job_id: str) -> bool:
        """Tell whether a job is queued or runs here, so that `changed` is told of its end."""
        return job_id in self._running or job_id in self._queued

    def changed(self, job_id: str) -> Awaitable[None]:
        """Return what is done when something about a job changes."""
        found = self._listeners.get(job_id)
        if found is None or found.done():
            found = self._listeners[job_id] = asyncio.get_running_loop().create_future()
        return asyncio.shield(found)

    def _tell(self, job_id: str) -> None:
        found = self._listeners.pop(job_id, None)
        if found is not None and not found.done():
            found.set_result(None)

    async def add(self, job: NewJob, secrets: Secrets) -> int:
        """Keep a job, and return when it was made; when this returns, it is on the disk."""
        self._secrets[job.id] = secrets
        most = self._bounds.queued
        # Added and, if there is a place, taken in one commit: `_fill` comes to the same batch.
        self._fill_soon()
        try:
            is_new, made = await self.do(lambda: self._store.add(job, most_queued=most))
        except SkillpouchError:
            self._secrets.pop(job.id, None)
            raise
        if is_new and job.id not in self._running:
            self._queued.add(job.id)
        self._fill_soon()
        return made

    async def cancel(self, job_id: str) -> JobState:
        """End a job; if it runs, it ends soon."""
        state = await self.do(lambda: self._store.cancel(job_id))
        if job_id in self._running:
            self._wanted_end.add(job_id)
            self._running[job_id][1].cancel()
        elif state in FINAL:
            self._queued.discard(job_id)
            self._secrets.pop(job_id, None)
            self._tell(job_id)
        return state

    async def look(self) -> None:
        """Look for answers, and for jobs that became queued without this process."""
        assert self._approver is not None
        try:
            await self._approver.look()
        except JobStoreError as error:
            _log.warning("the store cannot be read: %s", error)
        self._fill_soon()

    async def prune(self) -> None:
        """Remove results that are kept long enough, and read the bounds again."""
        self._bounds = await asyncio.to_thread(_bounds)
        keep = partial(
            self._store.prune,
            seconds=self._bounds.keep_days * 86_400.0,
            most_bytes=self._bounds.keep_megabytes * 1024 * 1024,
        )
        try:
            await self.do(keep)
            await self.do(partial(self._store.settle_dead))
        except JobStoreError as error:
            _log.warning("old results cannot be removed: %s", error)

    def _fill_soon(self) -> None:
        self._refill = True
        if self._filling is None or self._filling.done():
            self._filling = asyncio.ensure_future(self._fill())

    async def _fill(self) -> None:
        """Begin as many jobs as there are places."""
        while self._refill and not self._is_ending:
            self._refill = False
            self._let_return()
            free = (self._bounds.running or 1) - len(self._placed)
            if free <= 0:
                return
            try:
                taken = await self.do(partial(self._take, free, *self._counts()))
            except JobStoreError as error:
                _log.warning("no job can be begun: %s", error)
                asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._fill_soon)
                return
            for row, setup, call in taken:
                self._begin(row, setup, call)

    def _counts(self) -> tuple["Counter[str]", "Counter[str]"]:
        rows = self._placed.values()
        return Counter(row.session for row in rows if row.session), Counter(r.tool for r in rows)

    def _take(
        self, free: int, sessions: "Counter[str]", tools: "Counter[str]"
    ) -> list[tuple[JobRow, str, str]]:
        """Claim the next jobs that fit the bounds, in order; on the thread of the store."""
        taken: list[tuple[JobRow, str, str]] = []
        per_session, per_tool = self._bounds.per_session or 1, self._bounds.per_tool or 1
        while len(taken) < free:
            full = [name for name, count in sessions.items() if count >= per_session]
            full_tools = [name for name, count in tools.items() if count >= per_tool]
            rows = self._store.next_queued(1, sessions=full, tools=full_tools)
            if not rows:
                break
            row = rows[0]
            setup, call = self._store.call_of(row.id)
            if self._store.claim(row.id, self._process):
                taken.append((row, setup, call))
                tools[row.tool] += 1
                if row.session:
                    sessions[row.session] += 1
        return taken

    def _begin(self, row: JobRow, setup: str, call: str) -> None:
        self._placed[row.id] = row
        self._queued.discard(row.id)
        task = asyncio.ensure_future(self._run(row, setup, call))
        self._running[row.id] = row, task
        self._tell(row.id)

    async def _run(self, row: JobRow, setup: str, text: str) -> None:
        try:
            ending = await self._ending(row, setup, text)
            if row.id not in self._released:
                await self._finish(row, ending)
        finally:
            self._running.pop(row.id, None)
            self._placed.pop(row.id, None)
            self._secrets.pop(row.id, None)
            self._names.pop(row.id, None)
            self._wanted_end.discard(row.id)
            self._tell(row.id)
            self._fill_soon()

    async def _ending(self, row: JobRow, setup: str, text: str) -> JobEnding:
        try:
            call = JobCall.from_json(text)
            self._names[row.id] = call.names
            rebuilt = self._executors.get(setup)
            if rebuilt is None:
                rebuilt = await asyncio.to_thread(self._rebuilt, setup)
            ending = await self._called(row, rebuilt, call)
        except SkillpouchError as error:
            return JobEnding(state="failed", error=error_to_json(error))
        except asyncio.CancelledError:
            ending = JobEnding(state="cancelled")
        if ending.state == "cancelled" and row.id not in self._wanted_end:
            lost = JobLostError(row.id, row.tool, "the job host was ended")
            return JobEnding(state="lost", error=error_to_json(lost))
        return ending

    async def _called(self, row: JobRow, rebuilt: _Rebuilt, call: JobCall) -> JobEnding:
        """Make a call; again, before it ran, if its skill changed while somebody was asked."""
        assert self._approver is not None
        was_asked = row.attempts > 0 and await self._approver.was_asked(row.id)
        while True:
            if rebuilt.knows(call) and not was_asked:
                rebuilt.check(row.id, call, was_asked=False)  # takes microseconds: it was read
            else:
                await asyncio.to_thread(rebuilt.check, row.id, call, was_asked=was_asked)
            output = OutputWriter(self._store.output_path(row.id))
            with as_job(row.id):
                progress, tell = ProgressRow(self._store, row.id), partial(self._tell, row.id)
                ending = await run_call(rebuilt.executor, call, output, progress, tell)
            is_changed = ending.code == SkillChangedError.code
            was_asked = is_changed and await self._approver.outdate(row.id)
            if not was_asked:
                break
        if ending.code == SecretUnsetError.code and row.id not in self._secrets and call.names:
            raise JobSecretsGoneError(row.id, row.tool, call.names)
        return ending

    async def _finish(self, row: JobRow, ending: JobEnding) -> None:
        """Write how a job ended; on a full disk, again and again: its result must not be lost."""
        finish = partial(
            self._store.finish,
            row.id,
            self._process,
            ending.state,
            result=ending.result,
            error=ending.error,
        )
        while True:
            try:
                await asyncio.shield(asyncio.ensure_future(self.do(finish)))
            except JobStoreError as error:
                _log.warning("the end of job %s cannot be written: %s", row.id, error)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                break
        if len(ending.result or "") < _SMALL and not ending.error:
            self._endings[row.id] = ending
            while len(self._endings) > _MOST_ENDINGS:
                self._endings.popitem(last=False)

    def ending_of(self, job_id: str) -> JobEnding | None:
        """Return how a job ended that ended lately, and whose result is small."""
        return self._endings.pop(job_id, None)

    def _rebuilt(self, setup: str) -> _Rebuilt:
        """Return the executor of a setup, made at its first job."""
        facts = JobSetup.from_json(setup)
        assert self._approver is not None
        controls = controls_of(
            facts.controls,
            approver=self._approver,
            secrets=partial(self._secret, from_environment=facts.controls["environment"]),
            answer_seconds=QUESTION_SECONDS,
        )
        manager = None
        if facts.files is not None:
            executor = ToolExecutor(controls=controls)
            executor.skills.use_files(facts.skill, facts.files)
        else:
            manager = self._manager(facts.roots)
            executor = ToolExecutor(manager.source, controls=controls)
        made = self._executors[setup] = _Rebuilt(executor, manager)
        while len(self._executors) > _MOST_EXECUTORS:
            self._executors.popitem(last=False)
        return made

    def _manager(self, roots: tuple[str, ...]) -> SkillManager:
        found = self._managers.get(roots)
        if found is None:
            found = self._managers[roots] = SkillManager(*roots)
            while len(self._managers) > _MOST_EXECUTORS:
                self._managers.popitem(last=False)
        return found

    def _secret(self, _: str | None, name: str, *, from_environment: bool) -> str | None:
        """Return a secret: what the caller sent, else that of this process if the caller's was."""
        job_id = running_job.get()
        sent = self._secrets.get(job_id)
        if sent is not None and name in self._names.get(job_id, ()):
            return sent.get(name)
        return variable(name) if from_environment else None

    def leave(self, job_id: str) -> None:
        """Give the place of a job that waits for an answer to another one."""
        self._placed.pop(job_id, None)
        self._tell(job_id)
        self._fill_soon()

    def come_back(self, job_id: str) -> Awaitable[None]:
        """Return what is done when a job that waited has a place again."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._returning.append((job_id, place))
        self._fill_soon()
        return place

    def _let_return(self) -> None:
        while self._returning and len(self._placed) < (self._bounds.running or 1):
            job_id, place = self._returning.popleft()
            if not place.done() and job_id in self._running:
                self._placed[job_id] = self._running[job_id][0]
                place.set_result(None)

    async def close(self) -> None:
        """End: what waits for an answer before it ran goes on waiting, what runs is lost."""
        self._is_ending = True
        waits = set(self._approver.before_run) if self._approver else set()
        released = await self.do(
            lambda: [each for each in waits if self._store.release(each, self._process)]
        )
        self._released.update(released)
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._approver is not None:
            await self._approver.aclose()
        self._thread.close()


def _bounds() -> JobBounds:
    try:
        found = read_job_bounds()
    except PolicyFileError as error:  # no call runs with such a policy either
        _log.warning("the usual bounds of jobs hold: %s", error)
        found = JobBounds()
    return found.of(os.cpu_count() or 1)
