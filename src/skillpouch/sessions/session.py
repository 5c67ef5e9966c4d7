"""One session in use: its tools, its running calls, and how it ends."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from skillpouch.backends.delivery import forget_skill, forget_workspace
from skillpouch.builtins.workspace.context import WorkspaceSession
from skillpouch.calls import OnOutput, OnStep
from skillpouch.discovery.text_skills.active import ActiveSkills
from skillpouch.discovery.text_skills.folders import SkillTextError
from skillpouch.execution.engine import end_programs_in
from skillpouch.executor import ToolExecutor
from skillpouch.limits import Writes
from skillpouch.problems import Problem
from skillpouch.registry.registry import ToolOverlay, ToolSource
from skillpouch.results import ToolResult
from skillpouch.sessions.errors import SessionEndedError
from skillpouch.sessions.store import Row, SessionStore
from skillpouch.skills import Skill
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.jobs.job import Job
    from skillpouch.jobs.job_runner import JobRunner

MakeExecutor = Callable[[ToolOverlay], ToolExecutor]
Running = dict["asyncio.Task[Any]", "Future[None]"]


class SessionTools:
    """One session in the form that a ScriptedTool takes: its tools and its executor."""

    def __init__(self, sessions: "_Sessions", session_id: str) -> None:
        self._sessions = sessions
        self._id = session_id

    @property
    def source(self) -> ToolOverlay:
        return self._sessions.opened(self._id).added

    @property
    def executor(self) -> "SessionExecutor":
        return SessionExecutor(self._sessions, self._id)

    def list_skills(self) -> list[Skill]:
        return self._sessions.shared_skills()


class SessionExecutor:
    """Calls tools in a session, under its current policy; calls and jobs end with the session."""

    def __init__(
        self,
        sessions: "_Sessions",
        session_id: str,
        tools: Iterable[Tool] | ToolSource | None = None,
    ) -> None:
        self._sessions = sessions
        self._id = session_id
        self._tools = tools

    @property
    def source(self) -> ToolOverlay:
        return self._of(self._sessions.opened(self._id).executor).source

    async def execute(  # noqa: PLR0913 - as an executor takes them
        self,
        name: str,
        args: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        on_step: OnStep | None = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        said: dict[str, Any] = {"timeout": timeout, "writes": writes}
        said |= {"on_output": on_output, "on_step": on_step}
        result: ToolResult = await self._sessions.run(
            self._id, lambda executor: self._of(executor).execute(name, args, stdin, **said)
        )
        return result

    async def astart(  # noqa: PLR0913 - as an executor takes them
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        writes: Writes | None = None,
        owner: str = "",
        key: str = "",
    ) -> "Job":
        said: dict[str, Any] = {"timeout": timeout, "writes": writes, "owner": owner, "key": key}
        job: Job = await self._sessions.run(
            self._id, lambda executor: self._of(executor).astart(tool, arguments, stdin, **said)
        )
        return job

    async def ajob(self, job_id: str) -> "Job":
        return await self._sessions.job(self._id, job_id)

    def job_runner(self) -> "JobRunner":
        return self._of(self._sessions.opened(self._id).executor).job_runner()

    def beside(self, tools: Iterable[Tool] | ToolSource) -> "SessionExecutor":
        """Return an executor for other tools in the same session."""
        return SessionExecutor(self._sessions, self._id, tools)

    def _of(self, executor: ToolExecutor) -> ToolExecutor:
        return executor if self._tools is None else executor.beside(self._tools)


class _Sessions(Protocol):
    def opened(self, session_id: str) -> "Session": ...
    def shared_skills(self) -> list[Skill]: ...
    async def job(self, session_id: str, job_id: str) -> "Job": ...
    async def run(
        self, session_id: str, start: Callable[[ToolExecutor], Coroutine[Any, Any, Any]]
    ) -> Any: ...


class Session:
    """One session in this process; made at its first use, never shared."""

    def __init__(
        self, row: Row, added: ToolOverlay, make: MakeExecutor, memory: WorkspaceSession
    ) -> None:
        self.row = row
        self.version = 0  # the version on disk that was last read
        self.added = added
        self.skills = ActiveSkills(added, forget_skill)
        self.changing = threading.RLock()
        self._make = make
        self._memory = memory
        self._executor: ToolExecutor | None = None
        self._running: Running = {}
        self._lock = threading.Lock()
        self._ended = False
        self._lost: tuple[Problem, ...] = ()
        self._at_end: list[Callable[[], None]] = [self.skills.close]

    def at_end(self, close: Callable[[], None]) -> None:
        """Call `close` when the session ends, after its last call."""
        self._at_end.append(close)

    def forget_executor(self) -> None:
        """Make a new executor for the next call, because the policy has changed."""
        self._executor = None

    @property
    def executor(self) -> ToolExecutor:
        """The executor under the policy of now; what it runs has to be started by `run`."""
        if self._executor is None:
            self._executor = self._make(self.added)
        return self._executor

    async def run(self, start: Callable[[ToolExecutor], Coroutine[Any, Any, Any]]) -> Any:
        """Run a call; it ends with the session, and then raises SessionEndedError."""
        task = asyncio.ensure_future(start(self.executor))
        over: Future[None] = Future()
        with self._lock:
            if self._ended:
                task.cancel()
            self._running[task] = over
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not self._ended or (current is not None and current.cancelling()):
                raise
            raise SessionEndedError(self.row.id) from None
        finally:
            with self._lock:
                del self._running[task]
            over.set_result(None)

    def catch_up(self, row: Callable[[str], Row], store: SessionStore) -> None:
        """Activate exactly the skills that are on disk; raise when the session is gone."""
        # Read under the lock: otherwise a newer skill could be replaced by an older one.
        with self.changing:
            version = row(self.row.id).version
            if version == self.version:
                return
            texts = store.skills(self.row.id)
            for name in [name for name in self.skills.names() if name not in texts]:
                self.skills.remove(name)
            self._lost = tuple(chain.from_iterable(map(self._use, texts, texts.values())))
            self.version = version

    def problems(self) -> list[Problem]:
        """Return the problems of its skills."""
        return [*self.skills.problems(), *self._lost]

    def _use(self, name: str, text: str) -> tuple[Problem, ...]:
        try:
            self.skills.use(name, text)
        except SkillTextError as error:
            # It was usable when it was added; one unusable skill must not make the session
            # unusable.
            return error.problems or (_unusable(name, error),)
        return ()

    async def end(self) -> None:
        """End every call and every process; release every folder but the workspace."""
        await self._end_calls()
        await self._memory.jobs.end_all()
        self.let_go()
        await end_programs_in(self.row.workspace)
        if self.row.owned:
            forget_workspace(self.row.workspace)

    def let_go(self) -> None:
        """Release every folder that is kept for the session."""
        for close in self._at_end:
            close()

    async def _end_calls(self) -> None:
        with self._lock:
            self._ended = True
            running = dict(self._running)
        for task in running:
            # Cancelled from the task's own loop: several threads may use a session.
            task.get_loop().call_soon_threadsafe(task.cancel)
        for over in running.values():
            await asyncio.wrap_future(over)


def _unusable(name: str, error: SkillTextError) -> Problem:
    return Problem(path=name, code="skill-unreadable", severity="error", message=str(error))
