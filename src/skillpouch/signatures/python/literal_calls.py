"""The few functions and methods whose result is certain when their arguments are."""

from collections.abc import Callable
from typing import Any

from skillpouch.signatures.python.literal_operators import LONGEST_VALUE
from skillpouch.signatures.python.literals import items_of
from skillpouch.signatures.python.values import UNKNOWN

_STRING_METHODS: dict[str, Callable[..., str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "title": str.title,
    "capitalize": str.capitalize,
    "strip": str.strip,
}


def call_builtin(name: str, arguments: list[Any]) -> Any:
    """Return what `list(x)`, `sorted(x)`, `range(3)` … give, UNKNOWN for anything else."""
    if name == "range" and all(type(argument) is int for argument in arguments):
        try:
            return range(*arguments)
        except (TypeError, ValueError):
            return UNKNOWN
    sequences = [items_of(argument) for argument in arguments]
    known = [sequence for sequence in sequences if sequence is not None]
    if not known or len(known) < len(sequences):
        return UNKNOWN
    builder = _BUILDERS.get(name)
    return builder(known) if builder else UNKNOWN


def call_method(owner: Any, method: str, arguments: list[Any]) -> Any:
    """Return what a method of a known string, list or dict gives, UNKNOWN for anything else."""
    if isinstance(owner, str):
        return _call_string_method(owner, method, arguments)
    if isinstance(owner, list | dict) and method == "copy":
        return owner.copy()
    return _dict_view(owner, method) if isinstance(owner, dict) and not arguments else UNKNOWN


def _call_string_method(owner: str, method: str, arguments: list[Any]) -> Any:
    if method in _STRING_METHODS and not arguments:
        return _STRING_METHODS[method](owner)
    if method == "split" and all(isinstance(part, str) and part for part in arguments[:1]):
        return owner.split(*arguments[:1])
    if method == "join" and len(arguments) == 1:
        return _join(owner, items_of(arguments[0]))
    return UNKNOWN


def _dict_view(owner: dict[Any, Any], method: str) -> Any:
    if method == "keys":
        return list(owner)
    if method == "values":
        return list(owner.values())
    if method == "items":
        return list(owner.items())
    return UNKNOWN


def _join(separator: str, parts: list[Any] | None) -> Any:
    if parts is None or not all(isinstance(part, str) for part in parts):
        return UNKNOWN
    if sum(map(len, parts)) + len(separator) * len(parts) > LONGEST_VALUE:
        return UNKNOWN
    return separator.join(parts)


def _same(known: list[list[Any]]) -> Any:
    return known[0]


def _tuple(known: list[list[Any]]) -> Any:
    return tuple(known[0])


def _sorted(known: list[list[Any]]) -> Any:
    try:
        return sorted(known[0])
    except TypeError:
        return UNKNOWN


def _unique(known: list[list[Any]]) -> Any:
    try:
        return list(dict.fromkeys(known[0]))
    except TypeError:
        return UNKNOWN


def _length(known: list[list[Any]]) -> Any:
    return len(known[0])


def _enumerate(known: list[list[Any]]) -> Any:
    return list(enumerate(known[0]))


def _zip(known: list[list[Any]]) -> Any:
    return list(zip(*known, strict=False))


def _reversed(known: list[list[Any]]) -> Any:
    return known[0][::-1]


_BUILDERS: dict[str, Callable[[list[list[Any]]], Any]] = {
    "list": _same,
    "tuple": _tuple,
    "iter": _same,
    "sorted": _sorted,
    "set": _unique,
    "frozenset": _unique,
    "len": _length,
    "enumerate": _enumerate,
    "zip": _zip,
    "reversed": _reversed,
}
