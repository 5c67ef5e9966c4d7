"""A walk below one folder, by descriptors: no link is followed, no ignored folder entered."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from skillpouch.builtins.workspace.search.ignoring import NEVER, Ignoring

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 100  # each level holds a descriptor


@dataclass(frozen=True)
class Entry:
    """Something in a folder, which is held open until the next one is asked for.

    `path` is relative to where the walk's rules begin.
    """

    path: str
    folder: int
    found: "os.DirEntry[str]"
    is_folder: bool
    ignored: bool


@dataclass(frozen=True)
class Walk:
    """How to walk: `hidden` names too or not, and down to `depth` levels."""

    hidden: bool = True
    depth: int = _DEEPEST
    show_ignored: bool = False

    def below(self, top: int, start: str) -> Iterator[Entry]:
        """Yield what lies below `start`, in order; its own rules and those above it hold."""
        parts = () if start == "." else tuple(start.split("/"))
        opened = [os.dup(top)]
        try:
            rules = Ignoring().inside(top, 0)
            for depth, name in enumerate(parts, 1):
                opened.append(os.open(name, _FOLDER, dir_fd=opened[-1]))
                rules = rules.inside(opened[-1], depth)
            yield from self._folder(opened[-1], parts, rules, self.depth)
        finally:
            for folder in opened:
                os.close(folder)

    def _folder(
        self, folder: int, parts: tuple[str, ...], rules: Ignoring, levels: int
    ) -> Iterator[Entry]:
        with os.scandir(folder) as listing:
            found = sorted(listing, key=lambda entry: entry.name)
        for entry in found:
            if entry.name.startswith(".") and not self.hidden:
                continue
            here = (*parts, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            ignored = entry.name in NEVER or rules.ignores(here, is_folder)
            if ignored and not self.show_ignored:
                continue
            yield Entry("/".join(here), folder, entry, is_folder, ignored)
            if is_folder and not ignored and levels > 1:
                yield from self._inside(folder, here, rules, levels - 1)

    def _inside(
        self, folder: int, parts: tuple[str, ...], rules: Ignoring, levels: int
    ) -> Iterator[Entry]:
        try:
            inner = os.open(parts[-1], _FOLDER, dir_fd=folder)
        except OSError:  # not ours to read, or just replaced
            return
        try:
            below = rules.inside(inner, len(parts))
            yield from self._folder(inner, parts, below, levels)
        finally:
            os.close(inner)


def is_left_out(top: int, path: str, start: str) -> bool:
    """Tell whether the rules leave out a file, or a folder between it and where a walk starts."""
    parts = path.split("/")
    begins = 0 if start == "." else start.count("/") + 1
    rules = Ignoring().inside(top, 0)
    opened = [os.dup(top)]
    try:
        for depth in range(1, len(parts)):
            if depth > begins and rules.ignores(parts[:depth], is_folder=True):
                return True
            opened.append(os.open(parts[depth - 1], _FOLDER, dir_fd=opened[-1]))
            rules = rules.inside(opened[-1], depth)
        return rules.ignores(parts, is_folder=False)
    except OSError:
        return True
    finally:
        for folder in opened:
            os.close(folder)
