"""The result of a tool as a command of a script prints it."""

from kitbag.results import ToolResult
from kitbag.shell.worker.order import Answer

_FATAL = 128  # what a shell adds to the signal that ended a command


def printed(name: str, result: ToolResult) -> Answer:
    """Return output, errors and the exit code; text ends with a line end, as commands' does."""
    stdout = _output(result)
    is_silent = result.outcome == "ok" and not result.stderr
    stderr = "" if is_silent else _errors(name, result)
    if result.truncated:
        stderr += f"note: {name}: its output is too long, and its middle is left out\n"
    return Answer(_whole(_line(stdout)), stderr and _whole(stderr), _exit_code(result))


def _output(result: ToolResult) -> str:
    """Return what the tool printed or returned."""
    if result.outcome != "ok":
        return result.stdout
    # A value that a function returned, and did not print, is not in the output.
    is_returned = result.structured is not None and result.content not in result.stdout
    return result.content if is_returned and result.content else result.stdout or result.content


def _errors(name: str, result: ToolResult) -> str:
    if result.outcome == "ok":
        return _line(result.stderr)
    if result.outcome == "timed_out":
        seconds = result.timeout_seconds
        why = f"timed out after {seconds:g} s" if seconds else "timed out"
        return f"{_line(result.stderr)}{name}: {why}\n"
    said = result.stderr or result.content or result.code or result.outcome
    first = "" if _is_own_text(result) else f"{name}: "
    return _line(f"{first}{said}")


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
