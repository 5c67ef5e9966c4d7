"""JobRunner: starts jobs of one executor, in the job host or, where that cannot be, here."""

import asyncio
import hmac
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
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
from skillpouch.jobs.job_run import Executing, run_here
from skillpouch.jobs.job_spec import (
    JobCall,
    JobSetup,
    StaysHereError,
    controls_document,
    hash_of,
    where_it_is,
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
        executor, owner = self._executor, owner or owner_here.get()
        tool, kept = executor.source.get(name), None
        if is_text_home(tool.home):
            tool, kept = executor.skills.hold(name, tool)
        try:
            # Checked now: a wrong caller is told at once, and not by a job that failed.
            call = self._make_call(
                tool, arguments, stdin, timeout, (None, None), writes, Stopwatch()
            )
            if retries and set(tool.effects) != {"read"}:
                raise NotIdempotentError(tool.id)
            job_id, row = new_job_id(), None
            given = JobCall(
                tool=tool.id, arguments=arguments, stdin=call.stdin, timeout=timeout, writes=writes
            )
            if key:
                job_id, row = await asyncio.to_thread(self._keyed, given, owner, key)
            if row is None:
                row = await self._begun(job_id, call, given, retries, owner)
            approver = approver_here() or self._controls.approver
            if approver is not None:
                await run_on_thread(begin_answering(self.store, job_id, approver, owner))
        finally:
            if kept is not None:
                executor.skills.let_go(kept)
        return Job(row, self.store)

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

    async def _begun(
        self, job_id: str, call: ToolCall, given: JobCall, retries: int, owner: str
    ) -> JobRow:
        try:
            return await self._start_in_host(job_id, call, given, retries, owner)
        except StaysHereError as reason:
            _log.debug("job %s of %s runs in this process: %s", job_id, call.tool.id, reason)
        await run_on_thread(self._start_here(job_id, call.tool, given, owner))
        return await asyncio.to_thread(self.store.get, job_id)

    async def _start_in_host(
        self, job_id: str, call: ToolCall, given: JobCall, retries: int, owner: str
    ) -> JobRow:
        tool = call.tool
        where = where_it_is(tool, self._executor.source)
        controls = controls_document(self._controls, self._in_force.policy_document, call)
        setup = JobSetup(controls=controls, **where).to_json()
        digest, secrets = self._secrets_of(call)
        given = replace(
            given,
            place=tool.place,
            digest=digest,
            names=tuple(secrets),
            caller=_caller_of(self._in_force),
        )
        job = NewJob(
            id=job_id,
            tool=tool.id,
            setup=setup,
            setup_hash=hash_of(setup),
            call=given.to_json(),
            session=self.session,
            owner=owner,
            retries=retries,
        )
        known = {name: value for name, value in secrets.items() if value is not None}
        return await client_of(self.store).start(job, known)

    def _secrets_of(self, call: ToolCall) -> tuple[str, dict[str, str | None]]:
        """Return the digest of the skill, and the secrets and settings that the call may get."""
        case = self._in_force.authorizer.case(call)
        secrets = self._controls.secrets or environment_secrets
        kinds = ("secret", "setting")
        names = [need.value.partition("=")[0] for need in case.all_needs if need.kind in kinds]
        session = self._controls.session
        return case.request.digest, {name: secrets(session, name) for name in names}

    async def _start_here(self, job_id: str, tool: Tool, call: JobCall, owner: str) -> None:
        """Run a job on the loop thread of this process."""
        store, client = self.store, client_of(self.store)
        process = await asyncio.to_thread(store.this_process)
        job = NewJob(id=job_id, tool=tool.id, session=self.session, owner=owner, process=process)
        is_new, _ = await asyncio.to_thread(store.add, job)
        if not is_new:  # somebody has just started the same call with the same key
            return
        approver = KeptApprover(store, process, ThisProcess(), is_shared=False)
        running = run_here(store, process, job_id, self._executor, call, approver)
        with called_by(owner):
            task = asyncio.ensure_future(running)
        client.here[job_id] = task
        task.add_done_callback(lambda _: client.here.pop(job_id, None))
