"""JobChannel: sends calls to a prefork server, and reads the replies of a sandbox."""

import fcntl
import os
import signal
import socket
import termios
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillpouch.execution.command import Command, PreforkSpec, Prestarted
from skillpouch.execution.preforked.protocol import CRASHED, REASONS
from skillpouch.execution.zygote import wire

LimitFields = tuple[tuple[str, int | None], ...]

PROGRAM = Path(__file__).with_name("preforked") / "importlib_bootstrap.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxKey:
    """Sandboxes with equal keys serve the same calls.

    `changed_at` are the times at which the folders of the script got or lost a file: one that
    is new may hide a module that a prefork server has already loaded.
    """

    limits: LimitFields
    warm: PreforkSpec | Prestarted | None = None
    changed_at: tuple[int, ...] = ()


def key_of(limits: LimitFields, warm: PreforkSpec | Prestarted | None) -> SandboxKey:
    """Return which sandboxes may serve a call, as its files stand now."""
    folders = warm.folders if isinstance(warm, PreforkSpec) else ()
    return SandboxKey(limits=limits, warm=warm, changed_at=tuple(map(_changed_at, folders)))


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - on every call
    except OSError:
        return 0


class JobChannel:
    """A socket for calls: only the host writes to it, and only a prefork server reads it."""

    def __init__(self, prefork: PreforkSpec) -> None:
        self._prefork = prefork
        self._env = dict(prefork.env)
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(
            False
        )  # a prefork server that does not read must not hold up the host
        wanted = {
            "files": [file for file in (prefork.runner, prefork.script) if file],
            "runner": prefork.runner,
            "folders": prefork.folders,
            "program": prefork.program,
        }
        wire.send_value(self._ours, wire.PREPARE, wanted)

    def order(self) -> dict[str, Any]:
        """Return what a zygote is told of the prefork server."""
        prefork = self._prefork
        argv = [*prefork.program, str(PROGRAM)]
        return {"argv": argv, "env": self._env, "cwd": str(prefork.cwd)}

    def theirs(self) -> tuple[int, ...]:
        return (self._theirs.fileno(),)

    def close_theirs(self) -> None:
        self._theirs.close()

    def send(self, command: Command, fds: tuple[int, ...], *, in_crowd: bool) -> None:
        """Send a call, of its variables only what a prefork server does not have.

        Every word that a child need not read is memory that it need not copy. Raises ValueError
        when a variable cannot be one.
        """
        env, known = command.env, self._env
        if any(not name or "=" in name for name in env.keys() - known.keys()):
            raise ValueError("not the name of a variable")
        changed = {
            _encoded(name): _encoded(value)
            for name, value in env.items()
            if known.get(name) != value
        }
        removed = [_encoded(name) for name in known if name not in env]
        words = command.argv[len(self._prefork.program) :]
        job = (words, changed, removed, str(command.cwd), int(command.feeds), int(in_crowd))
        wire.send_value(self._ours, wire.RUN, job, fds)

    def has_untaken(self) -> bool:
        """Tell whether a call that was sent is still unread, or was when the reader went."""
        unread = array("i", [0])
        fcntl.ioctl(self._ours, termios.TIOCOUTQ, unread)
        # In this order: the error is there before the queue is emptied.
        return bool(unread[0]) or self._ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    def close(self) -> None:
        self._ours.close()


def _encoded(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError("a zero byte")
    return data


_MOST_PARTS = 8
_MOST = 1 << 48  # no time and no size is larger; a number without end would not fit a float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The program ended, and nothing of it is alive."""

    call: int
    status: int  # an exit code, or minus a signal
    user_seconds: float
    system_seconds: float
    peak_memory_bytes: int
    reusable: bool
    ended_at: float = 0.0  # on the clock of the machine; 0 when it was not said


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    call: int
    errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A prefork server has loaded its modules and keeps a child waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ineligible:
    """A prefork server cannot serve its script: nothing ran, and it is gone."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The sandbox is gone or sent something invalid; `reason` is empty when it did not say why.

    With `call`, the sandbox is still there, and says that nothing of this call is alive.
    """

    reason: str = ""
    call: int = 0


Reply = Finished | NotStarted | Ineligible | Lost


def read_reply(packet: bytes) -> Reply | Ready:
    """Read one packet; whatever it holds, the result is a reply."""
    kind, body = packet[:1], packet[1:]
    if kind == wire.FAILED:
        return Lost(reason=body.strip().decode(errors="replace"))
    try:
        numbers = [int(word) for word in body.split(maxsplit=_MOST_PARTS)]
        return _from_numbers(kind, numbers)
    except ValueError:
        return Lost()


def _from_numbers(kind: bytes, numbers: list[int]) -> Reply | Ready:
    if kind == wire.READY:
        return Ready()
    if kind == wire.INELIGIBLE:
        return Ineligible(reason=REASONS.get(numbers[0] if numbers else CRASHED, REASONS[CRASHED]))
    if kind == wire.LOST:
        (call,) = numbers
        return Lost(call=call)
    if kind == wire.NOT_STARTED:
        call, errno = numbers
        return NotStarted(call=call, errno=errno)
    call, status, user, system, peak_kib, reusable, *ended_us = numbers
    if kind != wire.ENDED or not -signal.NSIG < status < 256:  # noqa: PLR2004 - one byte
        raise ValueError(kind)
    if not all(0 <= number < _MOST for number in (user, system, peak_kib, *ended_us)):
        raise ValueError(numbers)
    return Finished(
        call=call,
        status=status,
        user_seconds=user / 1e6,
        system_seconds=system / 1e6,
        peak_memory_bytes=peak_kib * 1024,
        reusable=bool(reusable),
        ended_at=ended_us[0] / 1e6 if ended_us else 0.0,
    )
