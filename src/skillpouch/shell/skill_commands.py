"""The tools of skills as commands: each by its id, each call through the executor they belong to.

What is offered follows its source: a skill that comes, changes or goes does so in scripts, too.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

from skillpouch.errors import UnknownToolError
from skillpouch.executor import ToolExecutor
from skillpouch.registry.overlay import AddedTools
from skillpouch.registry.registry import is_built_in
from skillpouch.shell.command_names import check_command_name
from skillpouch.shell.errors import CommandNameError
from skillpouch.shell.skill_files import PLACE, files_of, wanted
from skillpouch.shell.tool_def import ToolDef
from skillpouch.shell.toolbox import Executor, Folders, Toolbox
from skillpouch.skills import Skill
from skillpouch.tools import Tool

_log = logging.getLogger(__name__)


@runtime_checkable
class SkillTools(Protocol):
    """Whose tools are to be commands: a SkillManager, or one session."""

    @property
    def source(self) -> AddedTools: ...
    @property
    def executor(self) -> Executor: ...
    def list_skills(self) -> list[Skill]: ...


def skill_toolbox(owner: SkillTools | ToolExecutor) -> Toolbox:
    """Return the tools of somebody; built-in ones, where there are any, are called `pouch.read` ….

    The shell's own `read`, `grep` and `ls` stay what they are.
    """
    if isinstance(owner, ToolExecutor):
        commands = _Commands(owner)
        return Toolbox(offered=commands.offered, executor=owner, tool=commands.tool, changes=True)
    if not isinstance(owner, SkillTools):
        raise TypeError(f"{type(owner).__name__} is no manager, executor or session")
    commands = _Commands(owner)
    return Toolbox(
        offered=commands.offered,
        executor=owner.executor,
        tool=commands.tool,
        changes=True,
        folders=partial(_folders, owner),
    )


class _Commands:
    """The commands of a source, made anew when it has changed."""

    def __init__(self, owner: SkillTools | ToolExecutor) -> None:
        self._owner = owner
        self._made: tuple[object, dict[str, ToolDef], dict[str, Tool]] | None = None

    def offered(self) -> Mapping[str, ToolDef]:
        """Return what there is now; the same object for as long as it is the same."""
        return self._now()[0]

    def tool(self, name: str) -> Tool:
        definitions, tools = self._now()
        if name not in tools:
            raise UnknownToolError(name, known=definitions)
        return tools[name]

    def _now(self) -> tuple[dict[str, ToolDef], dict[str, Tool]]:
        source, made = self._owner.source, self._made
        version = source.version  # before the tools: what changes meanwhile is seen next time
        if made is None or made[0] != version:
            tools = dict(_named(source))
            definitions = {name: _definition(name, tool) for name, tool in tools.items()}
            made = self._made = version, definitions, tools
        return made[1], made[2]


def _named(tools: Iterable[Tool]) -> Iterable[tuple[str, Tool]]:
    for tool in tools:
        name = f"pouch.{tool.id}" if is_built_in(tool) else tool.id
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


def _folders(owner: SkillTools, script: str) -> Folders:
    skills = wanted(script, owner.list_skills())
    return {PLACE: files_of(skills)} if skills else {}
