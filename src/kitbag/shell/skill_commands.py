"""The tools of skills as commands: each by its id, each call through the manager's executor."""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Protocol

from kitbag.executor import ToolExecutor
from kitbag.registry import is_built_in
from kitbag.shell.command_names import check_command_name
from kitbag.shell.errors import CommandNameError
from kitbag.shell.skill_files import PLACE, files_of, wanted
from kitbag.shell.tool_def import ToolDef
from kitbag.shell.toolbox import Folders, Toolbox
from kitbag.skills import Skill
from kitbag.tools import Tool

_log = logging.getLogger(__name__)


class SkillTools(Protocol):
    """Whose tools are to be commands: a SkillManager, or one session over it."""

    @property
    def tools(self) -> Iterable[Tool]: ...
    @property
    def executor(self) -> ToolExecutor: ...
    def list_skills(self) -> list[Skill]: ...


def skill_toolbox(manager: SkillTools) -> Toolbox:
    """Return the tools of a manager; Kitbag's own, where it has them, are called `kit.read` ….

    The shell's own `read`, `grep` and `ls` stay what they are.
    """
    tools = dict(_commands(manager.tools))
    return Toolbox(
        definitions={name: _definition(name, tool) for name, tool in tools.items()},
        executor=manager.executor,
        tool=tools.__getitem__,
        ids={name: tool.id for name, tool in tools.items()},
        folders=partial(_folders, manager),
    )


def _commands(tools: Iterable[Tool]) -> Iterable[tuple[str, Tool]]:
    for tool in tools:
        name = f"kit.{tool.id}" if is_built_in(tool) else tool.id
        try:
            check_command_name(name)
        except CommandNameError as error:
            _log.warning("%s", error)
            continue
        yield name, tool


def _definition(name: str, tool: Tool) -> ToolDef:
    return ToolDef(
        name,
        tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        effects=tool.effects,
        examples=tool.examples,
    )


def _folders(manager: SkillTools, script: str) -> Folders:
    skills = wanted(script, manager.list_skills())
    return {PLACE: files_of(skills)} if skills else {}
