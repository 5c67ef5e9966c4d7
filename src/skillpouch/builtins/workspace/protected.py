"""The workspace as Skillpouch's own tools see it: which of its folders they leave alone."""

from functools import lru_cache
from pathlib import Path

from skillpouch.calls import Terms, ToolCall
from skillpouch.workspace.files import WorkspaceFiles
from skillpouch.workspace.kept_folders import kept_folders, run_later


def files_of(call: ToolCall) -> WorkspaceFiles:
    """Return the files that a call may open; skills and our own Python stay as they are."""
    return _files_of(call.terms, call.given.writable)


@lru_cache(maxsize=256)
def _files_of(terms: Terms, writable: tuple[Path, ...]) -> WorkspaceFiles:
    kept = (*kept_folders(terms), *terms.read_only, *terms.reserved, *run_later(terms, writable))
    return WorkspaceFiles(terms.workspace, kept)
