"""ToolResult: what a call returned, for a model and for programs, and how it was confined."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from skillpouch.errors import ScriptExecutionError, ScriptTimeoutError
from skillpouch.json_values import json_text
from skillpouch.limits import Writes
from skillpouch.text import escape_hidden

Outcome = Literal["ok", "failed", "timed_out", "killed", "cancelled", "denied"]
Change = Literal["created", "modified", "deleted"]
WorkspaceChange = Literal["created", "changed", "deleted", "renamed", "mode", "link"]
_MOST_NAMED = 20  # paths in the note for a model; `run_later` has all of them

Timings = tuple[tuple[str, float], ...]  # what was done, and the milliseconds it took


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running call says that it is: `done` of `total`, in units of its own.

    `total` is None if it does not know; `done` may be more. Numbers are finite and never negative,
    `message` is one line without hidden characters and secrets.
    """

    done: float
    total: float | None = None
    message: str = ""

    def __str__(self) -> str:
        far = f"{self.done:g}" if self.total is None else f"{self.done:g} of {self.total:g}"
        return f"{far}: {self.message}" if self.message else far


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file of the workspace that a call made, changed or deleted; `path` is relative to it.

    What was renamed is deleted under one name and created under another.
    """

    path: str
    type: str  # a media type, guessed from the name
    size: int  # 0 when it was deleted
    change: Change = "modified"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What a call did to one path of the workspace; folders appear by the files in them.

    `path` is relative, with hidden characters written out; `old_path` is the name before a rename.
    `sha256` is of the new content, empty for what is deleted, no regular file or very large.
    `mode` stands for a change of mode, owner or extended attributes without new content; `link` for
    a symbolic link that was made or changed, and for another name of a file that exists. Modes are
    permission bits, None where there is no such file. `executable`: a program that is new, has
    new content or has become executable.
    """

    path: str
    change: WorkspaceChange
    size: int = 0  # 0 when it was deleted
    size_before: int = 0
    old_path: str = ""
    sha256: str = ""
    mode: int | None = None
    mode_before: int | None = None
    executable: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        """What JSON has of it: path, change and size, and whatever else there is to say."""
        facts: dict[str, Any] = {"path": self.path, "change": self.change, "size": self.size}
        for name in _FACTS:
            if value := getattr(self, name):
                facts[name] = value
        if self.mode is not None:
            facts["mode"] = self.mode
        if self.mode_before is not None:
            facts["mode_before"] = self.mode_before
        return facts


_FACTS = ("size_before", "old_path", "sha256", "executable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A path that is left alone: somebody else changed it meanwhile, or it cannot be written."""

    path: str  # relative to the workspace, with hidden characters written out
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """Status, address and headers of a web service's answer, without headers that hold secrets."""

    status: int
    url: str  # where the answer came from, after all redirects
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """Data that a model receives unchanged, such as an image; `name` is what the call asked for."""

    name: str
    type: str  # a media type, detected from the bytes
    data: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)  # no slots: `timed` copies all fields at once
class ToolResult:
    """One finished call.

    `content` is for a model: cleaned of escapes and hidden characters, without the last line end.
    `structured` is the JSON value a handler `returned` or a script printed. `stdout` and `stderr`
    are kept as they came, cut in the middle when `truncated`; `saved` are files with all of it.
    `data` is for a pipe: the value, or what was printed, without any note of Skillpouch's.
    `warm` calls were forked from a process that was already running; if one could have been and
    was not, `cold_because` says why. The result is the same. `timings` tell where the time
    went, in milliseconds. `run_later` are paths the call made that other programs run
    unconfined, such as git hooks. `refused_hosts` are hosts that it tried to reach without a
    grant; with `refused_sockets` it tried to make a unix socket without one, with
    `refused_network` to look up a name, and `looked_up` are the hosts among these names. With
    `found_nobody` it connected to 127.0.0.1, which is its own, where nobody listened; with
    `left_in_home` it left hidden files in its HOME, which was its own, too. `left_running` is
    "server" or "processes" if it left those behind, which ended with it. `notes` are what
    Skillpouch added at the end of `content`, a line each. `http` is set when a web service
    answered. If `files_complete` is false, the workspace has too many files to compare all of them:
    others may have changed, and one that is reported as modified may be new.
    `writes` tells how the call wrote: "direct", "undoable" or "staged". Unless it was direct,
    `changes` are exactly what it did, and `call_id` is what `undo`, `apply`, `discard` and `diff`
    take: its number in the journal, where it has one. `conflicts` were left alone. If changes
    were refused, `ended_as` are the outcome and the exit code that the call had without that.
    `job_id` is set if the call goes on as a job: `code` then says what it waits for.
    """

    tool: str
    outcome: Outcome
    script: str = ""  # the path of the script that ran, relative to its skill
    content: str = ""
    structured: Any = None
    returned: bool = False  # a handler returned `structured`; `stdout` is what it printed meanwhile
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    duration_ms: float = 0.0
    protections: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None  # why Skillpouch ended it: "timeout", "output_limit" …
    signal: int | None = None
    saved: tuple[Path, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    files_complete: bool = True
    run_later: tuple[str, ...] = ()
    refused_hosts: tuple[str, ...] = ()
    refused_sockets: bool = False
    refused_network: bool = False
    looked_up: tuple[str, ...] = ()
    found_nobody: bool = False
    left_in_home: bool = False
    left_running: Literal["", "processes", "server"] = ""
    notes: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    timeout_seconds: float | None = None
    warm: bool = False
    cold_because: str = ""
    timings: Timings = ()
    http: HttpAnswer | None = None
    changes: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    writes: Writes = "direct"
    call_id: str = ""
    ended_as: tuple[Outcome, int | None] | None = None
    job_id: str = ""

    def timed(self, timings: Timings) -> "ToolResult":
        """Return a copy with these timings, for whoever made the call."""
        # A plain number: formats such as msgpack know no other.
        limit = None if self.timeout_seconds is None else float(self.timeout_seconds)
        if type(self) is not ToolResult:
            return replace(self, timings=timings, timeout_seconds=limit)  # it may have slots
        # `dataclasses.replace` takes ten times as long, and every call comes through here.
        copied = object.__new__(ToolResult)
        values = self.__dict__.copy()
        values["timings"], values["timeout_seconds"] = timings, limit
        object.__setattr__(copied, "__dict__", values)
        return copied

    def wrote(self, way: Writes) -> "ToolResult":
        """Return a copy that tells how the call wrote: in this way, if its protections held it.

        They name what holds the way ("overlay", "copy", "layer"), or are "direct".
        """
        held_by = self.protections.get("writes", "")
        if not held_by or held_by == "direct":
            return self
        copied = object.__new__(type(self))
        protections = {**self.protections, "writes": f"{way} ({held_by})"}
        copied.__dict__.update(self.__dict__, writes=way, protections=protections)
        return copied

    def with_run_later(self, made: tuple[str, ...]) -> "ToolResult":
        """Return a copy that lists files other programs run, with a note for the model."""
        if not made:
            return self
        shown = tuple(map(escape_hidden, made))
        named = ", ".join(shown[:_MOST_NAMED])
        more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
        note = f"note: it made {named}{more}, which other programs run unconfined"
        return replace(self.with_notes([f"{note}: look at it first"]), run_later=shown)

    def with_notes(self, notes: Iterable[str]) -> "ToolResult":
        """Return a copy with these lines at the end of what a model reads, and nowhere else."""
        added = tuple(notes)
        content = "\n".join(filter(None, (self.content, *added)))
        return replace(self, content=content, notes=(*self.notes, *added))

    @property
    def content_without_notes(self) -> str:
        return self.content.removesuffix("\n".join(self.notes)).removesuffix(
            "\n" * bool(self.notes)
        )

    @property
    def is_error(self) -> bool:
        return self.outcome != "ok"

    @property
    def data(self) -> str:
        """What the next program of a pipe receives."""
        if not self.returned:
            return self.stdout
        if self.structured is None:  # null, or too large to be read as a value
            return self.content_without_notes
        return self.structured if isinstance(self.structured, str) else json_text(self.structured)

    def content_or_raise(self) -> str:
        """Return the content, or raise ScriptTimeoutError or ScriptExecutionError."""
        if self.outcome == "ok":
            return self.content
        if self.outcome == "timed_out":
            raise ScriptTimeoutError(
                self.script or self.tool, self.timeout_seconds or 0.0, self.stderr
            )
        said = self.stderr.strip() or self.content
        ended = f"exit code {self.exit_code}" if self.exit_code is not None else self._ended_by()
        exit_code = 1 if self.exit_code is None else self.exit_code
        raise ScriptExecutionError(
            f"Script execution failed with {ended}\n{said}", exit_code, self.stderr
        )

    def _ended_by(self) -> str:
        return f"signal {self.signal}" if self.signal else self.code or self.outcome

    @property
    def output(self) -> str:
        """The same as `content`."""
        return self.content


Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One output stream: all of it, or its head and tail cut between characters."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0
    saved_to: Path | None = None

    @classmethod
    def of(cls, data: bytes, keep_bytes: int) -> "Captured":
        """Return data that did not come from a stream as if a program had printed it."""
        if len(data) <= keep_bytes:
            return cls(head=data, total_bytes=len(data))
        half = keep_bytes // 2
        ends = (data[:half], data[-half:] if half else b"")
        head, tail = (end.decode("utf-8", "ignore").encode() for end in ends)
        return cls(head=head, tail=tail, total_bytes=len(data))

    @property
    def truncated(self) -> bool:
        return self.total_bytes > len(self.head) + len(self.tail)

    @property
    def data(self) -> bytes:
        """What was kept, with a line in the middle that says how many bytes were left out."""
        left_out = self.total_bytes - len(self.head) - len(self.tail)
        if not left_out:
            return self.head + self.tail
        return b"%b\n[... %d bytes left out ...]\n%b" % (self.head, left_out, self.tail)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class Stopwatch:
    """Runs from the moment it is made; each lap ends where the next begins."""

    __slots__ = ("_laps", "_last")

    def __init__(self) -> None:
        self._last = perf_counter()
        self._laps: list[tuple[str, float]] = []

    def lap(self, what: str) -> None:
        now = perf_counter()
        self._laps.append((what, now - self._last))
        self._last = now

    def split(self, what: str, parts: tuple[tuple[str, float], ...]) -> None:
        """End a lap, and report some parts of it as laps of their own."""
        self.lap(what)
        whole = self._laps.pop()[1]
        self._laps += [*parts, (what, whole - sum(seconds for _, seconds in parts))]

    @property
    def timings(self) -> Timings:
        return tuple([(what, milliseconds(seconds)) for what, seconds in self._laps])


def milliseconds(seconds: float) -> float:
    """Return seconds as milliseconds with three decimals."""
    # Not `round(…, 3)`, which writes the number out and reads it again: calls do this ten times.
    return round(seconds * 1_000_000) / 1000
