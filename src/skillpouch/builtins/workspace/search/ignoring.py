"""What `.gitignore` files say about a path."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from skillpouch.builtins.workspace.search.patterns import PathPattern, PatternError

# Never looked into: version control, and what Skillpouch itself keeps in a workspace.
NEVER = (".git", ".hg", ".svn", ".jj", ".bzr", ".skillpouch")

_MOST_BYTES = 1024 * 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Rule:
    """One line; `negated` ones bring back what an earlier line left out."""

    pattern: PathPattern
    negated: bool
    only_folders: bool
    by_name: bool

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        return self.pattern.matches(parts[-1:] if self.by_name else parts)


def read_rule(line: str) -> "Rule | None":
    """Return what a line says; None for a comment, an empty line, or one that means nothing."""
    line = line.rstrip("\r\n")
    if not line.endswith("\\ "):
        line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    text = line[1:] if negated else line
    only_folders = text.endswith("/")
    text = text[:-1] if only_folders else text
    try:
        pattern = PathPattern(text)
    except PatternError:
        return None
    return Rule(pattern, negated, only_folders, "/" not in text)


@dataclass(frozen=True)
class Ignoring:
    """The rules that hold in one folder: its own first, then those of the folders above."""

    rules: tuple[Rule, ...] = ()
    depth: int = 0
    above: "Ignoring | None" = None

    def ignores(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Tell whether a path, split and relative to the top, is left out."""
        level: Ignoring | None = self
        while level is not None:
            inside = parts[level.depth :]
            for rule in reversed(level.rules):
                if rule.matches(inside, is_folder):
                    return not rule.negated
            level = level.above
        return False

    def inside(self, folder: int, depth: int) -> "Ignoring":
        """Return what holds in a folder below, which is held open."""
        rules = _read(folder)
        return Ignoring(rules, depth, self) if rules else self


def _read(folder: int) -> tuple[Rule, ...]:
    try:
        descriptor = os.open(".gitignore", _OPEN, dir_fd=folder)
    except OSError:
        return ()
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        text = file.read(_MOST_BYTES).decode("utf-8-sig", "replace")
    return tuple(filter(None, map(read_rule, text.split("\n"))))
