"""JobRunner: starts jobs of one executor, in the job host or, where that cannot be, here."""

import asyncio
import hmac
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from skillpouch.calls import ToolCall, called_by, owner_here
from skillpouch.controls import Controls
from skillpouch.discovery.text_skills.active import ActiveSkills
from skillpouch.discovery.text_skills.folders import is_text_home
from skillpouch.environment import state_directory
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.host_client import client_of
from skillpouch.jobs.host_socket import open_folder
from skillpouch.jobs.job import (
    Job,
    JobHostError,
    JobRow,
    NewJob,
    NoSuchJobError,
    NotIdempotentError,
    new_job_id,
)
from skillpouch.jobs.job_run import AdoptableCall, Executing, run_here
from skillpouch.jobs.job_spec import (
    JobCall,
    JobSetup,
    StaysHereError,
    controls_document,
    hash_of,
    where_it_is,
    why_here,
)
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.questions import KeptApprover, ThisProcess, begin_answering
from skillpouch.policy.approval import approver_here, is_asked_here
from skillpouch.policy.authorize import Authorizer
from skillpouch.policy.limit_rules import limits_of
from skillpouch.registry.registry import ToolOverlay
from skillpouch.results import Stopwatch
from skillpouch.runtime.loop_thread import run_on_thread
from skillpouch.secrets.sources import environment_secrets
from skillpouch.tools import Tool

_log = logging.getLogger(__name__)
MakeCall = Callable[..., ToolCall]


class _Executor(Executing, Protocol):
    skills: ActiveSkills

    @property
    def source(self) -> ToolOverlay: ...


class InForce(Protocol):
    """What an executor decides by: made at its first call."""

    @property
    def authorizer(self) -> Authorizer: ...
    @property
    def policy_document(self) -> Mapping[str, Any] | None: ...


@lru_cache(maxsize=8)
def _store_in(directory: Path | None) -> JobStore:
    return JobStore(directory)


def user_jobs() -> JobStore:
    """Return the jobs of this user: one store for the process."""
    state = state_directory()
    return _store_in(state and state / "jobs")


_KEY_FILE, _KEY_BYTES = "ids.key", 32


@lru_cache(maxsize=8)
def _secret_of(directory: Path) -> bytes:
    """Return what ids are made with that can be made again: nobody else can guess them."""
    folder = open_folder(directory)
    try:
        with suppress(FileNotFoundError):
            return _read_key(folder)
        mine = f"{_KEY_FILE}.{token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(mine, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first: its key counts
            os.link(mine, _KEY_FILE, src_dir_fd=folder, dst_dir_fd=folder)
        os.unlink(mine, dir_fd=folder)
        return _read_key(folder)
    except OSError as error:
        raise JobHostError(f"{directory}/{_KEY_FILE}: {error.strerror or error}") from None
    finally:
        os.close(folder)


def _read_key(folder: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(_KEY_FILE, flags, dir_fd=folder), "rb") as file:
        return file.read(_KEY_BYTES)


_callers: WeakKeyDictionary["InForce", str] = WeakKeyDictionary()


def _caller_of(in_force: "InForce") -> str:
    """Return a name for an executor: without sessions, an approval may last for its jobs."""
    return _callers.setdefault(in_force, token_hex(8))


class JobRunner:
    """Starts calls of one executor as jobs, and finds them again."""

    def __init__(
        self, executor: _Executor, controls: Controls, in_force: InForce, make_call: MakeCall
    ) -> None:
        self._executor = executor
        self._controls = controls
        self._in_force = in_force
        self._make_call = make_call

    @cached_property
    def store(self) -> JobStore:
        """The jobs of this user; most calls need none."""
        return user_jobs()

    @property
    def has_approver(self) -> bool:
        """Whether somebody is asked about calls that the policy does not decide."""
        return is_asked_here() or self._controls.approver is not None

    def stays_here(self, tool: Tool) -> bool:
        """Tell whether no other process can run a tool: its jobs end with this one."""
        return bool(why_here(tool, self._executor.source))

    @property
    def session(self) -> str:
        """The session that calls belong to, "" without one."""
        return self._controls.session or ""

    def time_limit(self, tool: Tool, arguments: Any, timeout: float | None = None) -> float:
        """Return how long a call may take at most, in seconds, with what its skill was granted."""
        said = arguments if isinstance(arguments, Mapping) else {}
        authorizer = self._in_force.authorizer
        found = limits_of(tool, self._controls.limits, timeout, authorizer.policy.limits, said)
        return authorizer.most_seconds(tool, found.timeout_seconds)

    def adoptable(
        self,
        tool: Tool,
        owner: str,
        describe: Callable[[], NewJob],
        *,
        keeps_questions: bool,
        joins: bool,
    ) -> AdoptableCall:
        """Return what makes a call here, and a job of it if need be.

        With `joins`, the same call that waits for approval already is left to that job.
        """
        owner = owner or owner_here.get()
        find = partial(self.find_waiting, tool.id, owner, describe)
        return AdoptableCall(
            lambda: self.store,  # most calls need none
            NewJob(id=new_job_id(), tool=tool.id, session=self.session, owner=owner),
            describe,
            stays=self.stays_here(tool),
            keeps_questions=keeps_questions,
            # That of a block is asked by those who wait inside it, and not after it has ended.
            approver=None if is_asked_here() else self._controls.approver,
            find_waiting=find if joins else None,
        )

    async def start(  # noqa: PLR0913 - as `start` of a manager takes them
        self,
        name: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        writes: str | None = None,
        retries: int = 0,
        owner: str = "",
        key: str = "",
    ) -> Job:
        """Start a call; when this returns, its row is on the disk."""
        owner = owner or owner_here.get()
        with self._held(name) as tool:
            # Checked now: a wrong caller is told at once, and not by a job that failed.
            call, given = self._checked(tool, arguments, stdin, timeout, writes)
            if retries and set(tool.effects) != {"read"}:
                raise NotIdempotentError(tool.id)
            job_id, row = new_job_id(), None
            if key:
                job_id, row = await asyncio.to_thread(self._keyed, given, owner, key)
            if row is None:
                job, names = self._job_of(job_id, call, given, owner)
                row = await self._begun(replace(job, retries=retries), given, names)
            approver = approver_here() or self._controls.approver
            if approver is not None:
                await run_on_thread(begin_answering(self.store, job_id, approver, owner))
        return Job(row, self.store)

    def described(
        self,
        name: str,
        arguments: Any,
        stdin: str | bytes | None,
        timeout: float | None,
        writes: str | None,
        owner: str,
    ) -> NewJob:
        """Return the job that a call would be, without an id."""
        with self._held(name) as tool:
            call, given = self._checked(tool, arguments, stdin, timeout, writes)
            return self._job_of("", call, given, owner or owner_here.get())[0]

    async def is_allowed(
        self,
        name: str,
        arguments: Any,
        stdin: str | bytes | None,
        timeout: float | None,
        writes: str | None,
    ) -> bool:
        """Tell whether a call may run; an approver is asked, if there is one."""
        with self._held(name) as tool:
            try:
                call, _ = self._checked(tool, arguments, stdin, timeout, writes)
                await self._in_force.authorizer.permit(call)
            except SkillpouchError:
                return False
        return True

    def find_waiting(self, tool: str, owner: str, describe: Callable[[], NewJob]) -> Job | None:
        """Return the job of the same call that waits for approval and has not run."""
        owner = owner or owner_here.get()
        rows = self.store.waiting(self._executor.source.get(tool).id, self.session, owner)
        job = describe() if rows else None
        for job_id, setup, call in rows:
            if job is None or not _is_same(job, setup, call):
                continue
            row, asked = self.store.get(job_id), self.store.questions.pending_of(job_id)
            if row.state == "waiting_for_approval" and asked and not asked.after_run:
                return Job(row, self.store)
        return None

    @contextmanager
    def _held(self, name: str) -> Iterator[Tool]:
        """Find a tool; the files of a skill that was given as text stay until the end."""
        executor = self._executor
        tool, kept = executor.source.get(name), None
        if is_text_home(tool.home):
            tool, kept = executor.skills.hold(name, tool)
        try:
            yield tool
        finally:
            if kept is not None:
                executor.skills.let_go(kept)

    def _checked(
        self,
        tool: Tool,
        arguments: Any,
        stdin: str | bytes | None,
        timeout: float | None,
        writes: str | None,
    ) -> tuple[ToolCall, JobCall]:
        call = self._make_call(tool, arguments, stdin, timeout, (None, None), writes, Stopwatch())
        given = JobCall(
            tool=tool.id, arguments=arguments, stdin=call.stdin, timeout=timeout, writes=writes
        )
        return call, given

    def _keyed(self, call: JobCall, owner: str, key: str) -> tuple[str, JobRow | None]:
        """Return the id that a call with a key has, and its row if it was started before.

        One that was lost while somebody was asked whether it may run has not run: it has another.
        """
        if self.store.directory is None:
            return new_job_id(), None
        secret = _secret_of(self.store.directory)
        said = [key, owner, self.session, call.tool, call.arguments, repr(call.stdin)]
        text = json.dumps(said, sort_keys=True, default=repr)
        for attempt in count():
            job_id = f"j{hmac.digest(secret, f'{attempt} {text}'.encode(), 'sha256').hex()[:32]}"
            try:
                row = self.store.get(job_id)
            except NoSuchJobError:
                return job_id, None
            asked = self.store.questions.last_of(job_id) if row.state == "lost" else None
            if asked is None or asked.after_run or asked.state == "approved":
                return job_id, row
        raise AssertionError("numbers end")

    async def _begun(self, job: NewJob, given: JobCall, names: tuple[str, ...] | None) -> JobRow:
        if names is None:
            await run_on_thread(self._start_here(job, given))
            return await asyncio.to_thread(self.store.get, job.id)
        find, session = self._controls.secrets or environment_secrets, self._controls.session
        values = {name: find(session, name) for name in names}
        known = {name: value for name, value in values.items() if value is not None}
        return await client_of(self.store).start(job, known)

    def _job_of(
        self, job_id: str, call: ToolCall, given: JobCall, owner: str
    ) -> tuple[NewJob, tuple[str, ...] | None]:
        """Return the job of a call, and which secrets it may get; None if it stays here."""
        tool, case = call.tool, self._in_force.authorizer.case(call)
        needs = [need for need in case.all_needs if need.kind in ("secret", "setting")]
        names = tuple(dict.fromkeys(need.value.partition("=")[0] for need in needs))
        given = replace(
            given,
            place=tool.place,
            digest=case.request.digest,
            names=names,
            caller=_caller_of(self._in_force),
        )
        job = NewJob(id=job_id, tool=tool.id, session=self.session, owner=owner)
        try:
            job = replace(job, call=given.to_json())
            where = where_it_is(tool, self._executor.source)
            controls = controls_document(self._controls, self._in_force.policy_document, call)
            setup = JobSetup(controls=controls, **where).to_json()
        except StaysHereError as reason:
            _log.debug("job %s of %s runs in this process: %s", job_id, tool.id, reason)
            # Nobody makes the call from its row: it tells only whether another one is the same.
            return replace(job, call=job.call and hash_of(job.call)), None
        return replace(job, setup=setup, setup_hash=hash_of(setup)), names

    async def _start_here(self, job: NewJob, call: JobCall) -> None:
        """Run a job on the loop thread of this process."""
        store, client = self.store, client_of(self.store)
        process = await asyncio.to_thread(store.this_process)
        is_new, _ = await asyncio.to_thread(store.add, replace(job, retries=0, process=process))
        if not is_new:  # somebody has just started the same call with the same key
            return
        approver = KeptApprover(store, process, ThisProcess(), is_shared=False)
        running = run_here(store, process, job.id, self._executor, call, approver)
        with called_by(job.owner):
            client.run_here(job.id, running)


def _is_same(job: NewJob, setup: str, call: str) -> bool:
    """Tell whether a row is of the same call as a job, in the same workspace by the same rules.

    The setup tells all of that to a job host; what runs here is of one executor of this process.
    """
    if not call or setup != job.setup_hash:
        return False
    if not setup:
        return call == job.call
    one, other = (JobCall.from_json(text) for text in (job.call, call))
    return one == replace(other, caller=one.caller)
