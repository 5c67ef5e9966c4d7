"""A JSON body, parsed before values are known, so a value is only ever a leaf."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from skillpouch.templates.placeholders import (
    ArgumentReference,
    FillError,
    Parts,
    TemplateError,
    filled,
    is_left_out,
    names_in,
    parse_parts,
    variables_in,
)

# A string of the JSON text, or a placeholder outside of all strings.
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|(\$\{[^{}]*\})', re.DOTALL)
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class _Leaf:
    parts: Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonTemplate:
    """`value` is the parsed body; its leaves may still hold placeholders."""

    value: Any
    names: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read JSON text; `${name}` may stand in a string, or bare where a value is expected."""
        quoted = _PIECE.sub(lambda match: f'"{match[1]}"' if match[1] else match[0], text)
        try:
            value = json.loads(quoted, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise TemplateError(f"not JSON: {error.msg}", _original(error.pos, text)) from None
        except (ValueError, RecursionError) as error:
            raise TemplateError(f"not JSON: {error}", 0) from None
        return cls.of(value)

    @classmethod
    def of(cls, value: Any) -> Self:
        """Read a value that is already parsed, as in `body:`; positions are those in its texts."""
        try:
            compiled = _compiled(value)
            every = [part for leaf in _leaves(compiled) for part in leaf.parts]
        except RecursionError:
            raise TemplateError("it is nested too deeply", 0) from None
        return cls(value=compiled, names=names_in(every), variables=variables_in(every))

    def fill(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> Any:
        """Return the body: a leaf that is one placeholder keeps the type of its argument.

        A leaf whose arguments are missing is left out of its object or list; null is a value.
        """
        found = _filled(self.value, arguments, secrets)
        if found is _NOTHING:
            raise FillError(min(self.names), "it is the whole body")
        return found


def _compiled(value: Any) -> Any:
    if isinstance(value, str):
        parts = parse_parts(value)
        plain = "".join(part for part in parts if isinstance(part, str))
        return plain if all(isinstance(part, str) for part in parts) else _Leaf(parts)
    if isinstance(value, Mapping):
        return {_key(key): _compiled(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_compiled(each) for each in value]
    return value


def _key(key: Any) -> str:
    text = str(key)
    if "${" in text:
        raise TemplateError(f"the key {text!r:.60} has a placeholder: only values can", 0)
    return text


def _leaves(value: Any) -> Iterator[_Leaf]:
    if isinstance(value, _Leaf):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _filled(value: Any, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> Any:
    if isinstance(value, _Leaf):
        return _leaf(value.parts, arguments, secrets)
    if isinstance(value, dict):
        pairs = ((key, _filled(each, arguments, secrets)) for key, each in value.items())
        return {key: each for key, each in pairs if each is not _NOTHING}
    if isinstance(value, list):
        items = (_filled(each, arguments, secrets) for each in value)
        return [each for each in items if each is not _NOTHING]
    return value


def _leaf(parts: Parts, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> Any:
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, ArgumentReference):
        return arguments.get(only.name, _NOTHING)
    if is_left_out(parts, arguments):
        return _NOTHING
    return "".join(one.text for one in filled(parts, arguments, secrets))


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON value")


def _original(position: int, text: str) -> int:
    """Convert a position in the text with quoted placeholders to one in the original text."""
    added = 0
    for match in _PIECE.finditer(text):
        if match[1] and match.end() + added < position:
            added += 2
    return min(position - added, len(text))
