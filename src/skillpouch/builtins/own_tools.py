"""Adds Skillpouch's own tools to a manager, and loads their code only when they are used.

Otherwise finding and listing skills would take twice as long.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from skillpouch.controls import Controls
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.registry.registry import ToolOverlay


class Manager(Protocol):
    """The part of a SkillManager that tools which save skills need."""

    roots: list[Path]
    source: "ToolOverlay"

    def list_skills(self, include_qualified: Literal[True]) -> list[str]: ...
    def discover(self) -> None: ...


def workspace_tools(skills: object | None = None) -> list[Tool]:
    """Return bash, read, write, edit, grep, glob and ls; where there are skills, run_for_skill."""
    from skillpouch.builtins.workspace.running import built_in_tools

    return built_in_tools(skills=skills)


def tools_to_undo(controls: Controls) -> list[Tool]:
    """Return undo and diff, for models whose owner wants it."""
    from skillpouch.builtins.kept_calls import redactor_of_grants
    from skillpouch.builtins.undoing import tools_for_models

    return tools_for_models(lambda: redactor_of_grants(controls))


def authoring_tools(manager: Manager) -> list[Tool]:
    """Return define_tool and remove_tool, which save in a folder that the manager searches."""
    from skillpouch.builtins.authoring.tools import tools_that_save_in

    def names() -> list[str]:
        return manager.list_skills(include_qualified=True)

    # The first of the usual folders: `skills` of the project, where people look first.
    usual = Path("skills").absolute()
    root = usual if usual in manager.roots else manager.roots[-1]
    return tools_that_save_in(root, manager.source, names, manager.discover)
