"""ScriptedToolBuilder: chooses tools, functions of the host as commands, limits and engine."""

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import CoroutineType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, Self

from skillpouch.backends.function import answered, run_function
from skillpouch.calls import ToolCall
from skillpouch.environment import secret_variables
from skillpouch.errors import UnknownToolError
from skillpouch.executor import ToolExecutor
from skillpouch.results import ToolResult
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.secrets.redaction import Redactor
from skillpouch.secrets.shapes import find_shaped
from skillpouch.shell.call_log import OnStatus
from skillpouch.shell.errors import CommandNameError, ToolError
from skillpouch.shell.inproc_engine import is_immediate
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.toolbox import ToolArgs, Toolbox, ToolCallback, ToolDef
from skillpouch.shell.usage import check_command_name
from skillpouch.signatures.signature import JsonSchema
from skillpouch.text import clean
from skillpouch.tools import Function, Hosted, Tool, is_wire_name, wire_name

if TYPE_CHECKING:
    from skillpouch.policy.approval import Approver
    from skillpouch.policy.policy import Policy
    from skillpouch.shell.scripted_tool import ScriptedTool


_LONGEST = 4_000
_SHORTEST_VALUE = 8  # a shorter one is found in ordinary words
_HIDDEN = "[redacted]"


def without_secrets(words: str) -> str:
    """Return words without what the host's variables keep secret, and what looks like a key."""
    words = words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
    values = {
        name: value for name, value in secret_variables().items() if len(value) >= _SHORTEST_VALUE
    }
    words = Redactor(values).text(words)
    return _without(words, ((found.start, found.end) for found in find_shaped(words)))


def _without(text: str, stretches: Iterable[tuple[int, int]]) -> str:
    for start, end in sorted(stretches, reverse=True):
        text = f"{text[:start]}{_HIDDEN}{text[end:]}"
    return text


_ANY = ["string", "number", "boolean", "object", "array", "null"]


class CallbackTools:
    """Makes the tool of a callback when it is first called: most of five hundred never are."""

    def __init__(self, callbacks: Mapping[str, tuple[ToolDef, ToolCallback]]) -> None:
        self._callbacks = callbacks
        self._tools: dict[str, Tool] = {}

    def get(self, name: str) -> Tool:
        found = self._tools.get(name)
        if found is None:
            if name not in self._callbacks:
                raise UnknownToolError(name, known=self._callbacks)
            found = self._tools[name] = callback_tool(*self._callbacks[name])
        return found


def callback_tool(definition: ToolDef, callback: ToolCallback) -> Tool:
    """Return the tool that calls a function of the host with ToolArgs."""
    where = getattr(callback, "__qualname__", type(callback).__name__)
    return Tool(
        id=definition.name,
        name=wire_name("", definition.name, declared=True),
        skill="",
        description=definition.description,
        input_schema=_open(definition.input_schema),
        output_schema=definition.output_schema,
        runs=Hosted(
            what=f"the function {where}",
            run=partial(_run, callback, is_async(callback)),
        ),
        effects=definition.effects,
        examples=definition.examples,
        declared_in="function",
        read_by="declaration",
    )


def _open(schema: JsonSchema) -> JsonSchema:
    """Return a schema that says what `data` is: alone and unknown it would be taken for all."""
    properties = schema.get("properties", {})
    if "data" in properties or schema.get("additionalProperties") is False:
        return schema
    return {"type": "object", **schema, "properties": {**properties, "data": {"type": _ANY}}}


async def _run(callback: ToolCallback, waits: bool, call: ToolCall) -> ToolResult:
    stdin = None if call.stdin is None else call.stdin.decode("utf-8", "replace")
    arguments = ToolArgs(call.arguments, stdin)
    started = time.monotonic()
    if is_immediate.get() and not waits:
        is_immediate.set(False)  # what the callback calls is no part of this
        value = _answer(callback, arguments)
        # Nobody could tell that it would have to be awaited: here nothing can wait but a thread.
        if type(value) is CoroutineType:
            value = run_blocking(value)
        ran = answered(call, value, started)
    else:
        answer = _answer_async if waits else _answer

        def answered_by_callback(**_same_arguments: Any) -> Any:
            return answer(callback, arguments)

        ran = await run_function(call, Function(call=answered_by_callback, is_async=waits))
    if not ran.tool:  # it raised, and its words are what a script is told
        took = round((time.monotonic() - started) * 1000, 3)
        return replace(ran, tool=call.tool.id, duration_ms=took)
    return ran


def is_async(callback: ToolCallback) -> bool:
    """Tell whether a callback is a coroutine function, or an object that is called like one."""
    if isinstance(callback, FunctionType) and not callback.__dict__:
        # All that `inspect` would look at, in a fifth of its time: a tool may have 500 commands.
        return bool(callback.__code__.co_flags & inspect.CO_COROUTINE)
    if inspect.iscoroutinefunction(callback):
        return True
    if isinstance(callback, FunctionType):
        return False
    call = getattr(callback, "__call__", None)  # noqa: B004 - its method, not whether it has one
    return inspect.iscoroutinefunction(call)


def _answer(callback: ToolCallback, arguments: ToolArgs) -> Any:
    try:
        answer = callback(arguments)
    except BaseException as error:  # a callback may raise anything: it is its answer
        if _is_persons(error):
            raise
        return _failure(error)
    # Text is what most of them give, and to tell that it cannot be awaited takes as long as they.
    return answer if type(answer) is str or not inspect.isawaitable(answer) else _awaited(answer)


async def _answer_async(callback: ToolCallback, arguments: ToolArgs) -> Any:
    return await _awaited(callback(arguments))


async def _awaited(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except BaseException as error:
        if _is_cancelled() or _is_persons(error):
            raise
        return _failure(error)


def _is_cancelled() -> bool:
    """Tell whether the call itself is cancelled; a callback may raise CancelledError on its own."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _is_persons(error: BaseException) -> bool:
    """Tell Ctrl-C, which only the main thread hears, from a callback that raises the like."""
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and is_main


def _failure(error: BaseException) -> ToolResult:
    """Return what a script is told: the words of the error, never where it happened."""
    message = without_secrets(str(error) or type(error).__name__)
    code, hint = (error.code, error.hint) if isinstance(error, ToolError) else (1, "")
    hint = without_secrets(hint)
    said = f"{message}\nhint: {hint}" if hint else message
    said = said.encode("utf-8", "replace").decode()
    return ToolResult(
        tool="",
        outcome="failed",
        content=clean(said),
        structured={"error": message, **({"hint": hint} if hint else {})},
        exit_code=code & 255 or 1,
        stderr=f"{said}\n",
        code="tool_error" if isinstance(error, ToolError) else None,
    )


EngineKind = Literal["worker", "inproc"]


class ScriptedToolBuilder:
    """Made by `ScriptedTool.builder(name)`; every method returns the builder itself."""

    def __init__(self, name: str, engine: EngineKind = "worker") -> None:
        if not is_wire_name(name):
            raise CommandNameError(name, "use only letters, digits, '_' and '-'")
        if engine not in ("worker", "inproc"):
            raise ValueError(f"engine is {engine!r}: use 'worker' or 'inproc'")
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
            raise CommandNameError(definition.name, "a command of this name already exists")
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
        self._policy = policy
        self._approver = approver or self._approver
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
        toolbox = Toolbox(
            offered=lambda: definitions,
            executor=ToolExecutor(
                source, policy=self._policy, approver=self._approver, journal=self._journal
            ),
            tool=source.get,
            immediate=self._immediate(),
            only_functions=True,
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
