"""Calling a Python function of the host as a tool."""

import asyncio
import json
import time
from typing import Any

from kitbag.calls import ToolCall
from kitbag.hidden_text import clean
from kitbag.results import ToolResult
from kitbag.tools import Function


async def run_function(call: ToolCall, function: Function) -> ToolResult:
    """Call a function; what it returns is the answer, what it raises a failed result."""
    started = time.monotonic()
    limit = call.limits.timeout_seconds
    try:
        async with asyncio.timeout(limit):
            value = await _call(function, call.arguments)
    except TimeoutError:
        return _failed(call, started, "timed_out", f"timed out after {limit:g} s", exit_code=124)
    except Exception as error:  # noqa: BLE001 - a function of the host may raise anything
        return _failed(call, started, "failed", f"{type(error).__name__}: {error}", exit_code=1)
    if isinstance(value, ToolResult):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return ToolResult(
        tool=call.tool.id,
        outcome="ok",
        content=clean("" if value is None else text),
        structured=None if isinstance(value, str) else value,
        exit_code=0,
        stdout="" if value is None else text,
        duration_ms=_milliseconds(started),
    )


async def _call(function: Function, arguments: dict[str, Any]) -> Any:
    if function.is_async:
        return await function.call(**arguments)
    return await asyncio.to_thread(function.call, **arguments)


def _failed(
    call: ToolCall, started: float, outcome: Any, message: str, *, exit_code: int
) -> ToolResult:
    return ToolResult(
        tool=call.tool.id,
        outcome=outcome,
        content=clean(message),
        structured={"error": message},
        exit_code=exit_code,
        stderr=message,
        duration_ms=_milliseconds(started),
        timeout_seconds=call.limits.timeout_seconds,
    )


def _milliseconds(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
