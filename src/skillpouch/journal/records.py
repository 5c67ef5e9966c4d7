"""What the journal knows of a call: at its start, at its end, and read back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from skillpouch.results import Outcome

# What became of a call. `not_started`: the tool could not be started. Of calls without an end:
# `running` in a process that lives, `interrupted` when it died, `elsewhere` when that cannot be
# known from here, because it is another machine's or another container's.
EntryOutcome = Outcome | Literal["not_started", "running", "interrupted", "elsewhere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A call that is about to run. `arguments` are a JSON value without secrets."""

    tool: str
    skill: str = ""
    digest: str = ""  # of the skill's content
    session: str = ""
    arguments: Any = None
    decision: str = "allowed"
    approved_by: str = ""  # who or what said yes: a rule, a grant, the approver
    parent: int | None = None  # the call that made this one, such as a script


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a call ended. `content` and `stderr` are whole, and without secrets."""

    outcome: Outcome | Literal["not_started"]
    content: str = ""
    stderr: str = ""
    exit_code: int | None = None
    output_bytes: int = 0
    duration_ms: float = 0.0
    protections: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call as the journal has it.

    `arguments` is the JSON value, or the beginning of its text when `arguments_cut`;
    `arguments_sha256` is the hash of all of it. Of a long `content` the beginning is kept, of a
    long `stderr` the end; `content_characters` is how long the content was.
    """

    id: int
    started_ns: int
    tool: str
    skill: str
    digest: str
    session: str
    arguments: Any
    arguments_cut: bool
    arguments_sha256: str
    decision: str
    approved_by: str
    pid: int
    outcome: EntryOutcome
    parent: int | None = None
    ended_ns: int | None = None
    code: str | None = None
    exit_code: int | None = None
    output_bytes: int | None = None
    duration_ms: float | None = None
    protections: Mapping[str, str] = field(default_factory=dict)
    content: str | None = None
    content_characters: int | None = None
    stderr: str | None = None
