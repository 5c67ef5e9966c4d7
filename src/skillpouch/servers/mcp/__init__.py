"""The MCP server: every tool, skill and file of a manager for agents that speak MCP.

`McpServer` serves over standard input and output, or over HTTP; `skillpouch serve mcp` does both.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillpouch.servers.mcp.server import McpServer
    from skillpouch.servers.mcp.settings import HttpSettings, LongCalls, McpLimits

__all__ = ["HttpSettings", "LongCalls", "McpLimits", "McpServer"]

_HOMES = {
    "HttpSettings": "settings",
    "LongCalls": "settings",
    "McpLimits": "settings",
    "McpServer": "server",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, and say what to install when it cannot be."""
    from importlib import import_module

    from skillpouch.runtime.extras import require_extra

    if name not in _HOMES:
        raise AttributeError(f"module 'skillpouch.servers.mcp' has no attribute {name!r}")
    require_extra("mcp")
    return getattr(import_module(f"skillpouch.servers.mcp.{_HOMES[name]}"), name)
