"""Which files and hosts a program may reach: its skill, the workspace, and what was granted."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skillpouch.calls import Terms, ToolCall
from skillpouch.discovery.skill_copies import copies_around
from skillpouch.errors import UnsafeScriptError
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.job_channel import PROGRAM
from skillpouch.execution.zygote_client import this_python
from skillpouch.skills import OWN_FILES
from skillpouch.untrusted_files import real_home
from skillpouch.workspace.read_only import around, is_read_only, kept_folders, run_later

RUNNERS = Path(__file__).with_name("runners")


def refuse_planted(program: str, workspace: Path) -> None:
    """Refuse an interpreter that a tool could have put there."""
    if program != this_python() and workspace in Path(program).parents:
        raise UnsafeScriptError(program, "an interpreter inside the workspace is not trusted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a call was given that its confinement must leave open."""

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    skill: str = ""  # whom the hosts were granted to
    unconfined: bool = False
    copied_from: Path | None = None  # the skill's own folder, when it runs from a copy

    @classmethod
    def of(cls, call: ToolCall, *readable: Path) -> "Reach":
        given = call.given
        return cls(
            readable=(*given.readable, *readable),
            writable=given.writable,
            hosts=() if call.is_unconfined else given.hosts,
            skill=call.tool.skill,
            unconfined=call.is_unconfined,
            copied_from=Path(call.tool.copied_from) if call.tool.copied_from else None,
        )


def confinement_of(
    home: str,
    programs: tuple[Path, ...],
    terms: Terms,
    exchange: Path,
    reach: Reach,
) -> Confinement:
    """Return what a program of a skill may reach; `programs` are what it needs to run at all.

    A skill that is only a text has no `home`.
    """
    # Where it was when its files were read: a link that moved since is not followed.
    real = real_home(home) if home else ""
    named = programs if home == real else (*programs, Path(home))
    return _confinement(real, named, terms, exchange, reach)


@lru_cache(maxsize=1024)
def _confinement(
    home: str,
    programs: tuple[Path, ...],
    terms: Terms,
    exchange: Path,
    reach: Reach,
) -> Confinement:
    workspace = terms.workspace
    skill = Path(home) if home else None
    inside = kept_folders(terms, *_own_folders(skill, reach.copied_from, workspace))
    later = run_later(terms, reach.writable)
    return Confinement(
        workspace=workspace,
        skill=skill,
        interpreters=programs,
        runnable=later,  # hooks still run, confined, for git in a call
        # Of the exchange folder too nothing is written: the next call would find it there.
        readable=(RUNNERS, PROGRAM.parents[1], exchange, *reach.readable, *inside),
        writable=(*reach.writable, *around((*inside, *later), workspace)),
        workspace_read_only=is_read_only(terms),
        followed=(RUNNERS, PROGRAM.parents[1]),
        network="hosts" if reach.hosts else "none",
        hosts=reach.hosts,
        skill_name=reach.skill if reach.hosts else "",
        required=terms.required,  # type: ignore[arg-type]  # checked where it was given
        sandbox="off" if reach.unconfined else "on",
    )


def _own_folders(skill: Path | None, copied_from: Path | None, workspace: Path) -> list[Path]:
    """Return what of the skill no tool may write, should it lie inside the workspace."""
    place = copied_from or skill
    own = [place] if place else []
    if place == workspace:
        own = [workspace / name for name in OWN_FILES]
    if skill and copied_from:
        own.append(copies_around(skill))
    return own
