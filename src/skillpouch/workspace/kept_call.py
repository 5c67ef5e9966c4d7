"""KeptCall: what one call changed, in a folder of its own; applied, undone or discarded."""

import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from skillpouch.results import Conflict, FileChange
from skillpouch.runtime.removal import remove_tree
from skillpouch.workspace.applying import Applier
from skillpouch.workspace.call_folder import (
    PLAN,
    CallFolder,
    ChangesError,
    KeptFacts,
    KeptState,
    lock_workspace,
    write_file,
)
from skillpouch.workspace.change_plan import ChangePlan, chosen_steps, split_dirty
from skillpouch.workspace.changes import (
    CallChanges,
    ChangeOutcome,
    changes_of,
    conflicts_of,
    diff_of,
    left_by,
    left_out,
    make_parts,
    make_slots,
    note_base,
    outcome_of,
    plan_of_layers,
    rebase,
    stacked_layers,
    waiting_paths,
)
from skillpouch.workspace.file_state import (
    FolderTree,
    open_tree,
)
from skillpouch.workspace.workspace_copy import (
    COPY_LIST,
    CopyBounds,
    adopt_layer,
    begin_copy,
    compare_copy,
    rejoin_layers,
    return_layer,
)

_PARTS = ("upper", "past", "new")
Lent = dict[Path, Callable[[bool], None]]  # layers, and who is told when they are back, or not


class CallKeeper(Protocol):
    """The store of a kept call."""

    def get(self, call_id: str) -> "KeptCall": ...
    def known(self, ids: Iterable[str]) -> "list[KeptCall]": ...
    def calls(self, workspace: Path | None = None) -> "list[KeptCall]": ...
    def begin_undo(self, of: KeptFacts, as_id: str, only: list[str] | None) -> "KeptCall": ...
    def note_use(self, count: int) -> None: ...


class KeptCall(CallFolder):
    """What one call changed, in a folder of its own: `running` until a layer is taken.

    Every method takes the lock of the call and reads its state anew, so that any process may use
    it; the workspace has a lock of its own while it is changed.
    """

    _store: CallKeeper

    @property
    def changes(self) -> CallChanges:
        return changes_of(self._plan())

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        return tuple(self._plan().conflicts)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to apply: no change, not even of a time."""
        plan = self._plan()
        return not (plan.swaps or plan.touches or plan.conflicts or plan.changes)

    @property
    def layers(self) -> list[Path]:
        """The layers of a call that waits, the upmost first; none if some of it was applied."""
        if self.state != "staged" or self._facts.begun:
            return []
        upper = self._folder / "upper"
        return [upper / name for name in sorted(os.listdir(upper), key=int, reverse=True)]

    def take(
        self, *layers: Path, below: int | None = None, lent: Lent | None = None
    ) -> CallChanges:
        """Adopt the upper folders of a call that has ended, and stage what they change."""
        self.adopt(*layers, below=below, lent=lent)
        self.stage()
        return self.changes

    def adopt(
        self, *layers: Path, below: int | None = None, lent: Lent | None = None
    ) -> CallChanges:
        """Adopt the upper folders of a call that has ended, and read what they change.

        It is still `running`, and nothing has reached the workspace: whoever adopts them goes on
        with `apply`, `stage`, `refuse` or `discard`. If this process dies before, the next one
        stages it. `below` is an open folder: the workspace with the layers that the call saw. The
        folders that are `lent` go back, empty, as soon as that is so; until then they stay in it.
        """
        self._require("taken", "running")
        self._facts = replace(self._facts, settled_ns=time.time_ns())
        try:
            for number, layer in enumerate(layers):
                is_moved = adopt_layer(layer, self._folder / "upper" / str(number))
                if lent and layer in lent and is_moved:
                    self._lent[number] = layer, lent.pop(layer)
            with self._opened() as (call, workspace):
                self._read(call, workspace, below)
        except OSError as error:
            raise ChangesError.of("the changes of the call cannot be kept", error) from error
        return self.changes

    def return_layers(self, *, as_they_were: bool = True) -> None:
        """Give their folders back to sandboxes that wait for them; what is in them stays here."""
        while self._lent:
            number, (home, end_loan) = self._lent.popitem()
            is_back = False
            try:
                layer = f"{self._folder}/upper/{number}"
                is_back = return_layer(layer, str(home), as_it_was=as_they_were)
            finally:
                end_loan(is_back)

    def stage(self) -> None:
        """Keep the changes that were adopted, for whoever decides about them later."""
        self._require("staged", "running")
        self._keep_as("staged")

    def _keep_as(self, state: KeptState, **more: Any) -> None:
        """Keep a plan of which nothing is done, or all."""
        plan = self._plan()
        try:
            with open_tree(str(self._folder)) as call:
                write_file(call.root, PLAN, plan.to_json())
        except OSError as error:
            raise ChangesError.of("the changes of the call cannot be kept", error) from error
        self._store.note_use(plan.kept_bytes - self._facts.bytes)
        self.return_layers()
        self._settle(state, bytes=plan.kept_bytes, **more)
        self._release()

    def copy_workspace(self, bounds: CopyBounds | None = None) -> None:
        """Copy the workspace before a call that will write directly, where no overlay works.

        Raises ChangesError if it is larger than the bounds.
        """
        self._require("copied", "running")
        try:
            with self._opened() as (call, workspace):
                copied = begin_copy(call, workspace, bounds or CopyBounds())
        except OSError as error:
            raise ChangesError.of("the workspace cannot be copied", error) from error
        self._write(replace(self._facts, bytes=copied))
        self._store.note_use(copied)

    def take_copy(self) -> CallChanges:
        """Compare the workspace with its copy; afterwards the state is `applied`."""
        self._require("compared", "running")
        self._compare()
        return self.changes

    def _compare(self) -> None:
        try:
            with self._opened() as (call, workspace):
                self._known_plan = compare_copy(call, workspace)
        except OSError as error:
            raise ChangesError.of("the changes of the call cannot be kept", error) from error
        self._keep_as("applied")

    def _read(self, call: FolderTree, workspace: FolderTree, below: int | None) -> None:
        plan = plan_of_layers(call, workspace, below, self._facts.started_ns)
        if below is not None:
            layers = [(kept.id, str(layer)) for kept in self._base() for layer in kept.layers]
            with stacked_layers(workspace, layers) as stack:
                note_base(plan, stack)
        make_parts(call, plan)
        make_slots(call, plan)
        self._known_plan = plan

    def _base(self) -> list["KeptCall"]:
        """Return the calls whose layers this one saw, as far as they are kept."""
        return self._store.known(self._facts.base) if self._facts.base else []

    def _left_by_others(self, *, forward: bool) -> dict[int, int]:
        """Return what the calls that this one builds on left; or undos of those that came later."""
        found = dict[int, int]()
        for kept in self._base() if forward else self._store.calls(self.workspace):
            is_later = kept.state == "undone" and kept.started_ns > self.started_ns
            if is_later or (forward and kept.state == "applied"):
                found |= left_by(kept._plan(), kept.facts.settled_ns)  # noqa: SLF001 - of this class
        return found

    def apply(self, only: Iterable[str] | None = None) -> ChangeOutcome:
        """Bring the changes into the workspace: all, or those of these paths of `changes`.

        Also applies again what was undone.
        """
        with self._locked():
            if not self._is_adopted:
                self._require("applied", "staged", "refused", "undone")
            return self._drive(None if only is None else list(only), forward=True)

    def undo(self, only: Iterable[str] | None = None, *, as_id: str = "") -> "KeptUndo":
        """Restore what was there before; the undo is a kept call of its own, under `as_id`."""
        with self._locked():
            self._require("undone", "applied")
            chosen = None if only is None else list(only)
            undo = self._store.begin_undo(self._facts, as_id, chosen)
            try:
                outcome = self._drive(chosen, forward=False)
            except BaseException:
                undo._forget()  # noqa: SLF001 - another object of this class
                raise
            undo._keep(outcome)  # noqa: SLF001
            return KeptUndo(changes=outcome.changes, conflicts=outcome.conflicts, call=undo)

    def refuse(self) -> None:
        """Keep the changes, which no rule and nobody approved, for whoever asks for them."""
        with self._locked():
            if self._is_adopted:
                self._keep_as("refused")
                return
            self._require("refused", "staged")
            self._settle("refused")

    def discard(self) -> None:
        """Remove the changes for good. What was applied stays in the workspace."""
        with self._locked():
            self._mark()
            self._store.note_use(-self._facts.bytes)
            self._write(replace(self._facts, state="discarded", bytes=0))
            self.return_layers()
            self._empty()
            self._unmark()
        self._release()

    def open_old(self, change: FileChange) -> BinaryIO | None:
        """Open the content that a path had before the call; None if there was no such file."""
        return self._open_side(change, new=False)

    def open_new(self, change: FileChange) -> BinaryIO | None:
        """Open the content that a path has after the call; None if there is no such file."""
        return self._open_side(change, new=True)

    def diff(self, *, most_bytes: int, path: str | None = None) -> str:
        """Return a text diff; binary and large files by size and hash. Not redacted."""
        changes = [each for each in self.changes.files if path in (None, each.path)]
        return diff_of(changes, self.open_old, self.open_new, most_bytes=most_bytes)

    # What every method needs: lock, state, plan, both folders.

    def _drive(self, only: Iterable[str] | None, *, forward: bool) -> ChangeOutcome:
        """Apply or reverse; an undo is reversed by applying the call that it undid."""
        if self.reverses:
            other = self._store.get(self.reverses)
            with other._locked():  # noqa: SLF001 - another object of this class
                chosen = only if only is not None else self._facts.only
                outcome = other._drive(chosen, forward=not forward)  # noqa: SLF001
            self._settle("applied" if forward else "undone")
            return outcome
        if not self._is_adopted:  # else it is marked since it began
            self._mark()
        try:
            with (
                self._opened() as (call, workspace),
                lock_workspace(self._folder.parent, workspace),
            ):
                conflicts = self._run(call, workspace, only, forward=forward)
        except OSError as error:
            if self._is_adopted:
                self._keep_as("staged", begun=True)
            else:
                self._write(replace(self._facts, begun=True))
            self._known_plan = None
            what = "the changes cannot be " + ("applied" if forward else "undone")
            raise ChangesError.of(what, error) from error
        self._release()
        return outcome_of(self._plan(), only, conflicts, forward=forward)

    def _run(
        self, call: FolderTree, workspace: FolderTree, only: Iterable[str] | None, *, forward: bool
    ) -> list[Conflict]:
        plan = self._plan()
        chosen = chosen_steps(plan, only, call, workspace, forward=forward)
        base = self._base()
        early = waiting_paths(plan, {kept.id: kept.state for kept in base}) if forward else {}
        chosen -= left_out(plan, early)
        touched = [n for n in plan.touched_by(chosen, only) if plan.touches[n].path not in early]
        if early and not (chosen or touched):
            self.return_layers()
            self._unmark()
            return conflicts_of(early)
        rebase(plan, workspace, base)
        since_ns = self._facts.settled_ns
        known = partial(self._left_by_others, forward=forward)
        dirty = split_dirty(plan, workspace, chosen, since_ns, forward=forward, known=known)
        if dirty:
            make_parts(call, plan)
        applier = Applier(call, workspace, plan, self.id)
        applier.run(chosen, touched, forward=forward)
        call.forget()
        self.return_layers(as_they_were=False)
        is_left = (only is not None or early) and any(not swap.done for swap in plan.swaps)
        done: KeptState = "staged" if is_left and self.state != "undone" else "applied"
        some = any(swap.done for swap in plan.swaps)
        undone: KeptState = "applied" if only is not None and some else "undone"
        self._end(applier, done if forward else undone, call)
        self._unmark()
        return [*conflicts_of(early), *dirty, *applier.conflicts]

    def _end(self, applier: Applier, state: KeptState, call: FolderTree) -> None:
        kept, more = self._plan().kept_bytes, self._plan().kept_bytes - self._facts.bytes
        self._write(self._with_state(state, begun=True, bytes=kept), call)
        applier.finish()
        if more:
            self._store.note_use(more)

    def _keep(self, outcome: ChangeOutcome) -> None:
        """Keep what an undo did, so that it can be shown and undone."""
        plan = ChangePlan(conflicts=list(outcome.conflicts))
        for change in outcome.changes:
            plan.add(change)
        with open_tree(str(self._folder)) as call:
            write_file(call.root, PLAN, plan.to_json())
        self._known_plan = plan
        self._settle("applied")
        self._release()

    def _forget(self) -> None:
        remove_tree(self._folder)
        self._unmark()
        self._release()

    def _empty(self) -> None:
        for part in _PARTS:
            remove_tree(self._folder / part)

    def recover(self) -> None:
        """Finish or take back what a process had begun; the caller has the lock of the call."""
        rejoin_layers(self._folder / "upper")
        if self.state == "discarded":
            self._empty()
        elif self.reverses and self.state == "running":
            if self._store.get(self.reverses).state != "undone":
                self._forget()
                return
            other = self._store.get(self.reverses)
            self._keep(outcome_of(other._plan(), self._facts.only, [], forward=False))  # noqa: SLF001
        elif self.state == "running":
            self._recover_running()
            return
        else:
            self._recover_run()
        self._unmark()

    def _recover_running(self) -> None:
        """Keep what a call changed whose process died before anybody judged it; or nothing."""
        layers = self._folder / "upper"
        if (self._folder / "past" / COPY_LIST).exists():
            self._compare()  # it wrote directly: what it did until then can be undone
            return
        if (self._folder / PLAN).exists():  # it was read completely
            self._recover_run()
            if self.state == "running":
                self._keep_as("staged", begun=True)
            self._unmark()
            return
        for each in layers.glob("*.new"):  # a copy that is not complete
            remove_tree(each)
        # What was seen by a call that builds on others cannot be shown to this process.
        if self._facts.base or not layers.exists() or not any(layers.iterdir()):
            self._forget()
            return
        with self._opened() as (call, workspace):
            self._read(call, workspace, None)
        self._keep_as("staged")

    def _recover_run(self) -> None:
        if self._plan().run is None:
            return
        with self._opened() as (call, workspace), lock_workspace(self._folder.parent, workspace):
            applier = Applier(call, workspace, self._plan(), self.id)
            forward = applier.repair()
            if forward is not None:
                self._end(applier, "applied" if forward else "undone", call)
            else:
                self._write(replace(self._facts, begun=True))

    def _open_side(self, change: FileChange, *, new: bool) -> BinaryIO | None:
        plan = self._plan()
        path = plan.raw.get(change.path, change.path)
        if not new and change.old_path:
            path = plan.raw.get(change.old_path, change.old_path)
        in_call, found = plan.content_at(path, new=new)
        if not (new or in_call):
            for kept in self._base() if self.state in ("staged", "refused") else ():
                is_there, where = kept._plan().content_at(path, new=True)  # noqa: SLF001
                if is_there:
                    return kept._open(where, in_call=True)  # noqa: SLF001
        return self._open(found, in_call=in_call)

    def _open(self, path: str, *, in_call: bool) -> BinaryIO | None:
        with (
            suppress(OSError),
            self._opened() as (call, workspace),
            (call if in_call else workspace).opened(path) as descriptor,
        ):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return open(os.dup(descriptor), "rb")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptUndo(ChangeOutcome):
    """What an undo did; `call` is the undo itself, which can be undone."""

    call: KeptCall
