"""The plan of one call's changes: reversible steps, and a text form that survives a crash.

Every step swaps an entry of the workspace with a slot in the folder of the call; either may be
absent. So creating, deleting, replacing and, through a slot, renaming are one operation, which is
its own reverse. All steps in order apply the changes; the same in reverse order undo them.
"""

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from typing import Any

from skillpouch.results import Conflict, FileChange, WorkspaceChange
from skillpouch.text import escape_hidden
from skillpouch.workspace.file_state import (
    PATH_ONLY,
    FolderTree,
    Identity,
    Metadata,
    identity_of,
    is_folder,
    metadata_of,
    name_of,
    set_metadata,
)

CHANGED = "somebody else changed it meanwhile"
_PART = "past/part-"  # slots of parts of a folder that was one step
MOST_NAMED = 20_000  # changes that are listed; all of them are counted


@dataclass(kw_only=True)  # without slots: what few steps have is an attribute of the class
class Swap:
    """Exchanges what is at `path` with what is in `slot`, a path below the call's folder.

    `before` is what the workspace has until it is done, `after` what it has then. With `link`, the
    slot is made as another name of that file of the workspace. `twin` is another name that the file
    had in the workspace, with its inode, for undoing a step whose slot holds a copy. `needs` is the
    number of a step without which this one is not applied.
    """

    path: str
    slot: str
    before: Identity | None
    after: Identity | None
    link: str = field(default="", init=False)
    twin: str = field(default="", init=False)
    twin_inode: int = field(default=0, init=False)
    needs: int = field(default=-1, init=False)
    done: bool = field(default=False, init=False)

    @property
    def is_of_folder(self) -> bool:
        return any(side and side[1] == stat.S_IFDIR for side in (self.before, self.after))


@dataclass(slots=True, kw_only=True)
class Touch:
    """Sets mode, owner, attributes and times in place.

    Of a folder in which entries were swapped, and of a file whose content is unchanged. `old_path`
    is its path before all swaps.
    """

    old_path: str | None  # None: a folder that the call made
    path: str
    inode: int
    is_folder: bool
    before: Metadata
    after: Metadata
    done: bool = False

    def is_of(self, found: os.stat_result) -> bool:
        """Tell whether what was found at the path is what is to be touched."""
        is_same_kind = self.is_folder == stat.S_ISDIR(found.st_mode)
        return is_same_kind and self.inode in (0, found.st_ino)


@dataclass(slots=True, kw_only=True)
class ChangePlan:
    """All steps of a call, and what must be prepared in the call's folder before the first one."""

    swaps: list[Swap] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)
    folders: list[tuple[str, Metadata]] = field(default_factory=list)  # slots: made, empty
    links: list[tuple[str, str]] = field(default_factory=list)  # slots: other names of slots
    marked: dict[str, list[str]] = field(default_factory=dict)  # slots: attributes of the overlay
    changes: list[FileChange] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    counts: dict[WorkspaceChange, int] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)  # paths as they are, by what is shown of them
    on: dict[str, str] = field(default_factory=dict)  # the earlier calls that paths build on
    run: dict[str, Any] | None = None  # the pass over it that has begun and not ended
    bytes_written: int = 0
    kept_bytes: int = 0  # in the slots, before or after

    def add(self, change: FileChange) -> None:
        """Count a change, and list it unless there are too many."""
        self.counts[change.change] = self.counts.get(change.change, 0) + 1
        if len(self.changes) < MOST_NAMED:
            self.changes.append(change)

    def shown(self, path: str) -> str:
        """Return a path with its hidden characters written out, and remember what it is."""
        shown = escape_hidden(path)
        if shown != path:
            self.raw[shown] = path
        return shown

    def conflict(self, path: str, reason: str) -> None:
        """Note a path that is left alone."""
        self.conflicts.append(Conflict(path=escape_hidden(path), reason=reason))

    @property
    def displaces(self) -> bool:
        """Whether anything that exists is renamed, replaced or removed."""
        return any(swap.before is not None for swap in self.swaps)

    def to_json(self) -> bytes:
        """Return the plan as text; names that are no text stay what they are."""
        facts = {
            "swaps": list(map(_facts_of_swap, self.swaps)),
            "touches": list(map(attrgetter(*_OF_TOUCH), self.touches)),
            "folders": self.folders,
            "links": self.links,
            "marked": self.marked,
            "changes": list(map(attrgetter(*_OF_CHANGE), self.changes)),
            "conflicts": [(each.path, each.reason) for each in self.conflicts],
            "counts": self.counts,
            "raw": self.raw,
            "on": self.on,
            "run": self.run,
            "bytes": [self.bytes_written, self.kept_bytes],
        }
        return json.dumps(facts, separators=(",", ":"), check_circular=False).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "ChangePlan":
        """Return the plan of a text."""
        facts = json.loads(data)
        return cls(
            swaps=list(map(_read_swap, facts["swaps"])),
            touches=list(map(_read_touch, facts["touches"])),
            folders=[(slot, Metadata(*metadata)) for slot, metadata in facts["folders"]],
            links=[(one, other) for one, other in facts["links"]],
            marked=facts["marked"],
            changes=list(map(_read_change, facts["changes"])),
            conflicts=[Conflict(path=path, reason=reason) for path, reason in facts["conflicts"]],
            counts=facts["counts"],
            raw=facts["raw"],
            on=facts.get("on", {}),
            run=facts["run"],
            bytes_written=facts["bytes"][0],
            kept_bytes=facts["bytes"][1],
        )

    def steps(self) -> bytes:
        """Return what a pass leaves: a small text instead of the whole plan once more."""
        assert self.run is not None
        steps = {"began_ns": self.run["began_ns"], "done": _done(self.swaps)}
        return json.dumps({**steps, "touched": _done(self.touches)}).encode()

    def end_run(self, left: Mapping[str, Any] | None) -> None:
        """Take over what the last pass left, unless it is of an earlier one."""
        if self.run is not None and left and self.run["began_ns"] == left["began_ns"]:
            self.run = None
            all_steps: list[Swap | Touch] = [*self.swaps, *self.touches]
            for step, done in zip(all_steps, left["done"] + left["touched"], strict=True):
                step.done = done == "+"

    def chosen(self, only: Iterable[str] | None) -> set[int]:
        """Return the numbers of the steps for some paths, and of those that these depend on."""
        if only is None:
            return set(range(len(self.swaps)))
        wanted = {path.rstrip("/") for path in only}
        wanted |= {each.old_path for each in self.changes if each.path in wanted} - {""}
        found = {
            number
            for number, swap in enumerate(self.swaps)
            if _concerns(escape_hidden(swap.path), wanted)
        }
        return self._with_needs(found)

    def touched_by(self, chosen: set[int], only: Iterable[str] | None) -> list[int]:
        """Return the numbers of the touches that go with these steps."""
        if only is None:
            return list(range(len(self.touches)))
        wanted = {path.rstrip("/") for path in only}
        folders = {self.swaps[number].path.rpartition("/")[0] for number in chosen}
        return [
            number
            for number, touch in enumerate(self.touches)
            if touch.path in folders
            or touch.old_path in folders
            or (touch.path and _concerns(escape_hidden(touch.path), wanted, above=False))
        ]

    def content_at(self, path: str, *, new: bool) -> tuple[bool, str]:
        """Return where the new or old content of a path is: in the call's folder or not, and where.

        Of what the call did not replace, old and new are the same, in the workspace.
        """
        best, is_at = None, ""
        for swap in self.swaps:
            side, at = swap.after if new else swap.before, swap.path
            if side is not None and len(at) > len(is_at) and f"{path}/".startswith(f"{at}/"):
                best, is_at = swap, at
        if best is None or best.done == new:
            return False, path
        for other in self.swaps:  # it was renamed: it is under its other name
            if other is not best and other.slot == best.slot:
                return False, f"{other.path}{path[len(is_at) :]}"
        return True, f"{best.slot}{path[len(is_at) :]}"

    def _with_needs(self, found: set[int]) -> set[int]:
        while True:
            slots = {self.swaps[number].slot for number in found}
            above = {folder for number in found for folder in paths_above(self.swaps[number].path)}
            more = {self.swaps[number].needs for number in found} - {-1}
            for number, swap in enumerate(self.swaps):
                makes_folder = swap.after is not None and len(swap.after) == 2  # noqa: PLR2004
                if swap.slot in slots or (makes_folder and swap.path in above):
                    more.add(number)
            if more <= found:
                return found
            found |= more


def _done(steps: Iterable[Swap | Touch]) -> str:
    return "".join(["+" if step.done else "-" for step in steps])


def paths_above(path: str) -> list[str]:
    """Return the paths of the folders in which an entry is, the first one first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _concerns(path: str, wanted: set[str], *, above: bool = True) -> bool:
    """Tell whether a path is one of those that are wanted, below one or above one."""
    return any(
        path == each or path.startswith(f"{each}/") or (above and each.startswith(f"{path}/"))
        for each in wanted
    )


def reversed_change(change: FileChange) -> FileChange:
    """Return what undoing a change does to the same path."""
    turned: dict[WorkspaceChange, WorkspaceChange] = {"created": "deleted", "deleted": "created"}
    path, old = (change.old_path, change.path) if change.old_path else (change.path, "")
    return replace(
        change,
        path=path,
        old_path=old,
        change=turned.get(change.change, change.change),
        size=change.size_before,
        size_before=change.size,
        mode=change.mode_before,
        mode_before=change.mode,
        sha256="",
    )


_OF_SWAP = ("path", "slot", "before", "after")
_OF_FEW_SWAPS = ("link", "twin", "twin_inode", "needs", "done")
_usual_facts = attrgetter(*_OF_SWAP)
_all_facts = attrgetter(*_OF_SWAP, *_OF_FEW_SWAPS)
_OF_TOUCH = ("old_path", "path", "inode", "is_folder", "before", "after", "done")
_OF_CHANGE = tuple(FileChange.__slots__)


def _read_change(values: list[Any]) -> FileChange:
    return FileChange(**dict(zip(_OF_CHANGE, values, strict=True)))


def _facts_of_swap(swap: Swap) -> tuple[Any, ...]:
    return _usual_facts(swap) if len(vars(swap)) == len(_OF_SWAP) else _all_facts(swap)


def _read_swap(values: list[Any]) -> Swap:
    path, slot, *sides = values[: len(_OF_SWAP)]
    before, after = (None if side is None else tuple(side) for side in sides)
    swap = Swap(path=path, slot=slot, before=before, after=after)
    for name, value in zip(_OF_FEW_SWAPS, values[len(_OF_SWAP) :], strict=False):
        setattr(swap, name, value)
    return swap


def _read_touch(values: list[Any]) -> Touch:
    facts = dict(zip(_OF_TOUCH, values, strict=True))
    facts["before"], facts["after"] = Metadata(*facts["before"]), Metadata(*facts["after"])
    return Touch(**facts)


def sides_of(swap: Swap, forward: bool) -> tuple[Identity | None, Identity | None]:
    """Return what the workspace has before a step, and what the slot has."""
    return (swap.before, swap.after) if forward else (swap.after, swap.before)


def chosen_steps(
    plan: ChangePlan,
    only: Iterable[str] | None,
    call: FolderTree,
    workspace: FolderTree,
    *,
    forward: bool,
) -> set[int]:
    """Return the numbers of the steps for some paths, or of all.

    Steps that bring or take a whole new folder, of which only some paths are wanted, are split. A
    new folder in which something is left is not undone.
    """
    wanted = {path.rstrip("/") for path in only or ()}
    number = 0
    while wanted and number < len(plan.swaps):  # more are added meanwhile
        swap = plan.swaps[number]
        is_new = is_folder(swap.after) and swap.slot.startswith(("upper/", _PART))
        if is_new and _is_part(escape_hidden(swap.path), wanted):
            _split_folder(plan, number, (workspace, swap.path) if swap.done else (call, swap.slot))
            _prepare(call, swap, plan.touches[-1].after)
        number += 1
    chosen = plan.chosen(only)
    return chosen if forward or not wanted else chosen - _left_full(plan, chosen)


def _left_full(plan: ChangePlan, chosen: set[int]) -> set[int]:
    """Return the steps of new folders that hold something which is not undone with them."""
    done = [(number, swap.path) for number, swap in enumerate(plan.swaps) if swap.done]
    stays = [path for number, path in done if number not in chosen]
    made = [number for number in chosen if plan.swaps[number].slot.startswith("new/")]
    full = {folder for path in stays for folder in paths_above(path)}
    return {number for number in made if plan.swaps[number].path in full}


def _is_part(path: str, wanted: set[str]) -> bool:
    """Tell whether a folder is wanted only for some paths in it."""
    is_inside = any(path == each or path.startswith(f"{each}/") for each in wanted)
    return not is_inside and any(each.startswith(f"{path}/") for each in wanted)


def _split_folder(plan: ChangePlan, number: int, place: tuple[FolderTree, str]) -> None:
    """Make the step of a folder one of an empty folder, and add one for each entry in it."""
    swap, (tree, top) = plan.swaps[number], place
    with tree.opened(top, PATH_ONLY) as held:
        metadata = metadata_of(os.fstat(held), name_of(held))
    with tree.listing(top) as held, os.scandir(held) as listing:
        found = sorted((each.name, each.stat(follow_symlinks=False)) for each in listing)
    old, swap.slot = swap.slot, f"new/part-{number}"
    for name, status in found:
        slot = f"{_PART}{len(plan.swaps)}" if swap.done else f"{old}/{name}"
        after = identity_of(status)
        part = Swap(path=f"{swap.path}/{name}", slot=slot, before=None, after=after)
        part.done = swap.done
        plan.swaps.append(part)
    plan.touches.append(
        Touch(
            old_path=None,
            path=swap.path,
            inode=0,
            is_folder=True,
            before=metadata,
            after=metadata,
            done=swap.done,
        )
    )


def _prepare(call: FolderTree, swap: Swap, metadata: Metadata) -> None:
    """Make what the step of an empty folder needs in the call's folder."""
    for part in ("new", "past"):
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=call.root)
    if swap.done:
        return
    folder, name = call.place(swap.slot)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=folder)  # of a run that did not come to its first step
    os.mkdir(name, 0o700, dir_fd=folder)
    with call.opened(swap.slot, PATH_ONLY) as held:
        status = os.fstat(held)
        set_metadata(name_of(held), metadata_of(status, name_of(held)), metadata)
        swap.after = identity_of(status)


def split_dirty(
    plan: ChangePlan,
    workspace: FolderTree,
    chosen: set[int],
    since_ns: int,
    *,
    forward: bool,
    known: Callable[[], Mapping[int, int]],
) -> list[Conflict]:
    """Split the steps that take away a folder in which somebody was at work since then.

    Its files that nobody changed get steps of their own; the folder and the others stay. `known`
    returns the inodes that other calls left there which do not count, each with the time.
    """
    sides = [each.before if forward else each.after for each in plan.swaps]
    if not any(map(is_folder, filter(None, sides))):
        return []
    shared, known = Counter(swap.slot for swap in plan.swaps), cache(known)
    found = list[Conflict]()
    for number in sorted(chosen):
        swap = plan.swaps[number]
        here = sides_of(swap, forward)[0]
        is_whole = shared[swap.slot] == 1 and not swap.slot.startswith("new/")
        if swap.done == forward or not is_folder(here) or not is_whole:
            continue
        files, changed = _look_below(workspace, swap.path, since_ns, known)
        if not changed:
            continue
        chosen.discard(number)
        found += [Conflict(path=escape_hidden(path), reason=CHANGED) for path in changed]
        for path, status in files.items():
            chosen.add(len(plan.swaps))
            before, after = (identity_of(status), None) if forward else (None, identity_of(status))
            slot = f"{_PART}{len(plan.swaps)}"
            part = Swap(path=path, slot=slot, before=before, after=after)
            part.done = not forward
            plan.swaps.append(part)
    return found


def _look_below(
    tree: FolderTree, path: str, since_ns: int, known: Callable[[], Mapping[int, int]]
) -> tuple[dict[str, os.stat_result], list[str]]:
    """Return the files below a folder that nobody has changed since then, and the others."""
    files, changed, todo = dict[str, os.stat_result](), list[str](), [path]
    status = tree.status(path)
    if status is None or not stat.S_ISDIR(status.st_mode):
        return files, changed
    while todo:
        folder = todo.pop()
        with tree.listing(folder) as held, os.scandir(held) as listing:
            found = [
                (f"{folder}/{each.name}", each.stat(follow_symlinks=False)) for each in listing
            ]
        for inner, status in found:
            changed_ns, inode = status.st_ctime_ns, status.st_ino
            if stat.S_ISDIR(status.st_mode):
                todo.append(inner)
            elif changed_ns > since_ns and changed_ns > known().get(inode, 0):
                changed.append(inner)
            else:
                files[inner] = status
    return files, changed
