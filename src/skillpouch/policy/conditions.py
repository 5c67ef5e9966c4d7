"""Conditions on arguments: which value is meant, and what must be true of it.

`a.b` is the key `b` of what is under `a`. Lists are looked into: a rule that refuses minds any
element, a rule that allows minds all of them. A text where keys were meant is in doubt: the tool
may read an object in it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from skillpouch.policy.argument_tests import Equals, ValueTest

_PART = re.compile(r"((?:\\.|[^.\\])+)(?:\.|\Z)", re.DOTALL)
# Past this many values a call would wait for its policy: in doubt, the cautious answer.
_MOST_VALUES = 10_000
_PLAIN = (str, int, float, bool)


# Arguments of which nobody can say what a tool will read in them: each condition is in doubt.
UNREADABLE: Mapping[str, Any] = MappingProxyType({})


class Filled(dict[str, Any]):
    """Arguments with the defaults of those that were left out; `given` are those that were not."""

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        super().__init__({**defaults, **given})
        self.given = given


@dataclass(frozen=True, slots=True)
class Present:
    """The argument was given, whatever it is."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The argument was not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    r"""`argument` is a key, `a.b` a key of a key; a dot in a key itself is written `\.`."""

    argument: str
    test: ValueTest | Present | Absent
    path: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _path(self.argument))

    def holds(self, arguments: Mapping[str, Any], *, cautious: bool) -> bool:
        """Tell whether it is so. `cautious`: a yes refuses, and doubt counts as a yes."""
        test, path = self.test, self.path
        if arguments is UNREADABLE:
            return cautious
        # Nearly always a plain value under a plain key, and much faster than what follows.
        value = arguments.get(path[0])
        if len(path) == 1 and type(value) in _PLAIN and not isinstance(test, Present | Absent):
            return test.holds(value, cautious=cautious)
        if isinstance(test, Present | Absent) and isinstance(arguments, Filled):
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
    """Return what is in nested lists; None when that is too much, or has no end."""
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
