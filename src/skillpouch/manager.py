"""SkillManager: finds skills below roots and offers their tools; what most users start with."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from skillpouch.arguments import call_of_line, script_arguments
from skillpouch.builtins.kept_calls import ChangeMethods, ChangeRunner
from skillpouch.builtins.own_tools import authoring_tools, tools_to_undo, workspace_tools
from skillpouch.controls import Controls, ReadOnly, chosen_controls
from skillpouch.discovery.catalogue import LaterStages, SkillLibrary
from skillpouch.discovery.index import Index
from skillpouch.environment import cache_directory, default_roots
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.job_methods import JobMethods
from skillpouch.limits import Sandbox, Writes
from skillpouch.policy.refusals import Refusals
from skillpouch.problems import Problem
from skillpouch.provision.readiness import InstalledPrograms
from skillpouch.registry.registry import ToolOverlay
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import made_once
from skillpouch.skills import Skill
from skillpouch.tools import AwaitedCaller, Tool

if TYPE_CHECKING:
    from skillpouch.calls import OnOutput, OnProgress, OnStep
    from skillpouch.discovery.catalogue import Catalogue
    from skillpouch.discovery.watching.listening import OnChange
    from skillpouch.discovery.watching.watcher import SkillWatcher
    from skillpouch.executor import ToolExecutor
    from skillpouch.jobs.job_runner import JobRunner
    from skillpouch.journal.journal import Journal
    from skillpouch.journal.telemetry import Telemetry
    from skillpouch.limits import Limits
    from skillpouch.policy.approval import Approver
    from skillpouch.policy.policy import Policy
    from skillpouch.secrets.sources import Secrets
    from skillpouch.tools import SkillTools
    from skillpouch.trust.grants import Grants

_T = TypeVar("_T")


class SkillManager(ChangeMethods, JobMethods):
    """Finds the skills below some roots, reads their tools without running them, and calls them.

    Later roots override earlier ones. Without roots, the folders in which agents keep skills are
    searched: the user's, then the project's. `cache=False` reads every file anew. `builtins=True`
    adds Skillpouch's own tools in the workspace: bash, read, write, edit, grep, glob, ls, and
    run_for_skill, which runs commands that the instructions of a skill ask for.
    `define_tools=True` lets agents make tools, and save them in the last root or in `skills`.
    `disclosure=True` adds tools to search and read many skills: activate_skill, read_skill_file
    and search_tools. `undo_tools=True` lets a model undo calls and see what they changed.
    `source` finds all tools by name; a ToolExecutor or a SessionManager over the same skills takes
    it. The other parameters are those of `Controls`, which explains each of them; `controls` passes
    all of them at once.
    """

    def __init__(  # noqa: PLR0913 - each is said by name
        self,
        *roots: str | os.PathLike[str],
        skills_dir: str | os.PathLike[str] | None = None,
        cache: bool = True,
        policy: "Policy | None" = None,
        approver: "Approver | None" = None,
        grants: "Grants | None" = None,
        secrets: "Secrets | None" = None,
        journal: "Journal | bool" = True,
        telemetry: "Telemetry | None" = None,
        limits: "Limits | None" = None,
        sandbox: Sandbox = "on",
        writes: Writes | None = None,
        require: Iterable[str] = (),
        workspace: str | os.PathLike[str] | None = None,
        read_only: Iterable[str | os.PathLike[str]] | ReadOnly = (),
        on_progress: "OnProgress | None" = None,
        controls: Controls | None = None,
        builtins: bool = False,
        define_tools: bool = False,
        disclosure: bool = False,
        undo_tools: bool = False,
    ) -> None:
        named = [*roots] if skills_dir is None else [*roots, skills_dir]
        self.roots = [_absolute(root) for root in named or default_roots()]
        self.named_roots = tuple(map(str, self.roots)) if named else ()  # for hints
        given = Controls(
            policy=policy,
            approver=approver,
            grants=grants,
            secrets=secrets,
            journal=journal,
            telemetry=telemetry,
            limits=limits,
            sandbox=sandbox,
            writes=writes,
            require=tuple(require),
            workspace=workspace,
            read_only=read_only,
            on_progress=on_progress,
        )
        said = chosen_controls(controls, given)
        self._controls = replace(
            said.keeping(self.kept_in),
            project=said.project or Path.cwd,
            roots=self.named_roots,
        )
        caller = AwaitedCaller(self.acall, lambda: self._executor)
        self._library = SkillLibrary(
            self.roots,
            Index(cache_directory() if cache else None),
            caller,
            named=bool(named),
            stages=LaterStages(
                complete=_with_asks,
                machine=InstalledPrograms(runs_typescript=_runs_typescript),
                refusals=Refusals(
                    said.policy,
                    grants=said.grants,
                    asks=said.approver is not None,
                    sandbox=said.sandbox,
                    workspace=None if said.workspace is None else Path(said.workspace),
                ),
                disclosure=_disclosure_tools,
            ),
        )
        undo = tools_to_undo(self._controls) if undo_tools else ()
        self.source = ToolOverlay(self._library, undo, caller=caller)
        self._library.own = made_once(
            partial(_own_tools, self.source if builtins else None, self if define_tools else None)
        )
        if define_tools:
            self._library.own()  # resolves its folder now: a link made later is not followed
        self._library.discloses = disclosure

    @cached_property
    def _executor(self) -> "ToolExecutor":
        # Imported here, so that finding and listing skills does not load what runs them.
        from skillpouch.executor import ToolExecutor

        return ToolExecutor(self.source, controls=self._controls)

    @property
    def executor(self) -> "ToolExecutor":
        """The executor that runs every call of these tools."""
        return self._executor

    def change_runner(self) -> ChangeRunner:
        return self._executor.change_runner()

    def job_runner(self) -> "JobRunner":
        return self._executor.job_runner()

    def kept_in(self, workspace: Path) -> tuple[Path, ...]:
        """Return the folders of skills inside a workspace, which no tool may write."""
        return self._library.kept_in(workspace)

    def discover(self) -> None:
        """Walk the roots and read frontmatter only; the second time, only what has changed."""
        self._library.discover()

    async def adiscover(self) -> None:
        """Do what `discover` does, without blocking the event loop."""
        await _in_thread(self.discover)

    @overload
    def list_skills(self, include_qualified: Literal[False] = False) -> list[Skill]: ...
    @overload
    def list_skills(self, include_qualified: Literal[True]) -> list[str]: ...
    def list_skills(self, include_qualified: bool = False) -> list[Skill] | list[str]:
        """Return the skills; with `include_qualified`, every name that finds one instead."""
        catalogue = self._library.current
        return list(catalogue.names()) if include_qualified else list(catalogue.skills.values())

    def get_skill(self, name: str) -> Skill:
        """Find a skill by name, by `plugin:skill`, or by its bare name when only one has it."""
        with self._hints():
            return self._library.current.skill(name)

    def load_skill(self, name: str) -> Skill:
        """Find a skill and read its body now, so that a later change does not matter."""
        with self._hints():
            return self._library.current.loaded(name)

    def invoke_skill(self, name: str, arguments: str = "") -> str:
        """Return what an agent is given to use the skill: instructions, folder, files."""
        # Imported here: most managers call tools, and their callers read no skill.
        from skillpouch.builtins.disclosure.activation import activate

        return activate(self.load_skill(name), arguments)

    async def ainvoke_skill(self, name: str, arguments: str = "") -> str:
        """Do what `invoke_skill` does, without blocking the event loop."""
        return await _in_thread(self.invoke_skill, name, arguments)

    def get_skill_tools(self, name: str) -> list[Tool]:
        """Return the tools of one skill, in order; its scripts are read when first asked for."""
        return self._library.current.tools_of([self.get_skill(name)])

    def get_tool(self, name: str) -> Tool:
        """Find a tool by id, wire name, or bare name when it is unique."""
        with self._hints():
            return self.source.owner_of(name) or self._library.current.tool(name)

    @contextmanager
    def _hints(self) -> Iterator[None]:
        """Add this manager's roots to the commands in the hints of errors."""
        try:
            yield
        except SkillpouchError as error:
            error.look_below(self.named_roots)
            raise

    def call(  # noqa: PLR0913 - as an executor takes them
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: "OnOutput | None" = None,
        on_step: "OnStep | None" = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        """Run a tool by id, wire name or bare name, confined, and return what it gave.

        `writes="staged"` keeps what it changes until you `apply` it: a preview.
        """
        return self._executor.execute_sync(
            tool,
            arguments,
            stdin,
            timeout=timeout,
            on_output=on_output,
            on_step=on_step,
            writes=writes,
        )

    async def acall(  # noqa: PLR0913 - as an executor takes them
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: "OnOutput | None" = None,
        on_step: "OnStep | None" = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        """Do what `call` does, without blocking the event loop."""
        return await self._executor.execute(
            tool,
            arguments,
            stdin,
            timeout=timeout,
            on_output=on_output,
            on_step=on_step,
            writes=writes,
        )

    def call_line(  # noqa: PLR0913 - as an executor takes them
        self,
        skill: str,
        line: str,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: "OnOutput | None" = None,
        on_step: "OnStep | None" = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        """Run a usage line of a skill, such as `python scripts/x.py --in a`, as a typed call.

        No shell runs: what is more than a call of one script raises InvalidArgumentsError.
        """
        tool, arguments = call_of_line(skill, self.get_skill_tools(skill), line)
        return self.call(
            tool.id,
            arguments,
            stdin,
            timeout=timeout,
            on_output=on_output,
            on_step=on_step,
            writes=writes,
        )

    async def acall_line(  # noqa: PLR0913 - as an executor takes them
        self,
        skill: str,
        line: str,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: "OnOutput | None" = None,
        on_step: "OnStep | None" = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        """Do what `call_line` does, without blocking the event loop."""
        tools = await _in_thread(self.get_skill_tools, skill)
        tool, arguments = call_of_line(skill, tools, line)
        return await self.acall(
            tool.id,
            arguments,
            stdin,
            timeout=timeout,
            on_output=on_output,
            on_step=on_step,
            writes=writes,
        )

    def execute_skill_script(
        self,
        skill_name: str,
        script_path: str | os.PathLike[str],
        arguments: Any = None,
        timeout: float | None = None,
    ) -> ToolResult:
        """Run one script of a skill by its path, such as `scripts/extract.py`."""
        tool = self._library.current.tool_of_script(skill_name, os.fspath(script_path))
        return self.call(tool.id, script_arguments(tool, arguments), timeout=timeout)

    async def execute_skill_script_async(
        self,
        skill_name: str,
        script_path: str | os.PathLike[str],
        arguments: Any = None,
        timeout: float | None = None,
    ) -> ToolResult:
        """Do what `execute_skill_script` does, without blocking the event loop."""
        catalogue = await _in_thread(lambda: self._library.current)
        tool = await _in_thread(catalogue.tool_of_script, skill_name, os.fspath(script_path))
        return await self.acall(tool.id, script_arguments(tool, arguments), timeout=timeout)

    def watch(
        self,
        on_change: "OnChange | None" = None,
        *,
        polling: bool | None = None,
        poll_seconds: float = 0.2,
        settle_seconds: float = 0.05,
        missing_seconds: float = 0.5,
    ) -> "SkillWatcher":
        """Follow changes on disk; use what this returns in `with` or `async with`.

        `on_change` is called with the skills that were added, changed and removed. By default the
        operating system reports changes, if the package watchfiles is installed; `polling=True`
        looks for them at intervals instead.
        """
        from skillpouch.discovery.watching.watcher import SkillWatcher, Timing

        timing = Timing(
            poll_seconds=poll_seconds,
            settle_seconds=settle_seconds,
            missing_seconds=missing_seconds,
        )
        watcher = SkillWatcher(self._library, polling=polling, timing=timing)
        if on_change is not None:
            watcher.listen(on_change)
        return watcher

    @property
    def tools(self) -> list[Tool]:
        """Skillpouch's own tools, if they are on; then those of every skill, in the order found."""
        return list(self.source)

    @property
    def disclosure_tools(self) -> list[Tool]:
        """The tools with which an agent searches and reads skills; none without skills."""
        return list(self._library.current.disclosure)

    def missing_for(self, name: str) -> list[str]:
        """Return what the frontmatter of a skill requires and this machine lacks."""
        catalogue = self._library.current
        return catalogue.missing_for(catalogue.skill(name))

    @property
    def problems(self) -> list[Problem]:
        """What was found wrong so far: in skills, and in tools that were already read."""
        return self._library.current.problems()

    @property
    def found(self) -> int:
        """How many skill files lie below the roots, shadowed and skipped ones too."""
        return self._library.current.found

    @property
    def skipped(self) -> int:
        """How many skill files could not be read at all; `problems` says why."""
        return self._library.current.skipped


def _absolute(root: str | os.PathLike[str]) -> Path:
    # Links are not resolved: a root that is a link keeps the path that the user knows.
    return Path(os.path.abspath(Path(root).expanduser()))  # noqa: PTH100


def _own_tools(skills: ToolOverlay | None, author: SkillManager | None) -> tuple[Tool, ...]:
    tools = [] if skills is None else workspace_tools(skills)
    return (*tools, *(authoring_tools(author) if author else ()))


async def _in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    # Imported here, so that listing skills does not load asyncio.
    from asyncio import to_thread

    return await to_thread(function, *arguments)


def _with_asks(skill: Skill, read: "SkillTools") -> "SkillTools":
    # Imported here, so that a start with a complete index does not load the declaration readers.
    from skillpouch.trust.call_needs import with_asks

    return with_asks(skill, read)


def _disclosure_tools(
    skills: Mapping[str, Skill], served: "Callable[[], Catalogue]"
) -> Iterable[Tool]:
    # Imported here, so that a manager without disclosure does not load these tools.
    from skillpouch.builtins.disclosure.tools import disclosure_tools

    return disclosure_tools(skills, served)


def _runs_typescript() -> bool:
    # Imported here, so that listing skills without TypeScript does not load what starts programs.
    from skillpouch.execution.zygote_client import node_runs_typescript
    from skillpouch.provision.interpreters import find_program

    return node_runs_typescript(find_program("node"))
