"""The confinement of a program that Kitbag's own tools start: the workspace and nothing else."""

from functools import lru_cache
from pathlib import Path

from kitbag.calls import Terms, ToolCall
from kitbag.execution.confinement import Confinement
from kitbag.workspace_tools.protected import read_only_folders


def confinement_of(call: ToolCall, *visible: Path) -> Confinement:
    """Return what a program of this call may reach; `visible` is what it needs to run."""
    return _confinement(call.terms, visible, call.given.writable, call.is_unconfined)


@lru_cache(maxsize=256)
def _confinement(
    terms: Terms, visible: tuple[Path, ...], writable: tuple[Path, ...], unconfined: bool
) -> Confinement:
    workspace = terms.workspace
    inside = read_only_folders(terms)
    # A folder that something is mounted on cannot be moved aside, with what is read-only in it.
    around = {folder for path in inside for folder in path.parents if workspace in folder.parents}
    return Confinement(
        workspace=workspace,
        interpreters=visible,
        readable=inside,
        writable=(*writable, *sorted(around - set(inside))),
        required=terms.required,  # type: ignore[arg-type]  # checked where it was given
        sandbox="off" if unconfined else "on",
    )
