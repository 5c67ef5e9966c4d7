"""The options that choose calls of the journal, and the moments that people name."""

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, get_args

import click

from skillpouch.journal.reading import Query
from skillpouch.results import Outcome

_Command = TypeVar("_Command", bound=Callable[..., Any])
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])\Z")
_OUTCOMES = (*get_args(Outcome), "not_started", "running", "interrupted", "elsewhere")

_HOW = f"Calls that ended so: {', '.join(_OUTCOMES)}."


class Moment(click.ParamType[int]):
    """A moment: how long ago (`90s`, `2h`, `7d`) or when (`2026-11-01`, `2026-11-01T09:30`)."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return nanoseconds since 1970; a time without a zone is local."""
        if isinstance(value, int):
            return value
        ago = _AGO.match(value.strip())
        if ago:
            return _within(time.time_ns() - int(float(ago[1]) * _UNITS[ago[2]] * 1e9))
        try:
            moment = datetime.fromisoformat(value.strip()).astimezone()
            return _within(int(moment.timestamp()) * 10**9)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value!r} is no time: say 2h, 7d, 2026-11-01 or 2026-11-01T09:30", param, ctx
            )


def _within(moment_ns: int) -> int:
    """Return a moment that SQLite can hold: there are no calls before 1970."""
    return max(0, min(moment_ns, 2**62))


_OPTIONS = (
    click.option("--tool", metavar="ID", help="Calls of this tool; * stands for any text."),
    click.option("--skill", metavar="NAME", help="Calls of this skill's tools."),
    click.option("--session", metavar="ID", help="Calls of this session."),
    click.option("--outcome", type=click.Choice(_OUTCOMES), metavar="NAME", help=_HOW),
    click.option("--since", "since_ns", type=Moment(), metavar="WHEN", help="2h, 7d, 2026-11-01."),
    click.option("--until", "until_ns", type=Moment(), metavar="WHEN", help="Calls before then."),
)


def filter_options(command: _Command) -> _Command:
    """Add the options; the command gets their values as keywords, for `query_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def query_of(filters: dict[str, Any]) -> Query:
    """Return the query that the options make."""
    return Query(**{name: value for name, value in filters.items() if value is not None})
