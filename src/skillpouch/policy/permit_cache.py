"""Yes to every call of a tool: remembered where nothing about a call can change the answer."""

from typing import Any

from skillpouch.calls import ToolCall
from skillpouch.policy.permit import Permit
from skillpouch.tools import Function, Hosted

_MOST_KNOWN = 4096


class StandingPermits:
    """Permits by all that a policy sees of a tool that has no folder and was granted nothing.

    The arguments are left out: only what was decided without a look at them belongs here.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...] | None, Permit] = {}

    def of(self, call: ToolCall) -> Permit | None:
        """Return the permit that stands for a call, None when it has to be decided."""
        return self._known.get(_key(call))

    def keep(self, call: ToolCall, permit: Permit) -> None:
        """Remember what was decided; nothing when the next call may have to be decided anew."""
        key = _key(call)
        if key is None:
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = permit


def _key(call: ToolCall) -> tuple[Any, ...] | None:
    """Return what a policy sees of a tool; None when other things count, too."""
    tool, runs = call.tool, call.tool.runs
    # What else can run needs grants, and whoever replaces it may need others.
    if not isinstance(runs, Function | Hosted) or (isinstance(runs, Hosted) and runs.granted):
        return None
    if tool.home or tool.allowed_tools is not None or call.terms.sandbox != "on":
        return None
    return tool.id, tool.skill, tool.name, tuple(tool.effects), type(runs)
