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
    """Filters output before it is shown or kept."""

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes:
        """Return what was held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreforkSpec:
    """A Python process that has loaded what a script imports, and forks a child for each call.

    `program` is the interpreter with its options, the first words of every command it serves;
    `runner` is the file that calls a function of the script, "" when the script is run itself;
    `folders` are those with the script's own modules.
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
    """One program: `argv` starts with the path of the executable, `env` is its whole environment.

    If the machine cannot give a call its own /tmp, TMPDIR is added to `env`. A command that
    `answers` writes its answer to the descriptor that SKILLPOUCH_ANSWER names. A `warm` process
    serves it if possible; otherwise a new process is started. With a `conversation`, its input is
    written while it runs, and its output is passed on but not kept. When a caller cancels it,
    `unfinished` gets the output so far. If its confinement is `layered`, `layers` gets a folder
    with what it changed in the workspace, also when it was cancelled; none if it changed nothing.

    A `SandboxProvider` reads `confinement`, and sets `protections` or `plan`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)  # it contains secrets
    cwd: Path
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    answers: bool = False
    warm: PreforkSpec | Prestarted | None = None
    confinement: "Confinement | None" = None  # what it may reach, for the sandbox provider
    protections: Mapping[str, str] = field(default_factory=dict)  # what confines it, by layer
    plan: "Plan | None" = None  # how our own sandbox confines it
    background: bool = False  # not counted among the calls that a caller waits for
    conversation: Conversation | None = field(default=None, compare=False)
    new_filter: Callable[[], OutputFilter] | None = field(default=None, compare=False)
    unfinished: "dict[Stream, Captured]" = field(default_factory=dict, compare=False, repr=False)
    layers: list[Path] = field(default_factory=list, compare=False, repr=False)

    @property
    def feeds(self) -> bool:
        """Whether anything is written to its standard input."""
        return bool(self.stdin) or self.conversation is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the program and the children that it waited for have used."""

    user_seconds: float
    system_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A call that is over: nothing it started is alive.

    `exit_code` is None when a signal ended it; `code` says why Skillpouch ended it, such as
    "timeout", "output_limit", "memory_limit" or "zygote_lost". `warm`: a process that was already
    running served it; if that was possible but did not happen, `cold_because` says why.
    `refused_hosts` are hosts that it requested from its proxy without a grant, written as they
    would have to be granted; `looked_up` are those that it looked up without any grant of one;
    `traces` are other things that it tried without one, or left behind.
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
    looked_up: tuple[str, ...] = ()
    traces: int = 0  # TRIED_SOCKETS, TRIED_NETWORK, LEFT_HOME … of `wire`
    laps: tuple[tuple[str, float], ...] = ()  # the steps of the duration, each with its seconds


def why_not_started(command: Command, number: int) -> str:
    """Say why a program could not start; of a variable only its name, which is not secret."""
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


def warm_of(command: Command, chosen: "Plan") -> tuple[PreforkSpec | Prestarted | None, str]:
    """Return the warm process that may serve a command, or the reason for none."""
    if command.warm is None:
        return None, ""
    if not chosen.namespaces:
        return None, "there are no namespaces on this machine, or confinement is off"
    if chosen.own_home:
        return None, "it writes its own folder, so nothing is loaded from there before its call"
    if command.limits.cpu_seconds is not None:
        return None, "processor time is limited, and waiting for calls would use it up"
    return command.warm, ""


LimitFields = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxKey:
    """Sandboxes with equal keys serve the same calls.

    `changed_at` are the times when files were added to or removed from the script's folders: a new
    file may shadow a module that a prefork server has already loaded.
    """

    limits: LimitFields
    warm: PreforkSpec | Prestarted | None = None
    changed_at: tuple[int, ...] = ()


def key_of(limits: LimitFields, warm: PreforkSpec | Prestarted | None) -> SandboxKey:
    """Return the key of the sandboxes that may serve a call, with its files as they are now."""
    folders = warm.folders if isinstance(warm, PreforkSpec) else ()
    return SandboxKey(limits=limits, warm=warm, changed_at=tuple(map(_changed_at, folders)))


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - on every call
    except OSError:
        return 0
