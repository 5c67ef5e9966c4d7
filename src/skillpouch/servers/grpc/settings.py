"""What a gRPC server is told: how much it takes, and where and whom it lets in."""

from dataclasses import dataclass, field
from pathlib import Path

from skillpouch.servers.addresses import Address

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcLimits:
    """Bounds of one server. A call more than `most_running` waits, if there is room to.

    Those of a session hold besides, so that one cannot take the place of all. `most_unread_bytes`
    is how much output is kept for a client that reads too slowly; `drain_seconds` how long calls
    that run may take to finish when the server stops.
    """

    most_running: int = 64
    most_waiting: int = 1_024
    most_running_per_session: int = 32
    most_waiting_per_session: int = 256
    most_requests: int = 4_096  # with those that call no tool
    most_message_bytes: int = 16 * _MIB
    most_unread_bytes: int = 4 * _MIB
    drain_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """Where to listen, and whom to let in.

    Anywhere but on loopback needs `token_file` or `tls_client_ca`. `metrics` is where counts for
    Prometheus and whether the server is ready can be read over HTTP.
    """

    address: Address = field(default_factory=lambda: Address(host="127.0.0.1", port=50_051))
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    metrics: Address | None = None
