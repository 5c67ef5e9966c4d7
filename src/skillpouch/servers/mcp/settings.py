"""What a server is told: how much it takes, and where and whom it lets in."""

from dataclasses import dataclass, field
from pathlib import Path

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
