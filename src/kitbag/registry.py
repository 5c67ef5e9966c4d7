"""Names → tools: ids, wire names and short names, with every collision settled and on record."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from kitbag.errors import AmbiguousNameError, BuiltInNameError, UnknownToolError
from kitbag.names import hashed_wire_name, qualified_wire_name
from kitbag.problems import Problem
from kitbag.tools import BuiltIn, Tool

# Names of tools that Kitbag itself provides; no skill can take one of them.
WORKSPACE_NAMES = frozenset(("bash", "read", "write", "edit", "grep", "glob", "ls"))
BUILT_IN_NAMES = WORKSPACE_NAMES | {"activate_skill", "read_skill_file", "search_tools"}


class ToolRegistry:
    """Every tool under its id; look-ups cost the same however many there are.

    When two tools want one wire name, the one of higher rank (loaded later) has it, and the other
    is called `skill__tool`. A name that Kitbag's own tools use is never given away.
    """

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._ranks: dict[str, int] = {}
        self._wanting: dict[str, list[str]] = {}  # wire name → ids, the owner last
        self._short: dict[str, list[str]] = {}  # tool name without its skill → ids
        self._fallback: dict[str, str] | None = None  # made when first needed
        self._fallback_ids: dict[str, str] | None = None

    def __iter__(self) -> Iterator[Tool]:
        return map(self.named, self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: str) -> bool:
        return bool(self._ids(name))

    def has_id(self, tool_id: str) -> bool:
        """Tell whether there is a tool of this id."""
        return tool_id in self._tools

    def register(self, tool: Tool | Callable[..., Any], *, rank: int | None = None) -> None:
        """Add a tool or a function, or replace the one of the same id.

        The default rank is the highest.
        """
        if not isinstance(tool, Tool):
            from kitbag.functions import tool as tool_of

            tool = tool_of(tool)
        if is_built_in(tool) and not isinstance(tool.runs, BuiltIn):
            raise BuiltInNameError(tool.id)
        self._forget(tool.id)
        self._tools[tool.id] = tool
        self._ranks[tool.id] = len(self._tools) if rank is None else rank
        wanting = self._wanting.setdefault(tool.name, [])
        wanting.append(tool.id)
        wanting.sort(key=self._ranks.__getitem__)
        self._short.setdefault(_short_name(tool), []).append(tool.id)
        self._fallback = self._fallback_ids = None

    def remove(self, tool_id: str) -> bool:
        """Take a tool out; a tool that it had shadowed gets the wire name back.

        Kitbag's own tools stay.
        """
        return tool_id not in BUILT_IN_NAMES and self._forget(tool_id)

    def _forget(self, tool_id: str) -> bool:
        tool = self._tools.pop(tool_id, None)
        if tool is None:
            return False
        del self._ranks[tool_id]
        for table, name in ((self._wanting, tool.name), (self._short, _short_name(tool))):
            table[name].remove(tool_id)
            if not table[name]:
                del table[name]
        self._fallback = self._fallback_ids = None
        return True

    def get(self, name: str) -> Tool:
        """Find a tool by id, wire name, or its bare name when only one skill has it."""
        ids = self._ids(name)
        if len(ids) > 1:
            raise AmbiguousNameError(name, sorted(ids))
        if not ids:
            count = len(self._tools.keys() - BUILT_IN_NAMES)  # `kitbag list` shows these
            raise UnknownToolError(name, known=self._known_names(), count=count)
        return self.named(self._tools[ids[0]])

    def problems(self) -> list[Problem]:
        """Name both sides of every wire name that more than one tool wants."""
        found: list[Problem] = []
        for name, ids in self._wanting.items():
            taken = name in BUILT_IN_NAMES
            losers = [each for each in ids if each != name] if taken else ids[:-1]
            owner = "Kitbag's own tool" if taken else ids[-1]
            found += [self._collision(name, owner, loser) for loser in losers]
        return found

    def _collision(self, name: str, owner: str, loser: str) -> Problem:
        tool = self.named(self._tools[loser])
        message = f"{owner} has the name {name!r}: {loser} is called {tool.name!r}"
        return Problem(path=tool.origin, code="tool-shadowed", severity="warning", message=message)

    def _ids(self, name: str) -> list[str]:
        if name in self._tools:
            return [name]
        if name in BUILT_IN_NAMES:
            return []
        if name in self._wanting:
            return self._wanting[name][-1:]
        by_fallback = self._by_fallback().get(name)
        return [by_fallback] if by_fallback else self._short.get(name, [])

    def _fallbacks(self) -> dict[str, str]:
        """Return id → what the tool is called when the name it wants is taken."""
        if self._fallback is None:
            taken = set(self._wanting)
            self._fallback = {}
            for tool in self._tools.values():
                names = _fallback_names(tool)
                name = next(names)
                while name in taken:
                    name = next(names)
                taken.add(name)
                self._fallback[tool.id] = name
        return self._fallback

    def _by_fallback(self) -> dict[str, str]:
        if self._fallback is None or self._fallback_ids is None:
            self._fallback_ids = {name: tool_id for tool_id, name in self._fallbacks().items()}
        return self._fallback_ids

    def named(self, tool: Tool) -> Tool:
        """Return a registered tool under the wire name it really has."""
        if is_built_in(tool):
            return tool
        if tool.name not in BUILT_IN_NAMES and self._wanting[tool.name][-1] == tool.id:
            return tool
        return replace(tool, name=self._fallbacks()[tool.id])

    def _known_names(self) -> list[str]:
        return [*self._tools, *self._short]


def is_built_in(tool: Tool) -> bool:
    """Tell whether a tool is Kitbag's own: only those have such an id, without a skill in it."""
    return tool.id in BUILT_IN_NAMES


def _short_name(tool: Tool) -> str:
    return tool.id.removeprefix(f"{tool.skill}.")


def _fallback_names(tool: Tool) -> Iterator[str]:
    """Yield what a tool may be called when its name is taken, without end."""
    short = _short_name(tool)
    yield qualified_wire_name(tool.skill, short)
    for attempt in count():
        yield hashed_wire_name(tool.skill, short, attempt)
