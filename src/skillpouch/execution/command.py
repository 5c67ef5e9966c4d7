"""The values around running a program: the command, how it ended, why it could not start."""

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from skillpouch.execution.streams import Conversation
from skillpouch.limits import Limits
from skillpouch.results import Captured, Stream

if TYPE_CHECKING:
    from skillpouch.execution.confinement import Confinement, Plan

Outcome = Literal["ok", "failed", "timed_out", "killed", "cancelled"]

TIMED_OUT = 124  # the exit code of coreutils' timeout


class OutputFilter(Protocol):
    """What output goes through before anybody sees or keeps it."""

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes:
        """Return what was held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreforkSpec:
    """A Python process that has loaded what a script imports, and forks a child for each call.

    `program` is the interpreter with its options, the first words of every command it serves;
    `runner` is the file that calls a function of the script, "" when the script is run itself;
    `folders` hold the modules that are the script's own.
    """

    program: tuple[str, ...]
    script: str
    runner: str
    folders: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Prestarted:
    """A program that is started before its call is known, and serves exactly one.

    It writes a byte to descriptor 4 when it is ready, and reads its call from there: a line of
    JSON with `argv`, `env` and `cwd`. Its answer goes to descriptor 3.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program: `argv` starts with the path of the executable, `env` is all it will see.

    Where a machine gives a call no /tmp of its own, TMPDIR is added to `env`. A command that
    `answers` finds a file to write its answer to at the descriptor that SKILLPOUCH_ANSWER names.
    With a `warm` process it is served by that if it can be, and started afresh if not. With a
    `conversation` it is told things while it runs, and its output is heard but not kept.
    `unfinished` is given what it had written by then when somebody ends it.

    Who confines it (`SandboxProvider`) reads `confinement`, and sets `protections` or `plan`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)  # secrets are in it
    cwd: Path
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    answers: bool = False
    warm: PreforkSpec | Prestarted | None = None
    confinement: "Confinement | None" = None  # what it may reach, for whoever confines it
    protections: Mapping[str, str] = field(default_factory=dict)  # what holds it, by layer
    plan: "Plan | None" = None  # how our own sandbox holds it
    background: bool = False  # nobody waits for its end: it takes no place from those who do
    conversation: Conversation | None = field(default=None, compare=False)
    new_filter: Callable[[], OutputFilter] | None = field(default=None, compare=False)
    unfinished: "dict[Stream, Captured]" = field(default_factory=dict, compare=False, repr=False)

    @property
    def feeds(self) -> bool:
        """Whether it is given something on standard input."""
        return bool(self.stdin) or self.conversation is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the program and those of its children that it waited for have used."""

    user_seconds: float
    system_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A call that is over: nothing it started is alive.

    `exit_code` is None when a signal ended it; `code` says why Skillpouch ended it, such as
    "timeout", "output_limit", "memory_limit" or "zygote_lost". `warm` means that a process served
    it that was already running; if it could have been and was not, `cold_because` says why.
    `refused_hosts` are those it asked its proxy for without a grant, as they would have to be
    granted.
    """

    outcome: Outcome
    exit_code: int | None
    signal: int | None = None
    code: str | None = None
    stdout: Captured = field(default_factory=Captured)
    stderr: Captured = field(default_factory=Captured)
    duration_seconds: float = 0.0
    usage: Usage | None = None
    protections: Mapping[str, str] = field(default_factory=dict)
    answer: bytes = b""
    warm: bool = False
    cold_because: str = ""
    refused_hosts: tuple[str, ...] = ()
    laps: tuple[tuple[str, float], ...] = ()  # what the duration was spent on, in seconds


def why_not_started(command: Command, number: int) -> str:
    """Say what kept a program from starting; of a variable only its name, which is not secret."""
    wrong = [name for name, value in command.env.items() if not _can_be_set(name, value)]
    if number == errno.EINVAL and wrong:
        said = "a zero byte, a lone surrogate, or an invalid name"
        return f"the variable {wrong[0]!r} cannot be set: it holds {said}"
    return os.strerror(number)


def _can_be_set(name: str, value: str) -> bool:
    try:
        data = os.fsencode(f"{name}{value}")
    except UnicodeEncodeError:
        return False
    return bool(name) and "=" not in name and b"\0" not in data


LimitFields = tuple[tuple[str, int | None], ...]


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
