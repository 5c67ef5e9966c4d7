"""What a call changed in its workspace, exactly: read from its layer, counted, shown as a diff."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import BinaryIO

from skillpouch.results import Conflict, FileChange, WorkspaceChange
from skillpouch.workspace.change_plan import MOST_NAMED, ChangePlan
from skillpouch.workspace.file_state import (
    FolderTree,
    identity_of,
    metadata_of,
    name_of,
    open_tree,
    set_metadata,
)
from skillpouch.workspace.layer_plan import LayerPlanner
from skillpouch.workspace.layer_reading import LayerReader

_MOST_READ = 1024 * 1024  # of one file
_MOST_LINES = 4_000  # that differ, of one file: the time to compare grows with their square
_CONTEXT = 3

Open = Callable[[FileChange], BinaryIO | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChanges:
    """What a call changed, sorted by path, and what is left alone.

    `counts` counts all changes of each type. Past a limit `files` has only the first of them, and
    `complete` is false: a rule about paths must then be in doubt, against the call.
    """

    files: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    counts: Mapping[WorkspaceChange, int] = field(default_factory=dict)
    bytes_written: int = 0  # the sizes of all files that are new or have new content
    complete: bool = True

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def changes_of(plan: ChangePlan) -> CallChanges:
    """Return what a plan changes."""
    return CallChanges(
        files=tuple(plan.changes),
        conflicts=tuple(plan.conflicts),
        counts=dict(plan.counts),
        bytes_written=plan.bytes_written,
        complete=sum(plan.counts.values()) <= MOST_NAMED,
    )


def read_changes(upper: Path, workspace: Path, since_ns: int) -> CallChanges:
    """Return what the upper folder of an overlay says that a call changed in a workspace.

    What changed in the workspace after `since_ns`, when the call started, is a conflict.
    """
    plan = ChangePlan()
    with open_tree(str(upper)) as layer, open_tree(str(workspace)) as lower:
        LayerPlanner(LayerReader(layer, lower, "upper", since_ns), plan, count()).run()
    return changes_of(plan)


def make_slots(call: FolderTree, plan: ChangePlan) -> None:
    """Make the folders and the other names of files that a plan needs in the call's folder."""
    for slot, metadata in plan.folders:
        folder, name = call.place(slot)
        os.mkdir(name, 0o700, dir_fd=folder)
        held = call.folder(slot)
        status = os.fstat(held)
        set_metadata(name_of(held), metadata_of(status, name_of(held)), metadata)
        for swap in plan.swaps:
            if swap.slot == slot:
                swap.after = identity_of(status)
    for source, target in plan.links:
        (here, old), (there, new) = call.place(source), call.place(target)
        os.link(old, new, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)


def diff_of(
    changes: Iterable[FileChange], open_old: Open, open_new: Open, *, most_bytes: int
) -> str:
    """Return a diff of all changes, cut after a number of bytes; the last line then says so."""
    pieces, size, left = list[str](), 0, 0
    for change in changes:
        if size > most_bytes:
            left += 1
            continue
        text = "\n".join(_lines(change, open_old, open_new)) + "\n"
        size += len(text.encode("utf-8", "surrogateescape"))
        pieces.append(text)
    text = "".join(pieces)
    if size <= most_bytes and not left:
        return text
    kept = text.encode("utf-8", "surrogateescape")[:most_bytes].decode("utf-8", "ignore")
    more = f", and {left} more files" if left else ""
    return f"{kept.rpartition(chr(10))[0]}\n[the diff is cut here{more}]\n"


def _lines(change: FileChange, open_old: Open, open_new: Open) -> Iterator[str]:
    yield _heading(change)
    if change.path.endswith("/") or change.change == "mode":
        return
    old, new = _read(open_old, change), _read(open_new, change)
    if change.change == "created" or old is None:
        old = b""
    if change.change == "deleted" or new is None:
        new = b""
    before, after = _text(old), _text(new)
    if before is None or after is None:
        yield f"  binary: {change.size_before} bytes before, {change.size} bytes now{_hash(change)}"
    elif before != after:
        yield from _text_diff(before, after)


def _heading(change: FileChange) -> str:
    words = [change.change, change.path]
    if change.old_path:
        words += ["from", change.old_path]
    if change.mode is not None and change.mode_before not in (None, change.mode):
        words.append(f"(mode {change.mode_before:o} -> {change.mode:o})")
    elif change.executable:
        words.append("(executable)")
    return " ".join(words)


def _hash(change: FileChange) -> str:
    return f", sha256 {change.sha256}" if change.sha256 else ""


def _read(opened: Open, change: FileChange) -> bytes | None:
    file = opened(change)
    if file is None:
        return None
    with file:
        return file.read(_MOST_READ + 1)


def _text(data: bytes) -> list[str] | None:
    """Return the lines of a text; None for what is no text, or too long to compare."""
    if len(data) > _MOST_READ or b"\0" in data:
        return None
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None


def _text_diff(before: list[str], after: list[str]) -> Iterator[str]:
    from difflib import unified_diff

    start, most = 0, min(len(before), len(after))
    while start < most and before[start] == after[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    differing = max(len(before), len(after)) - start - end
    if differing > _MOST_LINES:
        yield f"  {len(before)} lines before, {len(after)} lines now, from line {start + 1} on"
        return
    first = max(0, start - _CONTEXT)
    last = max(0, end - _CONTEXT)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    for number, line in enumerate(unified_diff(old, new, lineterm="", n=_CONTEXT)):
        if number > 1:  # without the two lines for file names
            yield line
