"""What keeps a configured MCP server from being used."""

from collections.abc import Sequence

from skillpouch.errors import CommandStartError, SkillpouchError

_MOST_SHOWN = 3
_ASK = "tell whoever makes it; `skillpouch mcp` shows how it is configured"


class McpServerError(CommandStartError):
    """A server that cannot be reached, or does not talk as it should."""

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
