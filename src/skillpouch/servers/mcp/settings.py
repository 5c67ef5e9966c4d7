"""Settings of a server, and what it agreed on with a client."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillpouch.jobs.soft_limit import SOFT_LIMIT_SECONDS
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


# Who may approve calls: the person at the client, the owner of this machine only, or nobody.
Approvals = Literal["client", "owner", "nobody"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCalls:
    """What becomes of calls that take long, or that the policy asks about.

    A call that takes longer than `soft_limit_seconds` is answered with the id of a job and goes on;
    0 means never. The tools to go on with it are listed from then on, with `list_tools` always.
    `approvals` says who may approve calls: the person at the client, or only the owner of this
    machine, with `skillpouch approve`. By default the client on standard streams, which runs as
    the same user, and the owner over HTTP. With `nobody`, a call that would have to be approved is
    denied at once, and no question is kept.
    """

    soft_limit_seconds: float = SOFT_LIMIT_SECONDS
    list_tools: bool = False
    approvals: Approvals | None = None

    @property
    def keeps_questions(self) -> bool:
        """Whether a call that the policy asks about waits for an answer."""
        return self.approvals != "nobody"

    def asks_client(self, *, is_elsewhere: bool) -> bool:
        """Whether the person at a client may be asked, which may be on another machine."""
        return self.approvals == "client" or (self.approvals is None and not is_elsewhere)


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


OWNER_KEY = "skillpouch.owner"  # in the scope of an HTTP request
_LOCAL_OWNER = "mcp"


def owner_of(context: Context) -> str:
    """Return who makes a request: jobs are reached by those who started them only.

    Over HTTP that is the token; without tokens, everybody whom the server lets in is one.
    """
    scope = getattr(context.request, "scope", None)
    return _LOCAL_OWNER if scope is None else str(scope.get(OWNER_KEY) or _LOCAL_OWNER)


def is_of_client(owner: str) -> bool:
    """Tell whether a name is one that `owner_of` gives."""
    return owner == _LOCAL_OWNER or owner.startswith("token-")


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
