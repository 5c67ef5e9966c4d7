"""`skillpouch environments`: lists what was installed for skills, its size and its last use."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillpouch.cli.options import common_options
from skillpouch.cli.output import print_json, print_table

if TYPE_CHECKING:
    from skillpouch.provision.packages.housekeeping import StoredEnvironment

_DAY_SECONDS = 86_400
_DAYS = 30.0
_KIB = 1024


@click.command("environments")
@click.option(
    "--prune",
    "days",
    is_flag=False,
    flag_value=_DAYS,
    type=click.FloatRange(min=0),
    metavar="[DAYS]",
    help="Remove what was not used for this many days; by default 30.",
)
@common_options
def command(days: float | None, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """List the packages that were installed for skills. They are installed again when needed."""
    from skillpouch.provision.packages.housekeeping import list_environments, prune

    removed = [] if days is None else prune(days * _DAY_SECONDS)
    kept = list_environments()
    if as_json:
        both = {"environments": kept, "removed": removed}
        print_json({name: [_as_dict(each) for each in found] for name, found in both.items()})
        return
    rows = [(each.digest, _what(each), _size(each.size_bytes), _ago(each)) for each in kept]
    print_table(("environment", "what", "size", "last used"), rows)
    if days is not None:
        freed = _size(sum(each.size_bytes for each in removed))
        click.echo(f"{len(removed)} removed, {freed}", err=True)


def _as_dict(kept: "StoredEnvironment") -> dict[str, Any]:
    return {
        "digest": kept.digest,
        "kind": kept.kind,
        "requirements": list(kept.requirements),
        "size_bytes": kept.size_bytes,
        "last_used": kept.last_used,
        "ready": kept.ready,
    }


def _what(kept: "StoredEnvironment") -> str:
    return ", ".join(kept.requirements) if kept.ready else "unfinished"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < _KIB:
            return f"{size:.0f} {unit}"
        size /= _KIB
    return f"{size:.1f} GiB"


def _ago(kept: "StoredEnvironment") -> str:
    days = int((time.time() - kept.last_used) / _DAY_SECONDS)
    return "today" if days <= 0 else "1 day ago" if days == 1 else f"{days} days ago"
