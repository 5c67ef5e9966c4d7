"""Settings of a server, and what it agreed on with a client."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillpouch.servers.addresses import Address

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimits:
    """Bounds of one server. A call more than `most_running` waits, if there is room to.

    `drain_seconds` is how long calls that run may take to finish when the server stops.
    """

    most_running: int = 64
    most_waiting: int = 1_024
    most_message_bytes: int = 16 * _MIB
    most_requests: int = 2_048  # over HTTP, with those that only listen
    most_sessions: int = 1_000
    drain_seconds: float = 30.0
    page_size: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Where to listen, and whom to let in.

    Anywhere but on loopback needs `token_file`. `allowed_hosts` are names besides its own that
    clients may call the server by, `allowed_origins` web pages that may use it.
    """

    address: Address = field(default_factory=lambda: Address(host="127.0.0.1", port=8000))
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"


Context = ServerRequestContext[Any, Any]


def is_modern(context: Context) -> bool:
    """Tell whether a request is of the protocol without a handshake (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


Value = TypeVar("Value")

_LONGEST_CURSOR = 4_096


def page_of(
    items: Mapping[str, Value], cursor: str | None, size: int
) -> tuple[list[Value], str | None]:
    """Return the items after a cursor, at most `size`, and the cursor of those that follow.

    `items` are sorted by name. One that was taken away meanwhile takes nothing else with it.
    """
    names = _after(items, None if cursor is None else _name(cursor))
    page = [items[name] for name in names[:size]]
    return page, _cursor(names[size - 1]) if len(names) > size else None


def _after(names: Iterable[str], last: str | None) -> list[str]:
    return list(names) if last is None else [name for name in names if name > last]


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()


def _name(cursor: str) -> str:
    try:
        return base64.b64decode(cursor[:_LONGEST_CURSOR], altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise MCPError(INVALID_PARAMS, "no such cursor: begin without one") from None
