"""What a rule can ask about one value among the arguments, always answered and never for long.

In doubt - a value of another type, a text that is too long, a number that is none - the answer
is `cautious`: yes where a yes refuses, no where a yes allows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from unicodedata import normalize

from skillpouch.policy.patterns import matcher, spellings

_LONGEST = 1 << 20
# Of the compiled form: a pattern that needs more was not written by a person, and costs time.
_LARGEST_REGEX = 1 << 18


class ValueTest(Protocol):
    """A question about one value."""

    def holds(self, value: Any, *, cautious: bool) -> bool: ...


@dataclass(frozen=True, slots=True)
class Equals:
    """The same JSON value: `1` is `1.0` and not `true`. `"1"`, which is written alike, is in doubt.

    So is another spelling of the same path or text.
    """

    value: Any

    def holds(self, value: Any, *, cautious: bool) -> bool:
        if _same(self.value, value) or not cautious:
            return _same(self.value, value)
        if isinstance(self.value, str) and isinstance(value, str):
            return not set(spellings(self.value)).isdisjoint(spellings(value))
        return _is_written_alike(self.value, value)


@dataclass(frozen=True, slots=True)
class Glob:
    """A text, or a number as it is written, that fits a pattern of `*` and `?`."""

    pattern: str
    _fits: Callable[[str], object] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fits = [matcher(spelled) for spelled in {self.pattern, normalize("NFC", self.pattern)}]
        either = fits[0] if len(fits) == 1 else lambda text: any(fit(text) for fit in fits)
        object.__setattr__(self, "_fits", either)

    def holds(self, value: Any, *, cautious: bool) -> bool:
        text = text_of(value)
        if text is None:
            return cautious
        return _in_any_spelling(self._fits, text, cautious=cautious)


@dataclass(frozen=True, slots=True)
class Regex:
    """A text in which a regular expression is found: no lookaround, no backreference."""

    pattern: str
    _found_in: Callable[[str], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_found_in", _compile(self.pattern))

    def holds(self, value: Any, *, cautious: bool) -> bool:
        text = text_of(value)
        if text is None:
            return cautious
        return _in_any_spelling(self._found_in, text, cautious=cautious)


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


def _in_any_spelling(fits: Callable[[str], object], text: str, *, cautious: bool) -> bool:
    """Tell whether a text fits: in doubt, in one of its spellings; for certain, in all of them."""
    found = bool(fits(text))
    # Only where the first answer can still be changed by what the text comes to.
    if found is cautious:
        return found
    answers = map(fits, spellings(text))
    return any(answers) if cautious else all(answers)


def _is_written_alike(expected: Any, value: Any) -> bool:
    """Tell whether a text and another value are the same word on a command line."""
    if isinstance(expected, str) is isinstance(value, str):
        return False
    texts = text_of(expected), text_of(value)
    if None in texts:
        return False
    numbers = _number(expected), _number(value)
    is_number = None not in numbers and numbers[0] == numbers[1]
    return is_number or str(texts[0]).strip().casefold() == str(texts[1]).strip().casefold()


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
            f"{shown!r} is no regular expression that Skillpouch takes: no lookaround, "
            "no backreference, balanced brackets, no huge repetition"
        ) from None
