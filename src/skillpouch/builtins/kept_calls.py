"""What is kept of calls: found by whoever may reach it, shown, and handed to undo, apply, discard.

An executor reaches the calls of its own workspace, one with a session only those of the session.
"""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skillpouch.errors import SkillpouchError
from skillpouch.results import Conflict, FileChange, ToolResult
from skillpouch.text import escape_hidden
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.controls import Controls
    from skillpouch.secrets.redaction import Redactor
    from skillpouch.workspace.change_store import ChangeStore, KeptCall

UNDO, APPLY, DISCARD, DIFF = (f"skillpouch.{each}" for each in ("undo", "apply", "discard", "diff"))
DIFF_BYTES = 100_000


class NothingKeptError(SkillpouchError):
    """Nothing is kept that could be undone, applied or shown."""

    code = "nothing_kept"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or "`skillpouch changes` lists what is kept")


class OtherWorkspaceError(SkillpouchError):
    """The call was made in another workspace."""

    code = "other_workspace"

    def __init__(self, call_id: str, there: Path, here: Path) -> None:
        self.call_id = call_id
        self.workspace = there
        super().__init__(
            f"call {call_id} was made in the workspace {there}, not in {here}",
            hint=f"name it: --workspace {there}",
        )


class UnknownPathError(SkillpouchError):
    """A path that is not among the changes of a call."""

    code = "unknown_change"

    def __init__(self, call_id: str, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path!r} is not among the changes of call {call_id}",
            hint=f"`skillpouch diff {call_id}` shows them",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChanges:
    """What is kept of one call: `changes` are the first of `total`.

    `state` is `staged` (nothing has reached the workspace), `applied`, `undone`, `refused` (by a
    rule, or because nobody approved it), `discarded` or `running`. If the call was an undo,
    `reverses` is the call that it undid.
    """

    id: str
    tool: str
    session: str
    workspace: Path
    state: str
    started_ns: int
    total: int
    changes: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    reverses: str = ""


CallReference = str | int | ToolResult | KeptChanges


def call_id_of(call: CallReference) -> str:
    """Return the id of a call that is named by its id, its result or what is kept of it."""
    match call:
        case KeptChanges():
            return call.id
        case ToolResult(call_id=""):
            told = "wrote directly" if call.writes == "direct" else "changed nothing"
            raise NothingKeptError(f"this call of {call.tool} {told}: nothing of it is kept")
        case ToolResult():
            return call.call_id
        case _:
            return str(call)


class KeptCalls:
    """The calls of one workspace, and of one session if there are sessions."""

    def __init__(self, workspace: Path, session: str | None = None) -> None:
        # Imported here: who lists skills does not load what keeps changes.
        from skillpouch.workspace.change_store import ChangeStore

        self._store: ChangeStore = ChangeStore()
        self._workspace = workspace
        self._session = session

    def get(self, call_id: str) -> "KeptCall":
        """Return a kept call; raise when there is none, or none that may be reached from here."""
        from skillpouch.workspace.change_store import UnknownCallError

        try:
            with _explained():
                kept = self._store.get(call_id)
        except UnknownCallError as error:
            raise _why_unknown(call_id, self._session) or error from None
        if self._session is not None and kept.session != self._session:
            raise NothingKeptError(f"nothing is kept of a call {call_id!r} of this session")
        if kept.workspace != self._workspace:
            raise OtherWorkspaceError(call_id, kept.workspace, self._workspace)
        return kept

    @property
    def store(self) -> "ChangeStore":
        return self._store

    def listed(self, session: str | None = None) -> list["KeptCall"]:
        """Return the kept calls, the newest first."""
        with _explained():
            return self._store.calls(self._workspace, self._session or session)

    def last(self, count: int, session: str | None = None) -> list["KeptCall"]:
        """Return the newest calls whose changes are in the workspace; undos do not count.

        So undoing twice goes two calls back; to undo an undo, name it.
        """
        there = [each for each in self.listed(session) if each.state == "applied"]
        found = [each for each in there if not each.reverses and each.tool != UNDO][:count]
        if not found:
            where = f"of session {session!r} in" if session else "in"
            raise NothingKeptError(f"no call {where} {self._workspace} can be undone")
        return found

    def waiting(self, session: str) -> list["KeptCall"]:
        """Return the calls of a session whose changes wait, in the order in which they ended."""
        found = [each for each in self.listed(session) if each.state == "staged"]
        if not found:
            raise NothingKeptError(f"no changes of session {session!r} wait in {self._workspace}")
        return sorted(found, key=lambda each: each.facts.settled_ns)

    def parts(self, call_id: str) -> list["KeptCall"]:
        """Return a call to undo; of an undo of several calls, one for each of them, the last first.

        They are to be made again in the order in which they were made at first.
        """
        first = self.get(call_id)
        if not first.reverses:
            return [first]
        more = [each for each in self.listed() if each.id.startswith(f"{call_id}.")]
        return sorted([first, *more], key=_number_of_part, reverse=True)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of the file system into one that says what cannot be read."""
    from skillpouch.workspace.change_store import ChangesError

    try:
        yield
    except OSError as error:
        raise ChangesError.of("what is kept of calls cannot be read", error) from error


def _number_of_part(kept: "KeptCall") -> int:
    number = kept.id.partition(".")[2]
    return int(number) if number.isdecimal() else 0


def _why_unknown(call_id: str, session: str | None) -> SkillpouchError | None:
    """Return why nothing is kept of a call that the user's journal knows; None if it does not."""
    from skillpouch.environment import state_directory
    from skillpouch.journal.reading import JournalReader

    if not call_id.isdecimal() or session is not None:
        return None
    with JournalReader(state_directory(), warn=lambda _: None) as reader, suppress(SkillpouchError):
        for entry in reader.found(min(int(call_id), 2**62)):
            if not entry.changes_total:
                return NothingKeptError(f"call {call_id} of {entry.tool} changed no files")
            if entry.writes == "direct":
                hint = 'set `writes = "undoable"` in your policy.toml'
                return NothingKeptError(
                    f"call {call_id} of {entry.tool} wrote directly: nothing of it is kept",
                    hint=hint,
                )
            return NothingKeptError(
                f"the past of call {call_id} of {entry.tool} was removed: changes are kept"
                " for 30 days, and the oldest is removed first when it takes too much room",
                hint=f"`skillpouch journal show {call_id}` lists what it changed",
            )
    return None


def line_of(change: FileChange) -> str:
    """Return one change in a line: `renamed: a.txt -> b.txt`."""
    was = f"{change.old_path} -> " if change.old_path else ""
    return f"{change.change}: {was}{change.path}"


def paths_below(kept: "KeptCall", path: str) -> list[str]:
    """Return the changes of a call at a path, or below it if it is a folder."""
    plain = path.removeprefix(f"{kept.workspace}/").removeprefix("./").rstrip("/")
    wanted = {plain, escape_hidden(plain)}  # as it is shown, or as it is
    found = [
        each.path
        for each in kept.changes.files
        if plain == "."
        or each.path in wanted
        or any(each.path.startswith(f"{name}/") for name in wanted)
    ]
    if not found:
        raise UnknownPathError(kept.id, path)
    return found


def diff_of(
    calls: KeptCalls,
    call_id: str,
    *,
    path: str | None = None,
    most_bytes: int = DIFF_BYTES,
    redactor: "Redactor",
) -> str:
    """Return what a call changed as a text diff, without secrets, cut after `most_bytes`."""
    from skillpouch.workspace.change_store import ChangeStateError

    kept = calls.get(call_id)
    if kept.state in ("running", "discarded"):
        raise ChangeStateError(kept.id, kept.state, "shown")
    only = None if path is None else paths_below(kept, path)
    if only is None:
        return redactor.text(kept.diff(most_bytes=most_bytes))
    parts: list[str] = []
    for each in only:
        parts.append(kept.diff(most_bytes=most_bytes, path=each))
        most_bytes -= len(parts[-1].encode("utf-8", "replace"))
        if most_bytes <= 0:
            break
    return redactor.text("".join(parts))


def kept_changes(kept: "KeptCall") -> KeptChanges:
    """Return what is kept of a call, as a value."""
    return KeptChanges(
        id=kept.id,
        tool=kept.tool,
        session=kept.session,
        workspace=kept.workspace,
        state=kept.state,
        started_ns=kept.started_ns,
        total=kept.changes.total,
        changes=kept.changes.files,
        conflicts=tuple(kept.conflicts),
        reverses=kept.reverses,
    )


def drop_changes(workspace: Path) -> None:
    """Drop what is kept of all calls of a workspace that is being removed."""
    from skillpouch.workspace.change_store import ChangeStore

    with _explained():
        for kept in ChangeStore().calls(workspace):
            kept.discard()


def redactor_of_grants(controls: "Controls") -> "Redactor":
    """Return what removes the values of all secrets that were granted to any skill."""
    from skillpouch.needs import Need
    from skillpouch.secrets.sources import SecretValues, environment_secrets
    from skillpouch.trust.grants import Grants

    grants = controls.grants or Grants()
    names = {name for grant in grants.list() for name in grant.secrets}
    values = SecretValues(controls.secrets or environment_secrets, controls.session)
    return values.redactor(values.of([Need(kind="secret", value=each) for each in sorted(names)]))


class _Executor(Protocol):
    """The part of a ToolExecutor that is needed here."""

    @property
    def workspace(self) -> Path: ...
    def beside(self, tools: Iterable[Tool]) -> "_Executor": ...
    async def execute(self, name: str, args: Any = None) -> ToolResult: ...


class ChangeRunner:
    """Undoes, applies and discards calls for one executor, by calls of that executor."""

    def __init__(self, executor: _Executor, controls: "Controls") -> None:
        self._executor = executor
        self._controls = controls

    async def run(self, tool_id: str, arguments: dict[str, Any]) -> ToolResult:
        """Run Skillpouch's own undo, apply or discard."""
        # Imported here: most programs never undo anything.
        from skillpouch.builtins.undoing import change_tool

        return await self._executor.beside([change_tool(tool_id)]).execute(tool_id, arguments)

    @property
    def kept(self) -> KeptCalls:
        """What is kept of the calls that the executor may reach."""
        from skillpouch.workspace.workspace import check_workspace

        return KeptCalls(check_workspace(str(self._executor.workspace)), self._controls.session)

    @property
    def redactor(self) -> "Redactor":
        return redactor_of_grants(self._controls)


class ChangeMethods(ABC):
    """The methods for what calls changed; a call is named by its id or by its result.

    Each has a twin for asyncio, whose name begins with an `a`.
    """

    @abstractmethod
    def change_runner(self) -> ChangeRunner:
        """Return what runs these methods."""

    def undo(
        self,
        call: CallReference | None = None,
        *,
        calls: int | None = None,
        session: str | None = None,
        paths: Iterable[str] = (),
    ) -> ToolResult:
        """Take back what a call changed in the workspace; without one, the last call that did.

        `calls` goes so many calls back, `session` takes back all calls of a session. What somebody
        else changed since is left alone: it is in `conflicts`, and the outcome is `failed`. To undo
        the undo, pass its result.
        """
        return _blocking(self.aundo(call, calls=calls, session=session, paths=paths))

    async def aundo(
        self,
        call: CallReference | None = None,
        *,
        calls: int | None = None,
        session: str | None = None,
        paths: Iterable[str] = (),
    ) -> ToolResult:
        """Do what `undo` does, without blocking the event loop."""
        if call is not None and (calls is not None or session is not None):
            raise ValueError("pass a call, or calls= and session=, not both")
        said: dict[str, Any] = {} if calls is None else {"calls": calls}
        said |= {} if call is None else {"call": call_id_of(call)}
        said |= {} if session is None else {"session": session}
        return await self.change_runner().run(UNDO, said | _paths(paths))

    def apply(
        self,
        call: CallReference | None = None,
        paths: Iterable[str] = (),
        *,
        session: str | None = None,
        earlier: bool = False,
    ) -> ToolResult:
        """Bring what a staged call changed into the workspace: all of it, or some paths.

        Also what a rule refused, and what was undone. `earlier` first applies the calls that wait
        and that it builds on; `session`, in place of a call, all that wait in a session. Conflicts
        are as in `undo`.
        """
        return _blocking(self.aapply(call, paths, session=session, earlier=earlier))

    async def aapply(
        self,
        call: CallReference | None = None,
        paths: Iterable[str] = (),
        *,
        session: str | None = None,
        earlier: bool = False,
    ) -> ToolResult:
        """Do what `apply` does, without blocking the event loop."""
        said = _one_or_all(call, session) | ({"earlier": True} if earlier else {})
        return await self.change_runner().run(APPLY, said | _paths(paths))

    def discard(
        self, call: CallReference | None = None, *, session: str | None = None
    ) -> ToolResult:
        """Drop what a staged call changed, so that it never reaches the workspace.

        `session`, in place of a call, drops all that waits in a session.
        """
        return _blocking(self.adiscard(call, session=session))

    async def adiscard(
        self, call: CallReference | None = None, *, session: str | None = None
    ) -> ToolResult:
        """Do what `discard` does, without blocking the event loop."""
        return await self.change_runner().run(DISCARD, _one_or_all(call, session))

    def diff(
        self, call: CallReference, *, path: str | None = None, most_bytes: int = DIFF_BYTES
    ) -> str:
        """Return what a call changed as a text diff, without granted secrets.

        Files that are no text are told by size and hash.
        """
        runner = self.change_runner()
        return diff_of(
            runner.kept,
            call_id_of(call),
            path=path,
            most_bytes=most_bytes,
            redactor=runner.redactor,
        )

    async def adiff(
        self, call: CallReference, *, path: str | None = None, most_bytes: int = DIFF_BYTES
    ) -> str:
        """Do what `diff` does, without blocking the event loop."""
        from asyncio import to_thread

        return await to_thread(self.diff, call, path=path, most_bytes=most_bytes)

    def changes(self, *, session: str | None = None) -> list[KeptChanges]:
        """Return what is kept of calls in this workspace, the newest first."""
        return [kept_changes(each) for each in self.change_runner().kept.listed(session)]

    async def achanges(self, *, session: str | None = None) -> list[KeptChanges]:
        """Do what `changes` does, without blocking the event loop."""
        from asyncio import to_thread

        return await to_thread(self.changes, session=session)


def _one_or_all(call: CallReference | None, session: str | None) -> dict[str, Any]:
    if (call is None) == (session is None):
        raise ValueError("pass a call, or session=: one of them")
    return {"session": session} if call is None else {"call": call_id_of(call)}


def _paths(paths: Iterable[str]) -> dict[str, Any]:
    several = [paths] if isinstance(paths, str) else list(paths)
    return {"paths": several} if several else {}


def _blocking(coroutine: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    # Imported here, so that listing skills does not load asyncio.
    from skillpouch.runtime.loop_thread import run_blocking

    return run_blocking(coroutine)
