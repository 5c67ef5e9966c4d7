"""What a rule can ask about one value among the arguments, always answered and never for long.

In doubt - a value of another type, a text that is too long, a number that is none - the answer
is `cautious`: yes where a yes refuses, no where a yes allows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kitbag.policy.patterns import matcher, spellings

_LONGEST = 1 << 20
# Of the compiled form: a pattern that needs more was not written by a person, and costs time.
_LARGEST_REGEX = 1 << 18


class ValueTest(Protocol):
    """A question about one value."""

    def holds(self, value: Any, *, cautious: bool) -> bool: ...


@dataclass(frozen=True, slots=True)
class Equals:
    """The same JSON value: `1` is `1.0` but neither `true` nor `"1"`."""

    value: Any

    def holds(self, value: Any, *, cautious: bool) -> bool:  # noqa: ARG002 - never in doubt
        return _same(self.value, value)


@dataclass(frozen=True, slots=True)
class Glob:
    """A text, or a number as it is written, that fits a pattern of `*` and `?`."""

    pattern: str
    _fits: Callable[[str], object] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fits", matcher(self.pattern))

    def holds(self, value: Any, *, cautious: bool) -> bool:
        text = text_of(value)
        if text is None:
            return cautious
        fits = bool(self._fits(text))
        # Where the first answer can still be changed by the path that the text comes to.
        if fits is not cautious and "/" in self.pattern:
            found = map(self._fits, spellings(text))
            return any(found) if cautious else all(found)
        return fits


@dataclass(frozen=True, slots=True)
class Regex:
    """A text in which a regular expression is found: no lookaround, no backreference."""

    pattern: str
    _found_in: Callable[[str], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_found_in", _compile(self.pattern))

    def holds(self, value: Any, *, cautious: bool) -> bool:
        text = text_of(value)
        return cautious if text is None else self._found_in(text)


@dataclass(frozen=True, slots=True)
class Greater:
    than: float

    def holds(self, value: Any, *, cautious: bool) -> bool:
        number = _number(value)
        return cautious if number is None else number > self.than


@dataclass(frozen=True, slots=True)
class Less:
    than: float

    def holds(self, value: Any, *, cautious: bool) -> bool:
        number = _number(value)
        return cautious if number is None else number < self.than


def _same(expected: Any, value: Any) -> bool:
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(expected) == len(value)
            and all(map(_same, expected, value))
        )
    if isinstance(expected, dict):
        return (
            isinstance(value, dict)
            and expected.keys() == value.keys()
            and all(_same(expected[key], value[key]) for key in expected)
        )
    if isinstance(value, str | int | float) or value is None:
        return bool(expected == value)
    return False


def text_of(value: Any) -> str | None:
    """Return a value as it is written, or None when it cannot be looked at as text."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST and _is_unicode(value) else None
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:  # Python refuses to write out thousands of digits
            return None
    return None


def _is_unicode(text: str) -> bool:
    # Lone halves of surrogate pairs: the regular expressions cannot look at such a text.
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _number(value: Any) -> float | None:
    if isinstance(value, str) and len(value) <= _LONGEST:
        # Tools without a schema turn text into numbers themselves.
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def _compile(pattern: str) -> Callable[[str], bool]:
    # Python's own expressions can take exponential time; these take linear time, by construction.
    from jsonschema_rs import RegexOptions, validator_for

    try:
        options = RegexOptions(size_limit=_LARGEST_REGEX)
        schema = {"type": "string", "pattern": pattern}
        return validator_for(schema, pattern_options=options).is_valid
    except ValueError:  # its own errors, and those about text that is not Unicode
        shown = pattern if len(pattern) < 80 else f"{pattern[:80]}…"  # noqa: PLR2004 - one line
        raise ValueError(
            f"{shown!r} is no regular expression that Kitbag takes: no lookaround, "
            "no backreference, balanced brackets, no huge repetition"
        ) from None
