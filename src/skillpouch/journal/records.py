"""One record per call, as a value and as database rows."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

from skillpouch.results import FileChange, Outcome

# How a call ended. `not_started`: the tool could not be started. For calls without a recorded end:
# `running` while its process lives, `interrupted` when that died, `elsewhere` when this cannot be
# known, because the process is on another machine or in another container.
EntryOutcome = Outcome | Literal["not_started", "running", "interrupted", "elsewhere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A call that is about to run. `arguments` are a JSON value without secrets."""

    tool: str
    skill: str = ""
    digest: str = ""  # digest of the skill's content
    session: str = ""
    arguments: Any = None
    decision: str = "allowed"
    approved_by: str = ""  # who or what allowed it: a rule, a grant, the approver
    parent: int | None = None  # the call that made this one, such as a script


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call ended. `content` and `stderr` are whole, and without secrets."""

    outcome: Outcome | Literal["not_started"]
    content: str = ""
    stderr: str = ""
    exit_code: int | None = None
    output_bytes: int = 0
    duration_ms: float = 0.0
    protections: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    writes: str | None = None  # how it wrote its workspace; None: nothing was run
    changes: tuple[FileChange, ...] = ()
    call_id: str = ""  # what `undo` takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call as it is in the journal.

    `arguments` is the JSON value, or the beginning of its text when `arguments_cut`;
    `arguments_sha256` is the hash of all of it. Of a long `content` the beginning is kept, of a
    long `stderr` the end; `content_characters` is how long the content was. `changes` are the
    first of `changes_total`, each with path, change, size and hash; `call_id` is what `undo` takes,
    "" when nothing of the call is kept.
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
    writes: str | None = None
    changes: tuple[Mapping[str, Any], ...] = ()
    changes_total: int = 0
    call_id: str = ""


KEEP_CHARACTERS = 16_384  # characters that are kept of arguments and content
KEEP_STDERR_CHARACTERS = 8_192
KEEP_CHANGES = 500
_KEEP_CHANGES_CHARACTERS = 65_536  # a path alone may have thousands

START_COLUMNS = (
    *("owner", "started_ns", "session", "tool", "skill", "digest", "decision", "approved_by"),
    *("arguments", "arguments_sha256", "arguments_cut", "parent"),
)
END_COLUMNS = (
    *("ended_ns", "outcome", "code", "exit_code", "output_bytes", "duration_ms", "protections"),
    *("content", "content_characters", "stderr"),
    *("writes", "changes", "changes_total", "call_id"),
)

Row = tuple[Any, ...]

_START = ", ".join(START_COLUMNS)
_END = ", ".join(END_COLUMNS)
_START_MARKS = ", ".join("?" * len(START_COLUMNS))
_ALL_MARKS = ", ".join("?" * (len(START_COLUMNS) + len(END_COLUMNS)))
_SETTERS = ", ".join(f"{column} = ?" for column in END_COLUMNS)
# Only constants of this file are put into the SQL.
INSERT_START = f"INSERT INTO calls ({_START}) VALUES ({_START_MARKS})"  # noqa: S608
INSERT_ALL = f"INSERT INTO calls ({_START}, {_END}) VALUES ({_ALL_MARKS})"  # noqa: S608
# The start time is compared, too: in a new file the same number may be another call.
UPDATE = f"UPDATE calls SET {_SETTERS} WHERE id = ? AND started_ns = ? AND ended_ns IS NULL"  # noqa: S608

# Made once: `json.dumps` with a `default` makes a new encoder each time. ASCII, because a lone
# surrogate could not be stored or hashed.
_encode = json.JSONEncoder(default=repr).encode


def start_row(facts: Started) -> Row:
    """Return the values of START_COLUMNS except the first, the owner."""
    whole = _json_text(facts.arguments)
    return (
        time.time_ns(),
        *map(storable, (facts.session, facts.tool, facts.skill, facts.digest)),
        storable(facts.decision),
        storable(facts.approved_by),
        whole[:KEEP_CHARACTERS],
        sha256(whole.encode()).hexdigest(),
        len(whole) > KEEP_CHARACTERS,
        facts.parent,
    )


def end_row(facts: CallEnd) -> Row:
    """Return the values of END_COLUMNS."""
    return (
        time.time_ns(),
        facts.outcome,
        facts.code,
        facts.exit_code,
        facts.output_bytes,
        facts.duration_ms,
        _protections_text(tuple(facts.protections.items())),
        storable(facts.content[:KEEP_CHARACTERS]),
        len(facts.content),
        storable(facts.stderr[-KEEP_STDERR_CHARACTERS:]),
        facts.writes,
        _changes_text(facts.changes) if facts.changes else None,
        len(facts.changes),
        facts.call_id,
    )


def _changes_text(changes: tuple[FileChange, ...]) -> str:
    """Return the first changes as JSON, as many as are kept."""
    whole = _encode([change.facts for change in changes[:KEEP_CHANGES]])
    if len(whole) <= _KEEP_CHANGES_CHARACTERS:
        return whole
    texts: list[str] = []
    left = _KEEP_CHANGES_CHARACTERS
    for change in changes[:KEEP_CHANGES]:
        text = _encode(change.facts)
        left -= len(text)
        if left < 0:
            break
        texts.append(text)
    return f"[{', '.join(texts)}]"


@lru_cache(maxsize=64)
def _protections_text(protections: tuple[tuple[str, str], ...]) -> str:
    # Cached: it is the same for every call with the same confinement.
    return _encode(dict(protections))


def storable(text: str) -> str:
    """Return text that can be stored as UTF-8: a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _json_text(value: Any) -> str:
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps(f"no JSON: {error}")
