"""Limits: how much a call may use before it is stopped."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self, cast, get_args

_MIB = 1024 * 1024


class UsualMemory(int):
    """Bytes of memory that nobody set: the same number from a person is a plain one, and holds.

    A project cannot set more than the usual, but how much a grant may give: `most`.
    """

    most: int | None = None

    def at_most(self, most: int) -> "UsualMemory":
        """Return the same with a bound for grants; of two bounds the lower counts."""
        made = UsualMemory(self)
        made.most = most if self.most is None else min(most, self.most)
        return made

    def raised_to(self, granted: int) -> int:
        """Return the bytes that a call has with a grant of so many."""
        return granted if self.most is None else min(granted, self.most)


USUAL_MEMORY = UsualMemory(1024 * _MIB)
# What a skill's own declaration gives its tools; more has to be granted, and at most a day can be.
DECLARED_SECONDS, LONGEST_SECONDS = 600.0, 86_400.0


class UsualSeconds(float):
    """A time limit that no owner set: the usual one, or what a skill `declared` for its tool.

    `most` is what a caller or a project lowered it to. The same number from a person is a plain
    one, and holds.
    """

    __slots__ = ("declared", "most")
    declared: bool
    most: float

    def __new__(cls, seconds: float, *, declared: bool = False, most: float = math.inf) -> Self:
        made = super().__new__(cls, min(seconds, most))
        made.declared, made.most = declared, most
        return made

    @property
    def needs_grant(self) -> bool:
        """Whether it is more than a skill may give its tools itself."""
        return self.declared and self > DECLARED_SECONDS

    def with_grant(self, granted: float | None) -> float:
        """Return the limit of a call whose skill was granted this time, None if it was not.

        A grant raises the usual limit; what is declared counts as far as it is granted.
        """
        given = granted or 0.0
        if self.declared:
            return min(self, max(given, DECLARED_SECONDS))
        return min(max(self, given), self.most)


def capped(limit: float, seconds: float) -> float:
    """Return a time limit that a caller or a project lowers, and that no grant raises again."""
    if not isinstance(limit, UsualSeconds):
        return min(limit, seconds)
    return UsualSeconds(limit, declared=limit.declared, most=min(limit.most, seconds))


# How long a call may take when nobody says otherwise: usually, of a binary or a text that a skill
# declares, of a command of bash, of a bash script whose commands are tools.
USUAL_SECONDS, PROGRAM_SECONDS, BASH_SECONDS = map(UsualSeconds, (30.0, 60.0, 120.0))
SCRIPT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one call; None means no limit.

    `keep_bytes` of each output stream reach the caller, half from its head and half from its
    tail; a call that writes more than `kill_bytes` to both together is killed. `memory_bytes` and
    `cpu_seconds` hold for each process of the call, `processes` for the call as a whole. Where a
    cgroup v2 is delegated, all processes of a call together may use `memory_bytes`, and fill their
    temporary folders besides.
    """

    timeout_seconds: float = USUAL_SECONDS
    keep_bytes: int = 100_000
    kill_bytes: int = 64 * _MIB
    # Data, not address space: Node and WebAssembly reserve gigabytes they never touch. One GiB
    # holds ordinary pandas and Node work and stops a runaway before a small machine swaps.
    memory_bytes: int | None = USUAL_MEMORY
    processes: int = 128
    open_files: int | None = 1024
    file_bytes: int | None = 1024 * _MIB
    # No default: the timeout already ends a busy loop.
    cpu_seconds: int | None = None


_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([KMGT]?)(i?)B?\Z", re.IGNORECASE | re.ASCII)
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MOST_BYTES = 1024**5


def read_size(text: str) -> int | None:
    """Return the bytes of `4GiB`, `512 MiB` or `4G`; None for what is no size of a memory.

    Every unit is a power of 1024, as in the settings of most programs that limit memory.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        return None
    count = int(float(match[1]) * 1024 ** _UNITS[match[2].upper()])
    return count if _MIB <= count <= _MOST_BYTES else None


def size_text(count: int) -> str:
    """Return bytes as whole GiB or MiB, never less than they are: `4GiB`."""
    mebibytes = -(-count // _MIB)
    return f"{mebibytes}MiB" if mebibytes % 1024 else f"{mebibytes // 1024}GiB"


_UNITS_OF_TIME = {"d": 86_400, "h": 3600, "m(?:in)?": 60, "s": 1}
_TIME = re.compile("".join(rf"(?:(\d{{1,5}}) *{unit} *)?" for unit in _UNITS_OF_TIME), re.ASCII)


def read_time(text: str) -> int | None:
    """Return the seconds of `2h`, `1h30m`, `90 m` or `5400`; None for none, or more than a day."""
    text = text.strip().lower()
    match = _TIME.fullmatch(f"{text}s" if text.isdecimal() else text)
    if match is None:
        return None
    counts = (int(count or 0) for count in match.groups())
    pairs = zip(counts, _UNITS_OF_TIME.values(), strict=True)
    seconds = sum(count * unit for count, unit in pairs)
    return seconds if 0 < seconds <= LONGEST_SECONDS else None


def time_text(seconds: float) -> str:
    """Return a time in whole seconds, never less than it is: `1h30m`."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


# "on" is our own sandbox, "off" none; any other name is an entry point of an installed package.
Sandbox = str
OWN_SANDBOXES = ("on", "off")

# How a call changes its workspace: at once and for good; at once, with what was there before kept;
# or only when somebody applies it.
Writes = Literal["direct", "undoable", "staged"]
WAYS: tuple[Writes, ...] = get_args(Writes)  # each is tighter than the one before it
Layer = Literal["fs", "net", "tree", "signals", "memory", "processes", "syscalls"]


def layers_named(names: Iterable[str]) -> frozenset[Layer]:
    """Return protections by their names; raise ValueError for a name that is not known."""
    named = frozenset(names)
    unknown = named - set(get_args(Layer))
    if unknown:
        known = ", ".join(get_args(Layer))
        raise ValueError(f"not a protection: {', '.join(sorted(unknown))}; there are {known}")
    return cast("frozenset[Layer]", named)


def check_way(value: object) -> None:
    """Raise ValueError for what is no way of writing; None is that nobody chose one."""
    if value is not None and value not in WAYS:
        raise ValueError(f"writes is {value!r}: use {', '.join(map(repr, WAYS))}")
