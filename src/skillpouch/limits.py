"""Limits: how much a call may use before it is stopped."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast, get_args

_MIB = 1024 * 1024
# How long a call may take when nobody says otherwise: usually, of a binary or a text that a skill
# declares, of a command of bash, of a bash script whose commands are tools.
USUAL_SECONDS, PROGRAM_SECONDS, BASH_SECONDS, SCRIPT_SECONDS = 30.0, 60.0, 120.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one call; None is no bound.

    `keep_bytes` of each output stream reach the caller, half from its head and half from its
    tail; past `kill_bytes` on both together the call is killed. `memory_bytes` and
    `cpu_seconds` hold for each process of the call, `processes` for all of it. Where a cgroup v2
    is delegated, all of a call has `memory_bytes` and, besides, its temporary folders.
    """

    timeout_seconds: float = USUAL_SECONDS
    keep_bytes: int = 100_000
    kill_bytes: int = 64 * _MIB
    # Data, not address space: Node and WebAssembly reserve gigabytes they never touch. One GiB
    # holds ordinary pandas and Node work and stops a runaway before a small machine swaps.
    memory_bytes: int | None = 1024 * _MIB
    processes: int = 128
    open_files: int | None = 1024
    file_bytes: int | None = 1024 * _MIB
    # The timeout already ends a busy loop; this is for those who count processor time.
    cpu_seconds: int | None = None


# Who confines: ours, nobody, or what a package provides by an entry point of this name.
Sandbox = str
OWN_SANDBOXES = ("on", "off")

Layer = Literal["fs", "net", "tree", "signals", "memory", "processes", "syscalls"]


def layers_named(names: Iterable[str]) -> frozenset[Layer]:
    """Return protections by their names; raise ValueError for a name that none has."""
    named = frozenset(names)
    unknown = named - set(get_args(Layer))
    if unknown:
        known = ", ".join(get_args(Layer))
        raise ValueError(f"not a protection: {', '.join(sorted(unknown))}; there are {known}")
    return cast("frozenset[Layer]", named)
