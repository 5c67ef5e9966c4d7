"""The result of a tool as a command of a script prints it: data, and no words for a model."""

from collections.abc import Iterator

from skillpouch.results import ToolResult
from skillpouch.shell.worker.order import Answer

_FATAL = 128  # what a shell adds to the signal that ended a command


def printed(name: str, result: ToolResult) -> Answer:
    """Return output, errors and the exit code; text ends with a line end, as commands' does."""
    is_ok = result.outcome == "ok"
    stdout = result.data if is_ok else result.stdout
    is_silent = is_ok and not result.stderr
    stderr = "" if is_silent else _errors(name, result)
    if result.truncated or result.http:
        stderr += "".join(f"note: {name}: {note}\n" for note in _notes(result))
    return Answer(_whole(_line(stdout)), stderr and _whole(stderr), _exit_code(result))


def _notes(result: ToolResult) -> Iterator[str]:
    """Yield what a script should know about output that is not all there."""
    value = result.structured
    after = value.get("next_offset") if isinstance(value, dict) else None
    if result.truncated and after is not None:
        yield f"this is a part of it; go on with --offset {after}"
    elif result.truncated:
        yield "its output is too long, and a part of it is left out"
    elif result.http and result.saved and not result.stdout:
        yield f"its answer is no text; it is saved as {result.saved[0]}"


def _errors(name: str, result: ToolResult) -> str:
    if result.outcome == "ok":
        return _line(result.stderr)
    if result.outcome == "timed_out":
        seconds = result.timeout_seconds
        why = f"timed out after {seconds:g} s" if seconds else "timed out"
        return f"{_line(result.stderr)}{name}: {why}\n{_line(time_note_in(result))}"
    said = result.stderr or _status(result) or result.content or result.code or result.outcome
    first = "" if _is_own_text(result) else f"{name}: "
    return _line(f"{first}{said}")


def time_note_in(result: ToolResult) -> str:
    """Return what the executor adds last to what ran out of time: who can give it more."""
    note = result.content.rpartition("\n")[2]
    return note if result.outcome == "timed_out" and note.startswith("note: ") else ""


def _status(result: ToolResult) -> str:
    """Return the first line of an answer of a web service: its body is printed already."""
    return result.content.partition("\n")[0] if result.http else ""


def _is_own_text(result: ToolResult) -> bool:
    """Tell whether a process wrote it: what it says is passed on as it is."""
    return bool(result.protections) and bool(result.stderr)


def _exit_code(result: ToolResult) -> int:
    if result.outcome == "timed_out":
        return 124
    if result.exit_code is not None:
        return result.exit_code & 255
    if result.signal:
        return _FATAL + result.signal
    return 0 if result.outcome == "ok" else 1


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _whole(text: str) -> str:
    """Return text that is sure to be UTF-8; the engine refuses halves of characters."""
    is_plain = type(text) is str and text.isascii()
    return text if is_plain else str(text).encode("utf-8", "replace").decode()
