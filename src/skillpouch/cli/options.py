"""The options that every command has: where to look, and whether a program reads the answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from skillpouch.manager import SkillManager

DEFINE_TOOLS = "Allow define_tool and remove_tool, which make tools and save them as skills."

_Command = TypeVar("_Command", bound=Callable[..., Any])


def common_options(command: _Command) -> _Command:
    """Add `--root DIR` (repeatable) and `--json`."""
    root = click.option(
        "--root",
        "roots",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Search this folder for skills instead of the usual ones. Repeatable; later wins.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    return root(as_json(command))


def manager_for(roots: tuple[Path, ...], *, builtins: bool = False) -> SkillManager:
    """Return a manager that has looked below the roots, or in the usual folders."""
    manager = SkillManager(*roots, builtins=builtins)
    manager.discover()
    return manager
