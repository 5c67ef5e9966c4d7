"""`response:` of a declaration: how an answer is read, at once or piece by piece."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from skillpouch.net.http.errors import PlanError

Mode = Literal["buffered", "lines", "ndjson", "sse"]
_MODES: tuple[str, ...] = get_args(Mode)
_KEYS = ("mode", "event", "until", "max_bytes", "max_events", "idle_timeout_ms")
MOST_EVENTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`event` names the only events that count, `until` is the text of the last piece.

    It is over after `max_events`, where that is declared; past `MOST_EVENTS` it is given up.
    After `idle_seconds` without a byte the answer is given up; None: only the whole time counts.
    """

    mode: Mode = "buffered"
    event: str = ""
    until: str = ""
    max_bytes: int | None = None
    max_events: int | None = None
    idle_seconds: float | None = None


def read_shape(value: Any) -> Shape:
    """Read what a declaration says; raise PlanError for what is no such thing."""
    if value is None:
        return Shape()
    if isinstance(value, str):
        value = {"mode": value}
    if not isinstance(value, Mapping):
        raise PlanError("it is not a mapping", "response")
    if unknown := sorted(set(value) - set(_KEYS)):
        raise PlanError(f"{unknown[0]!r:.60} is not one of {', '.join(_KEYS)}", "response")
    mode = value.get("mode", "buffered")
    if mode not in _MODES:
        raise PlanError(f"mode {mode!r:.60} is not one of {', '.join(_MODES)}", "response")
    idle, most = _number(value, "idle_timeout_ms"), _number(value, "max_events")
    return Shape(
        mode=mode,
        event=_text(value, "event"),
        until=_text(value, "until"),
        max_bytes=_number(value, "max_bytes"),
        max_events=None if most is None else min(most, MOST_EVENTS),
        idle_seconds=None if idle is None else idle / 1000,
    )


def _number(value: Mapping[str, Any], key: str) -> int | None:
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise PlanError(f"{key} is {found!r:.60}, not a number above 0", "response")
    return found


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key, "")
    if not isinstance(found, str):
        raise PlanError(f"{key} is a {type(found).__name__}, not text", "response")
    return found
