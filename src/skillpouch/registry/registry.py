"""ToolRegistry: gives each tool an id, a wire name and a short name, all unique."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Protocol, runtime_checkable
from unicodedata import normalize

from skillpouch.errors import AmbiguousNameError, BuiltInNameError, UnknownToolError
from skillpouch.problems import Problem
from skillpouch.tools import BuiltIn, Tool, hashed_wire_name, in_any_form, qualified_wire_name


class FallbackNames:
    """Gives every tool one name that nobody wants and no other tool has.

    The first that comes has the better name. One that passed over a name gets it when it becomes
    free. A change touches only the tools that the name concerns, however many others there are.
    """

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        self._names: dict[str, str] = {}  # by id
        self._ids: dict[str, str] = {}  # by name
        self._passed: dict[str, dict[str, Tool]] = {}  # a name → those who would have liked it
        self._tools: dict[str, Tool] = {}

    def name_of(self, tool_id: str) -> str | None:
        return self._names.get(tool_id)

    def id_of(self, name: str) -> str | None:
        return self._ids.get(name)

    def add(self, tool: Tool) -> None:
        self._tools[tool.id] = tool
        for name in candidates(tool):
            if self._is_free(name, tool.id):
                self._give(tool.id, name)
                return
            self._passed.setdefault(name, {})[tool.id] = tool

    def remove(self, tool_id: str) -> None:
        tool = self._tools.pop(tool_id, None)
        if tool is None:
            return
        name = self._names.pop(tool_id)
        self._ids.pop(name, None)
        self._forget_passed(tool, name)
        self.freed(name)

    def wanted(self, name: str) -> None:
        """Hear that somebody wants a name: who had it as a fallback gets another."""
        holder = self._ids.get(name)
        if holder is not None:
            self._move(self._tools[holder])

    def freed(self, name: str) -> None:
        """Hear that nobody wants a name any more: who passed it over gets it."""
        waiting = self._passed.get(name)
        if waiting:
            self._move(next(iter(waiting.values())))

    def _move(self, tool: Tool) -> None:
        old = self._names[tool.id]
        self._forget_passed(tool, old)
        self.add(tool)  # with the old name still there: a reader finds one of the two
        if self._names[tool.id] != old and self._ids.get(old) == tool.id:
            del self._ids[old]
            self.freed(old)

    def _is_free(self, name: str, tool_id: str) -> bool:
        return not self._is_wanted(name) and self._ids.get(name, tool_id) == tool_id

    def _give(self, tool_id: str, name: str) -> None:
        self._ids[name] = tool_id
        self._names[tool_id] = name

    def _forget_passed(self, tool: Tool, last: str) -> None:
        for name in candidates(tool):
            if name == last:
                return
            waiting = self._passed.get(name, {})
            waiting.pop(tool.id, None)
            if not waiting:
                self._passed.pop(name, None)


def candidates(tool: Tool) -> Iterator[str]:
    """Yield what a tool may be called when its name is taken, without end."""
    short = short_name(tool)
    yield qualified_wire_name(tool.skill, short)
    for attempt in count():
        yield hashed_wire_name(tool.skill, short, attempt)


def short_name(tool: Tool) -> str:
    """Return the name of a tool without that of its skill."""
    return tool.id.removeprefix(f"{tool.skill}.")


# Names of tools that Skillpouch itself provides; no skill can take one of them.
WORKSPACE_NAMES = frozenset(("bash", "read", "write", "edit", "grep", "glob", "ls"))
AUTHORING_NAMES = frozenset(("define_tool", "remove_tool"))
DISCLOSURE_NAMES = frozenset(("activate_skill", "read_skill_file", "search_tools"))
BUILT_IN_NAMES = WORKSPACE_NAMES | AUTHORING_NAMES | DISCLOSURE_NAMES


# Comparing a wrong name with a hundred thousand takes a second: of more names than this, only those
# are compared that begin alike.
_MOST_COMPARED = 4_096


@runtime_checkable
class AsTool(Protocol):
    """Something that knows what tool it is."""

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
        self._claims: dict[str, dict[str, int]] = {}  # wire name → ids that want it, with ranks
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
        """Tell whether there is a tool of this id."""
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
        self._short.setdefault(short_name(tool), {})[tool.id] = None
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
        """Take a tool out; a tool that it had shadowed gets the wire name back.

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
        namesakes = self._short[short_name(tool)]
        del namesakes[tool_id]
        if not namesakes:
            del self._short[short_name(tool)]
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
        """Name both sides of every wire name that more than one tool wants."""
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
        owner = self._owners.get(name) or self._known_fallbacks().id_of(name)
        return [owner] if owner else list(in_any_form(self._short, name) or self._composed(name))

    def _composed(self, name: str) -> list[str]:
        """Return the tool whose id is this one in another form of Unicode."""
        if name.isascii():
            return []
        wanted = normalize("NFC", name)
        return [each for each in list(self._tools) if normalize("NFC", each) == wanted]

    def _known_fallbacks(self) -> FallbackNames:
        """Return what tools are called that lost their names, with all tools in it."""
        if self._without_fallback:
            with self._writing:
                # Emptied last: who finds it so finds all fallbacks there.
                for tool in self._without_fallback.values():
                    self._fallbacks.add(tool)
                self._without_fallback.clear()
        return self._fallbacks

    def named(self, tool: Tool) -> Tool:
        """Return a registered tool under the wire name it really has."""
        if is_built_in(tool):
            return tool
        if tool.name not in BUILT_IN_NAMES and self._owners.get(tool.name) == tool.id:
            return tool
        name = self._known_fallbacks().name_of(tool.id)
        return replace(tool, name=name) if name else tool

    def _count(self) -> int:
        """Count what `skillpouch list` shows."""
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
    """Return who has a name: of the highest rank, the last to come."""
    return _by_rank(claims)[-1]


def _by_rank(claims: dict[str, int]) -> list[str]:
    claims = dict(claims)
    return sorted(claims, key=claims.__getitem__)


def is_built_in(tool: Tool) -> bool:
    """Tell whether a tool is Skillpouch's own: only those have an id without a skill in it."""
    return tool.id in BUILT_IN_NAMES
