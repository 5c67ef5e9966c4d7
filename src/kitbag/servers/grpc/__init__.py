"""The gRPC server: sessions, skills and tools of a manager for agents in any language.

`GrpcServer` serves `kitbag.v1.Kitbag`; `kitbag serve grpc` does so from the command line.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kitbag.servers.grpc.server import GrpcServer
    from kitbag.servers.grpc.settings import GrpcLimits, GrpcSettings

__all__ = ["GrpcLimits", "GrpcServer", "GrpcSettings"]

_HOMES = {"GrpcLimits": "settings", "GrpcServer": "server", "GrpcSettings": "settings"}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, and say what to install when it cannot be."""
    from importlib import import_module

    from kitbag.integrations.extras import require_extra

    if name not in _HOMES:
        raise AttributeError(f"module 'kitbag.servers.grpc' has no attribute {name!r}")
    for module in ("grpc", "google", "google.rpc"):
        require_extra(module, "grpcio", "pip install 'kitbag[grpc]'")
    return getattr(import_module(f"kitbag.servers.grpc.{_HOMES[name]}"), name)
