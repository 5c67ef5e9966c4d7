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
    from importlib.util import find_spec

    from kitbag.servers.errors import ServerExtraMissingError

    if name not in _HOMES:
        raise AttributeError(f"module 'kitbag.servers.grpc' has no attribute {name!r}")
    if find_spec("grpc") is None or find_spec("google.rpc") is None:
        raise ServerExtraMissingError("grpc")
    return getattr(import_module(f"kitbag.servers.grpc.{_HOMES[name]}"), name)
