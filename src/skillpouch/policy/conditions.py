"""Conditions of a rule about arguments; in doubt they count against the call."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol
from unicodedata import normalize

from skillpouch.arguments import takes_data
from skillpouch.calls import ToolCall
from skillpouch.policy.patterns import matcher, spellings
from skillpouch.tools import Binary, InlineScript

_LONGEST = 1 << 20
# Bytes of a compiled pattern: one that needs more takes long, and no person writes it.
_LARGEST_REGEX = 1 << 18


class ValueTest(Protocol):
    """A question about one value."""

    def holds(self, value: Any, *, cautious: bool) -> bool: ...


@dataclass(frozen=True, slots=True)
class Equals:
    """The same JSON value: `1` equals `1.0`, but not `true`.

    Values that only look the same are in doubt: `1` and `"1"`, or two spellings of a path or text.
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
    """A text, or the text of a number, that fits a pattern of `*` and `?`."""

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
    """Tell whether a text fits: with `cautious` in one of its spellings, otherwise in all."""
    found = bool(fits(text))
    # Other spellings are only tried if they can still change the answer.
    if found is cautious:
        return found
    answers = map(fits, spellings(text))
    return any(answers) if cautious else all(answers)


def _is_written_alike(expected: Any, value: Any) -> bool:
    """Tell whether a text and a value of another type are the same word on a command line."""
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
    """Return a value as text, or None if it has no text that can be tested."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST and _is_unicode(value) else None
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:  # Python writes no integer of more than 4,300 digits
            return None
    return None


def _is_unicode(text: str) -> bool:
    # The regular expressions cannot read lone surrogates.
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
            f"{shown!r} is not a regular expression that Skillpouch supports: no lookaround, "
            "no backreference, balanced brackets, no huge repetition"
        ) from None


_PART = re.compile(r"((?:\\.|[^.\\])+)(?:\.|\Z)", re.DOTALL)
# Testing more values would delay the call: then the condition is in doubt.
_MOST_VALUES = 10_000
_PLAIN = (str, int, float, bool)


# Arguments that programs may read differently: every condition on them is in doubt.
UNREADABLE: Mapping[str, Any] = MappingProxyType({})


class FilledArguments(dict[str, Any]):
    """Arguments with defaults for missing ones; `given` are those that the caller passed."""

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        super().__init__({**defaults, **given})
        self.given = given


@dataclass(frozen=True, slots=True)
class Present:
    """The argument was passed, with any value."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The argument was not passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    r"""`argument` is a key, `a.b` a key of a key; a dot in a key itself is written `\.`."""

    argument: str
    test: ValueTest | Present | Absent
    path: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _path(self.argument))

    def holds(self, arguments: Mapping[str, Any], *, cautious: bool) -> bool:
        """Tell whether the condition holds; in doubt it holds if `cautious`.

        Rules that refuse are cautious, rules that allow are not.
        """
        test, path = self.test, self.path
        if arguments is UNREADABLE:
            return cautious
        # The usual case, a plain value under a plain key, is much faster than what follows.
        value = arguments.get(path[0])
        if len(path) == 1 and type(value) in _PLAIN and not isinstance(test, Present | Absent):
            return test.holds(value, cautious=cautious)
        if isinstance(test, Present | Absent) and isinstance(arguments, FilledArguments):
            arguments = arguments.given
        found = _found(arguments, path)
        if found is None:
            return cautious
        if isinstance(test, Present):
            return bool(found)
        if isinstance(test, Absent):
            return not found
        return _all_or_any([_holds(test, value, cautious) for value in found], cautious)


def _path(argument: str) -> tuple[str, ...]:
    parts = _PART.findall(argument)
    if not parts or sum(map(len, parts)) + len(parts) - 1 != len(argument):
        raise ValueError(f"{argument!r} names no argument: write a key, or keys like 'a.b'")
    return tuple(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts)


def _found(arguments: Mapping[str, Any], path: tuple[str, ...]) -> list[Any] | None:
    """Return every value the path leads to, through the lists on the way.

    None when that is in doubt: too many, or a text on the way.
    """
    values: list[Any] = [arguments]
    for part in path:
        inner = _leaves(values)
        if inner is None or any(isinstance(item, str) for item in inner):
            return None
        values = [item[part] for item in inner if isinstance(item, Mapping) and part in item]
    return values


def _holds(test: ValueTest, value: Any, cautious: bool) -> bool:
    if not isinstance(value, list | tuple):
        return test.holds(value, cautious=cautious)
    if isinstance(test, Equals) and test.holds(value, cautious=cautious):
        return True
    leaves = _leaves(value)
    if leaves is None:
        return cautious
    return _all_or_any([test.holds(leaf, cautious=cautious) for leaf in leaves], cautious)


def _all_or_any(answers: list[bool], cautious: bool) -> bool:
    return any(answers) if cautious else bool(answers) and all(answers)


def _leaves(values: list[Any] | tuple[Any, ...]) -> list[Any] | None:
    """Return the values in nested lists; None if there are too many, or a list contains itself."""
    leaves: list[Any] = []
    waiting = [values]
    for _ in range(_MOST_VALUES):
        if not waiting:
            return leaves
        for value in waiting.pop():
            (waiting if isinstance(value, list | tuple) else leaves).append(value)
        if len(leaves) + len(waiting) > _MOST_VALUES:
            return None
    return None


class _AmbiguousError(ValueError):
    """A text that two programs may read differently."""


def readings(call: ToolCall) -> Iterator[Mapping[str, Any]]:
    """Yield the arguments as they are delivered, then other ways in which a tool may read them."""
    arguments = _opened(call)
    yield arguments
    filled = _defaults(call.tool.input_schema, arguments)
    if filled:
        yield FilledArguments(arguments, filled)
    if call.stdin is not None and _takes_input_for_arguments(call):
        yield _input(call)


def _opened(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments, with text that a script reads as a JSON object decoded."""
    arguments = call.arguments
    data = arguments.get("data")
    # `skillpouch.backends.delivery` passes such a text unchanged on standard input.
    if not isinstance(data, str) or not data.lstrip().startswith("{"):
        return arguments
    if call.tool.convention != "stdin" or not takes_data(call.tool):
        return arguments
    try:
        return {**arguments, "data": _decode(data)}
    except _AmbiguousError:
        return UNREADABLE
    except (ValueError, RecursionError):
        return arguments


def _defaults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults that the schema declares for missing arguments."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: about["default"]
        for name, about in properties.items()
        if isinstance(about, Mapping) and "default" in about and name not in arguments
    }


def _takes_input_for_arguments(call: ToolCall) -> bool:
    runs = call.tool.runs
    if isinstance(runs, Binary):
        return runs.args_template is None
    return isinstance(runs, InlineScript) or call.tool.convention == "stdin"


def _input(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments that a script would read from standard input."""
    given = call.stdin or b""
    if not given.strip():
        return {}
    try:
        # Programs differ about a byte order mark, other encodings, and more than one value.
        value = _decode(given.decode("utf-8"))
    except (ValueError, RecursionError):
        return UNREADABLE
    if takes_data(call.tool):
        return {"data": value}
    return value if isinstance(value, dict) else UNREADABLE


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _AmbiguousError("a key appears twice")
    return found


_decode = json.JSONDecoder(object_pairs_hook=_once).decode
