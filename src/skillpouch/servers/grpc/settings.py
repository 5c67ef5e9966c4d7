"""What a gRPC server is told: where to listen, whom to let in, its bounds. Who its clients are."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import grpc

from skillpouch.servers.addresses import Address
from skillpouch.servers.tokens import Tokens

Context = grpc.aio.ServicerContext[Any, Any]

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
    Prometheus and whether the server is ready can be read over HTTP. `approvals` says who answers
    what jobs ask: only the owner of this machine, with `skillpouch approve`, or clients, too.
    """

    address: Address = field(default_factory=lambda: Address(host="127.0.0.1", port=50_051))
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    metrics: Address | None = None
    approvals: Literal["client", "owner"] = "owner"


# Of a certificate: they stay the same when it is renewed.
_NAMES = ("x509_common_name", "x509_subject_alternative_name")
ANYBODY = "grpc"  # the owner of what is made without tokens and certificates


def owner_of(context: Context, settings: GrpcSettings) -> str:
    """Return who makes a request: sessions and jobs are reached by those who made them only.

    That is the token; without tokens the names in the certificate; without both, everybody whom the
    server lets in is one.
    """
    if settings.token_file is not None:
        return Tokens.owner(authorization_of(context.invocation_metadata()))
    if settings.tls_client_ca is not None:
        facts = context.auth_context()
        names = [name for key in _NAMES for name in sorted(facts.get(key, ()))]
        digest = sha256(b"skillpouch owner\0" + b"\0".join(names))
        return f"certificate-{digest.hexdigest()[:24]}"
    return ANYBODY


def authorization_of(metadata: Any) -> str:
    """Return what a request carries as `authorization`; "" unless it does so exactly once."""
    said = [
        value if isinstance(value, str) else value.decode("latin-1")
        for key, value in metadata or ()
        if key == "authorization"
    ]
    return said[0] if len(said) == 1 else ""
