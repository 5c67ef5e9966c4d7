"""What keeps a configured MCP server from being used."""

from collections.abc import Sequence

from kitbag.errors import CommandStartError


class McpServerError(CommandStartError):
    """A server that cannot be reached, or does not talk as it should."""

    code = "mcp_server"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(
            f"the MCP server {name!r}", reason, hint="`kitbag mcp` shows how it is configured"
        )


class VariablesUnsetError(McpServerError):
    """A server is to be given variables that are not set here."""

    code = "mcp_variables"

    def __init__(self, name: str, variables: Sequence[str]) -> None:
        self.variables = tuple(variables)
        super().__init__(name, f"{', '.join(variables)} is not set")
