"""What a call changed in its workspace, exactly: read from its layer, or by comparing a copy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skillpouch.results import Conflict, FileChange, WorkspaceChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
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


def read_changes(upper: Path, workspace: Path, since_ns: int) -> Changes:
    """Return what the upper folder of an overlay says that a call changed in a workspace.

    What changed in the workspace after `since_ns`, when the call started, is a conflict.
    """
    raise NotImplementedError


def changes_between(before: Path, workspace: Path) -> Changes:
    """Return how a workspace differs from the copy that `copy_of` made of it before a call."""
    raise NotImplementedError
