"""Which MCP servers the user's own file names, and the errors of such a server."""

import os
from collections.abc import Sequence
from pathlib import Path

from skillpouch.environment import config_directory
from skillpouch.errors import CommandStartError, SkillpouchError
from skillpouch.policy.loading import refuse_writable_by_others
from skillpouch.policy.policy_file import PolicyFile, parse_file, read_bytes
from skillpouch.policy.project import McpEntry, read_entries

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
    refuse_writable_by_others(path)
    return parse_user_mcp(read_bytes(str(path), _MOST_BYTES), str(path))


def parse_user_mcp(data: bytes, path: str = NAME) -> tuple[McpEntry, ...]:
    """Read the bytes of an `mcp.toml`."""
    return parse_file(data, path, _entries)


def _entries(file: PolicyFile) -> tuple[McpEntry, ...]:
    found = read_entries(file)
    file.top.end()
    return found


_MOST_SHOWN = 3
_ASK = "tell whoever makes it; `skillpouch mcp` shows how it is configured"


class McpServerError(CommandStartError):
    """A server that cannot be reached, or does not follow the protocol."""

    code = "mcp_server"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(
            f"the MCP server {name!r}", reason, hint="`skillpouch mcp` shows how it is configured"
        )


class VariablesUnsetError(McpServerError):
    """A server is to be given variables that are not set here."""

    code = "mcp_variables"

    def __init__(self, name: str, variables: Sequence[str]) -> None:
        self.variables = tuple(variables)
        super().__init__(name, f"{', '.join(variables)} is not set")


class McpAnswerError(SkillpouchError):
    """A server answered something that the protocol, or its own schema, does not allow."""

    code = "mcp_answer"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"the MCP server {name!r} answered wrongly: {reason}", hint=_ASK)


class McpToolNamesError(SkillpouchError):
    """A server has tools whose names nobody could write, see or tell apart."""

    code = "mcp_names"

    def __init__(self, name: str, refused: Sequence[str]) -> None:
        self.name = name
        self.refused = tuple(refused)
        shown = ", ".join(ascii(each[:40]) for each in refused[:_MOST_SHOWN])
        more = ", …" if len(refused) > _MOST_SHOWN else ""
        super().__init__(
            f"left out of the MCP server {name!r}: tools called {shown}{more}", hint=_ASK
        )
