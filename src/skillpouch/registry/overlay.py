"""ToolOverlay: tools that come and go at run time, in front of those that stay."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from skillpouch.errors import UnknownToolError, nearest
from skillpouch.registry.registry import BUILT_IN_NAMES, ToolRegistry
from skillpouch.tools import BuiltIn, Caller, Tool, qualified_wire_name


class ToolSource(Protocol):
    """Whatever finds a tool by name: a registry, or the skills of a manager."""

    def get(self, name: str) -> Tool: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """What was added, at one moment: never changed, so that readers need no lock."""

    skills: dict[str, tuple[Tool, ...]] = field(default_factory=dict)
    registry: ToolRegistry = field(default_factory=ToolRegistry)
    names: frozenset[str] = frozenset()


class ToolOverlay:
    """Tools by skill, over a shared source that others may use, too, and that is never changed.

    A skill that was added hides the shared one of its name; a tool that was added takes the wire
    name it wants, and the shared one that had it is called `skill__tool` until that leaves.
    `own` are Skillpouch's own tools, if they belong to whoever adds; with `private`, those of the
    shared source are out of sight, because they remember what their caller did.
    """

    def __init__(
        self,
        shared: ToolSource,
        own: Iterable[Tool] = (),
        *,
        caller: Caller | None = None,
        private: bool = False,
    ) -> None:
        self.shared = shared
        self.caller = caller
        self._private = private
        self._changing = threading.Lock()
        self._own = tuple(own)
        self._layer = self._made_of({})

    def get(self, name: str) -> Tool:
        """Find a tool by id, wire name or bare name; what was added comes first."""
        layer = self._layer
        if not layer.skills and not self._own and not self._private:
            return self.shared.get(name)  # most often nothing was added, and nothing is hidden
        if name in layer.registry:
            return layer.registry.get(name)
        try:
            tool = self.shared.get(name)
        except UnknownToolError as error:
            near = nearest(name, layer.names)
            if not near:
                raise
            raise UnknownToolError(name, known=[*near, *error.nearest]) from None
        if self._is_hidden(tool, layer):
            raise UnknownToolError(name, known=layer.names)
        return _named(tool, layer)

    @property
    def version(self) -> tuple[object, ...]:
        """What is unequal to its former self when the tools may be others."""
        return self._layer, getattr(self.shared, "version", None)

    def __iter__(self) -> Iterator[Tool]:
        """Yield every tool as its caller knows it: Skillpouch's own, the shared ones, the added."""
        layer = self._layer
        shared = self.shared if isinstance(self.shared, Iterable) else ()
        below = (_named(tool, layer) for tool in shared if not self._is_hidden(tool, layer))
        own = {tool.id for tool in self._own}
        added = (tool for tool in layer.registry if tool.id not in own)
        for tool in (*self._own, *below, *added):
            yield tool if tool.caller is self.caller else replace(tool, caller=self.caller)

    def put(self, skill: str, tools: Iterable[Tool]) -> list[str]:
        """Add the tools of a skill in the place of those it had; return their wire names."""
        bound = tuple(replace(tool, caller=self.caller) for tool in tools)
        with self._changing:
            others = {name: kept for name, kept in self._layer.skills.items() if name != skill}
            self._layer = self._made_of(others | {skill: bound})
            return [self._layer.registry.named(tool).name for tool in bound]

    def put_own(self, tools: Iterable[Tool]) -> None:
        """Add tools of Skillpouch's own."""
        with self._changing:
            self._own = (*self._own, *tools)
            self._layer = self._made_of(self._layer.skills)

    def drop(self, skill: str) -> list[str]:
        """Take out the tools of a skill; return the wire names they had."""
        with self._changing:
            layer = self._layer
            gone = layer.skills.get(skill, ())
            others = {name: kept for name, kept in layer.skills.items() if name != skill}
            self._layer = self._made_of(others)
            return [layer.registry.named(tool).name for tool in gone]

    def drop_tool(self, tool: Tool) -> bool:
        """Take out one tool; tell whether its skill has others left."""
        with self._changing:
            skills = dict(self._layer.skills)
            left = tuple(each for each in skills.get(tool.skill, ()) if each.id != tool.id)
            skills[tool.skill] = left
            self._layer = self._made_of(skills)
            return bool(left)

    def owner_of(self, name: str) -> Tool | None:
        """Return the tool that was added and has this name now, None when none was."""
        registry = self._layer.registry
        tool = registry.get(name) if name in registry else None
        return None if tool is None or isinstance(tool.runs, BuiltIn) else tool

    def tools_of(self, skill: str) -> tuple[Tool, ...]:
        """Return the tools that a skill has added, under the names they have now."""
        layer = self._layer
        return tuple(map(layer.registry.named, layer.skills.get(skill, ())))

    def _made_of(self, skills: dict[str, tuple[Tool, ...]]) -> _Layer:
        registry = ToolRegistry()
        for tool in (*self._own, *(tool for tools in skills.values() for tool in tools)):
            registry.register(tool)
        names = frozenset(tool.name for tool in registry)
        return _Layer(skills, registry, names)

    def _is_hidden(self, tool: Tool, layer: _Layer) -> bool:
        if tool.id in BUILT_IN_NAMES:
            return self._private
        return bool(tool.skill) and tool.skill in layer.skills


def _named(tool: Tool, layer: _Layer) -> Tool:
    if tool.name not in layer.names or isinstance(tool.runs, BuiltIn):
        return tool
    short = tool.id.removeprefix(f"{tool.skill}.")
    return replace(tool, name=qualified_wire_name(tool.skill, short))
