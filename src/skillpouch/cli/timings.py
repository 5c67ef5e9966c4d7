"""Where the time of `skillpouch call` went, as lines for people."""

import os
import time
from pathlib import Path

from skillpouch.results import ToolResult
from skillpouch.runtime.stopwatch import Stopwatch, Timings

_AFTER_THE_PARENTHESIS = 19  # field 22 of /proc/self/stat: when the process started


class CommandWatch:
    """Times what comes before the call itself: starting Skillpouch, reading the skills."""

    def __init__(self) -> None:
        self._started_ms = _milliseconds_so_far()
        self._watch = Stopwatch()

    def lap(self, what: str) -> None:
        self._watch.lap(what)

    def timings_of(self, result: ToolResult) -> Timings:
        start = () if self._started_ms is None else (("start Skillpouch", self._started_ms),)
        return (*start, *self._watch.timings, *result.timings)


def _milliseconds_so_far() -> float | None:
    """Return how long ago this process was started, where the system tells."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[_AFTER_THE_PARENTHESIS]) / os.sysconf("SC_CLK_TCK")
        return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000, 3)
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def timings_as_text(result: ToolResult, timings: Timings) -> str:
    """Return one line for each step, the whole, and how the tool was started."""
    lines = [f"{what:<20} {milliseconds:>9.1f} ms" for what, milliseconds in timings]
    total = sum(milliseconds for _, milliseconds in timings)
    return "\n".join([*lines, f"{'in all':<20} {total:>9.1f} ms   {_how(result)}", ""])


def _how(result: ToolResult) -> str:
    if result.warm:
        return "a process was kept ready, or was made so for the next call"
    return f"started afresh: {result.cold_because}" if result.cold_because else "started afresh"
