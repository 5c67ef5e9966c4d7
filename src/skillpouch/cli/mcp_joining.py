"""Joins the MCP servers of the user's own file for as long as one command runs."""

from contextlib import AbstractContextManager, nullcontext

from skillpouch.manager import SkillManager
from skillpouch.mcp_client import read_user_mcp


def mcp_servers_for(manager: SkillManager, text: str) -> AbstractContextManager[object]:
    """Return the user's servers to enter, if a tool of one of them is named in a text.

    Starting them takes a moment, and a command that names none of their tools needs none.
    """
    named = "mcp:" in text or "mcp__" in text
    entries = [
        entry
        for entry in (read_user_mcp() if named else ())
        if f"mcp:{entry.name}" in text or f"mcp__{entry.name}" in text
    ]
    if not entries:
        return nullcontext()
    from skillpouch.mcp_client import McpServers

    return McpServers(manager, entries)
