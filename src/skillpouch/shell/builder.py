"""ScriptedToolBuilder: says which commands a scripted tool has, and what its scripts may use."""

import os
from typing import TYPE_CHECKING, Literal, Self

from skillpouch.controls import Controls
from skillpouch.executor import ToolExecutor
from skillpouch.shell.call_log import OnStatus
from skillpouch.shell.callbacks import CallbackTools, is_async
from skillpouch.shell.errors import CommandNameError
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.toolbox import Toolbox, ToolCallback, ToolDef
from skillpouch.shell.usage import check_command_name
from skillpouch.tools import is_wire_name

if TYPE_CHECKING:
    from skillpouch.policy.approval import Approver
    from skillpouch.policy.policy import Policy
    from skillpouch.shell.scripted_tool import ScriptedTool

EngineKind = Literal["worker", "inproc"]


class ScriptedToolBuilder:
    """Made by `ScriptedTool.builder(name)`; every method returns the builder itself."""

    def __init__(self, name: str, engine: EngineKind = "worker") -> None:
        if not is_wire_name(name):
            raise CommandNameError(name, "letters, digits, '_' and '-' make the name of a tool")
        if engine not in ("worker", "inproc"):
            raise ValueError(f"engine is {engine!r}: say 'worker' or 'inproc'")
        self._name = name
        self._engine: EngineKind = engine
        self._about = ""
        self._callbacks: dict[str, tuple[ToolDef, ToolCallback]] = {}
        self._env: dict[str, str] = {}
        self._limits = ExecutionLimits()
        self._policy: Policy | None = None
        self._approver: Approver | None = None
        self._journal = True
        self._on_status: OnStatus | None = None
        self._state_key = b""

    def short_description(self, text: str) -> Self:
        """Say in a line what the whole tool is for."""
        self._about = text
        return self

    def tool(self, definition: ToolDef, callback: ToolCallback) -> Self:
        """Add a command. `callback` gets ToolArgs; it may be async; what it returns is printed."""
        if definition.name in self._callbacks:
            raise CommandNameError(definition.name, "there is one of this name already")
        check_command_name(definition.name)
        self._callbacks[definition.name] = definition, callback
        return self

    def env(self, name: str, value: str) -> Self:
        """Set a variable that scripts see. A secret belongs into a callback instead."""
        self._env[name] = value
        return self

    def limits(self, limits: ExecutionLimits) -> Self:
        """Say how much one script may use."""
        self._limits = limits
        return self

    def policy(self, policy: "Policy", approver: "Approver | None" = None) -> Self:
        """Say what may run, and who is asked; otherwise the user's own policy holds."""
        self._policy, self._approver = policy, approver
        return self

    def approver(self, approver: "Approver") -> Self:
        """Say who is asked where the policy wants somebody's yes."""
        self._approver = approver
        return self

    def journal(self, on: bool) -> Self:
        """Record calls, or do not; they are unless this says no."""
        self._journal = on
        return self

    def on_status(self, watcher: OnStatus) -> Self:
        """Tell this function what happens in every script, as it happens."""
        self._on_status = watcher
        return self

    def state_key(self, key: bytes) -> Self:
        """Sign states with this key, so that another process can go on from them."""
        self._state_key = key
        return self

    def _immediate(self) -> frozenset[str]:
        """Return the commands that wait for nothing: who is asked may take any time."""
        if self._approver is not None or self._engine == "worker":
            return frozenset()
        plain = [name for name, (_, callback) in self._callbacks.items() if not is_async(callback)]
        return frozenset(plain)

    def build(self) -> "ScriptedTool":
        """Return the tool; it can be used any number of times, also at once."""
        from skillpouch.shell.scripted_tool import ScriptedTool, ToolSettings

        source = CallbackTools(dict(self._callbacks))
        definitions = {name: definition for name, (definition, _) in self._callbacks.items()}
        controls = Controls(policy=self._policy, approver=self._approver, journal=self._journal)
        toolbox = Toolbox(
            offered=lambda: definitions,
            executor=ToolExecutor(source, controls=controls),
            tool=source.get,
            immediate=self._immediate(),
        )
        return ScriptedTool(
            ToolSettings(
                name=self._name,
                about=self._about,
                toolbox=toolbox,
                engine=self._engine,
                limits=self._limits,
                env=dict(self._env),
                on_status=self._on_status,
                state_key=self._state_key or os.urandom(32),
            )
        )
