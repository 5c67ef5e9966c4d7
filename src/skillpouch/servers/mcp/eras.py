"""Which of the two protocols a request speaks: with a handshake, or without any connection."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any, Any]


def is_modern(context: Context) -> bool:
    """Tell whether a request is of the protocol without a handshake (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS
