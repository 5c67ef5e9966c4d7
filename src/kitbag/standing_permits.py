"""Yes to every call of a tool: remembered where nothing about a call can change the answer."""

from typing import Any

from kitbag.calls import ToolCall
from kitbag.permit import Permit
from kitbag.tools import Hosted

_MOST_KNOWN = 4096


class StandingPermits:
    """Permits by all that a policy sees of a tool that has no folder and was granted nothing.

    The arguments are left out: only what was decided without a look at them belongs here.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Permit] = {}

    def of(self, call: ToolCall) -> Permit | None:
        """Return the permit that stands for a call, None when it has to be decided."""
        return self._known.get(_key(call)) if _is_eligible(call) else None

    def keep(self, call: ToolCall, permit: Permit) -> None:
        """Remember what was decided; nothing when the next call may have to be decided anew."""
        if not _is_eligible(call):
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[_key(call)] = permit


def _is_eligible(call: ToolCall) -> bool:
    tool = call.tool
    if tool.home or tool.allowed_tools is not None or call.terms.sandbox != "on":
        return False
    return not (isinstance(tool.runs, Hosted) and tool.runs.granted)


def _key(call: ToolCall) -> tuple[Any, ...]:
    tool = call.tool
    return tool.id, tool.skill, tool.name, tuple(tool.effects), type(tool.runs)
