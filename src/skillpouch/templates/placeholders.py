"""The parts of a template: text, arguments, variables; and the errors in them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from skillpouch.errors import SkillpouchError


class TemplateError(SkillpouchError):
    """A template that cannot be used; `position` counts characters from 0."""

    code = "template"

    def __init__(self, reason: str, position: int, *, hint: str = "") -> None:
        self.reason = reason
        self.position = position
        super().__init__(f"{reason}, at character {position + 1} of the template", hint=hint)


class VariableInWordsError(TemplateError):
    """A command line with an environment variable, which every user of the machine could read."""

    code = "template_variable"

    def __init__(self, variable: str, position: int) -> None:
        self.variable = variable
        super().__init__(
            f"${{env:{variable}}} would show its value to everybody who lists processes",
            max(position, 0),
            hint=f"name {variable} in the skill's `requires.env` and let the program read it from "
            "its environment; for a program that does not, write an inline script that hands it "
            "over on standard input or by a file descriptor",
        )


class FillError(SkillpouchError):
    """A value that is not allowed in its place in a template.

    `name` is the argument, or the environment variable when `is_variable`. The message never
    holds the value: it may be a secret.
    """

    code = "template_value"

    def __init__(
        self, name: str, reason: str, *, is_variable: bool = False, hint: str = ""
    ) -> None:
        self.name = name
        self.reason = reason
        self.is_variable = is_variable
        super().__init__(f"{name}: {reason}", hint=hint)


_PLACE = re.compile(r"\$(?:\$|\{([^{}]*)(\}?))")
_NAME = re.compile(r"[^\W\d][\w.-]*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LITERAL = "write `$$` for a literal `$`"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_EXACT = 1e15  # whole numbers below are exact as floats


class ArgumentReference(NamedTuple):
    name: str


class Variable(NamedTuple):
    name: str


Part = str | ArgumentReference | Variable
Parts = tuple[Part, ...]


def parse_parts(text: str, start: int = 0) -> Parts:
    """Split a text into its parts; `start` is its position in the whole template."""
    found: list[Part] = []
    done = 0
    for match in _PLACE.finditer(text):
        found.append(text[done : match.start()])
        found.append("$" if match[1] is None else parse_place(match[0], start + match.start()))
        done = match.end()
    return joined((*found, text[done:]))


def parse_place(text: str, position: int) -> ArgumentReference | Variable:
    """Read `${name}` or `${env:NAME}`; raise TemplateError for what is neither."""
    if not text.endswith("}"):
        raise TemplateError("a `${` that is never closed", position, hint=_LITERAL)
    inside = text[2:-1]
    kind, colon, name = inside.partition(":")
    if colon and kind == "env" and _VARIABLE.match(name):
        return Variable(name)
    if not colon and _NAME.match(inside):
        return ArgumentReference(inside)
    reason = f"`{text:.60}` is neither ${{name}} nor ${{env:NAME}}"
    raise TemplateError(reason, position, hint=_LITERAL)


def joined(parts: Iterable[Part]) -> Parts:
    """Return the parts with neighbouring texts merged, and empty ones left out."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, str) and isinstance(last, str):
            found[-1] = last + part
        elif part != "":
            found.append(part)
    return tuple(found)


def names_in(parts: Iterable[Part]) -> frozenset[str]:
    """Return the arguments that parts mention."""
    return frozenset(part.name for part in parts if isinstance(part, ArgumentReference))


def variables_in(parts: Iterable[Part]) -> frozenset[str]:
    """Return the environment variables that parts mention."""
    return frozenset(part.name for part in parts if isinstance(part, Variable))


def is_left_out(parts: Parts, arguments: Mapping[str, Any]) -> bool:
    """Tell whether the arguments that parts mention are missing, so that the place is left out.

    Raises FillError if only some of them are missing: the values of the others would be lost.
    """
    names = names_in(parts)
    missing = sorted(name for name in names if arguments.get(name) is None)
    if missing and len(missing) < len(names):
        given = sorted(names.difference(missing))
        reason = f"it is needed with {' and '.join(given)}: the template has them in one place"
        raise FillError(missing[0], reason)
    return bool(missing)


class FilledPart(NamedTuple):
    """A part of a template with its value, and with the `text` that replaces it."""

    part: Part
    text: str
    value: Any = None


def filled(
    parts: Parts, arguments: Mapping[str, Any], secrets: Mapping[str, str]
) -> Iterator[FilledPart]:
    """Return each part with its text, in one pass: placeholders inside a value are not expanded."""
    for part in parts:
        if isinstance(part, str):
            yield FilledPart(part, part)
        elif isinstance(part, ArgumentReference):
            yield fill_one(part, arguments[part.name])
        else:
            yield FilledPart(part, secret(part.name, secrets))


def fill_one(part: ArgumentReference, value: Any) -> FilledPart:
    """Return an argument with its text; raise FillError for a lone surrogate in it."""
    text = text_of(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FillError(part.name, "it holds a lone surrogate, which is not text") from None
    return FilledPart(part, text, value)


def secret(name: str, secrets: Mapping[str, str]) -> str:
    """Return the value of a variable; a missing or empty one is an error, never an empty text."""
    value = secrets.get(name)
    if not value:
        reason = "the environment variable is not set or not granted"
        raise FillError(name, reason, is_variable=True)
    return value


def text_of(value: Any) -> str:
    """Return a value as text: a text as it is, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    # 3.0 is an integer to JSON Schema, but a program that expects an integer may refuse "3.0".
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return _encode(value)


def refuse_characters(one: FilledPart, forbidden: re.Pattern[str], reason: str) -> None:
    """Raise FillError if a value holds a character that is not allowed in its place."""
    if not isinstance(one.part, str) and forbidden.search(one.text):
        raise FillError(one.part.name, reason, is_variable=isinstance(one.part, Variable))
