"""A folder for each session to work in: made for it alone, removed with all that is in it."""

import os
import secrets
from pathlib import Path

from skillpouch.environment import another_place, data_directory
from skillpouch.runtime.removal import remove_tree
from skillpouch.sessions.errors import SessionError


class SessionFilesError(SessionError):
    """A folder of a session cannot be made or removed."""

    code = "session_files"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        super().__init__(f"{path or 'a workspace'}: {reason}", hint=hint)


def new_workspace(root: Path | None, session_id: str) -> Path:
    """Make an empty folder that no session had before."""
    base = root or data_directory()
    if base is None:
        hint = "set XDG_DATA_HOME, or say where: SessionManager(workspaces=…)"
        raise SessionFilesError(None, "there is no home directory", hint=hint)
    base = base if root else base / "workspaces"
    # Never the name alone: what a killed process left must not be found by the next session.
    path = base / f"{session_id}-{secrets.token_hex(6)}"
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except OSError as error:
        hint = "" if root else another_place("XDG_DATA_HOME")
        reason = f"cannot be made: {error.strerror or error}"
        raise SessionFilesError(path, reason, hint=hint) from None
    return Path(os.path.realpath(path))


def remove_folder(path: Path) -> None:
    """Remove a folder, whatever a tool left in it."""
    try:
        remove_tree(path)
    except OSError as error:
        reason = f"cannot be removed: {error.strerror or error}".lower()
        raise SessionFilesError(path, reason, hint="look at who may write there") from None
