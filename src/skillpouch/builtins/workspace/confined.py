"""The confinement of a program that a built-in tool starts: the workspace and nothing else."""

from functools import lru_cache
from pathlib import Path

from skillpouch.calls import Terms, ToolCall
from skillpouch.execution.confinement import Confinement
from skillpouch.workspace.kept_folders import around, is_read_only, kept_folders, run_later


def confinement_of(call: ToolCall, *visible: Path) -> Confinement:
    """Return what a program of this call may reach; `visible` is what it needs to run."""
    return _confinement(call.terms, visible, call.given.writable, call.is_unconfined)


@lru_cache(maxsize=256)
def _confinement(
    terms: Terms, visible: tuple[Path, ...], writable: tuple[Path, ...], unconfined: bool
) -> Confinement:
    workspace = terms.workspace
    inside = kept_folders(terms)
    later = run_later(terms, writable)
    return Confinement(
        workspace=workspace,
        interpreters=visible,
        runnable=later,
        readable=inside,
        writable=(*writable, *around((*inside, *later), workspace)),
        workspace_read_only=is_read_only(terms),
        required=terms.required,  # type: ignore[arg-type]  # checked where it was given
        sandbox="off" if unconfined else "on",
    )
