"""The gRPC server: sessions, skills and tools of a manager for agents in any language.

`GrpcServer` serves `skillpouch.v1.Skillpouch`; so does `skillpouch serve grpc`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillpouch.servers.grpc.server import GrpcServer
    from skillpouch.servers.grpc.settings import GrpcLimits, GrpcSettings

__all__ = ["GrpcLimits", "GrpcServer", "GrpcSettings"]

_HOMES = {"GrpcLimits": "settings", "GrpcServer": "server", "GrpcSettings": "settings"}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, and say what to install when it cannot be."""
    from importlib import import_module

    from skillpouch.runtime.extras import require_extra

    if name not in _HOMES:
        raise AttributeError(f"module 'skillpouch.servers.grpc' has no attribute {name!r}")
    require_extra("grpc")
    return getattr(import_module(f"skillpouch.servers.grpc.{_HOMES[name]}"), name)
