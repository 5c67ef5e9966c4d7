"""Applies and reverses the steps of a plan, so that a crash at any moment can be repaired."""

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from skillpouch.results import Conflict
from skillpouch.runtime.removal import remove_tree
from skillpouch.text import escape_hidden
from skillpouch.workspace.call_folder import PLAN, Run, StepLog, append_line, write_file
from skillpouch.workspace.change_plan import (
    CHANGED,
    ChangePlan,
    Swap,
    Touch,
    paths_above,
    sides_of,
)
from skillpouch.workspace.file_state import (
    PATH_ONLY,
    Copier,
    FolderTree,
    Metadata,
    exchange,
    identity_of,
    is_folder,
    is_one_mount,
    link,
    metadata_of,
    movable,
    move,
    name_of,
    remove_entry,
    set_link_metadata,
    set_metadata,
    status_in,
)
from skillpouch.workspace.layer_reading import names_of, remove_marks

_APPEARED = "somebody else put something there meanwhile"
_MISSING = "it is not there any more"
_NOT_EMPTY = "somebody else put something into it"
_HOLD = ".skillpouch-apply-"
_ASIDE = ".aside"
_WRITABLE = stat.S_IWUSR | stat.S_IXUSR
# Somebody else is in the way: the step is left out, and the rest is done.
_IN_THE_WAY = errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR, errno.ELOOP
_NOT_ALLOWED = errno.EACCES, errno.EPERM, errno.EXDEV, errno.EBUSY


class Applier:
    """Brings the workspace from one side of a plan to the other, and repairs what was begun.

    Where the workspace is on another file system than the folder of the call, a folder in the
    workspace stands for the slots meanwhile: what comes is copied there first, and what it
    displaced is copied out of it at the end, so that the workspace itself sees renames only.
    """

    def __init__(
        self, call: FolderTree, workspace: FolderTree, plan: ChangePlan, call_id: str
    ) -> None:
        self._call, self._workspace = call, workspace
        self._plan, self._id = plan, call_id
        self.conflicts: list[Conflict] = []
        self._blocked: set[str] = set()  # paths below which nothing is done
        self._settled: dict[int, bool] = {}
        self._log = StepLog(call.root)
        self._shared: set[str] = set()  # slots of several steps
        self._is_plan_changed = False  # by a step: another file is in its place than was planned
        self._user = os.geteuid()
        self._names: dict[str, str] = {}  # of slots in the folder that stands for them
        self._hold: FolderTree | None = None

    def run(self, numbers: Iterable[int], touches: Iterable[int], *, forward: bool) -> None:
        """Do the steps of these numbers that are not on that side yet, and set metadata.

        Raises OSError where nothing can be written, after everything was put back.
        """
        swaps = self._plan.swaps
        todo = sorted([n for n in numbers if swaps[n].done != forward], reverse=not forward)
        run = Run(forward=forward, numbers=todo, touches=list(touches))
        run.dirty = [number for number in run.touches if self._is_dirty(number, forward)]
        if todo and not is_one_mount(self._call, self._workspace):
            run.stage, run.hold = "in", f"{_HOLD}{self._id}"
            status = os.fstat(self._workspace.root)
            run.times = [status.st_atime_ns, status.st_mtime_ns]
        sync = any((swaps[n].before if forward else swaps[n].after) is not None for n in todo)
        self._log.remove()  # a crash may have left it behind a run that was finished
        self._write(run, sync=sync)
        self._go_on(run, again=False)

    def repair(self) -> bool | None:
        """Finish what a process had begun when it died; return its direction, None for nothing."""
        if self._plan.run is None:
            return None
        run = Run(**self._plan.run)
        if run.stage == "in":
            self._drop(run)
            self.finish()
            return None
        self._read_log(run)
        self._go_on(run, again=True)
        return run.forward

    def _go_on(self, run: Run, *, again: bool) -> None:
        try:
            self._remove_marks()
            if run.hold and run.stage != "done":
                self._open_hold(run)
            if run.stage == "in":
                self._copy_in(run)
            if not run.forward and run.stage == "swap":
                self._touch_all(run, folders=False, again=again)
            if run.stage == "swap":
                self._swap_all(run, again=again)
            if run.stage == "out":
                self._copy_out(run)
        except OSError:
            self._take_back(run)
            raise
        finally:
            self._close_hold()
        self._drop(run)
        if run.forward:
            self._touch_all(run, folders=False, again=again)
        self._touch_all(run, folders=True, again=again)

    def finish(self) -> None:
        """Forget the run: whoever began it has recorded how it ended."""
        steps = self._plan.steps()
        self._plan.run = None
        if self._is_plan_changed:
            write_file(self._call.root, PLAN, self._plan.to_json())
        else:
            append_line(self._call.root, PLAN, steps)
        self._log.remove()

    def _write(self, run: Run, *, sync: bool = True) -> None:
        self._plan.run = run.facts()
        write_file(self._call.root, PLAN, self._plan.to_json(), sync=sync)

    def _swap_all(self, run: Run, *, again: bool) -> None:
        swaps = self._plan.swaps
        is_first = run.forward and not again
        slots = [swap.slot for swap in swaps]
        if len(set(slots)) < len(slots):
            self._shared = {slot for slot, count in Counter(slots).items() if count > 1}
        try:
            for number in run.numbers:
                if number in self._settled:
                    continue
                swap, done = swaps[number], False
                if is_first and swap.before is None and self._is_brought(swap):
                    self._settled[number] = swap.done = True
                    continue
                if again:
                    done = self._was_done(swap, forward=run.forward)
                    # Of those with lines, only the first without one may have been interrupted.
                    again = self._is_told_by_slot(swap)
                self._note(number, done or self._swap(swap, run), run)
        finally:
            self._log.close()
        if run.hold:
            run.stage = "out"
            self._write(run)

    def _is_brought(self, swap: Swap) -> bool:
        """Bring what is new to its place; false if that takes more than a rename, as seldom."""
        if swap.slot in self._shared or self._may_be_hindered(swap):
            return False
        try:
            move(self._call.place(swap.slot), self._workspace.place(swap.path))
        except OSError:
            return False
        if is_folder(swap.after):
            self._workspace.forget()
        return True

    def _is_told_by_slot(self, swap: Swap) -> bool:
        """Tell whether the slot of a step shows if it was done: then no line need be written."""
        return not swap.link and swap.slot not in self._shared

    def _note(self, number: int, done: bool, run: Run) -> None:
        swap = self._plan.swaps[number]
        self._settled[number] = done
        if done:
            swap.done = run.forward
        elif run.forward:
            self._blocked.add(swap.path)
        if not self._is_told_by_slot(swap):
            self._log.add(number, done=done)

    def _read_log(self, run: Run) -> None:
        for number, done in self._log.read():
            self._settled[number] = done
            if done:
                self._plan.swaps[number].done = run.forward
            elif run.forward:
                self._blocked.add(self._plan.swaps[number].path)

    def _place(self, slot: str) -> tuple[int, str]:
        if self._hold is not None:
            return self._hold.root, self._names[slot]
        return self._call.place(slot)

    def _was_done(self, swap: Swap, *, forward: bool) -> bool:
        here, there = sides_of(swap, forward)
        place = self._place(swap.slot)
        aside = place[0], f"{place[1]}{_ASIDE}"
        if status_in(*aside) is not None:  # `_exchange` in three steps
            if status_in(*place) is not None:
                move(place, self._workspace.place(swap.path))
            os.rename(aside[1], place[1], src_dir_fd=aside[0], dst_dir_fd=place[0])
            return True
        slot = status_in(*place)
        if here is not None:
            return slot is not None and slot.st_ino == here[0]
        if slot is None and self._is_told_by_slot(swap):
            return True
        now = self._workspace.status(swap.path)
        if now is None or there is None or now.st_ino != there[0]:
            return False
        if slot is not None and slot.st_ino == there[0]:  # `move` in two steps
            os.unlink(place[1], dir_fd=place[0])
        return True

    def _swap(self, swap: Swap, run: Run) -> bool:
        reason = self._hindrance(swap, run) if self._may_be_hindered(swap) else ""
        if reason is None:
            return False
        try:
            reason = reason or self._exchange_in_writable(swap, forward=run.forward)
        except OSError as error:
            if error.errno not in (*_IN_THE_WAY, *_NOT_ALLOWED):
                raise
            reason = _APPEARED if error.errno == errno.EEXIST else _MISSING
            if error.errno in _NOT_ALLOWED:
                reason = f"it cannot be written: {(error.strerror or '').lower()}"
        if reason:
            self.conflicts.append(Conflict(path=escape_hidden(swap.path), reason=reason))
            self._return(swap, run)
        elif swap.is_of_folder:
            self._workspace.forget()
        return not reason

    def _may_be_hindered(self, swap: Swap) -> bool:
        """Tell whether a step needs more than what the layer has for it, as few do."""
        if self._blocked or self._hold is not None or not swap.slot.startswith("upper/"):
            return True
        return bool(swap.needs >= 0 or swap.link or swap.twin)

    def _hindrance(self, swap: Swap, run: Run) -> str | None:
        """Return why a swap is not tried; None where another conflict has named the reason."""
        if run.forward and swap.needs >= 0 and not self._plan.swaps[swap.needs].done:
            return None
        if not self._blocked.isdisjoint((swap.path, *paths_above(swap.path))):
            return None
        here, there = sides_of(swap, run.forward)
        if swap.link and run.forward:
            self._make_link(swap)
        is_sure = swap.slot.startswith("upper/") and self._hold is None
        if there is not None and not is_sure and status_in(*self._place(swap.slot)) is None:
            return None  # the step that would have brought it failed
        if swap.twin and self._hold is None:
            self._linked_to_twin(swap, run)
        if not run.forward and is_folder(here) and swap.slot.startswith("new/"):
            with self._workspace.listing(swap.path) as listing:
                return _NOT_EMPTY if os.listdir(listing) else ""
        return ""

    def _make_link(self, swap: Swap) -> None:
        with suppress(FileExistsError, FileNotFoundError):
            link(self._workspace.place(swap.link), self._place(swap.slot))

    def _exchange(self, swap: Swap, *, forward: bool) -> str:
        """Exchange workspace and slot if the workspace has what is expected; else say why not."""
        here, there = sides_of(swap, forward)
        slot, place = self._place(swap.slot), self._workspace.place(swap.path)
        if here is None:
            move(slot, place)
            return ""
        now = status_in(*place)
        if now is None or identity_of(now) != here:
            return _MISSING if now is None else CHANGED
        if there is None:
            move(place, slot)
        elif not exchange(place, slot):
            aside = slot[0], f"{slot[1]}{_ASIDE}"
            move(place, aside)
            move(slot, place)
            os.rename(aside[1], slot[1], src_dir_fd=aside[0], dst_dir_fd=slot[0])
        taken = status_in(*slot)
        if taken is None or identity_of(taken) == here:
            if swap.link and not forward:
                os.unlink(slot[1], dir_fd=slot[0])  # only another name of a file that stays
            return ""
        # Somebody was faster, between the look and the step: it gets its own back.
        if there is None:
            move(slot, place)
        else:
            exchange(place, slot)
        return CHANGED

    def _exchange_in_writable(self, swap: Swap, *, forward: bool) -> str:
        try:
            return self._exchange(swap, forward=forward)
        except PermissionError:
            place = self._workspace.place(swap.path)
            status = os.fstat(place[0])
            if status.st_mode & _WRITABLE != _WRITABLE and status.st_uid == self._user:
                os.chmod(name_of(place[0]), status.st_mode & 0o7777 | 0o700)  # a Touch restores it
        with movable(self._place(swap.slot), place):
            return self._exchange(swap, forward=forward)

    def _return(self, swap: Swap, run: Run) -> None:
        """Put back what was taken out for a place that it cannot have."""
        for number in run.numbers:
            other = self._plan.swaps[number]
            if other is swap or other.slot != swap.slot or not self._settled.get(number):
                continue
            with suppress(OSError):
                move(self._place(swap.slot), self._workspace.place(other.path))
                self._note(number, False, run)
                other.done = not run.forward

    def _take_back(self, run: Run) -> None:
        """Undo the steps of this run: what cannot be finished must not stay half done."""
        for number in reversed(run.numbers):
            swap = self._plan.swaps[number]
            if self._settled.get(number) and swap.done == run.forward:
                with suppress(OSError):
                    if not self._exchange(swap, forward=not run.forward):
                        swap.done = not run.forward
        for number in run.touches:
            with suppress(OSError):
                self._touch(self._plan.touches[number], forward=not run.forward, times=True)
        self._close_hold()
        self._drop(run)
        self.finish()

    # A workspace on another file system.

    def _open_hold(self, run: Run) -> None:
        self._is_plan_changed = True
        slots = dict.fromkeys(self._plan.swaps[number].slot for number in sorted(run.numbers))
        self._names = {slot: str(number) for number, slot in enumerate(slots)}
        if run.stage == "in":
            os.mkdir(run.hold, 0o700, dir_fd=self._workspace.root)
        flags = PATH_ONLY | os.O_DIRECTORY
        self._hold = FolderTree(os.open(run.hold, flags, dir_fd=self._workspace.root))

    def _close_hold(self) -> None:
        if self._hold is not None:
            self._hold.close()
            os.close(self._hold.root)
            self._hold = None

    def _drop(self, run: Run) -> None:
        if run.hold:
            remove_tree(run.hold, within=self._workspace.root)
            os.utime(name_of(self._workspace.root), ns=(run.times[0], run.times[1]))

    def _copy_in(self, run: Run) -> None:
        copier, made = Copier(), set[str]()
        try:
            for number in run.numbers:
                swap = self._plan.swaps[number]
                if swap.slot in made or sides_of(swap, run.forward)[1] is None:
                    continue
                made.add(swap.slot)
                if status_in(*self._call.place(swap.slot)) is not None:
                    if not self._linked_to_twin(swap, run):
                        copier.copy(self._call.place(swap.slot), self._place(swap.slot))
                    self._identify(swap, run)
        finally:
            copier.close()
        run.stage = "swap"
        self._write(run)

    def _linked_to_twin(self, swap: Swap, run: Run) -> bool:
        """Make what comes back a name of the file whose name it was, not a copy."""
        if not swap.twin or run.forward or swap.before is None:
            return False
        status = self._workspace.status(swap.twin)
        if status is None or status.st_ino != swap.twin_inode:
            return False
        if identity_of(status)[1:] != swap.before[1:]:
            return False
        target = self._place(swap.slot)
        with suppress(FileNotFoundError):
            os.unlink(target[1], dir_fd=target[0])
        link(self._workspace.place(swap.twin), target)
        swap.before = identity_of(status)
        self._is_plan_changed = True
        return True

    def _identify(self, swap: Swap, run: Run) -> None:
        status = status_in(*self._place(swap.slot))
        assert status is not None
        for other in self._plan.swaps:
            if other.slot == swap.slot:
                setattr(other, "after" if run.forward else "before", identity_of(status))

    def _copy_out(self, run: Run) -> None:
        copier, kept = Copier(), list[str]()
        try:
            for slot in self._names:
                status = status_in(*self._place(slot))
                if status is None:
                    continue
                folder, name = self._call.place(slot)
                remove_entry(folder, f"{name}{_ASIDE}")
                copier.copy(self._place(slot), (folder, f"{name}{_ASIDE}"))
                kept.append(slot)
                self._find_twin(slot, status)
        finally:
            copier.close()
        for slot in self._names:
            folder, name = self._call.place(slot)
            remove_entry(folder, name)
            if slot in kept:
                os.rename(f"{name}{_ASIDE}", name, src_dir_fd=folder, dst_dir_fd=folder)
        run.stage = "done"
        self._write(run)

    def _find_twin(self, slot: str, status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            for path, _ in names_of(self._workspace, {status.st_ino}):
                if not path.startswith(_HOLD):
                    for swap in self._plan.swaps:
                        if swap.slot == slot:
                            swap.twin, swap.twin_inode = path, status.st_ino
                    return

    # Metadata.

    def _is_dirty(self, number: int, forward: bool) -> bool:
        """Tell whether the times of a folder are not those that are expected."""
        touch = self._plan.touches[number]
        path = touch.old_path if forward else touch.path
        if not touch.is_folder or path is None:
            return False
        status = self._workspace.status(path)
        if status is None or not touch.is_of(status):
            return False
        expected = touch.before if forward else touch.after
        return status.st_mtime_ns != expected.mtime_ns

    def _touch_all(self, run: Run, *, folders: bool, again: bool) -> None:
        for number in run.touches:
            touch = self._plan.touches[number]
            if touch.is_folder != folders:
                continue
            try:
                reason = self._touch(
                    touch, forward=run.forward, times=number not in run.dirty, again=again
                )
            except (FileNotFoundError, NotADirectoryError):
                reason = _MISSING
            except OSError as error:
                reason = f"its mode cannot be set: {(error.strerror or '').lower()}"
            if reason and not folders:
                self.conflicts.append(Conflict(path=escape_hidden(touch.path), reason=reason))

    def _touch(self, touch: Touch, *, forward: bool, times: bool, again: bool = True) -> str:
        path = touch.old_path if touch.is_folder and not forward else touch.path
        if path is None:
            return ""
        wanted = touch.after if forward else touch.before
        expected = touch.before if forward else touch.after
        with self._workspace.opened(path, PATH_ONLY) as held:
            status = os.fstat(held)
            if not touch.is_of(status):
                return CHANGED
            now = metadata_of(status, name_of(held))
            # It may be set already: by its other name, or before a crash.
            if not touch.is_folder and not again and not _is_alike(now, expected, wanted):
                return CHANGED
            if stat.S_ISLNK(status.st_mode):
                folder, name = self._workspace.place(path)
                set_link_metadata(folder, name, wanted)
            else:
                set_metadata(name_of(held), now, wanted, times=times)
        touch.done = forward
        return ""

    def _remove_marks(self) -> None:
        """Remove the attributes of the overlay from what will be in the workspace."""
        for slot, marks in self._plan.marked.items():
            with suppress(FileNotFoundError):
                remove_marks(*self._call.place(slot), marks)
        self._plan.marked = {}


def _is_alike(now: Metadata, *expected: Metadata) -> bool:
    return any(now[:3] == each[:3] and now.mtime_ns == each.mtime_ns for each in expected)
