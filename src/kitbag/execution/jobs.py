"""What tells slots apart, and the line to the nursery of one."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kitbag.execution.command import Nursery, Prestarted
from kitbag.execution.zygote import wire

LimitFields = tuple[tuple[str, int | None], ...]

PROGRAM = Path(__file__).with_name("nursery") / "importlib_bootstrap.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotKey:
    """Slots with equal keys serve the same calls.

    `changed_at` are the times at which the folders of the script got or lost a file: one that
    is new may hide a module that a nursery has already loaded.
    """

    limits: LimitFields
    warm: Nursery | Prestarted | None = None
    changed_at: tuple[int, ...] = ()


def key_of(limits: LimitFields, warm: Nursery | Prestarted | None) -> SlotKey:
    """Return which slots may serve a call, as its files stand now."""
    folders = warm.folders if isinstance(warm, Nursery) else ()
    return SlotKey(limits=limits, warm=warm, changed_at=tuple(map(_changed_at, folders)))


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - on every call
    except OSError:
        return 0


class Jobs:
    """A socket that calls are sent through; only the host writes and only a nursery reads."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self.ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.setblocking(False)  # a nursery that does not read must not hold up the host
        wanted = {
            "files": [file for file in (nursery.runner, nursery.script) if file],
            "runner": nursery.runner,
            "folders": nursery.folders,
            "skipped": len(nursery.program),
        }
        wire.send_value(self.ours, wire.PREPARE, wanted)

    def order(self) -> dict[str, Any]:
        """Return what a zygote is told of the nursery."""
        nursery = self._nursery
        argv = [*nursery.program, str(PROGRAM)]
        return {"argv": argv, "env": dict(nursery.env), "cwd": str(nursery.cwd)}

    def theirs(self) -> tuple[int, ...]:
        return (self._theirs.fileno(),)

    def close_theirs(self) -> None:
        self._theirs.close()
