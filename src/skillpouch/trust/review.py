"""What a person should see before a grant: what a skill asks for, and what has changed in it."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from skillpouch.discovery.digest import DigestEntry, FolderSnapshot, Manifest, snapshot_of
from skillpouch.needs import Need
from skillpouch.skills import Skill
from skillpouch.text import visible
from skillpouch.tools import Tool
from skillpouch.trust.errors import GrantRefusedError
from skillpouch.trust.grant import Grant, is_below, missing
from skillpouch.trust.grantable import grantable
from skillpouch.trust.grants import Grants
from skillpouch.trust.inferred_packages import Proposal
from skillpouch.trust.requested import asks_of
from skillpouch.trust.requested_packages import (
    folder_asks,
    module_asks,
    package_needs,
    propose_packages,
)

_MOST_NAMED = 3


class PathChange(NamedTuple):
    """One path that changed; `detail` adds what `what` does not tell, such as `644 → 755`."""

    path: str
    what: Literal["added", "removed", "changed", "mode", "link"]
    detail: str = ""


def changes_between(before: Manifest, after: Manifest) -> tuple[PathChange, ...]:
    """Return every difference, in order of path."""
    paths = sorted(before.keys() | after.keys())
    found = (_change(path, before.get(path), after.get(path)) for path in paths)
    return tuple(change for change in found if change is not None)


def in_short(changes: Sequence[PathChange]) -> str:
    """Return a short text about what changed: the first files by name, and how many others."""
    if not changes:
        return "its files changed since"
    named = [visible(change.path) for change in changes[:_MOST_NAMED]]
    more = len(changes) - len(named)
    others = f" and {more:,} more" if more else ""
    return f"{', '.join(named)}{others} changed since"


def _change(path: str, before: DigestEntry | None, after: DigestEntry | None) -> PathChange | None:
    if before == after:
        return None
    if before is None or after is None:
        there = before or after
        assert there is not None
        detail = "" if there.kind == "file" else _named(there)
        return PathChange(path, "added" if before is None else "removed", detail)
    if before.kind != after.kind:
        return PathChange(path, "changed", f"{before.kind} → {_named(after)}")
    if before.content == after.content:
        return PathChange(path, "mode", f"{before.mode:o} → {after.mode:o}")
    if after.kind == "link":
        return PathChange(path, "link", f"{before.content} → {after.content}")
    mode = "" if before.mode == after.mode else f"mode {before.mode:o} → {after.mode:o}"
    return PathChange(path, "changed", mode)


def _named(entry: DigestEntry) -> str:
    return f"link to {entry.content}" if entry.kind == "link" else entry.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A skill as it is now: what it asks for, what was granted, and what changed since then.

    `last` is the last grant, which is no longer valid if the skill has changed. `leads_out` are
    links to the outside: the digest covers where they lead, not what is there.
    """

    skill: Skill
    seen: FolderSnapshot
    asks: tuple[Need, ...]
    proposals: tuple[Proposal, ...]
    last: Grant | None
    leads_out: tuple[str, ...] = ()

    @property
    def grant(self) -> Grant | None:
        is_valid = self.last is not None and self.last.digest == self.seen.digest
        return self.last if is_valid else None

    @property
    def ungranted(self) -> tuple[Need, ...]:
        return missing(self.asks, self.grant)

    @property
    def changes(self) -> tuple[PathChange, ...]:
        """What changed since the last grant; empty if it had too many files for a list."""
        if self.last is None or not self.last.manifest:
            return ()
        return changes_between(self.last.manifest, self.seen.manifest)


def review_skill(
    skill: Skill,
    tools: Callable[[], Iterable[Tool]],
    grants: Grants,
    packages: Callable[[Tool], Iterable[Need]],
) -> Review:
    """Review a skill; `packages` returns the packages that a tool declares.

    `tools` is called after the snapshot of the folder: a change after that is detected later.
    """
    seen = snapshot_of(skill.home)
    found = list(tools())
    proposals = propose_packages(skill, found)
    declared = dict.fromkeys(need for tool in found for need in packages(tool))
    return Review(
        skill=skill,
        seen=seen,
        asks=(
            *_asks(skill, found),
            *declared,
            *package_needs(proposals),
            *folder_asks(skill, found),
        ),
        proposals=proposals,
        last=grants.last(skill.name, skill.home),
        leads_out=_leads_out(str(skill.home), seen),
    )


def _asks(skill: Skill, tools: Sequence[Tool]) -> tuple[Need, ...]:
    asks = asks_of(skill, tools)
    known = {need.value for need in asks}
    read = [need for need in module_asks(skill, tools) if need.value not in known]
    return (*asks, *read, *folder_asks(skill, tools))


def reason_against(need: Need, home: str = "") -> str:
    """Return why a need can never be granted to the skill in a folder, "" if it can be."""
    try:
        grantable(need, home)
    except GrantRefusedError as error:
        return error.reason
    return ""


def _leads_out(home: str, seen: FolderSnapshot) -> tuple[str, ...]:
    real = os.path.realpath(home)
    links = [path for path, entry in seen.manifest.items() if entry.kind == "link"]
    targets = {path: os.path.realpath(f"{home}/{path}") for path in sorted(links)}
    return tuple(
        f"{path} → {target}"
        for path, target in targets.items()
        if target != real and not is_below(target, real)
    )
