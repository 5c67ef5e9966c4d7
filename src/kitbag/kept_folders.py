"""Folders inside a workspace that no tool may write: skills, Python, what Kitbag runs later."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kitbag.calls import Terms
from kitbag.downloads.store import programs_directory
from kitbag.environments.store import environments_directory


def kept_folders(terms: Terms, *more: Path) -> tuple[Path, ...]:
    """Return the folders below the workspace that stay as they are."""
    stores = [*filter(None, (environments_directory(), programs_directory()))]
    own = [path.resolve() for path in (*more, Path(sys.prefix))]
    kept = [*own, *stores, *terms.read_only]
    below = [path for path in dict.fromkeys(kept) if terms.workspace in path.parents]
    for store in stores:
        # What is not there yet cannot be protected, and a tool could make it first.
        if store in below:
            with suppress(OSError):
                store.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tuple(path for path in below if path.exists())


def around(kept: Iterable[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the folders between a workspace and what is kept in it.

    A folder that something is mounted on cannot be renamed: without that, what is read-only
    could be moved aside, with the folders around it, and replaced.
    """
    inside = set(kept)
    found = {folder for path in inside for folder in path.parents if workspace in folder.parents}
    return tuple(sorted(found - inside))
