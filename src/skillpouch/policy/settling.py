"""Settles what a call changed: keeps it, has it judged, and applies, stages or refuses it.

Calls that changed nothing never come here. `Settler.settle` does all of it, in this order:

1. Take the layers of the call into a folder of its own: nothing has reached the workspace.
2. Read exactly what changed, and let the rules of the policy judge it.
3. Ask the approver, who is shown a diff.
4. Apply it, keep it as staged, or keep it as refused.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, TypeVar

from skillpouch.calls import Settled, ToolCall
from skillpouch.environment import state_directory
from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.policy.authorize import Authorizer
from skillpouch.policy.change_rules import ChangeFacts, is_deletion
from skillpouch.policy.rules import Decision
from skillpouch.results import ChangedFile, FileChange, ToolResult
from skillpouch.runtime.idle_threads import run_in_idle_thread
from skillpouch.tools import BuiltIn
from skillpouch.workspace.change_store import (
    ChangeOutcome,
    ChangesError,
    ChangeStore,
    KeptCall,
)
from skillpouch.workspace.read_only import made_to_run_later, runs_later
from skillpouch.workspace.workspace import changed_file

Value = TypeVar("Value")
_DIFF_BYTES = 20_000  # for an approver: more is not read
_MOST_NAMED = 5
_LARGEST_COMPARED = 8 * 1024 * 1024  # of a file; how much of a larger one is gone is not known
_LITTLE_ROOM = 256 * 1024 * 1024
_SOON_SECONDS = 0.005  # until a call has been answered
_MOST_STACKED = 100  # layers that a call sees; an overlay looks for every name in each of them

# Returns a descriptor of folders laid over each other, the upmost first; OSError if it cannot.
ShowLayers = Callable[[tuple[Path, ...]], int]


class WritesUnavailableError(SkillpouchError):
    """A call cannot write in the way that was asked for; nothing ran."""

    code = "writes_unavailable"

    def __init__(self, tool: str, writes: str, reason: str) -> None:
        self.tool = tool
        self.writes = writes
        self.reason = reason
        hint = (
            f'`writes = "direct"` for {tool} in `[[limits]]` of policy.toml lets it write at once'
        )
        if writes == "staged":
            hint = f"ask for 'undoable' instead, where a copy can be made; or {hint}"
        super().__init__(f"{tool} cannot run with writes={writes!r}: {reason}", hint=hint)


class StagedChangesError(CallDeniedError):
    """Changes of this session wait to be applied, and a new call could not see them."""

    code = "changes_staged"

    def __init__(self, tool: str, ids: Iterable[str], why: str) -> None:
        self.ids = tuple(ids)
        self.why = why
        named = ", ".join(self.ids[:_MOST_NAMED])
        super().__init__(
            f"{tool} does not run: changes of this session wait, and it would not see them: {why}",
            hint=f"`skillpouch apply {self.ids[0]}` or `skillpouch discard {self.ids[0]}` first;"
            f" waiting: {named}",
            tool=tool,
        )


def check_room() -> None:
    """Raise StoreFullError if there is no room to keep what a call changes.

    The store also removes what is too old. Before anything was ever kept, a look at the disk is
    enough.
    """
    directory = state_directory()
    if directory is None:
        return
    if (directory / "changes").exists() or _has_little_room(directory):
        ChangeStore().check_room()


def _has_little_room(directory: Path) -> bool:
    try:
        disk = os.statvfs(directory)
    except OSError:  # it is made when something is first kept
        return False
    return disk.f_bavail * disk.f_frsize < _LITTLE_ROOM


class Settler:
    """Settles the calls of one executor."""

    def __init__(
        self, authorizer: Authorizer, session: str | None, *, stages: bool, show: ShowLayers
    ) -> None:
        self._authorizer = authorizer
        self._session = session or ""
        self._stages = stages or bool(session)
        self._show = show
        self._store: ChangeStore | None = None
        self._waiting: list[str] = []  # ids of staged calls that the next ones see, the last last
        self._is_searched = not session

    @property
    def store(self) -> ChangeStore:
        if self._store is None:
            self._store = ChangeStore()
        return self._store

    async def stacked(self, call: ToolCall) -> ToolCall:
        """Return a call that sees what waits in its session, or raise StagedChangesError.

        Without a session, and if only single calls are staged, each is staged on its own.
        """
        looks = isinstance(call.tool.runs, BuiltIn) and "job" in call.arguments  # at a job
        if not self._stages or looks:
            return call
        waiting = await to_its_end(lambda: self._found_waiting(call))
        layers = tuple(layer for each in waiting for layer in each.layers)
        if not waiting:
            return call
        why = await to_its_end(lambda: self._why_not_shown(call, waiting, layers))
        if why:
            raise StagedChangesError(call.tool.id, [each.id for each in waiting], why)
        call.record.base = tuple(each.id for each in waiting)
        return replace(call, stack=layers)

    def _found_waiting(self, call: ToolCall) -> list[KeptCall]:
        """Return the calls of this session that wait, the last first."""
        if not self._is_searched:
            found = self.store.calls(workspace=call.terms.workspace, session=self._session)
            found = [each for each in found if each.state == "staged"]
            self._waiting = [
                each.id for each in sorted(found, key=lambda kept: kept.facts.settled_ns)
            ]
            self._is_searched = True
        waiting = [each for each in map(self._staged, self._waiting) if each is not None]
        self._waiting = [each.id for each in waiting]
        return [each for each in reversed(waiting) if each.workspace == call.terms.workspace]

    def _staged(self, call_id: str) -> KeptCall | None:
        try:
            kept = self.store.get(call_id)
        except SkillpouchError:
            return None
        return kept if kept.state == "staged" else None

    def _why_not_shown(
        self, call: ToolCall, waiting: list[KeptCall], layers: tuple[Path, ...]
    ) -> str:
        lacking = call.lacks_layer
        if lacking:
            return lacking
        partly = [each.id for each in waiting if not each.layers]
        if partly:
            return f"a part of call {partly[0]} was applied"
        if len(layers) > _MOST_STACKED:
            return f"{len(layers)} of them is more than can be shown at once"
        try:
            os.close(self._show((*layers, call.terms.workspace)))
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return ""

    async def settle(self, call: ToolCall, *, may_ask: bool = True) -> Settled:
        """Settle the layers of a call that has ended, whatever its outcome."""
        try:
            found = await to_its_end(lambda: self._settled_unless_asked(call, may_ask))
        finally:
            for end_loan in call.layers.lent.values():  # they could not be taken
                end_loan(False)
            # The folder of the next call is made when this one has been answered.
            later = partial(run_in_idle_thread, self.store.prepare)
            asyncio.get_running_loop().call_later(_SOON_SECONDS, later)
        if isinstance(found, Settled):
            return found
        kept, facts, decision = found
        try:
            decision = await self._asked(call, kept, facts, decision)
        except BaseException:
            kept.refuse()
            raise
        return await to_its_end(lambda: self._finished(call, kept, facts, decision))

    async def run_copied(
        self, call: ToolCall, run: Callable[[ToolCall], Awaitable[ToolResult]], why: str
    ) -> ToolResult:
        """Run a call without a layer that must be undoable: with a copy of its workspace.

        Raises:
            WritesUnavailableError: it is to be staged, or the workspace is too large.
        """
        if call.writes == "staged":
            raise WritesUnavailableError(call.tool.id, call.writes, why)
        kept = await to_its_end(lambda: self._begun(call))
        try:
            await to_its_end(kept.copy_workspace)
        except ChangesError as error:
            kept.discard()
            reason = f"{why}; and {error}"
            raise WritesUnavailableError(call.tool.id, call.writes, reason) from None
        try:
            result = await run(replace(call, writes="direct"))
        except BaseException:
            await to_its_end(kept.take_copy)
            raise
        settled = await self._settle_copy(call, kept)
        protections = {**result.protections, "writes": "copy"}
        return settled_result(replace(result, protections=protections), call, settled)

    async def _settle_copy(self, call: ToolCall, kept: KeptCall) -> Settled:
        """Judge what has already arrived; take it back if it is refused."""
        changes = await to_its_end(kept.take_copy)
        if not changes.files:
            await to_its_end(kept.discard)
            return Settled()
        facts = _facts(call, kept)
        decision = await to_its_end(lambda: self._authorizer.judge_changes(call, facts))
        if decision.verdict == "ask":
            decision = await self._asked(call, kept, facts, decision)
        if decision.verdict != "allow":
            await to_its_end(kept.undo)
            return _settled(kept, facts, "refused", reasons=decision.reasons)
        return _settled(kept, facts, "applied")

    def _begun(self, call: ToolCall) -> KeptCall:
        begin = partial(
            self.store.begin,
            workspace=call.terms.workspace,
            tool=call.tool.id,
            session=self._session,
            started_ns=call.record.started_ns,
            base=call.record.base,
        )
        try:
            return begin(call.id)
        except FileExistsError:  # a number of another journal, or of one that was removed
            return begin(f"{call.id}-{token_hex(4)}")

    def _settled_unless_asked(
        self, call: ToolCall, may_ask: bool
    ) -> Settled | tuple[KeptCall, ChangeFacts, Decision]:
        """Settle a call at once; or stage it, and return what somebody must be asked about."""
        kept = self._begun(call)
        try:
            return self._settled_or_asked(call, kept, may_ask)
        finally:
            kept.return_layers()

    def _settled_or_asked(
        self, call: ToolCall, kept: KeptCall, may_ask: bool
    ) -> Settled | tuple[KeptCall, ChangeFacts, Decision]:
        self._take(call, kept)
        if kept.is_empty:
            kept.discard()
            return Settled()
        try:
            facts = _facts(call, kept)
            decision = self._authorizer.judge_changes(call, facts)
        except BaseException:
            _stage(kept)
            raise
        if decision.verdict == "ask" and may_ask:
            _stage(kept)
            return kept, facts, decision
        return self._finished(call, kept, facts, decision)

    def _take(self, call: ToolCall, kept: KeptCall) -> None:
        # Of what it saw, only what still waits: the rest is in the workspace, or discarded.
        waiting = [each for each in map(self._staged, call.record.base) if each is not None]
        seen = [layer for each in waiting for layer in each.layers]
        if not seen:
            (kept.take if call.record.base else kept.adopt)(*call.layers, lent=call.layers.lent)
            return
        try:
            below = self._show((*seen, call.terms.workspace))
        except OSError as error:
            raise ChangesError.of("the changes of the call cannot be read", error) from error
        try:
            kept.take(*call.layers, below=below, lent=call.layers.lent)
        finally:
            os.close(below)

    async def _asked(
        self, call: ToolCall, kept: KeptCall, facts: ChangeFacts, decision: Decision
    ) -> Decision:
        diff = await to_its_end(lambda: kept.diff(most_bytes=_DIFF_BYTES))
        shown = call.redactor.text(diff)
        changes = tuple(facts.changes)
        answer = await self._authorizer.ask_about_changes(call, decision, changes, shown)
        if answer.yes:
            return replace(decision, verdict="allow")
        return replace(decision, verdict="deny", reasons=(*decision.reasons, answer.reason))

    def _finished(
        self, call: ToolCall, kept: KeptCall, facts: ChangeFacts, decision: Decision
    ) -> Settled:
        if decision.verdict != "allow":
            kept.refuse()
            return _settled(kept, facts, "refused", reasons=decision.reasons)
        if call.writes == "staged":
            _stage(kept)
            self._waiting.append(kept.id)
            for act in call.when_staged:
                act()
            return _settled(kept, facts, "staged")
        outcome = kept.apply()
        for act in call.when_applied:
            act()
        arrived = replace(facts, changes=outcome.changes, run_later=_later(call, facts, outcome))
        return replace(_settled(kept, arrived, "applied"), conflicts=outcome.conflicts)


async def to_its_end(work: Callable[[], Value]) -> Value:
    """Run blocking work in a thread; if the caller is cancelled, the work is still waited for."""
    # Not `asyncio.to_thread`: a coroutine would need a task, and turns of the loop, of its own.
    task = asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # so that asyncio does not report it as never retrieved
        raise cancelled
    return task.result()


def _stage(kept: KeptCall) -> None:
    if kept.state == "running":
        kept.stage()


def _facts(call: ToolCall, kept: KeptCall) -> ChangeFacts:
    changes = kept.changes
    paths = [each.path for each in changes.files if each.change not in ("deleted", "mode")]
    later = runs_later(call.terms.workspace, paths, call.run_later or {})
    return ChangeFacts(
        changes=changes.files,
        complete=changes.complete,
        run_later=later,
        gone=lambda change: _gone(kept, change),
    )


def _later(call: ToolCall, facts: ChangeFacts, outcome: ChangeOutcome) -> tuple[str, ...]:
    """Return the files run later, once they have arrived: links and second names count, too."""
    if call.run_later is None:
        return ()
    changed = [each.path for each in outcome.changes if each.change != "deleted"]
    granted = call.access.writable
    made = made_to_run_later(call.terms.workspace, call.run_later, changed, granted)
    return tuple(sorted({*facts.run_later, *made}))


def _gone(kept: KeptCall, change: FileChange) -> float | None:
    """Return how much of the content of a file is gone, None if that cannot be told cheaply."""
    if max(change.size, change.size_before) > _LARGEST_COMPARED:
        return None
    old, new = kept.open_old(change), kept.open_new(change)
    with old or nullcontext(), new or nullcontext():
        if old is None or new is None:
            return None if old is None else 1.0
        return share_gone(old, new)


def share_gone(old: BinaryIO, new: BinaryIO) -> float:
    """Return the share of the bytes of `old` in lines that `new` does not have, wherever."""
    before, after = old.read(_LARGEST_COMPARED), new.read(_LARGEST_COMPARED)
    if not before or before in after:
        return 0.0
    lines = Counter(before.split(b"\n"))
    lines -= Counter(after.split(b"\n"))
    lost = sum((len(line) + 1) * count for line, count in lines.items())
    return min(1.0, lost / (len(before) + 1))


def _settled(
    kept: KeptCall, facts: ChangeFacts, state: str, *, reasons: Iterable[str] = ()
) -> Settled:
    return Settled(
        call_id=kept.id,
        state=state,
        changes=tuple(facts.changes),
        complete=facts.complete,
        conflicts=tuple(kept.conflicts),
        run_later=tuple(facts.run_later) if state != "refused" else (),
        why=tuple(filter(None, reasons)),
    )


def settled_result(result: ToolResult, call: ToolCall, settled: Settled) -> ToolResult:
    """Return a result with what became of the changes of its call, and notes about it."""
    result = result.wrote(call.writes)
    if not settled.state:
        return result
    arrived = settled.changes if settled.state == "applied" else ()
    result = replace(
        result,
        changes=settled.changes,
        conflicts=settled.conflicts,
        call_id=settled.call_id,
        files=files_of(arrived),
        files_complete=settled.complete,
    )
    if settled.state == "refused":
        # What the program said of itself counts no longer: a shell must not take it for a success.
        ended = (result.outcome, result.exit_code)
        result = replace(result, outcome="denied", code="changes_refused", exit_code=None)
        result = replace(result, ended_as=ended)
    result = result.with_notes(notes_about(settled))
    return result.with_run_later(settled.run_later)


def answered_result(result: ToolResult, applied: ToolResult | None, reason: str) -> ToolResult:
    """Return the result of a call whose changes were refused until somebody answered.

    `applied` is what applying them gave; None if they are refused for good, for a `reason`.
    """
    content = result.content.removesuffix("\n".join(result.notes)).removesuffix("\n")
    told = Settled(call_id=result.call_id, changes=result.changes)
    result = replace(result, content=content, notes=())
    if applied is None:
        return result.with_notes(notes_about(replace(told, state="refused", why=(reason,))))
    outcome, exit_code = result.ended_as or ("ok", 0)
    conflicts = applied.conflicts
    result = replace(result, outcome=outcome, exit_code=exit_code, code=None, conflicts=conflicts)
    result = replace(result, ended_as=None, files=applied.files)
    return result.with_notes(notes_about(replace(told, state="applied", conflicts=conflicts)))


def unsettled_result(result: ToolResult, call: ToolCall, error: SkillpouchError) -> ToolResult:
    """Return the result of a call whose changes could not be kept, and so did not arrive."""
    note = f"note: what it changed could not be kept, and did not reach the workspace: {error}"
    failed = replace(result.wrote(call.writes), outcome="failed", code=error.code, exit_code=None)
    return failed.with_notes([note])


def notes_about(settled: Settled) -> list[str]:
    """Return what a model is told about changes that did not all arrive."""
    call_id, count = settled.call_id, _counted(len(settled.changes), "change")
    if settled.state == "staged":
        told = f"note: its {count} are staged, and not yet in the workspace"
        return [f"{told}: `skillpouch diff {call_id}` shows, `skillpouch apply {call_id}` applies"]
    if settled.state == "refused":
        told = f"note: its {count} did not reach the workspace: {'; '.join(settled.why)}"
        way = f"`skillpouch diff {call_id}` shows, `skillpouch apply {call_id}` applies them"
        return [f"{told}; they are kept, and the user can get them: {way}"]
    if not settled.conflicts:
        return []
    named = ", ".join(map(str, settled.conflicts[:_MOST_NAMED]))
    more = len(settled.conflicts) - _MOST_NAMED
    others = f" and {more:,} more" if more > 0 else ""
    left = _counted(len(settled.conflicts), "file")
    told = f"note: {left} changed meanwhile, and were left alone: {named}{others}"
    return [f"{told}; `skillpouch diff {call_id}` shows what the call made of them"]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def files_of(changes: Iterable[FileChange]) -> tuple[ChangedFile, ...]:
    """Return the regular files among changes; what was renamed is deleted and created."""
    found = (file for change in changes for file in _files(change))
    return tuple(sorted(found, key=lambda file: file.path))


def _files(change: FileChange) -> Iterator[ChangedFile]:
    if change.change == "renamed":
        yield changed_file(change.old_path, 0, "deleted")
    if change.path.endswith("/") or change.change == "mode":
        return
    is_replaced = change.change == "link" and change.mode_before is not None
    if is_deletion(change) or is_replaced:
        yield changed_file(change.path, 0, "deleted")
    elif change.sha256 and change.change != "link":  # pipes and sockets have no hash
        is_new = change.change in ("created", "renamed")
        yield changed_file(change.path, change.size, "created" if is_new else "modified")
