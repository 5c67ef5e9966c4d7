"""What runs a tool: one backend for each kind, in one table, loaded when a call first needs it."""

from importlib import import_module
from typing import Protocol

from skillpouch.calls import ToolCall
from skillpouch.errors import NotRunnableError
from skillpouch.results import ToolResult
from skillpouch.tools import (
    Binary,
    BuiltIn,
    External,
    Function,
    Hosted,
    Http,
    InlineScript,
    Runs,
    Script,
    Tool,
)


class Backend(Protocol):
    """Runs the calls of one kind of tool. A tool that ran and failed is a result, not an error."""

    async def run(self, call: ToolCall) -> ToolResult: ...


# Module and name of the backend of each kind. By name, so that a command that calls a script loads
# neither an http client nor the built-in tools.
_HOMES: dict[type[Runs], tuple[str, str]] = {
    Script: ("skillpouch.backends.script", "ScriptBackend"),
    InlineScript: ("skillpouch.backends.inline", "InlineBackend"),
    Binary: ("skillpouch.backends.binary", "BinaryBackend"),
    Http: ("skillpouch.backends.http", "HttpBackend"),
    External: ("skillpouch.backends.external", "ExternalBackend"),
    Function: ("skillpouch.backends.function", "FunctionBackend"),
    Hosted: ("skillpouch.backends.function", "HostedBackend"),
    BuiltIn: ("skillpouch.builtins.workspace.running", "BuiltInBackend"),
}
_made: dict[type[Runs], Backend] = {}


def backend_of(tool: Tool) -> Backend:
    """Return the backend of a tool; raise NotRunnableError for one that is only instructions."""
    kind = type(tool.runs)
    found = _made.get(kind)
    if found is None:
        if kind not in _HOMES:
            raise NotRunnableError(tool.id, tool.kind, tool.skill)
        module, name = _HOMES[kind]
        found = _made[kind] = getattr(import_module(module), name)()
    return found
