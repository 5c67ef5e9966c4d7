"""What a call changed in its workspace, exactly: read from its layer, counted, shown as a diff.

In a session whose changes wait, a call sees the workspace with the layers of the calls before it.
What it changed is read against that, so a step of its plan may begin with what an earlier call
left: it builds on that call, and can be applied only when that one has been.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import BinaryIO

from skillpouch.results import Conflict, FileChange, WorkspaceChange
from skillpouch.text import escape_hidden
from skillpouch.workspace.change_plan import MOST_NAMED, ChangePlan, Swap, Touch, reversed_change
from skillpouch.workspace.file_state import (
    OVERLAY_ATTRIBUTES,
    FolderTree,
    Identity,
    attributes_of,
    identity_of,
    link,
    metadata_of,
    name_of,
    open_tree,
    opened_tree,
    remove_entry,
    set_metadata,
)
from skillpouch.workspace.layer_plan import LayerPlanner
from skillpouch.workspace.layer_reading import LayerReader, kind_of

_OPAQUE = f"{OVERLAY_ATTRIBUTES}opaque"
_WHY = {
    "staged": "which waits: apply that one first",
    "refused": "which was refused: apply that one first",
    "undone": "which was undone: apply that one again first",
    "discarded": "which was discarded",
}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutcome:
    """What was done to the workspace, and what was left alone."""

    changes: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


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


def plan_of_layers(
    call: FolderTree, workspace: FolderTree, below: int | None, since_ns: int
) -> ChangePlan:
    """Return the plan of all layers in the folder of a call; what was begun of it is removed.

    They are read against `below`, an open folder: the workspace with the layers of earlier calls;
    without it, against the workspace itself.
    """
    remove_entry(call.root, "past")
    remove_entry(call.root, "new")
    lower = workspace if below is None else FolderTree(below)
    with call.listing("upper") as listing:
        layers = sorted(os.listdir(listing), key=int)
    plan = ChangePlan()
    try:
        for layer in layers:
            slot = f"upper/{layer}"
            with opened_tree(call.place(slot)) as upper:
                reader = LayerReader(upper, lower, slot, since_ns)
                reader.knows_handles = lower is workspace
                LayerPlanner(reader, plan, count(len(plan.swaps) + len(plan.folders))).run()
    finally:
        if lower is not workspace:
            lower.close()
    return plan


def outcome_of(
    plan: ChangePlan, only: Iterable[str] | None, conflicts: list[Conflict], *, forward: bool
) -> ChangeOutcome:
    """Return what applying or undoing a plan, or some of its paths, did."""
    left = {each.path for each in conflicts} | {each.path for each in plan.conflicts}
    wanted = None if only is None else {path.rstrip("/") for path in only}
    done = plan.changes
    if left or wanted is not None:
        done = [
            each
            for each in plan.changes
            if not is_below(each, left) and (wanted is None or is_below(each, wanted))
        ]
    if not forward:
        done = [reversed_change(each) for each in done]
    told = [*plan.conflicts, *conflicts] if forward else conflicts
    return ChangeOutcome(changes=tuple(done), conflicts=tuple(dict.fromkeys(told)))


def make_parts(call: FolderTree, plan: ChangePlan) -> None:
    """Make the folders of the slots of a plan in the call's folder."""
    slots = [swap.slot for swap in plan.swaps if not swap.slot.startswith("upper/")]
    for part in {slot.partition("/")[0] for slot in slots}:
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=call.root)


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
        link(call.place(source), call.place(target))


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


def is_below(change: FileChange, paths: Iterable[str]) -> bool:
    """Tell whether a change is at one of these paths or below it."""
    names = [name for name in (change.path, change.old_path) if name]
    return any(name == path or name.startswith(f"{path}/") for path in paths for name in names)


class StackedLayers:
    """The layers of a session's calls that wait, the last first, above the workspace."""

    def __init__(self, workspace: FolderTree, layers: Sequence[tuple[str, FolderTree]]) -> None:
        self._workspace = workspace
        self._layers = layers  # each with the id of its call

    def call_of(self, path: str) -> str:
        """Return the last call without which a path would look different; "" for none."""
        for place, (call_id, layer) in enumerate(self._layers):
            if self._concerns(layer, path, [tree for _, tree in self._layers[place + 1 :]]):
                return call_id
        return ""

    def _concerns(self, layer: FolderTree, path: str, older: list[FolderTree]) -> bool:
        for above in _prefixes(path):
            status = layer.status(above)
            if status is None:
                return False
            if kind_of(status) != "folder" or above == path or _is_opaque(layer, above):
                return True
            if not any(_is_folder(tree, above) for tree in (*older, self._workspace)):
                return True  # its call made this folder
        return False


def _prefixes(path: str) -> Iterator[str]:
    place = path.find("/")
    while place >= 0:
        yield path[:place]
        place = path.find("/", place + 1)
    yield path


def _is_folder(tree: FolderTree, path: str) -> bool:
    status = tree.status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _is_opaque(layer: FolderTree, path: str) -> bool:
    with suppress(OSError):
        return _OPAQUE in attributes_of(name_of(layer.folder(path)), marks=True)
    return False


@contextmanager
def stacked_layers(
    workspace: FolderTree, layers: Iterable[tuple[str, str]]
) -> Iterator[StackedLayers]:
    """Hold open the layers of calls, each with the id of its call, the last first."""
    with ExitStack() as opened:
        trees = [(call_id, opened.enter_context(open_tree(folder))) for call_id, folder in layers]
        yield StackedLayers(workspace, trees)


def note_base(plan: ChangePlan, below: StackedLayers) -> None:
    """Note in a plan, by path, which earlier calls its steps build on."""
    files = [touch for touch in plan.touches if not touch.is_folder]
    touched = {path for touch in files for path in (touch.path, touch.old_path) if path}
    for path in {*(swap.path for swap in plan.swaps), *touched}:
        call_id = below.call_of(path)
        if call_id:
            plan.on[path] = call_id


def waiting_paths(plan: ChangePlan, states: Mapping[str, str]) -> dict[str, str]:
    """Return, by path, why steps cannot be applied yet: a call that they build on has not been.

    `states` are those of the calls that are kept, by their ids.
    """
    waiting = {call_id: _WHY[state] for call_id, state in states.items() if state in _WHY}
    return {
        path: f"it builds on call {call_id}, {waiting[call_id]}"
        for path, call_id in plan.on.items()
        if call_id in waiting
    }


def left_out(plan: ChangePlan, paths: Collection[str]) -> set[int]:
    """Return the numbers of the steps for some paths, and of those that move the same files."""
    if not paths:
        return set()
    slots = {swap.slot for swap in plan.swaps if swap.path in paths}
    return {number for number, swap in enumerate(plan.swaps) if swap.slot in slots}


def conflicts_of(reasons: Mapping[str, str]) -> list[Conflict]:
    """Return reasons by path as conflicts."""
    return [Conflict(path=escape_hidden(path), reason=why) for path, why in sorted(reasons.items())]


def rebase(plan: ChangePlan, workspace: FolderTree, base: Sequence[object]) -> None:
    """Have the steps of a plan begin with what earlier calls have brought into the workspace.

    On another file system they have brought copies, which have other inodes; and a folder that was
    in the workspace and in a layer is that of the workspace.
    """
    if base:
        for swap in plan.swaps:
            if swap.before is not None and not swap.done:
                _rebase_swap(plan, swap, swap.before, workspace.status(swap.path))
        for touch in plan.touches:
            if touch.old_path is not None and not touch.done:
                _rebase_touch(plan, touch, workspace.status(touch.old_path))


def _rebase_swap(
    plan: ChangePlan, swap: Swap, before: Identity, status: os.stat_result | None
) -> None:
    if status is None or not (before[1] == stat.S_IFDIR or swap.path in plan.on):
        return
    now = identity_of(status)
    if now == before or now[1:] != before[1:]:
        return
    swap.before = now
    for other in plan.swaps if swap.after is None else ():  # where it is moved to
        if other.slot == swap.slot and other.after is not None:
            other.after = now


def _rebase_touch(plan: ChangePlan, touch: Touch, status: os.stat_result | None) -> None:
    is_based = touch.is_folder or touch.old_path in plan.on
    if is_based and status is not None and stat.S_ISDIR(status.st_mode) == touch.is_folder:
        touch.inode = status.st_ino


def left_by(plan: ChangePlan, at_ns: int) -> dict[int, int]:
    """Return the inodes that applying or undoing a plan left in the workspace, with the time."""
    sides = (swap.after if swap.done else swap.before for swap in plan.swaps)
    touched = (touch.inode for touch in plan.touches)
    return dict.fromkeys([*(side[0] for side in sides if side is not None), *touched], at_ns)
