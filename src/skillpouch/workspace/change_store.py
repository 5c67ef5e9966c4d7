"""Keeps what calls changed, so that it can be applied, undone or discarded later."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from skillpouch.errors import SkillpouchError
from skillpouch.results import Conflict, FileChange
from skillpouch.workspace.changes import Changes

KeptState = Literal["running", "staged", "applied", "undone", "discarded", "refused"]


class StoreFullError(SkillpouchError):
    """There is no room to keep what a call would change; nothing was run."""

    code: ClassVar[str] = "changes_full"


class UnknownCallError(SkillpouchError):
    """No changes are kept of a call of this id."""

    code: ClassVar[str] = "unknown_call"


class ChangesError(SkillpouchError):
    """Changes that cannot be applied, undone or kept; the workspace is as it was before."""

    code: ClassVar[str] = "changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRetention:
    """How long and how much is kept; the oldest calls are removed first, staged ones last."""

    days: float = 30
    megabytes: float = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutcome:
    """What was done to the workspace, and what was left alone."""

    changes: tuple[FileChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class KeptCall:
    """What one call changed, in a folder of its own: `running` until a layer is taken.

    Facts: `id`, `tool`, `session`, `workspace`, `started_ns`, `state`, `changes`, `conflicts`;
    `reverses` is the id of the call that this one undid, if it is an undo.
    """

    id: str
    tool: str
    session: str
    workspace: Path
    started_ns: int
    state: KeptState
    reverses: str
    changes: Changes
    conflicts: tuple[Conflict, ...]

    def take(self, *layers: Path) -> Changes:
        """Adopt the upper folders of a call that has ended, and read what they change.

        Afterwards the state is `staged`: durable, and nothing has reached the workspace.
        """
        raise NotImplementedError

    def apply(self, only: Iterable[str] | None = None) -> ChangeOutcome:
        """Bring the changes into the workspace: all, or those of these paths of `changes`.

        Also applies again what was undone.
        """
        raise NotImplementedError

    def undo(self, only: Iterable[str] | None = None, *, as_id: str = "") -> "KeptUndo":
        """Restore what was there before; the undo is a kept call of its own, under `as_id`."""
        raise NotImplementedError

    def refuse(self) -> None:
        """Keep the changes, which no rule and nobody approved, for whoever asks for them."""
        raise NotImplementedError

    def discard(self) -> None:
        """Remove the changes for good. What was applied stays in the workspace."""
        raise NotImplementedError

    def diff(self, *, most_bytes: int, path: str | None = None) -> str:
        """Return a text diff; binary and large files by size and hash. Not redacted."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptUndo(ChangeOutcome):
    """What an undo did; `call` is the undo itself, which can be undone."""

    call: KeptCall


class ChangeStore:
    """The kept calls of a user, in `changes` of the state directory or in another folder."""

    def __init__(
        self, directory: Path | None = None, *, retention: ChangeRetention | None = None
    ) -> None:
        raise NotImplementedError

    def begin(
        self, call_id: str, workspace: Path, *, tool: str, session: str = "", started_ns: int
    ) -> KeptCall:
        """Make the folder of a call. If its id is taken, `KeptCall.id` is another one."""
        raise NotImplementedError

    def get(self, call_id: str) -> KeptCall:
        """Return a kept call; raise UnknownCallError."""
        raise NotImplementedError

    def calls(self, workspace: Path | None = None, session: str | None = None) -> list[KeptCall]:
        """Return the kept calls, the newest first."""
        raise NotImplementedError

    def last(self, workspace: Path) -> KeptCall | None:
        """Return the newest call that can be undone in a workspace."""
        raise NotImplementedError

    def recover(self) -> None:
        """Finish or take back what a process had begun when it died, per call."""
        raise NotImplementedError

    def prune(self, retention: ChangeRetention | None = None) -> int:
        """Remove what is too old or too much; return how many calls were removed."""
        raise NotImplementedError

    def check_room(self) -> None:
        """Raise StoreFullError if what the next call changes could not be kept."""
        raise NotImplementedError
