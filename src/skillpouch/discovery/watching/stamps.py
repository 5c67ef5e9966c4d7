"""One look at everything below some roots: what is there, and a stamp that changes with it."""

import os
from collections.abc import Iterable, Iterator, Mapping

from skillpouch.discovery.plugins import PLUGIN_FOLDER
from skillpouch.discovery.walk import MAX_FOLDERS, is_skipped_folder
from skillpouch.untrusted_files import Stamp, stamp_of

Stamps = Mapping[str, Stamp]  # by real path
_NOTHING = ""


def look(roots: Iterable[str]) -> dict[str, Stamp]:
    """Stamp every file, folder and link below the roots, which need not be there.

    Links are not followed: they lead into one of the roots, or are not followed by anybody. What
    discovery skips is skipped, but inside a skill everything counts.
    """
    found: dict[str, Stamp] = {}
    for root in roots:
        real = os.path.realpath(root)
        found[f"{root} -> "] = real
        if real not in found:
            found[real] = _stamp(real)
            _look_below(real, found)
    return found


def look_at_skill(home: str) -> dict[str, Stamp]:
    """Stamp everything in the folder of one skill."""
    real = os.path.realpath(home)
    found = {real: _stamp(real)}
    _look_below(real, found, inside=True)
    return found


def touched(before: Stamps, after: Stamps) -> Iterator[str]:
    """Yield the paths that came, went or changed."""
    yield from (path for path, stamp in after.items() if before.get(path) != stamp)
    yield from (path for path in before if path not in after)


def _stamp(path: str) -> Stamp:
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return _NOTHING


def _look_below(top: str, found: dict[str, Stamp], *, inside: bool = False) -> None:
    pending = [(top, inside)]
    for _ in range(MAX_FOLDERS):
        if not pending:
            return
        folder, inside = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            continue  # removed a moment ago, or not for us: discovery says so
        inside = inside or any(entry.name.lower() == "skill.md" for entry in entries)
        for entry in entries:
            _take(entry, found)
            if entry.is_dir(follow_symlinks=False) and (inside or _is_searched(entry.name)):
                pending.append((entry.path, inside))


def _take(entry: "os.DirEntry[str]", found: dict[str, Stamp]) -> None:
    try:
        found[entry.path] = stamp_of(entry.stat(follow_symlinks=False))
    except OSError:
        found[entry.path] = _NOTHING


def _is_searched(name: str) -> bool:
    return name == PLUGIN_FOLDER or not is_skipped_folder(name)
