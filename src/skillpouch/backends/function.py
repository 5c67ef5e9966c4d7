"""Runs a Python function of the host as a tool."""

import asyncio
import contextlib
import contextvars
import dataclasses
import inspect
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from skillpouch.calls import ToolCall
from skillpouch.execution.streams import kept_output
from skillpouch.json_values import LARGEST_VALUE, NO_VALUE, json_value
from skillpouch.results import ToolResult, milliseconds
from skillpouch.runtime.idle_threads import run_in_idle_thread
from skillpouch.text import clean
from skillpouch.tools import Function, Hosted

_MOST_CAUSES = 5


class FunctionBackend:
    """Calls Python functions of the host."""

    async def run(self, call: ToolCall) -> ToolResult:
        function = call.tool.runs
        assert isinstance(function, Function)
        return await run_function(call, function)


class HostedBackend:
    """Hands a call to the maker of the tool, such as a scripted tool, which enforces the limits."""

    async def run(self, call: ToolCall) -> ToolResult:
        hosted = call.tool.runs
        assert isinstance(hosted, Hosted)
        return await hosted.run(call)


async def run_function(call: ToolCall, function: Function) -> ToolResult:
    """Call a function; what it returns is the answer, what it raises a failed result."""
    started = time.monotonic()
    limit = call.limits.timeout_seconds
    clock = asyncio.timeout(limit)
    try:
        async with clock:
            value = await _call(function, call.arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a function may raise anything
        if isinstance(error, TimeoutError) and clock.expired():
            words = f"timed out after {limit:g} s"
            return _failed(call, started, "timed_out", words, exit_code=124)
        return _failed(call, started, "failed", _told(error), exit_code=1)
    return answered(call, value, started)


def answered(call: ToolCall, value: Any, started: float) -> ToolResult:
    """Return the result for the value of a function; `started` is a time of the monotonic clock."""
    if isinstance(value, ToolResult):
        return value
    text, structured = (_whole(value), None) if isinstance(value, str) else _written(value)
    # No character takes more than four bytes, so most answers need not be encoded to be measured.
    if len(text) * 4 > call.limits.keep_bytes:
        return _bounded(call, text, structured, started)
    return ToolResult(
        tool=call.tool.id,
        outcome="ok",
        content=clean(text),
        structured=structured,
        exit_code=0,
        stdout=text,
        duration_ms=milliseconds(time.monotonic() - started),
    )


def _bounded(call: ToolCall, text: str, structured: Any, started: float) -> ToolResult:
    """Return the result of a long answer, like that of a program: its ends, and all in a file."""
    data = call.redactor.data(text.encode())
    if call.on_output is not None:
        call.on_output("stdout", data)
    kept = kept_output(call.terms.workspace, "answer", data, call.limits.keep_bytes)
    return ToolResult(
        tool=call.tool.id,
        outcome="ok",
        content=clean(kept.text),
        structured=structured if len(data) <= LARGEST_VALUE else None,
        exit_code=0,
        stdout=kept.text,
        truncated=kept.truncated,
        duration_ms=milliseconds(time.monotonic() - started),
        saved=(kept.saved_to,) if kept.saved_to else (),
    )


async def _call(function: Function, arguments: dict[str, Any]) -> Any:
    if function.is_async:
        return await function.call(**arguments)
    value = await _in_thread(partial(function.call, **arguments))
    return await value if inspect.isawaitable(value) else value


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Run in its own thread: in a pool, functions that call functions could wait for each other."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return  # timed out or cancelled meanwhile
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(work)
        except BaseException as raised:  # noqa: BLE001 - raised in the awaiting task
            # A future cannot hold StopIteration, and SystemExit must not end the loop.
            odd = isinstance(raised, StopIteration | SystemExit | KeyboardInterrupt)
            error = RuntimeError(f"{type(raised).__name__}: {raised}") if odd else raised
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(settle, value, error)

    run_in_idle_thread(run)
    return await future


def _told(error: BaseException) -> str:
    """Return the error and its causes as text."""
    told, seen = list[str](), set[int]()
    found: BaseException | None = error
    while found is not None and id(found) not in seen and len(told) < _MOST_CAUSES:
        seen.add(id(found))
        told.append(f"{type(found).__name__}: {found}")
        found = found.__cause__
    return "\nbecause of ".join(told)


def _written(value: Any) -> tuple[str, Any]:
    """Return an answer that is not text as text, and as the JSON value of that text."""
    if value is None:
        return "", None
    try:
        text = _whole(json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain))
    except (TypeError, ValueError, RecursionError):
        return _whole(str(value)), None
    found = json_value(text)
    return text, None if found is NO_VALUE else found


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _whole(text: str) -> str:
    is_plain = type(text) is str and text.isascii()
    return text if is_plain else str(text).encode("utf-8", "replace").decode()


def _failed(
    call: ToolCall, started: float, outcome: Any, message: str, *, exit_code: int
) -> ToolResult:
    return ToolResult(
        tool=call.tool.id,
        outcome=outcome,
        content=clean(_whole(message)),
        structured={"error": _whole(message)},
        exit_code=exit_code,
        stderr=_whole(message),
        duration_ms=milliseconds(time.monotonic() - started),
        timeout_seconds=call.limits.timeout_seconds,
    )
