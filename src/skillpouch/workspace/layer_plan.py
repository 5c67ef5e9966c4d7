"""Makes the plan of a layer: which steps bring the tree that the call saw into the workspace."""

import os
import stat
from collections.abc import Iterator
from operator import attrgetter

from skillpouch.results import FileChange, WorkspaceChange
from skillpouch.text import escape_hidden
from skillpouch.workspace.change_plan import ChangePlan, Swap, Touch
from skillpouch.workspace.file_state import (
    PATH_ONLY,
    FolderTree,
    Metadata,
    handle_of,
    identity_of,
    metadata_of,
    name_of,
)
from skillpouch.workspace.layer_reading import (
    LayerEntry,
    LayerReader,
    RenameCandidates,
    all_below,
    is_new_file,
    is_pipe,
    is_plain,
    names_of,
    root_metadata,
)

_CHANGED = "it was changed by somebody else since the call began"
_REMOVED = "it was removed by somebody else since the call began"
_APPEARED = "somebody else made it since the call began"
_DEVICE = "it is a device"


class LayerPlanner:
    """Adds the steps of one layer to a plan.

    First all renamed files go out of the workspace into slots, the deepest first; then every place
    gets what belongs there, from the top down. So files may be swapped with each other.
    """

    def __init__(self, reader: LayerReader, plan: ChangePlan, numbers: Iterator[int]) -> None:
        self._reader = reader
        self._upper, self._lower = reader.upper, reader.lower
        self._plan = plan
        self._numbers = numbers
        self._claimed = {swap.path for swap in plan.swaps}
        self._entries: list[LayerEntry] = []
        self._moved: dict[str, LayerEntry] = {}  # files that go to another place, by lower path
        self._gone: dict[str, os.stat_result] = {}  # lower files that leave their place
        self._gone_folders: set[str] = set()
        self._blocked: set[str] = set()  # folders to remove in which somebody else is at work
        self._takes: list[Swap] = []
        self._swaps: list[Swap] = []
        self._links: list[Swap] = []
        self._shared: dict[int, tuple[Swap, LayerEntry]] = {}  # changed files with other names
        self._listed: set[str] = set()

    def run(self) -> None:
        """Read the layer, and add its steps and changes to the plan."""
        root = self._reader.read()
        self._entries = self._reader.entries
        self._find_gone()
        self._find_renamed()
        if any(entry.same for entry in self._entries):
            self._find_anchors()
        for entry in reversed(self._entries):
            if not is_new_file(entry):
                entry.plain = is_plain(entry)
        self._emit(root)
        self._change_other_names()
        for low in {swap.path.rpartition("/")[0] for swap in self._takes} & self._gone_folders:
            self._keep_times(low, low)
        self._join()
        self._touch_folders([root, *(each for each in self._entries if each.kind == "folder")])
        self._list_deleted()
        self._plan.marked |= self._reader.marked

    def _conflict(self, entry: LayerEntry, reason: str) -> None:
        self._plan.conflict(entry.path, reason)
        for each in (entry, *all_below(entry)):
            each.excluded = True

    def _find_gone(self) -> None:
        """Find what leaves its place, and what somebody else has changed meanwhile."""
        is_first = not self._claimed
        for entry in self._entries:
            if entry.excluded or (is_first and entry.is_fresh):
                continue
            reason = self._cannot(entry)
            if reason:
                self._conflict(entry, reason)
            elif entry.occupant is not None and not entry.merged:
                self._displace(entry, entry.occupant)

    def _cannot(self, entry: LayerEntry) -> str:
        if entry.kind == "special" and not is_pipe(entry.status):
            return _DEVICE
        if entry.kind != "folder":
            is_claimed = self._claimed and self._is_claimed(entry.path)
            return "another program of the same call changed it, too" if is_claimed else ""
        was_there = entry.origin is not None and not entry.opaque
        return _REMOVED if was_there and not entry.merged else ""

    def _displace(self, entry: LayerEntry, occupant: os.stat_result) -> None:
        if stat.S_ISDIR(occupant.st_mode):
            self._remove_folder(entry)
        elif self._is_no_change(entry, occupant):
            entry.excluded = True
        elif occupant.st_ctime_ns > self._reader.since_ns:
            is_new = entry.origin is None and entry.kind != "whiteout"
            self._conflict(entry, _APPEARED if is_new else _CHANGED)
        elif not entry.same:
            self._gone[entry.path] = occupant

    def _is_claimed(self, path: str) -> bool:
        while path:
            if path in self._claimed:
                return True
            path = path.rpartition("/")[0]
        return False

    def _is_no_change(self, entry: LayerEntry, then: os.stat_result) -> bool:
        """Tell whether a file was copied up, or replaced by its like, and nothing else."""
        now = entry.status
        if not entry.same or now.st_nlink > 1 or now.st_mtime_ns != then.st_mtime_ns:
            return False
        if (now.st_mode, now.st_uid, now.st_gid) != (then.st_mode, then.st_uid, then.st_gid):
            return False
        before = self._metadata(self._lower, entry.path, then)
        return before.attributes == self._metadata(self._upper, entry.path, now).attributes

    def _remove_folder(self, entry: LayerEntry) -> None:
        """Note every file of a folder that the call removed or replaced."""
        files, folders, conflicts = self._walk(entry.path)
        if not conflicts:
            self._gone |= files
            self._gone_folders |= folders
        elif entry.kind == "whiteout":
            self._blocked.add(entry.path)
            self._gone |= files
            for path in conflicts:
                self._plan.conflict(path, _CHANGED)
        else:
            self._conflict(entry, f"somebody else changed {escape_hidden(conflicts[0])} in it")

    def _walk(self, low: str) -> tuple[dict[str, os.stat_result], set[str], list[str]]:
        """Return the files below a lower folder, its folders, and what somebody else changed."""
        files, conflicts = dict[str, os.stat_result](), list[str]()
        folders, todo = set[str](), [low]
        while todo:
            path = todo.pop()
            folders.add(path)
            with self._lower.listing(path) as descriptor, os.scandir(descriptor) as listing:
                found = [
                    (f"{path}/{each.name}", each.stat(follow_symlinks=False)) for each in listing
                ]
            for inner, status in found:
                if stat.S_ISDIR(status.st_mode):
                    todo.append(inner)
                elif status.st_ctime_ns > self._reader.since_ns:
                    conflicts.append(inner)
                else:
                    files[inner] = status
        return files, folders, conflicts

    def _find_renamed(self) -> None:
        """Find the lower files from which files of the layer were renamed."""
        if not self._gone and all(entry.origin is None for entry in self._entries):
            return
        known, todo = set[int](), list[LayerEntry]()
        for entry in self._entries:
            if entry.excluded or entry.kind in ("folder", "whiteout"):
                continue
            if entry.same or self._is_in_place(entry):
                known.add(entry.status.st_ino)
            else:
                todo.append(entry)
        if self._gone:
            known |= self._found_among_gone(todo)
        for entry in todo:
            was_there = entry.origin or (entry.origin == b"" and not self._gone)
            is_new = entry.moved_from or entry.occupant is not None
            if was_there and not is_new and entry.status.st_ino not in known:
                self._conflict(entry, _REMOVED)

    def _found_among_gone(self, entries: list[LayerEntry]) -> set[int]:
        """Find out which files were renamed; return their inodes."""
        candidates, found = RenameCandidates(self._lower, self._gone), set[int]()
        for entry in entries:
            entry.moved_from = candidates.origin_of(entry, self._reader)
            if entry.moved_from:
                before = self._gone[entry.moved_from]
                entry.same = self._reader.is_same_file(entry, entry.moved_from, before)
                found.add(entry.status.st_ino)
        return found

    def _is_in_place(self, entry: LayerEntry) -> bool:
        if not entry.origin or entry.occupant is None:
            return False
        return handle_of(*self._lower.place(entry.path)) == entry.origin

    def _find_anchors(self) -> None:
        """Find names of one file of which another name is an unchanged file of the workspace."""
        groups: dict[int, list[LayerEntry]] = {}
        for entry in self._entries:
            has_names = entry.status.st_nlink > 1 and entry.kind not in ("folder", "whiteout")
            if has_names and not entry.excluded:
                groups.setdefault(entry.status.st_ino, []).append(entry)
        for group in groups.values():
            anchor = next((each for each in group if each.same), None)
            if anchor is not None:
                for entry in group:
                    entry.anchor = anchor if entry is not anchor else None

    def _emit(self, root: LayerEntry) -> None:
        self._moved = {
            each.moved_from: each
            for each in self._entries
            if each.moved_from and each.same and not each.anchor and not each.excluded
        }
        todo = list(reversed(root.children))
        while todo:
            entry = todo.pop()
            if not self._gone and is_new_file(entry):
                self._emit_new_file(entry)
            elif entry.excluded:
                continue
            elif entry.kind == "folder":
                if not entry.merged:
                    self._emit_folder(entry)
                if entry.merged or not entry.plain:
                    todo += reversed(entry.children)
            elif entry.kind == "whiteout":
                self._emit_removal(entry)
            else:
                self._emit_file(entry)

    def _slot(self, folder: str) -> str:
        return f"{folder}/{next(self._numbers)}"

    def _take(self, low: str, status: os.stat_result) -> str:
        slot = self._slot("past")
        self._takes.append(Swap(path=low, slot=slot, before=identity_of(status), after=None))
        return slot

    def _swap(self, entry: LayerEntry, slot: str, after: os.stat_result | None) -> Swap:
        occupant = entry.occupant if entry.path not in self._moved else None
        swap = Swap(
            path=entry.path,
            slot=slot,
            before=identity_of(occupant) if occupant is not None else None,
            after=identity_of(after) if after is not None else None,
        )
        (self._links if entry.anchor else self._swaps).append(swap)
        return swap

    def _emit_folder(self, entry: LayerEntry) -> None:
        if entry.plain:
            self._swap(entry, entry.slot, entry.status)
            for each in (entry, *all_below(entry)):
                self._list_new(each)
        else:
            slot = self._slot("new")
            made = self._metadata(self._upper, entry.path, entry.status)
            self._plan.folders.append((slot, made))
            self._swap(entry, slot, entry.status)
            self._list_new(entry)

    def _emit_removal(self, entry: LayerEntry) -> None:
        if entry.occupant is None or entry.path in self._moved:
            return
        if entry.path not in self._blocked:
            self._swap(entry, self._slot("past"), None)
            return
        for path, status in self._gone.items():
            if path.startswith(f"{entry.path}/") and path not in self._moved:
                before, slot = identity_of(status), self._slot("past")
                self._swaps.append(Swap(path=path, slot=slot, before=before, after=None))

    def _emit_new_file(self, entry: LayerEntry) -> None:
        """Do for what most entries are what `_emit_file` does, without the questions of others."""
        after = identity_of(entry.status)
        self._swaps.append(Swap(path=entry.path, slot=entry.slot, before=None, after=after))
        self._list_new_file(entry)

    def _emit_file(self, entry: LayerEntry) -> None:
        before = self._gone[entry.moved_from] if entry.moved_from else entry.occupant
        if entry.anchor is not None:
            kept = entry.anchor.moved_from
            status = self._gone[kept] if kept else entry.anchor.occupant
            self._swap(entry, self._slot("new"), status).link = entry.anchor.path
            self._add(entry, "link", entry.occupant)
        elif entry.same and before is not None:
            if entry.moved_from:
                self._swap(entry, self._take(entry.moved_from, before), before)
                self._add(entry, "renamed", before, entry.moved_from)
            self._touch_file(entry, entry.moved_from or entry.path, before)
        else:
            swap = self._swap(entry, entry.slot, entry.status)
            if entry.moved_from:
                self._add(entry, "renamed", before, entry.moved_from)
            else:
                self._list_new(entry)
            if entry.kind != "file":
                return  # a file that became something else was replaced, not written
            if before is not None and stat.S_ISREG(before.st_mode) and before.st_nlink > 1:
                self._shared[before.st_ino] = swap, entry

    def _change_other_names(self) -> None:
        """Give a changed file to its other names in the workspace, as writing in place would."""
        if not self._shared:
            return
        places = {each.path: each for each in self._entries}
        for low, status in names_of(self._lower, set(self._shared)):
            swap, entry = self._shared[status.st_ino]
            path = self._target_of(low)
            other = places.get(path)
            is_changed = other is not None and not (other.same or other.excluded)
            if low in self._gone or path in (entry.path, "") or is_changed:
                continue
            slot = self._slot("new")
            self._plan.links.append((entry.slot, slot))
            number = len(self._takes) + self._swaps.index(swap)
            link = Swap(path=path, slot=slot, before=identity_of(status), after=swap.after)
            link.needs = len(self._plan.swaps) + number
            self._links.append(link)
            self._add(entry, "changed", status, path=path)
            above = path.rpartition("/")[0]
            if above and above not in places:
                self._keep_times(low.rpartition("/")[0], above)

    def _keep_times(self, low: str, path: str) -> None:
        """Keep the times of a folder of the workspace that the layer does not have."""
        with self._lower.opened(low, PATH_ONLY) as held:
            status = os.fstat(held)
            kept = metadata_of(status, name_of(held))
        self._plan.touches.append(
            Touch(
                old_path=low,
                path=path,
                inode=status.st_ino,
                is_folder=True,
                before=kept,
                after=kept,
            )
        )

    def _target_of(self, low: str) -> str:
        """Return where a lower file is after all steps; "" for one that is taken away."""
        if low in self._moved:
            return self._moved[low].path
        above = low
        while above and above not in self._gone_folders:
            above = above.rpartition("/")[0]
        return "" if above else low

    def _join(self) -> None:
        self._takes.sort(key=lambda swap: swap.path.count("/"), reverse=True)
        self._plan.swaps += [*self._takes, *self._swaps, *self._links]

    def _touch_file(self, entry: LayerEntry, low: str, status: os.stat_result) -> None:
        before = self._metadata(self._lower, low, status)
        after = self._metadata(self._upper, entry.path, entry.status)
        touch = Touch(
            old_path=low,
            path=entry.path,
            inode=status.st_ino,
            is_folder=False,
            before=before,
            after=after,
        )
        if _differ(before, after) or before.mtime_ns != after.mtime_ns:
            self._plan.touches.append(touch)
        if _differ(before, after) and not entry.moved_from:
            self._add(entry, "mode", status)

    def _touch_folders(self, entries: list[LayerEntry]) -> None:
        """Set the times of folders in which something was swapped, the deepest first."""
        touched = {swap.path.rpartition("/")[0] for swap in (*self._swaps, *self._links)}
        taken = {swap.path.rpartition("/")[0] for swap in self._takes}
        for entry in reversed(entries):
            if entry.excluded or (entry.plain and not entry.merged):
                continue
            after = self._metadata(self._upper, entry.path, entry.status)
            before, inode, is_timed = after, 0, False
            if entry.merged:
                with self._lower.opened(entry.path, PATH_ONLY) as held:
                    status = os.fstat(held)
                    before, inode = metadata_of(status, name_of(held)), status.st_ino
                if not entry.path:
                    after = root_metadata(before, after)
                # Unless somebody else has changed it meanwhile.
                is_timed = status.st_ctime_ns <= self._reader.since_ns
                is_timed = is_timed and before.mtime_ns != after.mtime_ns
            swapped = entry.path in touched or (entry.merged and entry.path in taken)
            if swapped or is_timed or (entry.merged and _differ(before, after)):
                touch = Touch(
                    old_path=entry.path if entry.merged else None,
                    path=entry.path,
                    inode=inode,
                    is_folder=True,
                    before=before,
                    after=after,
                )
                self._plan.touches.append(touch)
            if entry.merged and _differ(before, after):
                self._add(entry, "mode", entry.occupant, path=entry.path or ".")

    @staticmethod
    def _metadata(tree: FolderTree, path: str, status: os.stat_result) -> Metadata:
        with tree.opened(path, PATH_ONLY) as held:
            return metadata_of(status, name_of(held))

    def _list_new(self, entry: LayerEntry) -> None:
        """List what is at a path now, and what was there before under the same name."""
        if not self._gone and is_new_file(entry):
            self._list_new_file(entry)
            return
        if entry.kind == "folder":
            if not entry.children and entry.path not in self._gone_folders:
                self._add(entry, "created", path=f"{entry.path}/")
            return
        before = self._gone.get(entry.path)
        if entry.kind == "link":
            self._add(entry, "link", before)
        elif before is None or stat.S_ISDIR(before.st_mode):
            self._add(entry, "created")
        elif entry.in_new_folder and self._reader.is_same_file(entry, entry.path, before):
            self._listed.add(entry.path)
        else:
            self._add(entry, "changed", before)

    def _list_new_file(self, entry: LayerEntry) -> None:
        """List what most entries are, and so without the questions that others need."""
        plan, size, mode = self._plan, entry.status.st_size, stat.S_IMODE(entry.status.st_mode)
        plan.bytes_written += size
        plan.kept_bytes += size
        path, sha256, runs = plan.shown(entry.path), entry.sha256, bool(mode & 0o111)
        plan.add(
            FileChange(
                path=path, change="created", size=size, sha256=sha256, mode=mode, executable=runs
            )
        )

    def _add(
        self,
        entry: LayerEntry,
        change: WorkspaceChange,
        before: os.stat_result | None = None,
        old_path: str = "",
        path: str = "",
    ) -> None:
        self._listed.add(path or entry.path)
        is_file, now = entry.kind == "file", entry.status
        size = now.st_size if entry.kind in ("file", "link") else 0
        if is_file and not entry.same and not entry.anchor:
            self._plan.bytes_written += size
        if is_file and not path:
            self._plan.kept_bytes += size
        had = before is not None and before.st_mode & 0o111
        is_program = is_file and now.st_mode & 0o111 and not (entry.same and had)
        self._plan.add(
            FileChange(
                path=self._plan.shown(path or entry.path),
                change=change,
                size=size,
                size_before=before.st_size if before is not None else 0,
                old_path=self._plan.shown(old_path) if old_path else "",
                sha256=entry.sha256,
                mode=stat.S_IMODE(now.st_mode),
                mode_before=stat.S_IMODE(before.st_mode) if before is not None else None,
                executable=bool(is_program),
            )
        )

    def _list_deleted(self) -> None:
        away = {each.moved_from for each in self._entries if not each.excluded}
        for path, status in self._gone.items():
            self._plan.kept_bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
            if path in away or path in self._listed or path in self._moved:
                continue
            mode = stat.S_IMODE(status.st_mode)
            size = status.st_size
            shown = self._plan.shown(path)
            self._plan.add(
                FileChange(path=shown, change="deleted", size_before=size, mode_before=mode)
            )
        full = {path.rpartition("/")[0] for path in (*self._gone, *self._gone_folders)}
        places = {each.path for each in self._entries if each.kind == "folder"}
        for path in self._gone_folders - full - places:
            self._plan.add(FileChange(path=f"{escape_hidden(path)}/", change="deleted"))
        self._plan.changes.sort(key=attrgetter("path"))


def _differ(one: Metadata, other: Metadata) -> bool:
    return one[:3] != other[:3] or one.attributes != other.attributes
