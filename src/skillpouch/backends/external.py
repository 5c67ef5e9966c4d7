"""Runs tools by the backends of other packages, under the same limits as every call."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillpouch.calls import OnOutput, ToolCall
from skillpouch.errors import SkillpouchError
from skillpouch.execution.streams import kept_output
from skillpouch.json_values import LARGEST_VALUE, json_text
from skillpouch.results import Captured, Stream, ToolResult
from skillpouch.runtime.entry_points import BACKENDS, load_provided
from skillpouch.text import clean
from skillpouch.tools import External
from skillpouch.workspace.workspace import changed_files, look_at

if TYPE_CHECKING:
    from skillpouch.backends import Backend
    from skillpouch.secrets.redaction import RedactingStream

# How long to wait for a backend that was cancelled; after that it is abandoned.
_PATIENCE_SECONDS = 2.0


class ExternalBackend:
    """Finds the backend that an installed package provides for the `type` of a tool."""

    def __init__(self) -> None:
        self._made: dict[str, Backend] = {}

    async def run(self, call: ToolCall) -> ToolResult:
        runs = call.tool.runs
        assert isinstance(runs, External)
        backend = self._made.get(runs.type)
        if backend is None:
            backend = load_provided(BACKENDS, runs.type, "run", package=runs.package)
            self._made[runs.type] = backend
        return await run_provided(backend, call)


async def run_provided(backend: "Backend", call: ToolCall) -> ToolResult:
    """Run a call by a backend of another package.

    Its time is limited, what it streams is redacted, what it raises is a failed result, and what it
    returns is bounded. A SkillpouchError means that nothing ran, and is raised, unless it repeats a
    secret.
    """
    started = time.monotonic()
    before = look_at(call.terms.workspace)
    call.watch.lap("prepare")
    result = await _heard(backend, call)
    call.watch.lap("run")
    files, complete = changed_files(before)
    result = replace(
        _bounded(call, result),
        tool=call.tool.id,
        files=result.files or files,
        files_complete=complete,
        duration_ms=round((time.monotonic() - started) * 1000, 3),
        timeout_seconds=call.limits.timeout_seconds,
    )
    call.watch.lap("read the answer")
    return result


async def _in_time(backend: "Backend", call: ToolCall) -> ToolResult:
    """Wait no longer than the call may take, even for a backend that ignores its cancellation.

    A caller that cancels the call also waits until the backend has ended.
    """
    limit = call.limits.timeout_seconds
    running = asyncio.create_task(_run(backend, call))
    try:
        await asyncio.wait({running}, timeout=limit)
    except asyncio.CancelledError:
        await _end(running)
        raise
    if not running.done():
        await _end(running)
        words = f"timed out after {limit:g} s"
        return _failed(call, words, outcome="timed_out", exit_code=124, code="timeout")
    return _ended(running, call)


async def _run(backend: "Backend", call: ToolCall) -> Any:
    # Inside the task, so that a result that is not awaitable is a failed result, too.
    return await backend.run(call)


async def _end(running: "asyncio.Future[Any]") -> None:
    running.cancel()
    await asyncio.wait({running}, timeout=_PATIENCE_SECONDS)
    if running.done() and not running.cancelled():
        running.exception()  # retrieved, so that asyncio does not log it later


def _ended(running: "asyncio.Future[Any]", call: ToolCall) -> ToolResult:
    if running.cancelled():
        return _failed(call, "its backend cancelled the call")
    error = running.exception()
    if isinstance(error, SkillpouchError) and not _holds_secret(call, error):
        raise error
    if error is not None:
        return _failed(call, f"{type(error).__name__}: {error}")
    result = running.result()
    if not isinstance(result, ToolResult):
        returned = type(result).__name__
        return _failed(call, f"its backend returned a {returned}, not a ToolResult")
    return result


def _holds_secret(call: ToolCall, error: SkillpouchError) -> bool:
    """Tell whether an error repeats a secret: it is returned as a result then, and redacted."""
    said = f"{error}\n{error.hint}"
    return call.redactor.text(said) != said


def _failed(call: ToolCall, message: str, **facts: Any) -> ToolResult:
    told: dict[str, Any] = {"outcome": "failed", "exit_code": 1, **facts}
    return ToolResult(tool=call.tool.id, content=message, stderr=message, **told)


class _Output:
    """Passes on what a backend streams: without secrets, up to the output limit of the call.

    After the call it passes on nothing, though a backend that was abandoned may go on. An error of
    the caller's own function ends the call, and is raised to the caller.
    """

    def __init__(self, call: ToolCall, on_output: OnOutput) -> None:
        self._on_output = on_output
        self._redactor = call.redactor
        self._left = call.limits.kill_bytes
        self._streams: dict[Stream, RedactingStream] = {}
        self._is_open = True
        self.complaint: Exception | None = None

    def tell(self, stream: Stream, data: bytes) -> None:
        self._left -= len(data)
        if self._is_open and self._left >= 0:
            if stream not in self._streams:
                self._streams[stream] = self._redactor.stream()
            self._show(stream, self._streams[stream].feed(data))

    def close(self) -> None:
        """Pass on what was held back as the possible start of a secret, and nothing later."""
        self._is_open = False
        for stream, each in self._streams.items():
            self._show(stream, each.close())

    def _show(self, stream: Stream, data: bytes) -> None:
        if not data or self.complaint is not None:
            return
        try:
            self._on_output(stream, data)
        except Exception as error:
            self.complaint = error
            raise


async def _heard(backend: "Backend", call: ToolCall) -> ToolResult:
    if call.on_output is None:
        return await _in_time(backend, call)
    output = _Output(call, call.on_output)
    try:
        result = await _in_time(backend, replace(call, on_output=output.tell))
    finally:
        output.close()
    if output.complaint is not None:
        raise output.complaint
    return result


def _bounded(call: ToolCall, result: ToolResult) -> ToolResult:
    """Return the result with long texts cut to the limit of the call; files hold them whole."""
    cut: list[Captured] = []

    def bounded(name: str, text: str) -> str:
        data = text.encode("utf-8", "replace")
        if len(data) > call.limits.keep_bytes:
            data = call.redactor.data(data)
            cut.append(kept_output(call.terms.workspace, name, data, call.limits.keep_bytes))
            return cut[-1].text
        return data.decode()

    hidden = call.redactor.text  # for fields that hold no secret when a backend of ours fills them
    structured, is_whole = _json_or_nothing(result.structured)
    return replace(
        result,
        content=clean(bounded("content", result.content)),
        stdout=bounded("stdout", result.stdout),
        stderr=bounded("stderr", result.stderr),
        structured=structured,
        notes=(),
        truncated=result.truncated or bool(cut) or not is_whole,
        protections={key: hidden(value) for key, value in result.protections.items()},
        saved=(
            *(Path(hidden(str(path))) for path in result.saved),
            *(each.saved_to for each in cut if each.saved_to),
        ),
    )


def _json_or_nothing(value: Any) -> tuple[Any, bool]:
    """Return a value and True if it is JSON and not too large, else None and False."""
    try:
        return (value, True) if len(json_text(value)) <= LARGEST_VALUE else (None, False)
    except (TypeError, ValueError, RecursionError):
        return None, False
