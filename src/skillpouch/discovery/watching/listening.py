"""Tells listeners about changes, on their event loop or on the watcher's thread."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from skillpouch.discovery.skill_copies import SkillVersion
from skillpouch.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedNames:
    """Names of skills and ids of tools."""

    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.skills or self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one batch of edits changed; false if nothing did.

    A tool has changed if any file of its skill has. `problems` are the reasons why the newest
    files are not served yet.
    """

    added: ChangedNames = field(default_factory=ChangedNames)
    changed: ChangedNames = field(default_factory=ChangedNames)
    removed: ChangedNames = field(default_factory=ChangedNames)
    problems: tuple[Problem, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def changes_between(
    before: Mapping[str, SkillVersion],
    after: Mapping[str, SkillVersion],
    problems: tuple[Problem, ...] = (),
) -> Changes:
    """Compare the versions served before and after, skill by skill."""
    differing = {name for name in before.keys() & after.keys() if before[name] is not after[name]}
    old = _tools(before, before.keys() - after.keys() | differing)
    new = _tools(after, after.keys() - before.keys() | differing)
    return Changes(
        added=_names([n for n in after if n not in before], [t for t in new if t not in old]),
        changed=_names([n for n in after if n in differing], [t for t in new if t in old]),
        removed=_names([n for n in before if n not in after], [t for t in old if t not in new]),
        problems=problems,
    )


def _names(skills: list[str], tools: list[str]) -> ChangedNames:
    return ChangedNames(skills=tuple(skills), tools=tuple(tools))


def _tools(versions: Mapping[str, SkillVersion], names: set[str]) -> dict[str, None]:
    """Return the ids of the tools of some skills: a dict, for order and fast look-up."""
    chosen = (version for name, version in versions.items() if name in names)
    return {tool.id: None for version in chosen for tool in version.tools.tools}


OnChange = Callable[[Changes], Awaitable[None] | None]

_log = logging.getLogger(__name__)
_Batches = asyncio.Queue[Changes | None]  # None: the watcher has stopped


class Listeners:
    """Calls all listeners, in order. An exception of a listener is logged."""

    def __init__(self) -> None:
        self._functions: list[OnChange] = []
        self._queues: list[_Batches] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: asyncio.Task[None] | None = None

    def add(self, on_change: OnChange) -> None:
        self._functions.append(on_change)

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call listeners on this event loop from now on."""
        self._loop = loop
        self._telling = loop.create_task(self._tell_all())

    def tell(self, changes: Changes | None) -> None:
        """Pass a batch to all listeners; may be called from any thread."""
        if self._loop is not None:
            # RuntimeError: the loop was closed meanwhile, so nobody is listening.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._put, changes)
        elif changes is not None:
            for function in list(self._functions):
                _call(function, changes)

    def close(self) -> None:
        """End the batches: the watcher has stopped."""
        self.tell(None)

    async def finish(self) -> None:
        """Wait until all listeners have received all batches."""
        if self._telling is not None:
            await self._telling
            self._telling = self._loop = None

    async def batches(self) -> AsyncIterator[Changes]:
        """Yield every batch from now on, until the watcher stops."""
        queue = self._queue()
        try:
            while (changes := await queue.get()) is not None:
                yield changes
        finally:
            self._queues.remove(queue)

    def _queue(self) -> _Batches:
        queue = _Batches()
        self._queues.append(queue)
        return queue

    def _put(self, changes: Changes | None) -> None:
        for queue in self._queues:
            queue.put_nowait(changes)

    async def _tell_all(self) -> None:
        async for changes in self.batches():
            for function in list(self._functions):
                answer = _call(function, changes)
                if inspect.isawaitable(answer):
                    await _wait_for(answer, function)


def _call(function: OnChange, changes: Changes) -> Awaitable[None] | None:
    try:
        return function(changes)
    except Exception:  # noqa: BLE001 - it is the listener's, and others want to hear of it, too
        _log.exception("%r failed while it handled changes", function)
        return None


async def _wait_for(answer: Awaitable[None], function: OnChange) -> None:
    try:
        await answer
    except Exception:  # noqa: BLE001 - as above
        _log.exception("%r failed while it handled changes", function)
