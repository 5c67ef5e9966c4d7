"""The workspace as Kitbag's own tools see it: which of its folders they leave alone."""

import sys
from functools import lru_cache
from pathlib import Path

from kitbag.calls import Terms, ToolCall
from kitbag.environments.store import environments_directory
from kitbag.workspace_files import WorkspaceFiles


def files_of(call: ToolCall) -> WorkspaceFiles:
    """Return the files that a call may open; skills and Kitbag's own Python stay as they are."""
    return _files_of(call.terms)


@lru_cache(maxsize=256)
def _files_of(terms: Terms) -> WorkspaceFiles:
    return WorkspaceFiles(terms.workspace, read_only_folders(terms))


def read_only_folders(terms: Terms) -> tuple[Path, ...]:
    """Return the folders below the workspace that no tool writes."""
    store = environments_directory()
    kept = [Path(sys.prefix).resolve(), *([store] if store else []), *terms.read_only]
    return tuple(path for path in dict.fromkeys(kept) if terms.workspace in path.parents)
