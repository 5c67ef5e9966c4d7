"""What changed in a skill's folder between two looks at it, file by file."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from skillpouch.discovery.digest import Entry, Manifest
from skillpouch.trust.visible import visible

_MOST_NAMED = 3


class Change(NamedTuple):
    """One path that is not what it was. `detail` says how, where a word does not: `644 → 755`."""

    path: str
    what: Literal["added", "removed", "changed", "mode", "link"]
    detail: str = ""


def changes_between(before: Manifest, after: Manifest) -> tuple[Change, ...]:
    """Return every difference, in order of path."""
    paths = sorted(before.keys() | after.keys())
    found = (_change(path, before.get(path), after.get(path)) for path in paths)
    return tuple(change for change in found if change is not None)


def in_short(changes: Sequence[Change]) -> str:
    """Say in a few words what changed: the first files by name, the rest by number."""
    if not changes:
        return "its files changed since"
    named = [visible(change.path) for change in changes[:_MOST_NAMED]]
    more = len(changes) - len(named)
    others = f" and {more:,} more" if more else ""
    return f"{', '.join(named)}{others} changed since"


def _change(path: str, before: Entry | None, after: Entry | None) -> Change | None:
    if before == after:
        return None
    if before is None or after is None:
        there = before or after
        assert there is not None
        detail = "" if there.kind == "file" else _named(there)
        return Change(path, "added" if before is None else "removed", detail)
    if before.kind != after.kind:
        return Change(path, "changed", f"{before.kind} → {_named(after)}")
    if before.content == after.content:
        return Change(path, "mode", f"{before.mode:o} → {after.mode:o}")
    if after.kind == "link":
        return Change(path, "link", f"{before.content} → {after.content}")
    mode = "" if before.mode == after.mode else f"mode {before.mode:o} → {after.mode:o}"
    return Change(path, "changed", mode)


def _named(entry: Entry) -> str:
    return f"link to {entry.content}" if entry.kind == "link" else entry.kind
