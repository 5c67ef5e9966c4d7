"""`skillpouch environments`: lists what was installed for skills, and removes what nobody uses."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillpouch.cli.options import common_options
from skillpouch.cli.output import print_json, print_table, size_text
from skillpouch.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillpouch.execution.own_folder import StoredOwnFolder
    from skillpouch.provision.packages.housekeeping import Pruned, StoredEnvironment

_DAY_SECONDS = 86_400
_DAYS = 30.0


@click.group("environments", invoke_without_command=True)
@click.option(
    "--prune",
    "days",
    is_flag=False,
    flag_value=_DAYS,
    type=click.FloatRange(min=0),
    metavar="[DAYS]",
    help="Remove what was not used for this many days, granted or not; by default 30.",
)
@common_options
@click.pass_context
def command(
    context: click.Context,
    days: float | None,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command takes it
    as_json: bool,
) -> None:
    """List the packages that were installed for skills, and what skills keep in their own folders.

    Packages are installed again when needed. Environments share the files that are the same, so
    together they are smaller than their sizes.
    """
    if context.invoked_subcommand is not None:
        return
    from skillpouch.provision.packages.housekeeping import prune

    _report(None if days is None else prune(days * _DAY_SECONDS), as_json=as_json)


@command.command("prune")
@click.option(
    "--unused-for",
    "days",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="DAYS",
    help="Only what was not used for this many days, either.",
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; say what would be removed.")
@common_options
def prune_command(
    days: float,
    dry_run: bool,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command takes it
    as_json: bool,
) -> None:
    """Remove the environments, and the own folders of skills, that no grant uses.

    A grant that ended because its skill changed or is gone uses none. What a running call uses,
    and what is being installed, stays.
    """
    from skillpouch.execution.own_folder import prune_own_folders
    from skillpouch.provision.packages.housekeeping import prune

    pruned = prune(days * _DAY_SECONDS, keep=_granted(), dry_run=dry_run)
    own = prune_own_folders(_keeps_own_folder(), dry_run=dry_run)
    _report(pruned, own, as_json=as_json, dry_run=dry_run)


def _keeps_own_folder() -> "Callable[[StoredOwnFolder], bool]":
    from skillpouch.cli.trust_command import state_of
    from skillpouch.trust.grants import Grants

    granted = {
        (grant.skill, grant.home, grant.digest)
        for grant in Grants().list()
        if grant.own_folder and state_of(grant) == "valid"
    }
    return lambda own: (own.skill, str(Path(own.home).resolve()), own.digest) in granted


def _granted() -> set[str]:
    """Return the names of the environments that valid grants use."""
    from skillpouch.cli.trust_command import state_of
    from skillpouch.errors import SkillpouchError
    from skillpouch.manager import SkillManager
    from skillpouch.provision.packages.lookup import granted_environments
    from skillpouch.runtime.loop_thread import run_blocking
    from skillpouch.trust.grants import Grants

    found: set[str] = set()
    for grant in Grants().list():
        if not grant.packages or state_of(grant) != "valid":
            continue
        try:
            tools = SkillManager(grant.home).get_skill_tools(grant.skill)
        except SkillpouchError:
            continue
        found |= run_blocking(granted_environments(tools, grant))
    return found


def _report(
    pruned: "Pruned | None",
    own: "Sequence[StoredOwnFolder]" = (),
    *,
    as_json: bool,
    dry_run: bool = False,
) -> None:
    from skillpouch.execution.own_folder import list_own_folders
    from skillpouch.provision.packages.housekeeping import list_environments, size_on_disk

    kept, removed = list_environments(), pruned.removed if pruned else ()
    freed = (pruned.freed_bytes if pruned else 0) + sum(each.size_bytes for each in own)
    if as_json:
        both = {"environments": kept, "removed": removed}
        facts = {name: [_as_dict(each) for each in found] for name, found in both.items()}
        folders = {"own_folders": list_own_folders(), "removed_own_folders": own}
        facts |= {name: [_own_as_dict(each) for each in found] for name, found in folders.items()}
        print_json({**facts, "freed_bytes": freed, "size_bytes": size_on_disk()})
        return
    shown = removed if dry_run else kept
    rows = [(each.digest, _what(each), size_text(each.size_bytes), _ago(each)) for each in shown]
    print_table(("environment", "what", "size", "last used"), rows)
    told = [
        (each.skill, visible(each.home), ", ".join(each.names), size_text(each.size_bytes))
        for each in (own if dry_run else list_own_folders())
    ]
    if told:
        print_table(("own folder of", "", "keeps", "size"), told)
    if pruned is not None:
        would = "would be removed" if dry_run else "removed"
        frees = "would free" if dry_run else "freed"
        click.echo(
            f"{len(removed) + len(own)} {would}, {frees} {freed:,} bytes ({size_text(freed)})",
            err=True,
        )
    else:
        click.echo(f"together {size_text(size_on_disk())} on the disk", err=True)


def _as_dict(kept: "StoredEnvironment") -> dict[str, Any]:
    return {
        "digest": kept.digest,
        "kind": kept.kind,
        "requirements": list(kept.requirements),
        "size_bytes": kept.size_bytes,
        "last_used": kept.last_used,
        "ready": kept.ready,
    }


def _own_as_dict(kept: "StoredOwnFolder") -> dict[str, Any]:
    return {
        "skill": kept.skill,
        "path": kept.home,
        "digest": kept.digest,
        "keeps": list(kept.names),
        "size_bytes": kept.size_bytes,
    }


def _what(kept: "StoredEnvironment") -> str:
    return ", ".join(kept.requirements) if kept.ready else "unfinished"


def _ago(kept: "StoredEnvironment") -> str:
    days = int((time.time() - kept.last_used) / _DAY_SECONDS)
    return "today" if days <= 0 else "1 day ago" if days == 1 else f"{days} days ago"
