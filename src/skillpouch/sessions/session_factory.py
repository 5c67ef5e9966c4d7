"""Makes the objects of a session at its first use, and shares those that can be shared."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skillpouch.backends.delivery import forget_skill
from skillpouch.builtins.authoring.author import Author
from skillpouch.builtins.authoring.tools import authoring_tools
from skillpouch.builtins.own_tools import tools_to_undo
from skillpouch.builtins.workspace.context import WorkspaceSession
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.controls import Controls, ReadOnly
from skillpouch.executor import ToolExecutor
from skillpouch.policy.loading import load_policy
from skillpouch.policy.policy import Policy
from skillpouch.registry.registry import ToolOverlay, ToolRegistry, ToolSource
from skillpouch.results import ToolResult
from skillpouch.secrets.sources import environment_secrets
from skillpouch.sessions.errors import SessionPolicyError
from skillpouch.sessions.session import Session, SessionTools
from skillpouch.sessions.store import Row
from skillpouch.tools import AwaitedCaller
from skillpouch.trust.grants import Grants

if TYPE_CHECKING:
    from skillpouch.manager import SkillManager
    from skillpouch.tools import Tool

PolicyOf = Callable[[str], Policy | None]


class _Sessions(Protocol):
    async def execute(self, session_id: str, tool: str, args: Any = None) -> ToolResult: ...
    def session(self, session_id: str) -> SessionTools: ...


class SessionFactory:
    """Holds what all sessions share, and the policies and secrets of each session."""

    def __init__(  # noqa: PLR0913 - passed by keyword
        self,
        sessions: _Sessions,
        skills: "SkillManager | ToolSource | Iterable[Tool]",
        *,
        controls: Controls,
        policy: Policy | PolicyOf | None,
        builtins: bool,
        define_in: Path | None,
        undo_tools: bool,
    ) -> None:
        self._sessions = sessions
        self._shared = _source_of(skills)
        kept_in: ReadOnly | None = getattr(skills, "kept_in", None)
        self._controls = controls.keeping(kept_in) if kept_in else controls
        self._policy = policy
        self._secrets = controls.secrets or environment_secrets
        self._builtins = builtins
        self._define_in = define_in
        self._undo_tools = undo_tools
        self._policies: dict[str, Policy] = {}
        self._environments: dict[str, Mapping[str, str]] = {}

    def remember(
        self, session_id: str, policy: Policy | None, environment: Mapping[str, str] | None
    ) -> None:
        """Keep what is never stored on disk, until the session or the process ends."""
        if policy is not None:
            self._policies[session_id] = policy
        if environment:
            self._environments[session_id] = dict(environment)

    def forget(self, session_id: str) -> None:
        """Drop what is kept in memory for a session that has ended."""
        self._policies.pop(session_id, None)
        self._environments.pop(session_id, None)

    def make(self, row: Row) -> Session:
        """Return a session without any skills yet."""
        memory = WorkspaceSession()
        own = built_in_tools(memory, self._shared) if self._builtins else []
        own += tools_to_undo(self._controls_of(row)) if self._undo_tools else []
        caller = AwaitedCaller(
            partial(self._sessions.execute, row.id), lambda: self._sessions.session(row.id).executor
        )
        added = ToolOverlay(self._shared, own, caller=caller, private=True)
        session = Session(row, added, lambda tools: self._executor(tools, row), memory)
        if self._define_in is not None:
            author = Author(added, self._define_in / row.id / "skills", forget=forget_skill)
            author.load()
            added.put_own(authoring_tools(author))
            session.at_end(author.close)
        return session

    def _executor(self, added: ToolOverlay, row: Row) -> ToolExecutor:
        controls = replace(self._controls_of(row), policy=self._policy_of(row))
        return ToolExecutor(added, controls=controls)

    def _controls_of(self, row: Row) -> Controls:
        return replace(
            self._controls,
            grants=self._grants,
            secrets=self._secret,
            workspace=row.workspace,
            session=row.id,
        )

    def _policy_of(self, row: Row) -> Policy:
        own = self._policies.get(row.id)
        if own is not None:
            return own
        if row.own_policy:
            raise SessionPolicyError(row.id)
        said = self._policy(row.id) if callable(self._policy) else self._policy
        return said or self._default_policy

    def _secret(self, session: str | None, name: str) -> str | None:
        found = self._environments.get(session or "", {}).get(name)
        return self._secrets(session, name) if found is None else found

    @cached_property
    def _default_policy(self) -> Policy:
        project = self._controls.project or Path.cwd
        return load_policy(project() if callable(project) else project)

    @cached_property
    def _grants(self) -> Grants:
        return self._controls.grants or Grants()


def _source_of(skills: "SkillManager | ToolSource | Iterable[Tool]") -> ToolSource:
    source: ToolSource | None = getattr(skills, "source", None)
    if source is not None:
        return source
    if isinstance(skills, ToolRegistry) or not isinstance(skills, Iterable):
        return skills  # type: ignore[return-value]  # a manager has a source
    registry = ToolRegistry()
    for tool in skills:
        registry.register(tool)
    return registry
