"""ToolRegistry finds tools by name; ToolOverlay adds and removes tools over a shared source.

Every tool has an id and a wire name that no other has, and a short name.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable
from unicodedata import normalize

from skillpouch.errors import AmbiguousNameError, BuiltInNameError, UnknownToolError, nearest
from skillpouch.problems import Problem
from skillpouch.registry.fallback_names import FallbackNames
from skillpouch.tools import BuiltIn, Caller, Tool, in_any_form, qualified_wire_name, short_name

# Names of tools that Skillpouch itself provides; no skill can take one of them.
WORKSPACE_NAMES = frozenset(("bash", "read", "write", "edit", "grep", "glob", "ls"))
FOR_SKILL = "run_for_skill"
AUTHORING_NAMES = frozenset(("define_tool", "remove_tool"))
DISCLOSURE_NAMES = frozenset(("activate_skill", "read_skill_file", "search_tools"))
BUILT_IN_NAMES = WORKSPACE_NAMES | AUTHORING_NAMES | DISCLOSURE_NAMES | {FOR_SKILL}


# Comparing a wrong name with a hundred thousand names takes a second: if there are more than this,
# only names with the same beginning are compared.
_MOST_COMPARED = 4_096


@runtime_checkable
class AsTool(Protocol):
    """An object that can be registered as a tool."""

    def as_tool(self) -> Tool: ...


class ToolRegistry:
    """Every tool under its id; look-ups cost the same however many there are.

    When two tools want one wire name, the one of higher rank (loaded later) has it, and the other
    is called `skill__tool`. A name that Skillpouch's own tools use is never given away.

    Any thread may read while another registers or removes: a tool that is replaced is found all
    the time, in its old form or its new one. Tools come in the order in which they were first
    registered.
    """

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._claims: dict[str, dict[str, int]] = {}  # wire name → ids that declare it, with ranks
        self._owners: dict[str, str] = {}  # wire name → the id that has it
        self._short: dict[str, dict[str, None]] = {}  # tool name without its skill → ids
        self._fallbacks = FallbackNames(self._claims.__contains__)
        self._without_fallback: dict[str, Tool] = {}  # given one when somebody asks for any
        self._highest = 0
        self.version = 0  # counts changes
        self._writing = threading.RLock()

    def __iter__(self) -> Iterator[Tool]:
        return map(self.named, list(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: str) -> bool:
        return bool(self._ids(name))

    def has_id(self, tool_id: str) -> bool:
        """Tell whether a tool has this id."""
        return tool_id in self._tools

    def register(
        self, tool: Tool | AsTool | Callable[..., Any], *, rank: int | None = None
    ) -> None:
        """Add a tool, a function or a ScriptedTool, or replace the one of the same id.

        The default rank is the highest.
        """
        if not isinstance(tool, Tool):
            from skillpouch.functions import tool as tool_of

            tool = tool.as_tool() if isinstance(tool, AsTool) else tool_of(tool)
        if is_built_in(tool) and not isinstance(tool.runs, BuiltIn):
            raise BuiltInNameError(tool.id)
        with self._writing:
            self._put(tool, self._highest + 1 if rank is None else rank)

    def _put(self, tool: Tool, rank: int) -> None:
        self.version += 1
        self._highest = max(self._highest, rank)
        before = self._tools.get(tool.id)
        if before is not None and before.skill != tool.skill:
            self._forget(tool.id)
            before = None
        self._claim(tool, rank)
        self._short.setdefault(short_name(tool.skill, tool.id), {})[tool.id] = None
        self._tools[tool.id] = tool
        if before is None:
            self._without_fallback[tool.id] = tool
        elif before.name != tool.name:
            self._unclaim(before)

    def _claim(self, tool: Tool, rank: int) -> None:
        claims = self._claims.get(tool.name)
        if claims is None:
            claims = self._claims[tool.name] = {}
            self._fallbacks.wanted(tool.name)
        claims.pop(tool.id, None)  # of two with one rank, the one that came later has the name
        claims[tool.id] = rank
        owner = self._owners.get(tool.name, tool.id)
        if owner == tool.id or claims[owner] <= rank:
            self._owners[tool.name] = _owner(claims) if owner == tool.id else tool.id

    def _unclaim(self, tool: Tool) -> None:
        claims = self._claims[tool.name]
        del claims[tool.id]
        if claims:
            if self._owners[tool.name] == tool.id:
                self._owners[tool.name] = _owner(claims)
            return
        del self._owners[tool.name]
        del self._claims[tool.name]
        self._fallbacks.freed(tool.name)

    def remove(self, tool_id: str) -> bool:
        """Remove a tool; a tool that it had shadowed gets the wire name back.

        Skillpouch's own tools stay.
        """
        with self._writing:
            return tool_id not in BUILT_IN_NAMES and self._forget(tool_id)

    def _forget(self, tool_id: str) -> bool:
        tool = self._tools.pop(tool_id, None)
        if tool is None:
            return False
        self.version += 1
        self._unclaim(tool)
        namesakes = self._short[short_name(tool.skill, tool.id)]
        del namesakes[tool_id]
        if not namesakes:
            del self._short[short_name(tool.skill, tool.id)]
        if self._without_fallback.pop(tool_id, None) is None:
            self._fallbacks.remove(tool_id)
        return True

    def get(self, name: str) -> Tool:
        """Find a tool by id, wire name, or its bare name when only one skill has it."""
        ids = self._ids(name)
        if len(ids) > 1:
            raise AmbiguousNameError(name, sorted(ids))
        # One that was removed a moment ago is unknown like any other.
        tool = self._tools.get(ids[0]) if ids else None
        if tool is None:
            raise UnknownToolError(name, known=self._names_like(name), count=self._count())
        return self.named(tool)

    def problems(self) -> list[Problem]:
        """Report every wire name that more than one tool declares, with these tools."""
        found: list[Problem] = []
        for name, claims in list(self._claims.items()):
            taken = name in BUILT_IN_NAMES
            if taken or len(claims) > 1:
                owner = name if taken else self._owners.get(name, "")
                said = "Skillpouch's own tool" if taken else owner
                losers = [each for each in _by_rank(claims) if each != owner]
                tools = filter(None, map(self._tools.get, losers))
                found += [self._collision(name, said, self.named(tool)) for tool in tools]
        return found

    def _collision(self, name: str, owner: str, tool: Tool) -> Problem:
        message = f"{owner} has the name {name!r}: {tool.id} is called {tool.name!r}"
        return Problem(path=tool.origin, code="tool-shadowed", severity="warning", message=message)

    def _ids(self, name: str) -> list[str]:
        if name in self._tools:
            return [name]
        if name in BUILT_IN_NAMES:
            return []
        owner = self._owners.get(name) or self._known_fallbacks().ids.get(name)
        if owner:
            return [owner]
        same = self._short.get(name) or in_any_form(self._short, name) or self._composed(name)
        return list(same)

    def _composed(self, name: str) -> list[str]:
        """Return the ids that equal this one after Unicode normalization."""
        if name.isascii():
            return []
        wanted = normalize("NFC", name)
        return [each for each in list(self._tools) if normalize("NFC", each) == wanted]

    def _known_fallbacks(self) -> FallbackNames:
        """Return the fallback names, after giving one to every tool that has none yet."""
        if self._without_fallback:
            with self._writing:
                # Cleared last: a reader that finds it empty must find all fallback names.
                for tool in self._without_fallback.values():
                    self._fallbacks.add(tool)
                self._without_fallback.clear()
        return self._fallbacks

    def named(self, tool: Tool) -> Tool:
        """Return a registered tool with the wire name that it has now."""
        if is_built_in(tool):
            return tool
        if tool.name not in BUILT_IN_NAMES and self._owners.get(tool.name) == tool.id:
            return tool
        name = self._known_fallbacks().names.get(tool.id)
        return replace(tool, name=name) if name else tool

    def _count(self) -> int:
        """Return how many tools `skillpouch list` shows."""
        return len(self._tools) - sum(name in self._tools for name in BUILT_IN_NAMES)

    def _names_like(self, name: str) -> list[str]:
        alike = [*list(self._tools), *list(self._short)]
        for length in range(1, len(name) + 1):
            if len(alike) <= _MOST_COMPARED:
                break
            closer = [each for each in alike if each.startswith(name[:length])]
            alike = closer or alike[:_MOST_COMPARED]
        return alike[:_MOST_COMPARED]


def _owner(claims: dict[str, int]) -> str:
    """Return the id that has a name: the one of highest rank, and of these the last registered."""
    return _by_rank(claims)[-1]


def _by_rank(claims: dict[str, int]) -> list[str]:
    claims = dict(claims)
    return sorted(claims, key=claims.__getitem__)


def is_built_in(tool: Tool) -> bool:
    """Tell whether a tool is Skillpouch's own: only those have an id without a skill in it."""
    return tool.id in BUILT_IN_NAMES


class ToolSource(Protocol):
    """Whatever finds a tool by name: a registry, or the skills of a manager."""

    def get(self, name: str) -> Tool: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The tools that were added, as a snapshot: it never changes, so readers need no lock."""

    skills: dict[str, tuple[Tool, ...]] = field(default_factory=dict)
    registry: ToolRegistry = field(default_factory=ToolRegistry)
    names: frozenset[str] = frozenset()


class ToolOverlay:
    """Adds tools, by skill, over a source that others share; the source itself is never changed.

    An added skill hides the shared skill of the same name. An added tool takes the wire name that
    it declares; a shared tool of that name is called `skill__tool` until the added one is removed.
    `own` are Skillpouch's own tools for this overlay. With `private`, those of the shared source
    are hidden, because they keep state of other callers.
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
        """Find a tool by id, wire name or bare name; added tools come first."""
        layer = self._layer
        if not layer.skills and not self._own and not self._private:
            return self.shared.get(name)  # usually nothing is added or hidden
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
        """A value that becomes unequal whenever the tools may have changed."""
        return self._layer, getattr(self.shared, "version", None)

    def __iter__(self) -> Iterator[Tool]:
        """Yield every tool under its current name: Skillpouch's own, the shared, then the added."""
        layer = self._layer
        shared = self.shared if isinstance(self.shared, Iterable) else ()
        below = (_named(tool, layer) for tool in shared if not self._is_hidden(tool, layer))
        own = {tool.id for tool in self._own}
        added = (tool for tool in layer.registry if tool.id not in own)
        for tool in (*self._offered(), *below, *added):
            yield tool if tool.caller is self.caller else replace(tool, caller=self.caller)

    @property
    def knows_skills(self) -> bool:
        """Whether a command can be run for a skill of the shared source."""
        return bool(getattr(self.shared, "knows_skills", False))

    def _offered(self) -> Iterator[Tool]:
        return (tool for tool in self._own if tool.id != FOR_SKILL or self.knows_skills)

    def put(self, skill: str, tools: Iterable[Tool]) -> list[str]:
        """Add the tools of a skill, replacing its earlier ones; return their wire names."""
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
        """Remove the tools of a skill; return the wire names they had."""
        with self._changing:
            layer = self._layer
            gone = layer.skills.get(skill, ())
            others = {name: kept for name, kept in layer.skills.items() if name != skill}
            self._layer = self._made_of(others)
            return [layer.registry.named(tool).name for tool in gone]

    def drop_tool(self, tool: Tool) -> bool:
        """Remove one tool; tell whether its skill has others left."""
        with self._changing:
            skills = dict(self._layer.skills)
            left = tuple(each for each in skills.get(tool.skill, ()) if each.id != tool.id)
            skills[tool.skill] = left
            self._layer = self._made_of(skills)
            return bool(left)

    def owner_of(self, name: str) -> Tool | None:
        """Return the added tool that has this name now, None if there is none."""
        registry = self._layer.registry
        tool = registry.get(name) if name in registry else None
        return None if tool is None or isinstance(tool.runs, BuiltIn) else tool

    def tools_of(self, skill: str) -> tuple[Tool, ...]:
        """Return the added tools of a skill, with the wire names they have now."""
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
    short = short_name(tool.skill, tool.id)
    return replace(tool, name=qualified_wire_name(tool.skill, short))


def overlay_for(tools: Iterable[Tool] | ToolSource, caller: Caller) -> ToolOverlay:
    """Return a source of tools that `caller` runs: single tools, or over what others share."""
    if isinstance(tools, ToolOverlay):
        tools.caller = tools.caller or caller
        return tools
    if isinstance(tools, ToolRegistry) or not isinstance(tools, Iterable):
        return ToolOverlay(tools, caller=caller)
    registry = ToolRegistry()
    for tool in tools:
        registry.register(replace(tool, caller=caller))
    return ToolOverlay(registry, caller=caller)
