"""Everything a person should see before saying yes to a skill."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from skillpouch.discovery.digest import Snapshot, snapshot_of
from skillpouch.needs import Need
from skillpouch.skills import Skill
from skillpouch.tools import Tool
from skillpouch.trust.asks import asks_of
from skillpouch.trust.changes import Change, changes_between
from skillpouch.trust.errors import GrantRefusedError
from skillpouch.trust.grant import Grant, missing
from skillpouch.trust.grantable import grantable
from skillpouch.trust.grants import Grants
from skillpouch.trust.inferred_packages import Proposal
from skillpouch.trust.package_asks import package_needs, propose_packages
from skillpouch.trust.paths import is_below


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A skill as it is now: what it asks for, what it has, what changed since it got that.

    `last` is also there when the skill changed, and then counts for nothing. `leads_out` are
    links to what is not in its folder: the digest knows where they lead, not what is there.
    """

    skill: Skill
    seen: Snapshot
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
    def changes(self) -> tuple[Change, ...]:
        """What changed since the last grant; nothing when it was too much to be kept."""
        if self.last is None or not self.last.manifest:
            return ()
        return changes_between(self.last.manifest, self.seen.manifest)


def review_skill(
    skill: Skill,
    tools: Callable[[], Iterable[Tool]],
    grants: Grants,
    packages: Callable[[Tool], Iterable[Need]],
) -> Review:
    """Look at a skill. `tools` is called after its folder was seen, so that nothing comes later.

    `packages` tells which ones a tool declares.
    """
    seen = snapshot_of(skill.home)
    found = list(tools())
    proposals = propose_packages(skill, found)
    declared = dict.fromkeys(need for tool in found for need in packages(tool))
    return Review(
        skill=skill,
        seen=seen,
        asks=(*asks_of(skill, found), *declared, *package_needs(proposals)),
        proposals=proposals,
        last=grants.last(skill.name, skill.home),
        leads_out=_leads_out(str(skill.home), seen),
    )


def reason_against(need: Need) -> str:
    """Return why a need can never be granted, "" when it can."""
    try:
        grantable(need)
    except GrantRefusedError as error:
        return error.reason
    return ""


def _leads_out(home: str, seen: Snapshot) -> tuple[str, ...]:
    real = os.path.realpath(home)
    links = [path for path, entry in seen.manifest.items() if entry.kind == "link"]
    targets = {path: os.path.realpath(f"{home}/{path}") for path in sorted(links)}
    return tuple(
        f"{path} → {target}"
        for path, target in targets.items()
        if target != real and not is_below(target, real)
    )
