"""FallbackNames: the name of a tool whose own wire name belongs to another tool."""

from collections.abc import Callable, Iterator
from itertools import count

from skillpouch.tools import Tool, hashed_wire_name, qualified_wire_name, short_name


class FallbackNames:
    """Gives every tool a fallback name that no tool declares and no other tool has.

    The tool that is added first gets the better name. A tool that had to skip a name gets it when
    it becomes free. A change touches only the tools that may have the name, however many others
    there are.
    """

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        self.names: dict[str, str] = {}  # by id
        self.ids: dict[str, str] = {}  # by name
        self._passed: dict[str, dict[str, Tool]] = {}  # name → tools that had to skip it
        self._tools: dict[str, Tool] = {}

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
        name = self.names.pop(tool_id)
        self.ids.pop(name, None)
        self._forget_passed(tool, name)
        self.freed(name)

    def wanted(self, name: str) -> None:
        """Called when a tool declares a name: the tool that has it as a fallback gets another."""
        holder = self.ids.get(name)
        if holder is not None:
            self._move(self._tools[holder])

    def freed(self, name: str) -> None:
        """Called when no tool declares a name any more: the first that skipped it gets it."""
        waiting = self._passed.get(name)
        if waiting:
            self._move(next(iter(waiting.values())))

    def _move(self, tool: Tool) -> None:
        old = self.names[tool.id]
        self._forget_passed(tool, old)
        self.add(tool)  # the old name is removed after this: a reader always finds one of the two
        if self.names[tool.id] != old and self.ids.get(old) == tool.id:
            del self.ids[old]
            self.freed(old)

    def _is_free(self, name: str, tool_id: str) -> bool:
        return not self._is_wanted(name) and self.ids.get(name, tool_id) == tool_id

    def _give(self, tool_id: str, name: str) -> None:
        self.ids[name] = tool_id
        self.names[tool_id] = name

    def _forget_passed(self, tool: Tool, last: str) -> None:
        for name in candidates(tool):
            if name == last:
                return
            waiting = self._passed.get(name, {})
            waiting.pop(tool.id, None)
            if not waiting:
                self._passed.pop(name, None)


def candidates(tool: Tool) -> Iterator[str]:
    """Yield an endless series of fallback names for a tool, the best first."""
    short = short_name(tool.skill, tool.id)
    yield qualified_wire_name(tool.skill, short)
    for attempt in count():
        yield hashed_wire_name(tool.skill, short, attempt)
