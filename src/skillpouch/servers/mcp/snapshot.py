"""What a server offers at one moment, and how clients learn that it changed."""

import asyncio
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import NotificationParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillpouch.builtins.disclosure.activation import activate
from skillpouch.executor import ToolExecutor
from skillpouch.manager import SkillManager
from skillpouch.servers.mcp.settings import Context
from skillpouch.skills import Skill
from skillpouch.tools import Tool

# Tools, or who makes them anew whenever the skills have changed.
ExtraTools = Sequence[Tool] | Callable[[], Sequence[Tool]]


@dataclass(frozen=True, slots=True)
class OfferSnapshot:
    """Tools by the names that models use, and skills, both in an order that stays the same."""

    tools: dict[str, Tool] = field(default_factory=dict)
    skills: dict[str, Skill] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    version: object = None  # of what the manager had
    beside: ToolExecutor | None = None  # runs the extra tools
    extra: frozenset[str] = frozenset()  # their ids


class ServedTools:
    """The tools of a manager, and `extra` ones beside them; or the extra ones only.

    What is listed is what can be called: a snapshot, made anew by `refresh`. The tools for jobs
    are listed only when `offer_jobs` says so, and can be called always.
    """

    def __init__(
        self,
        manager: SkillManager,
        *,
        extra: ExtraTools = (),
        only_extra: bool = False,
        for_jobs: Sequence[Tool] = (),
    ) -> None:
        self._manager = manager
        self._extra = extra
        self._only_extra = only_extra
        self._for_jobs = {tool.name: tool for tool in for_jobs}
        self._offers_jobs = False
        self._now: OfferSnapshot | None = None

    @property
    def executor(self) -> ToolExecutor:
        """What runs the tools of the manager."""
        return self._manager.executor

    def offer_jobs(self) -> bool:
        """List the tools for jobs from now on; True if they were not listed before."""
        was_offered, self._offers_jobs = self._offers_jobs, True
        return not was_offered

    async def refresh(self) -> None:
        """Read the skills as they are now, without blocking the loop."""
        self._now = await asyncio.to_thread(self._snapshot)

    @property
    def now(self) -> OfferSnapshot:
        if self._now is None:
            self._now = self._snapshot()
        return self._now

    @property
    def is_stale(self) -> bool:
        """Whether the manager has other tools than those that are offered."""
        return self.now.version != self._manager.source.version

    def find(self, name: str) -> Tool | None:
        """Find a tool by its name or its id, among those that are offered."""
        now = self.now
        found = now.tools.get(name) or now.tools.get(now.ids.get(name, ""))
        return found or self._for_jobs.get(name)

    def executor_of(self, tool: Tool) -> ToolExecutor:
        """Return what runs a tool, as for every entry point."""
        now = self.now
        is_beside = now.beside is not None and tool.id in now.extra
        return now.beside if is_beside and now.beside is not None else self._manager.executor

    async def activate(self, skill: str, arguments: str, home: str) -> str:
        """Return what an agent is given to use a skill; `home` as `activate` takes it."""
        loaded = await asyncio.to_thread(self._manager.load_skill, skill)
        return await asyncio.to_thread(activate, loaded, arguments, home=home)

    def _snapshot(self) -> OfferSnapshot:
        version = self._manager.source.version
        found = [] if self._only_extra else self._manager.tools
        extra = list(self._extra() if callable(self._extra) else self._extra)
        own = list(self._for_jobs.values())
        tools = {tool.name: tool for tool in (*found, *extra, *(own if self._offers_jobs else ()))}
        skills = {skill.name: skill for skill in self._manager.list_skills()}
        return OfferSnapshot(
            tools=dict(sorted(tools.items())),
            skills=dict(sorted(skills.items())),
            ids={tool.id: name for name, tool in tools.items()},
            version=version,
            beside=self._manager.executor.beside([*extra, *own]) if extra or own else None,
            extra=frozenset(tool.id for tool in (*extra, *own)),
        )


_PATIENCE_SECONDS = 5.0


class Announcer:
    """Knows who listens: streams that were asked for, and connections that shook hands."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()

    async def greeted(self, context: Context, _params: NotificationParams) -> None:
        """Remember a connection for as long as somebody else holds it."""
        connection = context.session._connection  # noqa: SLF001 - nothing public leads there
        if connection.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._connections.add(connection)

    async def announce(self) -> None:
        """Tell everybody that tools, prompts and resources may be others now."""
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self._bus.publish(event)
        await asyncio.gather(*map(_notify, list(self._connections)))

    def close(self) -> None:
        """End the streams, so that clients know that it is on purpose."""
        self.listen.close()


async def _notify(connection: Connection) -> None:
    # One that does not read must not keep the others from hearing it.
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            for kind in ("tools", "prompts", "resources"):
                await connection.notify(f"notifications/{kind}/list_changed", None)
