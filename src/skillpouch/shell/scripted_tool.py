"""ScriptedTool: one bash script in place of many calls, with every tool a command."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from skillpouch.calls import ToolCall
from skillpouch.results import ToolResult
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.runtime.memoize import Shared
from skillpouch.shell.builder import EngineKind, ScriptedToolBuilder
from skillpouch.shell.call_log import OnStatus
from skillpouch.shell.engine import Cancellation, EngineCrashedError, ShellEngine
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.prompt import help_page, system_prompt
from skillpouch.shell.responses import (
    RESPONSE_SCHEMA,
    ToolResponse,
    response_of,
    result_of,
    state_of,
    state_token,
    with_time_note,
)
from skillpouch.shell.script_run import Preview, RunOptions, ScriptRun, ScriptSettings, preview_of
from skillpouch.shell.toolbox import Toolbox, ToolDef
from skillpouch.tools import Hosted, Tool

if TYPE_CHECKING:
    from skillpouch.calls import OnStep
    from skillpouch.executor import ToolExecutor
    from skillpouch.shell.skill_commands import CommandSource

_DESCRIBED_TOKENS = 2_000
_INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"commands": {"type": "string", "description": "the bash script to run"}},
    "required": ["commands"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """What a scripted tool is made of."""

    name: str
    toolbox: Toolbox
    about: str = ""
    engine: EngineKind = "worker"
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    env: Mapping[str, str] = field(default_factory=dict)
    on_status: OnStatus | None = None
    state_key: bytes = field(default=b"", repr=False)


class ScriptedTool(Shared):
    """Runs bash scripts whose commands are tools; each script starts from nothing, or a state.

    Made by `builder` from functions of the host, or by `over` from tools that there are already.
    """

    def __init__(self, settings: ToolSettings) -> None:
        self.name = settings.name
        self._toolbox = settings.toolbox
        self._state_key = settings.state_key
        self._settings = ScriptSettings(
            name=settings.name,
            about=settings.about,
            toolbox=settings.toolbox,
            engine=_engine(settings),
            limits=settings.limits,
            env=settings.env,
            on_status=settings.on_status,
        )
        self._scripts = _Scripts()
        self._executor = settings.toolbox.executor.beside(self._scripts)

    @staticmethod
    def builder(name: str, engine: EngineKind = "worker") -> ScriptedToolBuilder:
        """Begin a tool whose commands are functions of the host."""
        return ScriptedToolBuilder(name, engine)

    @classmethod
    def over(
        cls,
        tools: "CommandSource | ToolExecutor",
        *,
        name: str = "script",
        short_description: str = "",
        engine: EngineKind = "worker",
        limits: ExecutionLimits | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "ScriptedTool":
        """Make every tool of a manager, an executor or a session a command.

        `weather.get --city Rome` calls the tool of that id. Tools that come, change or go later,
        also while a script runs, do so in scripts. A session is `sessions.session("its id")`.
        """
        from skillpouch.shell.skill_commands import skill_toolbox

        settings = ToolSettings(
            name=name,
            about=short_description,
            toolbox=skill_toolbox(tools),
            engine=engine,
            limits=limits or ExecutionLimits(),
            env=dict(env or {}),
            state_key=os.urandom(32),
        )
        return cls(settings)

    async def execute(  # noqa: PLR0913 - each is said by name
        self,
        commands: str,
        *,
        state: str | None = None,
        keep_state: bool = False,
        files: Mapping[str, str | bytes] | None = None,
        timeout: float | None = None,
        dry_run: bool = False,
        on_status: OnStatus | None = None,
        on_step: "OnStep | None" = None,
        cancellation: Cancellation | None = None,
    ) -> ToolResponse:
        """Run a script and return what it gave, good or bad.

        `state` goes on from an earlier response that kept its own. `files` are found below /in.
        `timeout` can only lower the tool's own. A `dry_run` calls only what reads. `on_step`
        receives the progress that its tools report. Raises when the script itself may not run.
        """
        options = RunOptions(
            state=None if state is None else state_of(state, self._state_key, self.name),
            keep_state=keep_state,
            files={path: _bytes(data) for path, data in (files or {}).items()},
            dry_run=dry_run,
            on_status=on_status,
            cancellation=cancellation,
        )
        responses: list[ToolResponse] = []
        number = self._scripts.add(self._as_tool(options, responses))
        try:
            result = await self._executor.execute(
                number, {"commands": commands}, timeout=timeout, on_step=on_step
            )
        finally:
            self._scripts.remove(number)
        # A test may replay what another run gave: then nothing ran here.
        return with_time_note(responses[0], result) if responses else response_of(result)

    def execute_sync(self, commands: str, **options: Any) -> ToolResponse:
        """Do what `execute` does and wait: in a notebook, in a thread, after a fork."""
        return run_blocking(self.execute(commands, **options))

    async def analyze(self, commands: str) -> Preview:
        """Tell what a script names, without running it."""
        try:
            found = await self._settings.engine.analyze(commands)
        except EngineCrashedError as error:
            found = {"error": str(error)}
        return preview_of(commands, found, self._toolbox.definitions)

    def analyze_sync(self, commands: str) -> Preview:
        """Do what `analyze` does and wait."""
        return run_blocking(self.analyze(commands))

    def as_tool(self, *, budget: int = _DESCRIBED_TOKENS) -> Tool:
        """Return it as a tool like any other: `ToolRegistry.register(scripted)` does this.

        A model sees the commands in its description, as many as the `budget` of tokens holds.
        """
        return replace(self._as_tool(RunOptions(), []), description=self.system_prompt(budget))

    def _as_tool(self, options: RunOptions, responses: list[ToolResponse]) -> Tool:
        return Tool(
            id=self.name,
            name=self.name,
            skill="",
            description=self.description,
            input_schema=_INPUT_SCHEMA,
            runs=Hosted(
                what="a bash script; each tool it calls is decided by itself",
                run=partial(self._run, options, responses),
                writes_workspace=not self._toolbox.only_functions,
            ),
            effects=("execute",),
            timeout_ms=max(1, round(self._settings.limits.timeout_seconds * 1000)),
            declared_in="function",
            read_by="declaration",
        )

    async def _run(
        self, options: RunOptions, responses: list[ToolResponse], call: ToolCall
    ) -> ToolResult:
        run = ScriptRun(self._settings, options, call.on_step)
        response, state = await run.run(call.arguments["commands"], call.limits.timeout_seconds)
        if state is not None:
            response = replace(response, state=state_token(state, self._state_key, self.name))
        responses[:] = [response]
        return result_of(call, response)

    @property
    def tools(self) -> tuple[ToolDef, ...]:
        """What each command is called and takes."""
        return tuple(self._toolbox.definitions.values())

    @property
    def description(self) -> str:
        """In a line what it is for."""
        count = len(self._toolbox.definitions)
        commands = "one tool is a command" if count == 1 else f"{count} tools are commands"
        words = f"Runs a bash script in which {commands}"
        return f"{self._settings.about}. {words}" if self._settings.about else words

    def system_prompt(self, budget: int | None = None) -> str:
        """Return what a model is told; with a `budget` in tokens, as much as it holds."""
        tools = self.tools
        about = self._settings.about
        return system_prompt(self.name, tools, short_description=about, budget=budget)

    def help(self) -> str:
        """Return what the command `help` prints."""
        return help_page(self.name, self.tools, short_description=self._settings.about)

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what it takes: the script, as `commands`."""
        return _INPUT_SCHEMA

    def output_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of what it gives."""
        return RESPONSE_SCHEMA

    def close(self) -> None:
        """End processes that wait for the next script; another one starts them again."""
        close = getattr(self._settings.engine, "close", None)
        if close is not None:
            close()


class _Scripts:
    """Finds each script that is about to run by a number of its own."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._numbers = count(1)

    def add(self, tool: Tool) -> str:
        number = str(next(self._numbers))
        self._tools[number] = tool
        return number

    def get(self, name: str) -> Tool:
        return self._tools[name]

    def remove(self, number: str) -> None:
        del self._tools[number]


def _engine(settings: ToolSettings) -> ShellEngine:
    if settings.engine == "inproc":
        from skillpouch.shell.inproc_engine import InprocEngine

        return InprocEngine()
    from skillpouch.shell.worker_engine import WorkerEngine
    from skillpouch.shell.worker_pool import engine_folder

    engine_folder()  # what is missing is said when the tool is made
    return WorkerEngine(settings.limits.memory_bytes)


def _bytes(data: str | bytes) -> bytes:
    return data.encode("utf-8", "replace") if isinstance(data, str) else data
