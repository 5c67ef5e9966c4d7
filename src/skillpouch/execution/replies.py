"""The replies of a sandbox: how a program ended, or why none ran; parsed from its packets."""

import signal
from dataclasses import dataclass, replace

from skillpouch.execution.command import TIMED_OUT, Outcome, Usage
from skillpouch.execution.preforked.protocol import CRASHED, REASONS
from skillpouch.execution.zygote import wire

_MOST_PARTS = 7  # numbers of a packet; after those of an end come names
_MOST_NAMES = 5
_MOST = 1 << 48  # above any real time or size; a longer number might not fit a float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The program has ended, and no process of it is alive."""

    call: int
    status: int  # an exit code, or minus a signal
    user_seconds: float
    system_seconds: float
    peak_memory_bytes: int
    reusable: bool
    traces: int = 0  # of what it tried without a grant, and of what it left: see `wire.TRACES`
    ended_at: float = 0.0  # on the monotonic clock of the machine; 0 if not reported
    looked_up: tuple[str, ...] = ()  # hosts, without a network in which to find them

    @property
    def usage(self) -> Usage | None:
        """What it used, if that is known."""
        if not self.peak_memory_bytes:
            return None
        return Usage(
            user_seconds=self.user_seconds,
            system_seconds=self.system_seconds,
            peak_memory_bytes=self.peak_memory_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    call: int
    errno: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A prefork server has loaded its modules and keeps a child waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ineligible:
    """A prefork server cannot serve its script: nothing ran, and the server is gone."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The sandbox is gone or sent an invalid packet; `reason` is empty if it reported none.

    With `call`, the sandbox still runs and reports that no process of this call is alive.
    """

    reason: str = ""
    call: int = 0


Reply = Finished | NotStarted | Ineligible | Lost


def read_reply(packet: bytes) -> Reply | Ready:
    """Parse one packet; an invalid one gives `Lost`."""
    kind, body = packet[:1], packet[1:]
    if kind == wire.FAILED:
        return Lost(reason=body.strip().decode(errors="replace"))
    try:
        words = body.split(maxsplit=_MOST_PARTS + _MOST_NAMES)
        reply = _from_numbers(kind, [int(word) for word in words[:_MOST_PARTS]])
        names = tuple(word.decode("ascii") for word in words[_MOST_PARTS:])
        return replace(reply, looked_up=names) if isinstance(reply, Finished) and names else reply
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
    call, status, user, system, peak_kib, state, *ended_us = numbers
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
        reusable=bool(state & 1),
        traces=state & wire.TRACES,
        ended_at=ended_us[0] / 1e6 if ended_us else 0.0,
    )


def verdict(
    finished: Finished | None, ended_by: str | None
) -> tuple[Outcome, int | None, str | None]:
    """Return outcome, exit code and code of a call; `ended_by` is why Skillpouch ended it."""
    if ended_by == "timeout":
        return "timed_out", TIMED_OUT, "timeout"
    if ended_by == "memory_limit":
        return "killed", None, ended_by
    if finished is None:
        return "killed", None, "zygote_lost"
    if ended_by is not None:
        return "killed", None, ended_by
    if finished.status == 0:
        return "ok", 0, None
    return "failed", finished.status if finished.status > 0 else None, None
