"""What a program did, read as an answer: a value for programs, content for a model."""

import json
from typing import Any

from kitbag.calls import ToolCall
from kitbag.execution.command import Captured, Ended
from kitbag.hidden_text import clean
from kitbag.results import ToolResult
from kitbag.workspace import changed_files

_NOTHING = object()
_JSON_STARTS = tuple('{["-0123456789tfn')


def result_of(call: ToolCall, ended: Ended, *, marker: str, started_ns: int) -> ToolResult:
    """Read the answer of a script; what it returned stands behind the marker."""
    stdout, answer = _split(ended.stdout, marker)
    stderr = ended.stderr.text
    value = answer if answer is not _NOTHING else _json_of(stdout, ended.stdout)
    files, complete = changed_files(call.terms.workspace, started_ns)
    saved = (ended.stdout.saved_to, ended.stderr.saved_to)
    return ToolResult(
        tool=call.tool.id,
        outcome=ended.outcome,
        script=call.tool.origin.removeprefix(f"{call.tool.home}/"),
        content=clean(_content(call, ended, stdout, stderr, answer)),
        structured=None if value is _NOTHING else value,
        exit_code=ended.exit_code,
        stdout=stdout,
        stderr=stderr,
        truncated=ended.stdout.truncated or ended.stderr.truncated,
        duration_ms=round(ended.duration_seconds * 1000, 3),
        protections=ended.protections,
        code=ended.code,
        signal=ended.signal,
        saved=tuple(path for path in saved if path is not None),
        files=files,
        files_complete=complete,
        timeout_seconds=call.limits.timeout_seconds,
    )


def _split(captured: Captured, marker: str) -> tuple[str, Any]:
    """Return what was printed, and the value behind the marker if one is there."""
    printed, found, text = captured.text.rpartition(marker)
    if not found:
        return text, _NOTHING
    try:
        return printed, json.loads(text)
    except ValueError:  # cut in the middle: too long to keep
        return captured.text.replace(marker, ""), _NOTHING


def _json_of(stdout: str, captured: Captured) -> Any:
    if captured.truncated or not stdout.lstrip().startswith(_JSON_STARTS):
        return _NOTHING
    try:
        return json.loads(stdout)
    except (ValueError, RecursionError):
        return _NOTHING


def _content(call: ToolCall, ended: Ended, stdout: str, stderr: str, answer: Any) -> str:
    """Return the answer; of a failure also what went wrong, so that nothing is thrown away."""
    if answer is _NOTHING:
        said = stdout.removesuffix("\n")
    else:
        said = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    if ended.outcome == "ok":
        return said
    parts = [said, stderr.removesuffix("\n"), _why(call, ended)]
    return "\n".join(part for part in parts if part)


def _why(call: ToolCall, ended: Ended) -> str:
    if ended.outcome == "timed_out":
        return f"timed out after {call.limits.timeout_seconds:g} s"
    if ended.code == "output_limit":
        return f"killed: it printed more than {call.limits.kill_bytes:,} bytes"
    if ended.code is not None:
        return f"killed: {ended.code.replace('_', ' ')}"
    if ended.signal is not None:
        return f"killed by signal {ended.signal}"
    return f"exit code {ended.exit_code}"
