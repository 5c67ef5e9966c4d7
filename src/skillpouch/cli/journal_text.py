"""What calls of the journal look like: to a person, and to a program."""

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

from skillpouch.journal.records import Entry
from skillpouch.text import clean

HEADINGS = ("id", "time", "tool", "outcome", "exit", "ms", "arguments")
_ARGUMENT_CHARACTERS = 60


def as_row(entry: Entry) -> tuple[str, ...]:
    """Return the cells of one line."""
    return (
        str(entry.id),
        _local(entry.started_ns),
        clean(entry.tool),
        clean(entry.outcome),
        "" if entry.exit_code is None else str(entry.exit_code),
        "" if entry.duration_ms is None else f"{entry.duration_ms:.0f}",
        _short(entry),
    )


def as_dict(entry: Entry) -> dict[str, Any]:
    """Return all that is known of a call; times also in words."""
    ended = entry.ended_ns
    return dataclasses.asdict(entry) | {
        "started": _utc(entry.started_ns),
        "ended": None if ended is None else _utc(ended),
    }


def json_line(entry: Entry) -> str:
    """Return a call as one line of JSON."""
    return safe_json(json.dumps(as_dict(entry)))


def safe_json(text: str) -> str:
    """Return JSON without the one control character that `json.dumps` leaves as it is."""
    return text.replace("\x7f", "\\u007f")


def describe(entry: Entry) -> str:
    """Return a whole call, in lines."""
    facts = {
        "tool": entry.tool,
        "skill": entry.skill,
        "digest": entry.digest,
        "session": entry.session,
        "made by": None if entry.parent is None else f"call {entry.parent}",
        "started": _local(entry.started_ns),
        "outcome": f"{entry.outcome}{f' ({entry.code})' if entry.code else ''}",
        "exit code": entry.exit_code,
        "duration": None if entry.duration_ms is None else f"{entry.duration_ms:.1f} ms",
        "output": None if entry.output_bytes is None else f"{entry.output_bytes:,} bytes",
        "decision": f"{entry.decision}{f' by {entry.approved_by}' if entry.approved_by else ''}",
        "protections": ", ".join(f"{name} {by}" for name, by in dict(entry.protections).items()),
        "process": entry.pid,
        "arguments": _argument_text(entry),
        "sha256": entry.arguments_sha256,
    }
    lines = [f"call {entry.id}", ""]
    lines += [
        f"  {label + ':':<14}{clean(str(value))}"
        for label, value in facts.items()
        if value not in (None, "")
    ]
    for label, text in (("content", entry.content), ("standard error", entry.stderr)):
        if text:
            lines += ["", f"  {label}{_cut(entry) if label == 'content' else ''}:", "", clean(text)]
    return "\n".join(lines)


def _cut(entry: Entry) -> str:
    kept, whole = len(entry.content or ""), entry.content_characters or 0
    return f" (the first {kept:,} of {whole:,} characters)" if kept < whole else ""


def _short(entry: Entry) -> str:
    text = clean(_argument_text(entry))
    return text if len(text) <= _ARGUMENT_CHARACTERS else f"{text[: _ARGUMENT_CHARACTERS - 1]}…"


def _argument_text(entry: Entry) -> str:
    if entry.arguments_cut:
        return f"{entry.arguments}…"
    return json.dumps(entry.arguments, ensure_ascii=False)


def _local(moment_ns: int) -> str:
    moment = datetime.fromtimestamp(moment_ns / 1e9, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _utc(moment_ns: int) -> str:
    seconds, rest = divmod(moment_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
