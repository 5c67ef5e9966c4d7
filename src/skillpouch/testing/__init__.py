"""For tests of skills, of agents, and of packages that provide backends and sandboxes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skillpouch.testing.cassette import Cassette, CassetteError, CassetteMissError, cassette
from skillpouch.testing.running import run_tool

if TYPE_CHECKING:
    from skillpouch.testing.backend_contract import BackendCases, ContractError, check_backend
    from skillpouch.testing.sandbox_contract import check_sandbox

__all__ = [
    "BackendCases",
    "Cassette",
    "CassetteError",
    "CassetteMissError",
    "ContractError",
    "cassette",
    "check_backend",
    "check_sandbox",
    "run_tool",
]

# Loaded on first use: tests of agents do not need them.
_CONTRACTS = {
    "BackendCases": "backend_contract",
    "ContractError": "backend_contract",
    "check_backend": "backend_contract",
    "check_sandbox": "sandbox_contract",
}


def __getattr__(name: str) -> Any:
    if name not in _CONTRACTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_CONTRACTS[name]}"), name)
