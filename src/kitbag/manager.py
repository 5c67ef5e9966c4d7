"""SkillManager, the front door: roots in, skills and typed tools out."""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from kitbag.activation import activate
from kitbag.arguments import script_arguments
from kitbag.catalogue import Catalogue
from kitbag.discovery import Discovered, find_skills
from kitbag.environment import cache_directory, default_roots
from kitbag.index import Index
from kitbag.problems import Problem
from kitbag.readiness import Machine
from kitbag.results import ToolResult
from kitbag.skills import Skill
from kitbag.tools import Tool

if TYPE_CHECKING:
    from kitbag.calls import OnOutput, OnProgress
    from kitbag.executor import ToolExecutor
    from kitbag.limits import Limits
    from kitbag.policy.approval import Approver
    from kitbag.policy.policy import Policy
    from kitbag.secrets import Secrets
    from kitbag.telemetry import Telemetry


class SkillManager:
    """Finds the skills below some roots, reads their tools without running them, and calls them.

    Later roots override earlier ones. Without roots, the folders in which agents keep skills are
    searched: the user's, then the project's. `cache=False` reads every file anew. `builtins=True`
    adds Kitbag's own tools: bash, read, write, edit, grep, glob and ls in the workspace.
    `disclosure=True` adds those by which an agent finds its way among many skills:
    activate_skill, read_skill_file and search_tools.
    """

    def __init__(  # noqa: PLR0913 - each is said by name
        self,
        *roots: str | os.PathLike[str],
        skills_dir: str | os.PathLike[str] | None = None,
        cache: bool = True,
        workspace: str | os.PathLike[str] | None = None,
        limits: "Limits | None" = None,
        sandbox: Literal["on", "off"] = "on",
        require: Iterable[str] = (),
        on_progress: "OnProgress | None" = None,
        policy: "Policy | None" = None,
        approver: "Approver | None" = None,
        secrets: "Secrets | None" = None,
        journal: bool = True,
        telemetry: "Telemetry | None" = None,
        builtins: bool = False,
        disclosure: bool = False,
    ) -> None:
        required = tuple(require)
        named = [*roots] if skills_dir is None else [*roots, skills_dir]
        self._named = bool(named)
        self.roots = [_absolute(root) for root in named or default_roots()]
        self._index = Index(cache_directory() if cache else None)
        self._machine = Machine()
        self._catalogue: Catalogue | None = None
        self._own_tools = _built_in_tools() if builtins else []
        self._discloses = disclosure
        self._executor_of = partial(
            _executor,
            _Source(self),
            workspace=None if workspace is None else Path(workspace),
            limits=limits,
            sandbox=sandbox,
            require=required,
            read_only=self.roots,
            on_progress=on_progress,
            house={
                "policy": policy,
                "approver": approver,
                "secrets": secrets,
                "journal": journal,
                "telemetry": telemetry,
                "project": Path.cwd,
                "roots": [str(root) for root in self.roots] if named else (),
            },
        )
        if required or sandbox != "on":
            _ = self._executor  # what is wrong with these is said at once

    @cached_property
    def _executor(self) -> "ToolExecutor":
        return self._executor_of()

    def discover(self) -> None:
        """Walk the roots. Reads frontmatter only; the second time, only what has changed."""
        boundaries = [os.path.realpath(root) for root in self.roots]
        discovered = [self._find(root, boundaries) for root in self.roots]
        self._catalogue = Catalogue(
            discovered, self._index, self._machine, _Caller(self), self._own_tools
        )

    async def adiscover(self) -> None:
        """Do what `discover` does, without blocking the event loop."""
        await asyncio.to_thread(self.discover)

    @overload
    def list_skills(self, include_qualified: Literal[False] = False) -> list[Skill]: ...
    @overload
    def list_skills(self, include_qualified: Literal[True]) -> list[str]: ...
    def list_skills(self, include_qualified: bool = False) -> list[Skill] | list[str]:
        """Return the skills; with `include_qualified`, every name that finds one instead."""
        catalogue = self._found()
        return list(catalogue.names()) if include_qualified else list(catalogue.skills.values())

    def get_skill(self, name: str) -> Skill:
        """Find a skill by name, by `plugin:skill`, or by its bare name when only one has it."""
        return self._found().skill(name)

    def load_skill(self, name: str) -> Skill:
        """Find a skill and read its body now, so that a later change does not matter."""
        skill = replace(self.get_skill(name))
        _ = skill.body  # read when first touched, then kept
        return skill

    def invoke_skill(self, name: str, arguments: str = "") -> str:
        """Return what an agent is given to use the skill: instructions, folder, files."""
        return activate(self.load_skill(name), arguments)

    async def ainvoke_skill(self, name: str, arguments: str = "") -> str:
        """Do what `invoke_skill` does, without blocking the event loop."""
        return await asyncio.to_thread(self.invoke_skill, name, arguments)

    def get_skill_tools(self, name: str) -> list[Tool]:
        """Return the tools of one skill, in order; its scripts are read when first asked for."""
        catalogue = self._found()
        return catalogue.tools_of([catalogue.skill(name)])

    def get_tool(self, name: str) -> Tool:
        """Find a tool by id, wire name, or bare name when it is unique."""
        return self._found().tool(name)

    def call(
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: "OnOutput | None" = None,
    ) -> ToolResult:
        """Run a tool by id, wire name or bare name, confined, and return what it gave."""
        return self._executor.execute_sync(
            tool, arguments, stdin, timeout=timeout, on_output=on_output
        )

    async def acall(
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: "OnOutput | None" = None,
    ) -> ToolResult:
        """Do what `call` does, without blocking the event loop."""
        return await self._executor.execute(
            tool, arguments, stdin, timeout=timeout, on_output=on_output
        )

    def execute_skill_script(
        self,
        skill_name: str,
        script_path: str | os.PathLike[str],
        arguments: Any = None,
        timeout: float | None = None,
    ) -> ToolResult:
        """Run one script of a skill by its path, such as `scripts/extract.py`."""
        tool = self._found().tool_of_script(skill_name, os.fspath(script_path))
        return self.call(tool.id, script_arguments(tool, arguments), timeout=timeout)

    async def execute_skill_script_async(
        self,
        skill_name: str,
        script_path: str | os.PathLike[str],
        arguments: Any = None,
        timeout: float | None = None,
    ) -> ToolResult:
        """Do what `execute_skill_script` does, without blocking the event loop."""
        catalogue = await asyncio.to_thread(self._found)
        tool = await asyncio.to_thread(catalogue.tool_of_script, skill_name, os.fspath(script_path))
        return await self.acall(tool.id, script_arguments(tool, arguments), timeout=timeout)

    @property
    def tools(self) -> list[Tool]:
        """Kitbag's own tools, if they are on; then those of every skill, in the order found."""
        catalogue = self._found()
        finding = catalogue.disclosure if self._discloses else ()
        return [*self._own_tools, *finding, *catalogue.tools_of(catalogue.skills.values())]

    @property
    def disclosure_tools(self) -> list[Tool]:
        """The tools by which an agent finds its way among the skills; none without skills."""
        return list(self._found().disclosure)

    def missing_for(self, name: str) -> list[str]:
        """Return what this machine lacks for a skill, as far as its frontmatter says."""
        catalogue = self._found()
        return catalogue.missing_for(catalogue.skill(name))

    @property
    def problems(self) -> list[Problem]:
        """What was noticed so far: about skills, and about the tools that were asked for."""
        return self._found().problems()

    @property
    def found(self) -> int:
        """How many skill files lie below the roots, shadowed and skipped ones too."""
        return self._found().found

    @property
    def skipped(self) -> int:
        """How many of them could not be read at all; `problems` says why."""
        return self._found().skipped

    def _found(self) -> Catalogue:
        if self._catalogue is None:
            self.discover()
        assert self._catalogue is not None
        return self._catalogue

    def _find(self, root: Path, boundaries: list[str]) -> Discovered:
        found = find_skills(str(root), boundaries, self._index)
        if not self._named or root.is_dir():
            return found
        message = "no such folder to search for skills"
        problem = Problem(path=str(root), code="root-missing", severity="warning", message=message)
        return replace(found, problems=(problem, *found.problems))


def _built_in_tools() -> list[Tool]:
    # Here, so that finding and listing skills does not load what runs them.
    from kitbag.workspace_tools.running import built_in_tools

    return built_in_tools()


def _executor(source: "_Source", *, house: dict[str, Any], **terms: Any) -> "ToolExecutor":
    # Here, so that finding and listing skills does not load what runs them.
    from kitbag.executor import ToolExecutor
    from kitbag.house import House

    return ToolExecutor(source, **terms, house=House(**house))


class _Caller:
    """Runs the tools of a manager that are called by themselves."""

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    async def execute(self, name: str, args: Any = None) -> ToolResult:
        return await self._manager.acall(name, args)

    def execute_sync(self, name: str, args: Any = None) -> ToolResult:
        return self._manager.call(name, args)


class _Source:
    """Finds the tools of a manager for its executor."""

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    def get(self, name: str) -> Tool:
        return self._manager._found().find(name)  # noqa: SLF001 - two halves of one class


def _absolute(root: str | os.PathLike[str]) -> Path:
    # Not resolved: a root that is a link keeps the path its user knows.
    return Path(os.path.abspath(Path(root).expanduser()))  # noqa: PTH100
