"""How a script ended, in one word, and its output within its limits."""

import re
from dataclasses import dataclass
from typing import Literal

from skillpouch.shell.engine import Crash
from skillpouch.shell.responses import Status
from skillpouch.shell.worker.protocol import Done

Stopped = Literal["", "timed_out", "cancelled", "output"]

MOST_JOBS = 64  # of the engine: what is started beside them is dropped
_DROPPED = "fork: retry: Resource temporarily unavailable"
_HIDES_ERRORS = re.compile(r"2>|&>|2\s*>>")
_SIGNALLED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known when a script is over. `open_at_once` is how many commands ran side by side."""

    ending: Done | Crash | None
    stopped: Stopped
    stopped_after: str = ""
    script: str = ""
    stderr: str = ""
    open_at_once: int = 0
    refusals: tuple[str, ...] = ()
    was_denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptVerdict:
    status: Status
    exit_code: int
    notes: tuple[str, ...] = ()


def verdict(facts: Facts) -> ScriptVerdict:
    """Return the status, the exit code, and the lines that explain them."""
    match facts.ending:
        case None:
            return _stopped(facts)
        case Crash(reason=reason, signal=signal):
            code = _SIGNALLED + signal if signal else 1
            return ScriptVerdict(status="crashed", exit_code=code, notes=(f"crashed: {reason}",))
        case Done() as done:
            return _ended(done, facts)


def _stopped(facts: Facts) -> ScriptVerdict:
    if facts.stopped == "timed_out":
        note = f"timed out after {facts.stopped_after}"
        return ScriptVerdict(status="timed_out", exit_code=124, notes=(note,))
    if facts.stopped == "output":
        note = f"limit: it printed more than {facts.stopped_after}"
        return ScriptVerdict(status="limit", exit_code=1, notes=(note,))
    return ScriptVerdict(status="cancelled", exit_code=130, notes=("cancelled",))


def _ended(done: Done, facts: Facts) -> ScriptVerdict:
    if done.error is not None:
        return _error(done.error, done.exit_code or 1)
    limits = [f"limit: {refusal}" for refusal in facts.refusals]
    dropped = _dropped(facts)
    if dropped:
        limits.append(f"limit: {dropped}; `pmap -j N TOOL {{}}` runs any number")
    if limits:
        return ScriptVerdict(status="limit", exit_code=done.exit_code or 1, notes=tuple(limits))
    if done.exit_code == 0:
        return ScriptVerdict(status="ok", exit_code=0)
    status: Status = "denied" if facts.was_denied else "failed"
    return ScriptVerdict(status=status, exit_code=done.exit_code)


def _error(error: str, code: int) -> ScriptVerdict:
    if error.startswith("parse error"):
        return ScriptVerdict(status="syntax", exit_code=2, notes=(error,))
    status: Status = "limit" if "limit" in error or "budget" in error else "failed"
    return ScriptVerdict(status=status, exit_code=code, notes=(error,))


def _dropped(facts: Facts) -> str:
    """Tell whether jobs were dropped; where a script hides its errors, whether they may have."""
    if _DROPPED in facts.stderr:
        return f"jobs beyond {MOST_JOBS} at once were dropped"
    hidden = facts.open_at_once >= MOST_JOBS and _HIDES_ERRORS.search(facts.script)
    return f"{MOST_JOBS} jobs ran at once, and more may have been dropped" if hidden else ""


class KeptText:
    """Keeps `most_bytes` of a text that comes in pieces, cut between characters."""

    def __init__(self, most_bytes: int) -> None:
        self._bytes_left = most_bytes
        self._pieces: list[str] = []
        self.total_bytes = 0
        self.truncated = False

    def add(self, piece: str) -> None:
        if not piece:
            return
        size = byte_count(piece)
        self.total_bytes += size
        if size <= self._bytes_left:
            self._pieces.append(piece)
            self._bytes_left -= size
        elif not self.truncated:
            data = piece.encode("utf-8", "replace")
            self._pieces.append(data[: self._bytes_left].decode("utf-8", "ignore"))
            self._bytes_left = 0
            self.truncated = True

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def byte_count(text: str) -> int:
    """Return how many bytes a text takes; of one in plain ASCII nothing is copied for that."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
