"""What rules say about the files that a call changed: judged before the changes arrive."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from skillpouch.policy.patterns import literal_ends, matcher
from skillpouch.results import FileChange, WorkspaceChange
from skillpouch.text import visible

Gone = Callable[[FileChange], float | None]
CHANGES: tuple[WorkspaceChange, ...] = get_args(WorkspaceChange)
_FLAGS = ("executable", "run_later")
_EXECUTABLE = 0o111
_MOST_NAMED = 3


def _unknown(_: FileChange) -> float | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """What a call did to the files of its workspace, as rules judge it.

    `complete` is false if there may be more changes than these. `gone` tells how much of the
    content of a file is gone, from 0 to 1, and None if that is not known. `run_later` are the
    paths that other programs run unconfined, such as git hooks.
    """

    changes: Sequence[FileChange] = ()
    complete: bool = True
    run_later: Sequence[str] = ()
    gone: Gone = _unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeConditions:
    """`when.changes` of a rule: bounds for what a call may do to files that existed, and more.

    Only changes at `paths` count. A rule that refuses matches if *any* bound is exceeded, or any
    of the rest happened; with `paths` alone, if anything changed there. A rule that allows matches
    if *no* bound is exceeded, none of the rest happened, and nothing changed outside of `paths`.
    With `share_over`, only such files count as overwritten of whose content more than this share
    is gone; without `overwritten_over`, one such file is enough, and a deleted one is such a file.
    """

    deleted_over: int | None = None
    overwritten_over: int | None = None
    bytes_over: int | None = None
    share_over: float | None = None
    paths: Sequence[str] = ()
    executable: bool = False
    run_later: bool = False

    def __post_init__(self) -> None:
        given = (self.paths,) if isinstance(self.paths, str) else tuple(self.paths)
        object.__setattr__(self, "paths", given)
        problems = [f"{name} {why}" for name, why in self._problems()]
        if not any(self._is_said(name) for name in CHANGE_KEYS):
            problems = [f"says nothing: add {', '.join(CHANGE_KEYS)}"]
        if problems:
            raise ValueError("; ".join(problems))

    def _problems(self) -> Iterator[tuple[str, str]]:
        for name in CHANGE_KEYS:
            why = wrong_change_value(name, getattr(self, name))
            if why:
                yield name, why

    def holds(self, facts: ChangeFacts, *, allows: bool) -> bool:
        """Tell whether a rule with these conditions matches; in doubt against the call."""
        here = self._here(facts, all_of_it=allows)
        if allows:
            is_inside = facts.complete and len(here) == len(facts.changes)
            return is_inside and not any(self._exceeded(here, facts))
        if not facts.complete:
            return True
        bounds = list(self._exceeded(here, facts))
        return any(bounds) if self._has_bounds else bool(here)

    def exceeded(self, facts: ChangeFacts) -> list[str]:
        """Return what is more than these bounds allow, in words."""
        here = self._here(facts, all_of_it=False)
        return [said for said in self._exceeded(here, facts) if said]

    @property
    def _has_bounds(self) -> bool:
        return any(self._is_said(name) for name in CHANGE_KEYS if name != "paths")

    def _is_said(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False and value != ()

    def _exceeded(self, here: Sequence[FileChange], facts: ChangeFacts) -> Iterator[str]:
        """Yield a text for each bound: empty if the changes keep to it."""
        if self.deleted_over is not None:
            yield _over("deletes", [each for each in here if is_deletion(each)], self.deleted_over)
        if self.overwritten_over is not None or self.share_over is not None:
            yield self._overwritten(here, facts)
        if self.bytes_over is not None:
            written = sum(each.size for each in here if each.change in ("created", "changed"))
            more = f"it writes {written:,} bytes, and more than {self.bytes_over:,}"
            yield more if written > self.bytes_over else ""
        if self.executable:
            yield _named("makes executable", [each for each in here if makes_executable(each)])
        if self.run_later:
            later = [path for path in facts.run_later if self._fits(path, all_of_it=False)]
            yield _told("makes what other programs run unconfined", later)

    def _overwritten(self, here: Sequence[FileChange], facts: ChangeFacts) -> str:
        most = self.overwritten_over or 0
        found = [each for each in here if is_overwriting(each)]
        if self.share_over is None:
            return _over("overwrites", found, most)
        if self.overwritten_over is None:
            found += [each for each in here if is_deletion(each)]
        if len(found) <= most:
            return ""  # without a look at any content
        share = self.share_over
        lost = [each for each in found if _is_lost(facts.gone(each), is_deletion(each), share)]
        return _over(f"replaces more than {share:.0%} of", lost, most)

    def _here(self, facts: ChangeFacts, *, all_of_it: bool) -> Sequence[FileChange]:
        if not self.paths:
            return facts.changes
        return [each for each in facts.changes if self._is_here(each, all_of_it=all_of_it)]

    def _is_here(self, change: FileChange, *, all_of_it: bool) -> bool:
        names = [change.path, *([change.old_path] if change.old_path else [])]
        found = [self._fits(name, all_of_it=all_of_it) for name in names]
        return all(found) if all_of_it else any(found)

    def _fits(self, path: str, *, all_of_it: bool) -> bool:
        fits = (_fits_path(pattern, path, all_of_it=all_of_it) for pattern in self.paths)
        return not self.paths or any(fits)


CHANGE_KEYS = tuple(field.name for field in fields(ChangeConditions))


def wrong_change_value(name: str, value: Any) -> str:
    """Return what is wrong with a value of `ChangeConditions`, "" if nothing is."""
    if name in _FLAGS:
        return "" if isinstance(value, bool) else "must be true or false"
    if name == "paths":
        return next((f"has {path!r}, {why}" for path in value if (why := _no_path(path))), "")
    if value is None:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "share_over":
        fine = is_number and not math.isnan(value) and 0 <= value < 1
        return "" if fine else "must be a number from 0 to below 1"
    return "" if is_number and isinstance(value, int) and value >= 0 else "must be a whole number"


def _no_path(path: Any) -> str:
    if not isinstance(path, str) or not path or "\0" in path:
        return "which is no path"
    if path.startswith("/") or ".." in path.split("/"):
        return "which leads out of the workspace: write a path below it, such as '.git/**'"
    return ""


def _fits_path(pattern: str, path: str, *, all_of_it: bool) -> bool:
    """Tell whether a path, or for a refusal a part of what lies below it, fits a pattern.

    `*` and `**` are any text, also across folders. `docs/**` is the folder itself, too, and
    `**/x` an `x` at the top. A folder that was renamed or deleted is one change: it may hold what
    the pattern names.
    """
    others = [pattern.removesuffix("/**")] if pattern.endswith("/**") else []
    if pattern.startswith("**/"):
        others += [each.removeprefix("**/") for each in (pattern, *others)]
    if any(matcher(each)(path) for each in (pattern, *filter(None, others))):
        return True
    return not all_of_it and literal_ends(pattern)[0].startswith(f"{path}/")


def is_deletion(change: FileChange) -> bool:
    """Tell whether a file that existed is gone."""
    return change.change == "deleted"


def is_overwriting(change: FileChange) -> bool:
    """Tell whether a file that existed has another content, or is no file any more."""
    return change.change == "changed" or (change.change == "link" and change.size_before > 0)


def makes_executable(change: FileChange) -> bool:
    """Tell whether a file can be run that could not be run before."""
    before = change.mode_before or 0
    return change.executable and not before & _EXECUTABLE


def _is_lost(share: float | None, is_gone: bool, most: float) -> bool:
    return is_gone or share is None or share > most


def _over(does: str, found: Sequence[FileChange], most: int) -> str:
    if len(found) <= most:
        return ""
    files = "file" if len(found) == 1 else "files"
    bound = f", and more than {most:,}" if most else ""
    return f"it {does} {len(found):,} {files} that existed ({_some(found)}){bound}"


def _named(does: str, found: Sequence[FileChange]) -> str:
    return _told(does, [each.path for each in found])


def _told(does: str, paths: Sequence[str]) -> str:
    return f"it {does}: {_listed(paths)}" if paths else ""


def _some(found: Sequence[FileChange]) -> str:
    return _listed([each.path for each in found])


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED:,} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(visible(path) for path in paths[:_MOST_NAMED]) + more


# What a policy asks about without any rule. A file counts as lost if it was deleted; as good as
# lost if more than nine tenths of it are gone, as after it was encrypted or emptied. Eleven such
# files are more than a person changes by hand, and a formatter or a search and replace leaves most
# of every file as it was: fifty of those are an ordinary step of work.
BOUNDS: dict[str, tuple[ChangeConditions, ...]] = {
    "trusting": (
        ChangeConditions(deleted_over=100),
        ChangeConditions(overwritten_over=500),
        ChangeConditions(overwritten_over=100, share_over=0.9),
    ),
    "careful": (
        ChangeConditions(deleted_over=10),
        ChangeConditions(overwritten_over=50),
        ChangeConditions(overwritten_over=10, share_over=0.9),
    ),
    "strict": (
        ChangeConditions(deleted_over=0),
        ChangeConditions(overwritten_over=10),
        ChangeConditions(share_over=0.9),
    ),
}
INCOMPLETE = "its changes could not all be read"


def concerns_about(mode: str, facts: ChangeFacts) -> Iterable[str]:
    """Yield why a policy of this mode asks about changes; nothing if it does not."""
    if not facts.complete:
        yield INCOMPLETE
    seen: set[str] = set()
    for bounds in BOUNDS[mode]:
        for said in bounds.exceeded(facts):
            if said not in seen:
                seen.add(said)
                yield said
