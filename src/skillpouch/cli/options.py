"""The options that every command has, and the exit code for each error."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click

from skillpouch.declarations.packages.declared_files import DependencyError
from skillpouch.errors import (
    CallDeniedError,
    CommandStartError,
    MissingExtraError,
    SandboxUnavailableError,
    SkillpouchError,
)
from skillpouch.manager import SkillManager

UNDO_TOOLS = "Let models undo calls, and see what they changed."
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
        help="Search this folder for skills instead of the usual ones. Repeatable; the last wins.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    return root(as_json(command))


def manager_for(roots: tuple[Path, ...], *, builtins: bool = False) -> SkillManager:
    """Return a manager that has looked below the roots, or in the usual folders."""
    manager = SkillManager(*roots, builtins=builtins)
    manager.discover()
    return manager


def mcp_servers_for(manager: SkillManager, text: str) -> AbstractContextManager[object]:
    """Return the user's MCP servers to enter, if a tool of one of them is named in a text.

    Starting them takes a moment, and a command that names none of their tools needs none.
    """
    if "mcp:" not in text and "mcp__" not in text:
        return nullcontext()
    from skillpouch.mcp_client import McpServers, read_user_mcp

    named = [
        entry
        for entry in read_user_mcp()
        if f"mcp:{entry.name}" in text or f"mcp__{entry.name}" in text
    ]
    return McpServers(manager, named) if named else nullcontext()


EXIT_FAILED = 1
EXIT_WRONG_CALL = 2
EXIT_DENIED = 3
EXIT_NOT_STARTED = 4
# By code: these classes are loaded only where changes and jobs are kept.
_NOT_STARTED = (
    *("change_store", "changes_full", "writes_unavailable"),
    *("job_store", "job_host", "queue_full"),
    *("job_secrets_gone", "job_skill_changed"),
)
_ENDED_BADLY = ("job_lost", "job_cancelled", "job_failed")
_DENIED = ("may_not_answer",)


def exit_code_of(error: SkillpouchError) -> int:
    """Return the exit code that the command line promises for an error."""
    if isinstance(error, CallDeniedError):
        return EXIT_DENIED
    if isinstance(
        error, SandboxUnavailableError | CommandStartError | DependencyError | MissingExtraError
    ):
        return EXIT_NOT_STARTED
    if error.code in _NOT_STARTED:
        return EXIT_NOT_STARTED
    if error.code in _ENDED_BADLY:
        return EXIT_FAILED
    return EXIT_DENIED if error.code in _DENIED else EXIT_WRONG_CALL
