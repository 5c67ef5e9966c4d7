"""Forms, headers and plain text: a value can never add another pair or another header."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from skillpouch.templates.placeholders import (
    ArgumentReference,
    Parts,
    TemplateError,
    Variable,
    filled,
    is_left_out,
    joined,
    names_in,
    parse_parts,
    refuse_characters,
    variables_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormTemplate:
    pairs: tuple[Parts, ...]
    names: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split a template at each `&` of its own."""
        return cls.of(parse_parts(text))

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """Split a template that is already parsed."""
        pairs: list[Parts] = [()]
        for part in parts:
            first, *more = part.split("&") if isinstance(part, str) else (part,)
            pairs[-1] = (*pairs[-1], first)
            pairs += [(text,) for text in more]
        kept = tuple(map(joined, pairs)) if parts else ()
        return cls(pairs=kept, names=names_in(parts), variables=variables_in(parts))

    def fill(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
        """Return the pairs, percent-encoded.

        A pair whose arguments are missing is left out; one whose value is a list is repeated.
        """
        found: list[str] = []
        for pair in self.pairs:
            if not is_left_out(pair, arguments):
                found += [encoded(pair, each, secrets) for each in _one_by_one(pair, arguments)]
        return "&".join(found)


def encoded(parts: Parts, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
    """Return parts with their values percent-encoded, and the template's own text as it is."""
    return "".join(
        quote(one.text, safe="", errors="strict")
        if isinstance(one.part, ArgumentReference | Variable)
        else one.text
        for one in filled(parts, arguments, secrets)
    )


def _one_by_one(pair: Parts, arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the arguments once for each item of a list that is the whole value of a pair."""
    value = pair[-1] if pair else ""
    if not isinstance(value, ArgumentReference) or not isinstance(
        arguments[value.name], list | tuple
    ):
        return [arguments]
    before = pair[:-1]
    if len(before) != 1 or not isinstance(before[0], str) or not before[0].endswith("="):
        return [arguments]
    return [{**arguments, value.name: item} for item in arguments[value.name]]


_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_REASON = "a header cannot hold line breaks or control characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTemplate:
    parts: Parts
    names: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the template of a header's value."""
        if bad := _CONTROL.search(text):
            raise TemplateError(_REASON, bad.start())
        parts = parse_parts(text)
        return cls(parts=parts, names=names_in(parts), variables=variables_in(parts))

    def fill(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str | None:
        """Return the value; None, for a header that is left out, if its arguments are missing."""
        if is_left_out(self.parts, arguments):
            return None
        texts = list(filled(self.parts, arguments, secrets))
        for one in texts:
            refuse_characters(one, _CONTROL, _REASON)
        return "".join(one.text for one in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTemplate:
    parts: Parts
    names: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a template that any text may fill."""
        parts = parse_parts(text)
        return cls(parts=parts, names=names_in(parts), variables=variables_in(parts))

    def fill(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
        """Return the text; a missing argument becomes an empty text."""
        given = tuple(
            part
            for part in self.parts
            if not isinstance(part, ArgumentReference) or arguments.get(part.name) is not None
        )
        return "".join(one.text for one in filled(given, arguments, secrets))
