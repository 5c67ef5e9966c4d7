"""Tools of the MCP servers that the user's own file names, under the same policy as all others.

`McpServers(manager, read_user_mcp())` joins them to a manager while inside `with`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillpouch.mcp_client.configuration import parse_user_mcp, read_user_mcp
    from skillpouch.mcp_client.joining import McpServers

__all__ = ["McpServers", "parse_user_mcp", "read_user_mcp"]

_HOMES = {
    "McpServers": "joining",
    "parse_user_mcp": "configuration",
    "read_user_mcp": "configuration",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, and say what to install when it cannot be."""
    from importlib import import_module

    from skillpouch.runtime.extras import require_extra

    if name not in _HOMES:
        raise AttributeError(f"module 'skillpouch.mcp_client' has no attribute {name!r}")
    if _HOMES[name] == "joining":
        require_extra("mcp")
    return getattr(import_module(f"skillpouch.mcp_client.{_HOMES[name]}"), name)
