"""For machines without overlays: a copy of a workspace before a call, compared with it after it.

The call writes directly. What it replaced or removed is then in the copy, so that the plan of its
changes is one that has been applied already, and is undone like any other.
"""

import errno
import json
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from skillpouch.results import FileChange, WorkspaceChange
from skillpouch.runtime.removal import remove_tree
from skillpouch.workspace.call_folder import ChangesError, read_file, write_file
from skillpouch.workspace.change_plan import ChangePlan, Swap, Touch
from skillpouch.workspace.changes import CallChanges, changes_of
from skillpouch.workspace.file_state import (
    PATH_ONLY,
    Copier,
    FolderTree,
    Metadata,
    identity_of,
    metadata_of,
    name_of,
    open_tree,
    opened_tree,
    set_metadata,
)
from skillpouch.workspace.layer_reading import compared, hash_of

COPY_TREE, COPY_LIST = "tree", "before.json"
_REST = ".rest"  # of a layer whose folder goes back to its sandbox
_TICK_NS = 20_000_000  # times of files are coarse: within this, two changes may have the same


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBounds:
    """How large a workspace may be that is copied before every call."""

    entries: int = 2_000
    megabytes: float = 64


class SeenEntry(NamedTuple):
    """An entry of the workspace at one moment."""

    inode: int
    mode: int
    size: int
    ctime_ns: int
    names: int
    metadata: Metadata

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


def copy_of(workspace: Path, into: Path, bounds: CopyBounds | None = None) -> Path:
    """Copy a workspace into a folder, for `changes_between`.

    Raises ChangesError if the workspace is larger than the bounds.
    """
    with open_tree(str(workspace)) as tree, open_tree(str(into)) as target:
        copy_into(tree, target, bounds or CopyBounds())
    return into


def changes_between(before: Path, workspace: Path) -> CallChanges:
    """Return how a workspace differs from the copy that `copy_of` made of it before a call."""
    with open_tree(str(workspace)) as tree, open_tree(str(before)) as copy:
        return changes_of(CopyComparison(copy, tree).plan())


def copy_into(workspace: FolderTree, target: FolderTree, bounds: CopyBounds) -> int:
    """Copy a workspace into an open folder; return how many bytes that took."""
    seen = look_at_all(workspace, bounds)
    total = sum(each.size for each in seen.values() if each.is_file)
    if total > bounds.megabytes * 1024 * 1024:
        raise ChangesError(f"the workspace has more than {bounds.megabytes:g} MiB to be copied")
    copier = Copier()
    try:
        copier.copy((workspace.root, "."), (target.root, COPY_TREE))
    finally:
        copier.close()
    facts = {"copied_ns": time.time_ns(), "seen": seen}
    write_file(target.root, COPY_LIST, json.dumps(facts).encode())
    return copier.bytes


def look_at_all(tree: FolderTree, bounds: CopyBounds | None = None) -> dict[str, SeenEntry]:
    """Return every entry of a workspace by its path; the workspace itself is ""."""
    found = {"": _entry_of(tree, "", os.fstat(tree.root))}
    todo = [""]
    while todo:
        folder = todo.pop()
        with tree.listing(folder) as held, os.scandir(held) as listing:
            inside = [(each.name, each.stat(follow_symlinks=False)) for each in listing]
        for name, status in sorted(inside):
            path = f"{folder}/{name}" if folder else name
            if stat.S_ISDIR(status.st_mode):
                todo.append(path)
            found[path] = _entry_of(tree, path, status)
            if bounds is not None and len(found) > bounds.entries:
                raise ChangesError(
                    f"the workspace has more than {bounds.entries:,} entries to be copied"
                )
    return found


def _entry_of(tree: FolderTree, path: str, status: os.stat_result) -> SeenEntry:
    with tree.opened(path, PATH_ONLY) as held:
        metadata = metadata_of(status, name_of(held))
    facts = status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns, status.st_nlink
    return SeenEntry(*facts, metadata)


class CopyComparison:
    """Compares a workspace with the copy of it; the slots of the plan lie in the copy."""

    def __init__(self, copy: FolderTree, workspace: FolderTree, slot: str = "past") -> None:
        self._copy = copy
        self._workspace = workspace
        self._slot = slot
        data = read_file(copy.root, COPY_LIST)
        if data is None:
            raise ChangesError("the copy of the workspace is not complete")
        facts = json.loads(data)
        self._copied_ns: int = facts["copied_ns"]
        self._before = {path: _read_entry(values) for path, values in facts["seen"].items()}
        self._now: dict[str, SeenEntry] = {}
        self._plan = ChangePlan()
        self._swapped: dict[str, Swap] = {}
        self._kept: dict[int, str] = {}  # names whose file is still the same, by inode
        self._hashes: dict[str, str] = {}

    def plan(self) -> ChangePlan:
        """Return the plan of all differences, as one that has been applied."""
        self._now = look_at_all(self._workspace)
        same = {path for path in self._before.keys() & self._now.keys() if self._is_same(path)}
        self._kept = {
            self._now[path].inode: path
            for path in sorted(same, reverse=True)
            if not self._now[path].is_folder
        }
        for path in sorted(self._before.keys() | self._now.keys()):
            if path not in same and not self._is_inside(path):
                self._add_swap(path)
        links = [swap for swap in self._plan.swaps if swap.link]  # last: after what they name
        self._plan.swaps.sort(key=lambda swap: bool(swap.link))
        assert all(swap.done for swap in links)
        self._touch(same)
        self._list(same)
        # Of the whole copy: it stays, also the files that did not change.
        self._plan.kept_bytes = sum(each.size for each in self._before.values() if each.is_file)
        return self._plan

    def _is_same(self, path: str) -> bool:
        """Tell whether a path has the same file or folder, perhaps with other metadata."""
        old, new = self._before[path], self._now[path]
        if stat.S_IFMT(old.mode) != stat.S_IFMT(new.mode):
            return False
        if old.is_folder:
            return True
        is_shared = old.names > 1 or new.names > 1
        if (is_shared and old.inode != new.inode) or old.size != new.size:
            return False
        is_settled = old.ctime_ns < self._copied_ns - _TICK_NS
        if is_settled and (old.inode, old.ctime_ns) == (new.inode, new.ctime_ns):
            return True
        return self._is_same_content(path, new)

    def _is_same_content(self, path: str, new: SeenEntry) -> bool:
        kept = f"{COPY_TREE}/{path}"
        if stat.S_ISLNK(new.mode):
            (here, name), (there, old) = self._workspace.place(path), self._copy.place(kept)
            return os.readlink(name, dir_fd=here) == os.readlink(old, dir_fd=there)
        if not new.is_file:
            return True
        try:
            with self._workspace.opened(path) as one, self._copy.opened(kept) as other:
                self._hashes[path], same = compared(one, other, new.size)
        except PermissionError:
            return False
        return same

    def _is_inside(self, path: str) -> bool:
        """Tell whether a folder above is taken away or brought back as a whole."""
        above = path.rpartition("/")[0]
        while above:
            if above in self._swapped:
                return True
            above = above.rpartition("/")[0]
        return False

    def _add_swap(self, path: str) -> None:
        old, new = self._before.get(path), self._now.get(path)
        swap = Swap(path=path, slot=f"{self._slot}/{COPY_TREE}/{path}", before=None, after=None)
        swap.done = True
        if old is not None:
            status = self._copy.status(f"{COPY_TREE}/{path}")
            swap.before = identity_of(status) if status is not None else None
            swap.twin = self._kept.get(old.inode, "") if old.names > 1 else ""
            swap.twin_inode = old.inode if swap.twin else 0
        else:
            swap.slot = f"{self._slot}/made-{len(self._plan.swaps)}"
        if new is not None:
            status = self._workspace.status(path)
            swap.after = identity_of(status) if status is not None else None
            if new.names > 1 and not new.is_folder:
                self._link(swap, self._kept.get(new.inode, ""))
        if old is not None and old.is_folder:
            self._add_shared(path)
        self._swapped[path] = swap
        self._plan.swaps.append(swap)

    def _add_shared(self, folder: str) -> None:
        """Add a step for each file of a folder that is gone which has another name elsewhere.

        They come before the step of the folder, so that they are undone after it.
        """
        above = set[str]()
        for path, old in self._before.items():
            twin = self._kept.get(old.inode, "") if old.names > 1 else ""
            if not twin or not path.startswith(f"{folder}/"):
                continue
            slot = f"shared-{len(self._plan.swaps)}"
            here, name = self._copy.place(f"{COPY_TREE}/{path}")
            os.rename(name, slot, src_dir_fd=here, dst_dir_fd=self._copy.root)
            status = self._copy.status(slot)
            before = identity_of(status) if status is not None else None
            swap = Swap(path=path, slot=f"{self._slot}/{slot}", before=before, after=None)
            swap.twin, swap.twin_inode, swap.done = twin, old.inode, True
            self._plan.swaps.append(swap)
            above.add(path.rpartition("/")[0])
        for path in above:
            was = self._before[path].metadata
            touch = Touch(
                old_path=path, path=path, inode=0, is_folder=True, before=was, after=was, done=True
            )
            self._plan.touches.append(touch)

    def _link(self, swap: Swap, path: str) -> None:
        """Let a step make another name of a file, which then has the old metadata."""
        if path and swap.after is not None:
            was = self._before[path]
            inode, size = swap.after[0], was.size
            owner = was.metadata.owner, was.metadata.group
            swap.link = path
            swap.after = (inode, was.mode, *owner, size, was.metadata.mtime_ns)

    def _touch(self, same: set[str]) -> None:
        inside = {path.rpartition("/")[0] for path in self._swapped}
        for path in sorted(same, key=lambda each: each.count("/"), reverse=True):
            old, new = self._before[path], self._now[path]
            is_changed = old.metadata._replace(atime_ns=0) != new.metadata._replace(atime_ns=0)
            if not is_changed and path not in inside:
                continue
            touch = Touch(
                old_path=path,
                path=path,
                inode=new.inode,
                is_folder=new.is_folder,
                before=old.metadata,
                after=new.metadata,
                done=True,
            )
            self._plan.touches.append(touch)

    def _list(self, same: set[str]) -> None:
        away = {
            self._before[path].inode: path
            for path in self._before.keys() - self._now.keys()
            if not self._before[path].is_folder
        }
        renamed = set[str]()
        for path in sorted(self._now.keys() - same):
            new = self._now[path]
            old_path = away.get(new.inode, "") if path not in self._before else ""
            if old_path and old_path not in renamed:
                renamed.add(old_path)
                self._add(path, "renamed", self._before[old_path], new, old_path)
            elif not new.is_folder:
                self._add_new(path, self._before.get(path), new)
        for path in sorted(self._before.keys() - self._now.keys() - renamed):
            if not self._before[path].is_folder:
                self._add(path, "deleted", self._before[path], None)
        for path in sorted(same):
            was, now = self._before[path].metadata, self._now[path].metadata
            if was[:3] != now[:3] or was.attributes != now.attributes:
                self._add(path, "mode", self._before[path], self._now[path])
        self._list_empty_folders()
        self._plan.changes.sort(key=lambda change: change.path)

    def _add_new(self, path: str, old: SeenEntry | None, new: SeenEntry) -> None:
        swap = self._swapped.get(path)
        if stat.S_ISLNK(new.mode) or (swap is not None and swap.link):
            self._add(path, "link", old, new)
        else:
            is_new = old is None or old.is_folder
            self._add(path, "created" if is_new else "changed", old, new)

    def _list_empty_folders(self) -> None:
        for one, other, change in (
            (self._now, self._before, "created"),
            (self._before, self._now, "deleted"),
        ):
            full = {path.rpartition("/")[0] for path in one}
            for path in sorted(one.keys() - other.keys() - full):
                if one[path].is_folder:
                    shown = self._plan.shown(path)
                    kind: WorkspaceChange = "created" if change == "created" else "deleted"
                    self._plan.add(FileChange(path=f"{shown}/", change=kind))

    def _add(
        self,
        path: str,
        change: WorkspaceChange,
        old: SeenEntry | None,
        new: SeenEntry | None,
        was: str = "",
    ) -> None:
        size = new.size if new is not None and not new.is_folder else 0
        is_written = change in ("created", "changed", "renamed") and new is not None and new.is_file
        if is_written and change != "renamed":
            self._plan.bytes_written += size
        had = old is not None and old.mode & 0o111
        runs = new is not None and new.is_file and new.mode & 0o111
        self._plan.add(
            FileChange(
                path=self._plan.shown(path),
                change=change,
                size=size,
                size_before=old.size if old is not None and not old.is_folder else 0,
                old_path=self._plan.shown(was),
                sha256=self._hash(path, size) if is_written else "",
                mode=stat.S_IMODE(new.mode) if new is not None else None,
                mode_before=stat.S_IMODE(old.mode) if old is not None else None,
                executable=bool(runs and not (had and change in ("mode", "renamed"))),
            )
        )

    def _hash(self, path: str, size: int) -> str:
        if path not in self._hashes:
            try:
                with self._workspace.opened(path) as held:
                    self._hashes[path] = hash_of(held, size)
            except OSError:
                self._hashes[path] = ""
        return self._hashes[path]


def _read_entry(values: list[Any]) -> SeenEntry:
    inode, mode, size, ctime_ns, names, metadata = values
    return SeenEntry(inode, mode, size, ctime_ns, names, Metadata(*metadata))


def begin_copy(call: FolderTree, workspace: FolderTree, bounds: CopyBounds) -> int:
    """Copy a workspace into the folder of a call that will write directly; return the bytes."""
    os.mkdir("past", 0o700, dir_fd=call.root)
    with opened_tree((call.root, "past")) as past:
        return copy_into(workspace, past, bounds)


def compare_copy(call: FolderTree, workspace: FolderTree) -> ChangePlan:
    """Return the plan, which has been applied, of what differs from the copy in a call's folder."""
    with opened_tree((call.root, "past")) as past:
        return CopyComparison(past, workspace).plan()


def adopt_layer(layer: Path, target: Path) -> bool:
    """Move the layer of a call, also from another file system: false if it had to be copied."""
    mode = stat.S_IMODE(os.stat(layer).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        layer.chmod(mode | stat.S_IRWXU)  # renaming a folder changes its "..", rename(2)
    is_moved = True
    try:
        os.rename(layer, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy_layer(layer, target)
        is_moved = False
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        target.chmod(mode)
    return is_moved


def return_layer(layer: str, home: str, *, as_it_was: bool) -> bool:
    """Put the folder of a layer back in its place, empty; what is in it stays, in another folder.

    With `as_it_was` that one is like it: later calls see it as the workspace itself. False if the
    folder cannot be put there: then nothing has changed.
    """
    rest = f"{layer}{_REST}"
    try:
        before = metadata_of(os.stat(layer), layer, marks=True) if as_it_was else None
        os.mkdir(rest, 0o700)
        _move_all(layer, rest)
        if before is not None:
            set_metadata(rest, metadata_of(os.stat(rest), rest), before)
        os.rename(layer, home)
    except OSError:
        rejoin_layers(Path(layer).parent)
        return False
    os.rename(rest, layer)
    return True


def _move_all(source: str, target: str) -> None:
    names = os.listdir(source)
    if names:  # by descriptors: two long paths for each of them would cost as much again
        with open_tree(source) as one, open_tree(target) as other:
            for name in names:
                os.rename(name, name, src_dir_fd=one.root, dst_dir_fd=other.root)


def rejoin_layers(folder: Path) -> None:
    """Put together the layers of which a part was elsewhere when a process died."""
    for rest in folder.glob(f"*{_REST}"):
        layer = rest.with_suffix("")
        if not layer.exists():
            rest.rename(layer)
            continue
        for each in rest.iterdir():
            each.rename(layer / each.name)
        rest.rmdir()


def copy_layer(layer: Path, target: Path) -> None:
    """Move a layer to another file system; a copy that is not complete has another name."""
    with open_tree(str(layer.parent)) as source, open_tree(str(target.parent)) as kept:
        copier = Copier(marks=True)
        try:
            copier.copy((source.root, layer.name), (kept.root, f"{target.name}.new"))
        finally:
            copier.close()
        os.rename(f"{target.name}.new", target.name, src_dir_fd=kept.root, dst_dir_fd=kept.root)
    remove_tree(layer)
