"""The user's own `mcp.toml`: which MCP servers are tools here."""

import os
from pathlib import Path

from skillpouch.environment import config_directory
from skillpouch.policy.mcp_entries import McpEntry, read_entries
from skillpouch.policy.policy_file import PolicyFile, parse_file, read_bytes
from skillpouch.policy.user_file import refuse_strangers

NAME = "mcp.toml"
_MOST_BYTES = 1024 * 1024


def user_mcp_path() -> Path | None:
    """Return where the file is looked for, if there is a home at all."""
    directory = config_directory()
    return directory / NAME if directory else None


def read_user_mcp(path: Path | None = None) -> tuple[McpEntry, ...]:
    """Read the servers of the user; without a file, none.

    Raises:
        PolicyFileError: it is there and cannot be used, for every reason it names.
    """
    path = path or user_mcp_path()
    if path is None or not os.path.lexists(path):
        return ()
    refuse_strangers(path)
    return parse_user_mcp(read_bytes(str(path), _MOST_BYTES), str(path))


def parse_user_mcp(data: bytes, path: str = NAME) -> tuple[McpEntry, ...]:
    """Read the bytes of an `mcp.toml`."""
    return parse_file(data, path, _entries)


def _entries(file: PolicyFile) -> tuple[McpEntry, ...]:
    found = read_entries(file)
    file.top.end()
    return found
