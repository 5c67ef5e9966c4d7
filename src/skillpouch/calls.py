"""A call: a tool, arguments that fit it, and what the call may use."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, Protocol

from skillpouch.errors import SkillpouchError
from skillpouch.limits import Layer, Limits, Sandbox, Writes
from skillpouch.results import (
    Captured,
    Conflict,
    FileChange,
    Progress,
    Stopwatch,
    Stream,
    ToolResult,
)
from skillpouch.secrets.redaction import NO_SECRETS, Redactor
from skillpouch.tools import BuiltIn, External, Function, Hosted, Http, Stub, Tool

OnOutput = Callable[[Literal["stdout", "stderr"], bytes], None]

OnProgress = Callable[[str], None]  # receives lines for people while something takes long
OnStep = Callable[[Progress], None]  # receives what a running program reports itself
# Who receives that of calls made from here on, if their callers name nobody: for integrations whose
# frameworks know who watches, and not what is called.
watcher: ContextVar[OnStep | None] = ContextVar("watcher", default=None)
# Who makes the calls from here on, "" for the user: jobs belong to whoever started them.
owner_here: ContextVar[str] = ContextVar("owner_here", default="")
_SHOWN_BYTES = 65_536  # of standard input, for people who approve a call; a record keeps less


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What every call of one executor may use. Nothing runs without the `required` protections."""

    workspace: Path
    session: str | None = None  # the session that calls belong to
    limits: Limits | None = None  # None: the default of the kind of tool
    sandbox: Sandbox = "on"
    required: frozenset[Layer] = frozenset()
    read_only: tuple[Path, ...] = ()  # files and folders, also those inside the workspace
    reserved: tuple[Path, ...] = ()  # read-only paths that do not exist yet
    run_later: tuple[Path, ...] = ()  # other programs run them unconfined: read-only unless granted


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a call may reach beyond its confinement: by a grant, a policy, or an approval."""

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()  # packages that may be built from their source
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)  # plain variables
    programs: tuple[str, ...] = ()  # downloaded programs, each as address and hash
    profiles: tuple[str, ...] = ()  # "local-sockets", "loopback", "gpu"
    # The entries in the folder of its skill that it may keep there, and the digest of the skill.
    own_folder: tuple[str, ...] = ()
    digest: str = ""
    absent: tuple[str, ...] = ()  # granted paths that do not exist
    unset: tuple[str, ...] = ()  # granted variables that have no value
    memory_bytes: int | None = None  # None: what every call may have
    seconds: float | None = None  # None: what a call may have without a grant
    unconfined: bool = False

    @property
    def variables(self) -> dict[str, str]:
        """Settings and secrets, as they are passed to a program or filled into a template."""
        return {**self.settings, **self.secrets}

    @property
    def without_values(self) -> "Access":
        """A copy without the values of secrets, for objects that outlive the call."""
        return replace(self, secrets={}) if self.secrets else self


CONFINED = Access()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A program that was downloaded, and that nobody has approved yet."""

    url: str
    host: str
    size_bytes: int
    sha256: str

    def __str__(self) -> str:
        return f"a program of {self.size_bytes:,} bytes from {self.host}, sha256 {self.sha256}"


Vouch = Callable[[Fetched], Awaitable[None]]  # raises CallDeniedError if nobody approves


class CallLayers(list[Path]):
    """Folders with what the programs of a call changed in the workspace, also if it was cancelled.

    A sandbox goes on using those in `lent`, and waits for them: whoever takes such a folder calls
    the function there, with whether it is empty and in its place again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lent: dict[Path, Callable[[bool], None]] = {}


class CallRecord:
    """What is known of a call once it runs: its id, and when its program was started.

    `base` are the ids of calls of its session whose changes wait, and which it sees, the last
    first. `settled` is what became of its own changes, if it ended without a result.
    """

    __slots__ = ("base", "id", "settled", "started_ns")

    def __init__(self) -> None:
        self.id = ""
        self.started_ns = 0
        self.base: tuple[str, ...] = ()
        self.settled: Settled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Arguments that fit a tool: only `skillpouch.arguments` makes them, so nobody checks again."""

    tool: Tool
    arguments: dict[str, Any]
    terms: Terms
    limits: Limits
    # Files that other programs run later, with their times of change before the call; None for a
    # tool that cannot write them.
    run_later: Mapping[str, int] | None = field(default=None, compare=False, repr=False)
    stdin: bytes | None = None  # the caller's own standard input, instead of the arguments
    access: Access = CONFINED
    redactor: Redactor = field(default=NO_SECRETS, repr=False, compare=False)
    on_output: OnOutput | None = field(default=None, compare=False)
    on_progress: OnProgress | None = field(default=None, compare=False)
    on_step: OnStep | None = field(default=None, compare=False)
    vouch: Vouch | None = field(default=None, repr=False, compare=False)
    watch: Stopwatch = field(default_factory=Stopwatch, compare=False)
    # What the program had written when the call was cancelled; the journal records it.
    unfinished: dict[Stream, Captured] = field(default_factory=dict, compare=False, repr=False)
    writes: Writes = "direct"
    writes_chosen: bool = False  # somebody asked for it: then nothing runs that cannot keep to it
    sees_staged: bool = False  # it works on what waits in its session, as a staged call does
    stack: tuple[Path, ...] = ()  # the layers of that, the upmost first
    layers: CallLayers = field(default_factory=CallLayers, compare=False, repr=False)
    # What is to be done when its changes have reached the workspace.
    when_applied: list[Callable[[], None]] = field(default_factory=list, compare=False, repr=False)
    # What is to be done when they are staged.
    when_staged: list[Callable[[], None]] = field(default_factory=list, compare=False, repr=False)
    # What it made in the folder of its skill, and was removed.
    dropped: list[str] = field(default_factory=list, compare=False, repr=False)
    # Settles what a part of the call that outlives it changed, such as a background job.
    settle: "Settle | None" = field(default=None, compare=False, repr=False)
    record: CallRecord = field(default_factory=CallRecord, compare=False, repr=False)

    @property
    def id(self) -> str:
        """The number of the call in the journal, or else a name that no other call has.

        `undo`, `apply`, `discard` and `diff` take it.
        """
        if not self.record.id:
            self.record.id = f"c{token_hex(6)}"
        return self.record.id

    @property
    def said(self) -> dict[str, Any]:
        """All that the caller passed, for people and records: arguments, and standard input."""
        if self.stdin is None:
            return self.arguments
        return {**self.arguments, "<stdin>": self.stdin[:_SHOWN_BYTES].decode("utf-8", "replace")}

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox for the processes of this call."""
        return "off" if self.is_unconfined else self.terms.sandbox

    @property
    def is_unconfined(self) -> bool:
        return self.terms.sandbox == "off" or self.access.unconfined

    @property
    def lacks_layer(self) -> str | None:
        """Why no layer can hold what this call writes, "" if it makes one itself.

        None for a program in our own sandbox: that depends on the machine and the workspace.
        """
        match self.tool.runs:
            case BuiltIn(name="write" | "edit" | "read" | "ls" | "glob"):  # in this process
                return ""
            case External():
                return "it runs in this process"
            case Hosted():
                return "another program runs it"
            case _ if self.is_unconfined:
                return "it runs unconfined"
            case _:
                return None if self.terms.sandbox == "on" else "another sandbox confines it"


def may_write(tool: Tool) -> bool:
    """Tell whether a tool may change files of the workspace; requests and functions may not."""
    match tool.runs:
        case Http() | Function() | Stub():
            return False
        case Hosted(writes_workspace=writes):
            return writes
        case BuiltIn():
            return tool.effects != ("read",)
        case _:
            return True


def chooses_way(tool: Tool) -> bool:
    """Tell whether there are several ways in which a tool may write.

    Code of the host, such as a script of tools, writes through calls that have their own ways;
    only a server of somebody else, whose tools belong to a skill `mcp:NAME`, writes by itself.
    """
    runs, is_foreign = tool.runs, tool.skill.startswith("mcp:")
    is_host = isinstance(runs, Hosted) and (runs.keeps_changes or not is_foreign)
    return may_write(tool) and not is_host


# Takes a call that has ended, with its layers, and whether somebody may be asked; returns what
# became of its changes.
Settle = Callable[[ToolCall, bool], Awaitable["Settled"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of the changes of a call: `applied`, `staged` or `refused`; "" if none were made.

    `notes` are lines for whoever made the call; `why` are the reasons of a refusal.
    """

    call_id: str = ""
    state: str = ""
    changes: tuple[FileChange, ...] = ()
    complete: bool = True
    conflicts: tuple[Conflict, ...] = ()
    run_later: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: tuple[str, ...] = ()


class Interceptor(Protocol):
    """Answers calls that it knows, and is notified of all others: how tests record calls."""

    def answer(self, call: ToolCall) -> ToolResult | None: ...
    def keep(
        self, call: ToolCall, ended: ToolResult | SkillpouchError, redactor: Redactor
    ) -> None: ...


@contextmanager
def called_by(owner: str) -> Iterator[None]:
    """Let the jobs that are started inside the block belong to somebody."""
    token = owner_here.set(owner)
    try:
        yield
    finally:
        owner_here.reset(token)


# Global to the process, not a context variable: an agent makes its calls from threads and tasks
# that do not inherit the context in which the test began.
interceptors: list[Interceptor] = []


@contextmanager
def intercepted_by(interceptor: Interceptor) -> Iterator[None]:
    """Pass every call of this process to an interceptor inside the block."""
    interceptors.append(interceptor)
    try:
        yield
    finally:
        interceptors.remove(interceptor)
