"""SessionManager: many conversations over the same skills, none of which sees another's files."""

import asyncio
import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from skillpouch.builtins.kept_calls import DIFF_BYTES, CallReference, KeptChanges, drop_changes
from skillpouch.calls import OnOutput, OnStep
from skillpouch.controls import Controls, ReadOnly, chosen_controls
from skillpouch.discovery.text_skills.folders import SkillTextError
from skillpouch.environment import state_directory
from skillpouch.jobs.job_methods import end_jobs_of
from skillpouch.limits import Sandbox, Writes
from skillpouch.problems import Problem
from skillpouch.results import ToolResult
from skillpouch.sessions.errors import SessionError, SessionNameError, UnknownSessionError
from skillpouch.sessions.session import Session, SessionTools
from skillpouch.sessions.session_factory import SessionFactory
from skillpouch.sessions.store import Row, SessionStore, new_workspace, remove_folder
from skillpouch.skills import Skill
from skillpouch.tools import Tool, definition_of
from skillpouch.workspace.workspace import check_workspace

if TYPE_CHECKING:
    from skillpouch.calls import OnProgress
    from skillpouch.executor import ToolExecutor
    from skillpouch.jobs.job import Job, JobState
    from skillpouch.journal.journal import Journal
    from skillpouch.journal.telemetry import Telemetry
    from skillpouch.limits import Limits
    from skillpouch.manager import SkillManager
    from skillpouch.policy.approval import Approver
    from skillpouch.policy.policy import Policy
    from skillpouch.registry.registry import ToolSource
    from skillpouch.secrets.sources import Secrets
    from skillpouch.trust.grants import Grants


_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")


class SessionManager:
    """Sessions that survive a restart, each with a workspace, skills, environment and policy.

    All of them see the tools of `skills`: a SkillManager, a registry or some tools. Of a manager
    only the tools count: its policy and other controls hold for its own calls, not for sessions.
    No session sees what another session uses, defines or writes. `policy` and `secrets` may differ
    by session: both may be functions of its id. `workspaces` is the folder for new workspaces,
    `directory` the folder for the file of sessions; by default the user's data and state
    directories.
    `builtins=True` gives each session the built-in tools: bash, read, write, edit, grep, glob, ls;
    `undo_tools=True` lets models undo calls of their session.
    The other parameters are those of `Controls`, where each is documented; `controls` passes all of
    them at once, except for the workspace: each session has its own.
    """

    def __init__(  # noqa: PLR0913 - passed by keyword
        self,
        skills: "SkillManager | ToolSource | Iterable[Tool]" = (),
        *,
        workspaces: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        policy: "Policy | Callable[[str], Policy | None] | None" = None,
        approver: "Approver | None" = None,
        grants: "Grants | None" = None,
        secrets: "Secrets | None" = None,
        journal: "Journal | bool" = True,
        telemetry: "Telemetry | None" = None,
        limits: "Limits | None" = None,
        sandbox: Sandbox = "on",
        writes: Writes | None = None,
        require: Iterable[str] = (),
        read_only: Iterable[str | os.PathLike[str]] | ReadOnly = (),
        on_progress: "OnProgress | None" = None,
        controls: Controls | None = None,
        builtins: bool = False,
        define_tools: bool = False,
        undo_tools: bool = False,
    ) -> None:
        self._workspaces = None if workspaces is None else Path(workspaces).absolute()
        kept = state_directory() if directory is None else Path(directory).absolute()
        self._folders = kept / "sessions" if kept is not None else None
        self._store = SessionStore(kept)
        self._skills = skills
        self._live: dict[str, Session] = {}
        self._opening = threading.Lock()
        self._swept = False
        given = Controls(
            policy=None if callable(policy) else policy,
            approver=approver,
            grants=grants,
            secrets=secrets,
            journal=journal,
            telemetry=telemetry,
            limits=limits,
            sandbox=sandbox,
            writes=writes,
            require=tuple(require),
            read_only=read_only,
            on_progress=on_progress,
        )
        chosen = chosen_controls(controls, given)
        if callable(policy) and chosen.policy is not None:
            raise ValueError("both policy= and the policy of controls= are given: pass one of them")
        self._maker = SessionFactory(
            self,
            skills,
            controls=chosen,
            policy=policy or chosen.policy,
            builtins=builtins,
            define_in=self._folders if define_tools else None,
            undo_tools=undo_tools,
        )

    async def create_session(
        self,
        session_id: str = "",
        *,
        workspace: str | os.PathLike[str] | None = None,
        policy: "Policy | None" = None,
        environment: Mapping[str, str] | None = None,
        owner: str = "",
    ) -> str:
        """Begin a session and return its id, which is generated unless it is passed.

        Without a `workspace` it gets a new, empty one, which is removed when the session is
        destroyed. A `policy` of its own must be set again after a restart: until then its calls are
        refused. `environment` holds its secrets by name; they are kept in memory only. `owner` is
        who may use it through a server, as `check_owner` is asked; "" is the user.
        """
        return await asyncio.to_thread(
            self._create, session_id, workspace, policy, environment, owner
        )

    async def check_owner(self, session_id: str, owner: str) -> None:
        """Raise UnknownSessionError if a session is not this owner's: nobody else learns of it."""
        if self._row(session_id).owner != owner:
            raise UnknownSessionError(session_id)

    async def use_skill(self, session_id: str, skill_name: str, skill_content: str) -> list[str]:
        """Activate a skill, given as the text of its SKILL.md; return the names of its tools.

        The same text again changes nothing; another text replaces the earlier one.
        """
        name = normalize("NFC", skill_name)
        return await asyncio.to_thread(self._use, session_id, name, skill_content)

    async def remove_skill(self, session_id: str, skill_name: str) -> list[str]:
        """Deactivate a skill; return the names of the tools that were removed with it."""
        return await asyncio.to_thread(self._remove, session_id, normalize("NFC", skill_name))

    async def list_active_skills(self, session_id: str) -> list[str]:
        """Return the skills that a session uses, in the order in which they were activated."""
        return (await self._open(session_id)).skills.names()

    async def list_sessions(self) -> list[str]:
        """Return all sessions, the oldest first."""
        return await asyncio.to_thread(self._store.names)

    async def set_policy(self, session_id: str, policy: "Policy") -> None:
        """Give a session a policy of its own, from its next call on."""
        await asyncio.to_thread(self._set_policy, session_id, policy)

    async def workspace(self, session_id: str) -> Path:
        """Return the workspace of a session."""
        return (await asyncio.to_thread(self._store.get, session_id)).workspace

    async def tools(self, session_id: str) -> list[Tool]:
        """Return the tools of a session: the shared ones and its own."""
        session = await self._open(session_id)
        return await asyncio.to_thread(list, session.added)

    async def definitions(self, session_id: str) -> list[dict[str, Any]]:
        """Return what a model is shown of each tool: name, description and parameters."""
        return [definition_of(tool) for tool in await self.tools(session_id)]

    async def problems(self, session_id: str, skill_name: str | None = None) -> list[Problem]:
        """Return the problems of the skills that a session uses, or of one of them."""
        session = await self._open(session_id)
        if skill_name is None:
            return session.problems()
        return session.skills.problems(normalize("NFC", skill_name))

    async def execute(  # noqa: PLR0913 - as an executor takes them
        self,
        session_id: str,
        tool: str,
        args: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        on_step: OnStep | None = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        """Run a tool of a session in its workspace; raises and returns what an executor does."""
        session = await self._open(session_id)
        said: dict[str, Any] = {"timeout": timeout, "writes": writes}
        said |= {"on_output": on_output, "on_step": on_step}
        result: ToolResult = await session.run(lambda it: it.execute(tool, args, stdin, **said))
        return result

    async def start(  # noqa: PLR0913 - as an executor takes them
        self,
        session_id: str,
        tool: str,
        args: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        writes: Writes | None = None,
        retries: int = 0,
        owner: str = "",
        key: str = "",
    ) -> "Job":
        """Start a call of a session and return at once; it ends with the session."""
        said: dict[str, Any] = {"timeout": timeout, "writes": writes, "retries": retries}
        said |= {"owner": owner, "key": key}
        job: Job = await self.run(
            session_id, lambda executor: executor.astart(tool, args, stdin, **said)
        )
        return job

    async def job(self, session_id: str, job_id: str) -> "Job":
        """Return a job of the session; raise NoSuchJobError for one of another session."""
        from skillpouch.jobs.job import NoSuchJobError

        job: Job = await self.run(session_id, lambda executor: executor.ajob(job_id))
        if job.session != session_id:
            raise NoSuchJobError(job_id)
        return job

    async def jobs(
        self,
        session_id: str,
        *,
        state: "JobState | Collection[JobState] | None" = None,
        owner: str | None = None,
        limit: int = 100,
    ) -> "list[Job]":
        """Return jobs of the session, the newest first."""
        found: list[Job] = await self.run(
            session_id,
            lambda executor: executor.ajobs(
                state=state, session=session_id, owner=owner, limit=limit
            ),
        )
        return found

    async def undo(
        self,
        session_id: str,
        call: CallReference | None = None,
        *,
        calls: int | None = None,
        everything: bool = False,
        paths: Iterable[str] = (),
    ) -> ToolResult:
        """Take back what a call of the session changed; without one, the last call that did.

        `calls` goes so many calls back, `everything` to its beginning.
        """
        whole = session_id if everything else None
        result: ToolResult = await self.run(
            session_id,
            lambda executor: executor.aundo(call, calls=calls, session=whole, paths=paths),
        )
        return result

    async def apply(
        self,
        session_id: str,
        call: CallReference | None = None,
        paths: Iterable[str] = (),
        *,
        earlier: bool = False,
    ) -> ToolResult:
        """Bring what a staged call of the session changed into its workspace; without one, all.

        `earlier` first applies the calls that wait and that it builds on.
        """
        whole = session_id if call is None else None
        result: ToolResult = await self.run(
            session_id,
            lambda executor: executor.aapply(call, paths, session=whole, earlier=earlier),
        )
        return result

    async def discard(self, session_id: str, call: CallReference | None = None) -> ToolResult:
        """Drop what a staged call of the session changed; without one, all that waits."""
        whole = session_id if call is None else None
        result: ToolResult = await self.run(
            session_id, lambda executor: executor.adiscard(call, session=whole)
        )
        return result

    async def diff(
        self,
        session_id: str,
        call: CallReference,
        *,
        path: str | None = None,
        most_bytes: int = DIFF_BYTES,
    ) -> str:
        """Return what a call of the session changed as a text diff, without granted secrets."""
        text: str = await self.run(
            session_id, lambda executor: executor.adiff(call, path=path, most_bytes=most_bytes)
        )
        return text

    async def changes(self, session_id: str) -> list[KeptChanges]:
        """Return what is kept of the calls of a session, the newest first."""
        kept: list[KeptChanges] = await self.run(session_id, lambda executor: executor.achanges())
        return kept

    async def run(
        self, session_id: str, start: "Callable[[ToolExecutor], Coroutine[Any, Any, Any]]"
    ) -> Any:
        """Run something with the executor of a session; it ends when the session does."""
        return await (await self._open(session_id)).run(start)

    def session(self, session_id: str) -> SessionTools:
        """Return one session in the form that `ScriptedTool.over` takes."""
        return SessionTools(self, session_id)

    def shared_skills(self) -> list[Skill]:
        """Return the skills that all sessions see, when they come from a SkillManager."""
        listed: Callable[[], list[Skill]] | None = getattr(self._skills, "list_skills", None)
        return [] if listed is None else listed()

    async def destroy_session(self, session_id: str) -> None:
        """End a session: its calls, its processes, its files, its rows. The journal stays."""
        row = await asyncio.to_thread(self._store.get, session_id)
        # Shielded: it runs to the end, even when the caller is cancelled.
        await asyncio.shield(asyncio.ensure_future(self._destroy(row)))

    async def close(self) -> None:
        """End running calls and close everything; the sessions stay on disk."""
        while self._live:
            await self._live.popitem()[1].end()
        self._store.close()

    async def _destroy(self, row: Row) -> None:
        await asyncio.to_thread(self._store.begin_end, row.id)
        await end_jobs_of(row.id)
        live = self._live.pop(row.id, None)
        if live is not None:
            await live.end()
        self._maker.forget(row.id)
        await asyncio.to_thread(self._clear, row.id, row.workspace if row.owned else None)

    def _clear(self, session_id: str, workspace: Path | None) -> None:
        if workspace is not None:
            remove_folder(workspace)
            drop_changes(workspace)
        if self._folders is not None:
            remove_folder(self._folders / session_id)
        self._store.remove(session_id)

    def _create(
        self,
        session_id: str,
        workspace: str | os.PathLike[str] | None,
        policy: "Policy | None",
        environment: Mapping[str, str] | None,
        owner: str,
    ) -> str:
        name = session_id or uuid.uuid4().hex
        if not _NAME.match(name):
            raise SessionNameError(name)
        self._sweep()
        own = workspace is None
        made = Path(workspace).absolute() if workspace else new_workspace(self._workspaces, name)
        try:
            place = check_workspace(str(made))
            own_policy = policy is not None
            self._store.add(name, place, owned=own, own_policy=own_policy, owner=owner)
        except BaseException:
            if own:
                remove_folder(made)
            raise
        self._maker.remember(name, policy, environment)
        return name

    def _sweep(self) -> None:
        """Finish destroying the sessions that a killed process began to destroy."""
        if not self._swept:
            self._swept = True
            for name, workspace in self._store.ending().items():
                try:
                    self._clear(name, workspace)
                except (SessionError, OSError) as error:
                    # Files of an old session that cannot be removed must not prevent a new session.
                    _log.warning("session %s is not removed yet: %s", name, error)

    def _use(self, session_id: str, name: str, text: str) -> list[str]:
        session = self.opened(session_id)
        with session.changing:
            if name not in session.skills.names() and session.added.tools_of(name):
                raise SkillTextError(name, "define_tool made a skill of that name")
            before = session.skills.key_of(name)
            names = session.skills.use(name, text)
            if session.skills.key_of(name) == before:
                return names
            try:
                version = self._store.put_skill(session_id, name, text)
            except BaseException:
                session.version = 0  # forces a new read: the state on disk is the valid one
                raise
            session.version = version if version == session.version + 1 else 0
            return names

    def _remove(self, session_id: str, name: str) -> list[str]:
        session = self.opened(session_id)
        with session.changing:
            if name not in session.skills.names():
                return []
            version = self._store.drop_skill(session_id, name)
            session.version = version if version == session.version + 1 else 0
            return session.skills.remove(name)

    def _set_policy(self, session_id: str, policy: "Policy") -> None:
        session = self.opened(session_id)
        with session.changing:
            self._maker.remember(session_id, policy, None)
            self._store.mark_policy(session_id)
            session.forget_executor()

    async def _open(self, session_id: str) -> Session:
        """Return a session; blocks for microseconds only, in the usual case of no change."""
        row = self._row(session_id)
        live = self._live.get(session_id)
        if live is not None and live.version == row.version and _is_same(live.row, row):
            return live
        return await asyncio.to_thread(self.opened, session_id)

    def opened(self, session_id: str) -> Session:
        """Return the `Session` object of a session, made at its first use."""
        row = self._row(session_id)
        with self._opening:
            live = self._live.get(session_id)
            if live is None or not _is_same(live.row, row):
                live = self._live[session_id] = self._maker.make(row)
        if live.version != row.version:
            # Always true for a new object: `catch_up` raises when the session is being destroyed.
            live.catch_up(self._row, self._store)
        return live

    def _row(self, session_id: str) -> Row:
        try:
            return self._store.get(session_id)
        except UnknownSessionError:
            gone = self._live.pop(session_id, None)
            if gone is not None:  # destroyed by another process
                gone.let_go()
            raise


def _is_same(one: Row, other: Row) -> bool:
    """Tell whether two rows are of the same session, not of two with the same name."""
    return (one.created_ns, one.workspace) == (other.created_ns, other.workspace)
