"""Reads the journal, filtered, in small steps that do not block writers."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from skillpouch.journal.records import END_COLUMNS, START_COLUMNS, Entry
from skillpouch.journal.store import (
    FILE_NAME,
    DamagedJournalError,
    JournalError,
    NoSuchCallError,
    explain,
    open_existing,
    set_aside,
    warn_of_journal,
)
from skillpouch.runtime.owners import ProcessIdentity, state_of

_STEP_ROWS = 100
_UNFINISHED = ("running", "interrupted", "elsewhere")
_COLUMNS = [*START_COLUMNS[1:], *END_COLUMNS]
_SELECT = (
    f"SELECT calls.id, {', '.join(_COLUMNS)}, pid, began, boot, namespace, machine"  # noqa: S608
    " FROM calls LEFT JOIN owners ON owners.id = calls.owner WHERE "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects calls; names may contain `*` for any text. Times are nanoseconds since 1970."""

    tool: str = ""
    skill: str = ""
    session: str = ""
    outcome: str = ""
    since_ns: int | None = None
    until_ns: int | None = None


class JournalReader:
    """Reads the journal of a directory; a missing journal reads as empty.

    A damaged journal is moved aside, which `warn` reports; its readable rows are kept.
    """

    def __init__(
        self, directory: Path | None, *, warn: Callable[[str], None] = warn_of_journal
    ) -> None:
        self._directory = directory
        self._warn = warn
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the next query opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def newest(self, query: Query, limit: int) -> list[Entry]:
        """Return the latest calls, the newest last."""
        found: list[Entry] = []
        for entry in self._step_through(query, "id < ?", "DESC", 2**62):
            if len(found) >= limit:
                break
            found.append(entry)
        return found[::-1]

    def after(self, query: Query, number: int = 0) -> Iterator[Entry]:
        """Yield every call after the one with that number, in the order they started."""
        return self._step_through(query, "id > ?", "ASC", number)

    def get(self, number: int) -> Entry:
        """Return one call."""
        for entry in self.found(number):
            return entry
        raise NoSuchCallError(number)

    def found(self, number: int) -> list[Entry]:
        """Return one call, or [] when it does not exist or was removed."""
        return [_entry(row) for row in self._rows("calls.id = ?", [number])]

    def latest(self) -> int:
        """Return the number of the newest call, 0 when there is none."""
        for row in self._fetch("SELECT max(id) FROM calls", []):
            return row[0] or 0
        return 0

    def _step_through(self, query: Query, beyond: str, order: str, place: int) -> Iterator[Entry]:
        # In steps: memory stays constant, and no open reader keeps the log from being reset.
        condition, values = _condition(query)
        while True:
            rows = self._rows(
                f"calls.{beyond} AND {condition} ORDER BY calls.id {order} LIMIT {_STEP_ROWS}",
                [place, *values],
            )
            for row in rows:
                entry = _entry(row)
                if not query.outcome or entry.outcome == query.outcome:
                    yield entry
            if len(rows) < _STEP_ROWS:
                return
            place = rows[-1][0]

    def _rows(self, condition: str, values: list[Any]) -> list[Any]:
        return self._fetch(_SELECT + condition, values)

    def _fetch(self, query: str, values: list[Any]) -> list[Any]:
        if self._directory is None:
            return []
        try:
            return self._select(self._directory, query, values)
        except (sqlite3.Error, OSError, JournalError) as error:
            trouble = explain(self._directory / FILE_NAME, error)
            if not isinstance(trouble, DamagedJournalError):
                raise trouble from error
            self._mend(self._directory)
            return self._select(self._directory, query, values)

    def _select(self, directory: Path, query: str, values: list[Any]) -> list[Any]:
        if self._connection is None:
            self._connection = open_existing(directory)
        return (
            [] if self._connection is None else self._connection.execute(query, values).fetchall()
        )

    def _mend(self, directory: Path) -> None:
        self.close()
        said = set_aside(directory)
        if said:
            self._warn(said)


def _condition(query: Query) -> tuple[str, list[Any]]:
    parts: list[tuple[str, Any]] = [
        (f"{column} GLOB ?", wanted)
        for column, wanted in (
            ("tool", query.tool),
            ("skill", query.skill),
            ("session", query.session),
        )
        if wanted
    ]
    if query.since_ns is not None:
        parts.append(("started_ns >= ?", query.since_ns))
    if query.until_ns is not None:
        parts.append(("started_ns < ?", query.until_ns))
    if query.outcome and query.outcome not in _UNFINISHED:
        parts.append(("outcome = ?", query.outcome))
    texts = [text for text, _ in parts]
    if query.outcome in _UNFINISHED:
        texts.append("outcome IS NULL")
    return " AND ".join(texts) or "1", [value for _, value in parts]


def _entry(row: tuple[Any, ...]) -> Entry:
    number, *values = row[: len(_COLUMNS) + 1]
    facts = dict(zip(_COLUMNS, values, strict=True))
    owner = ProcessIdentity(*row[len(_COLUMNS) + 1 :])
    cut = bool(facts.pop("arguments_cut"))
    return Entry(
        **facts
        | {
            "id": number,
            "pid": owner.pid,
            "arguments_cut": cut,
            "arguments": facts["arguments"] if cut else _value(facts["arguments"]),
            "protections": _value(facts["protections"] or "{}"),
            "changes": _changes(facts["changes"]),
            "changes_total": facts["changes_total"] or 0,
            "call_id": facts["call_id"] or "",
            "outcome": facts["outcome"] or state_of(owner, facts["started_ns"]),
        }
    )


def _changes(text: str | None) -> tuple[dict[str, Any], ...]:
    found = _value(text or "[]")
    several = found if isinstance(found, list) else []
    return tuple(each for each in several if isinstance(each, dict))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text  # a damaged value in a row that was copied from a damaged file
