"""An address whose scheme, host and port are fixed, and whose path no value can climb out of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote

from skillpouch.templates.form import FormTemplate, encoded
from skillpouch.templates.placeholders import (
    FillError,
    Parts,
    TemplateError,
    is_left_out,
    joined,
    names_in,
    parse_parts,
    variables_in,
)

_ORIGIN = re.compile(r"(https?://)([^/?#]*)", re.IGNORECASE)
# Parsers of addresses disagree about these: a user before the host, a backslash, blanks, controls.
_IN_DOUBT = re.compile(r"[\s\\@\x00-\x1f\x7f]")
_BAD_IN_REST = re.compile(r"[\s\\\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlTemplate:
    """An address; `origin` is scheme, host and port, which no value can change."""

    origin: str
    segments: tuple[Parts, ...]
    query: FormTemplate | None
    names: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a template; raise TemplateError if a value could change the host of a request."""
        origin = _origin(text)
        if bad := _BAD_IN_REST.search(text, len(origin)):
            reason = "an address cannot hold blanks, backslashes or control characters"
            raise TemplateError(reason, bad.start())
        rest, _, _ = text[len(origin) :].partition("#")  # a fragment is never sent
        parts = parse_parts(rest, len(origin))
        path, query = _cut_at_query(parts)
        return cls(
            origin=origin,
            segments=_segments(path),
            query=None if query is None else FormTemplate.of(query),
            names=names_in(parts),
            variables=variables_in(parts),
        )

    def fill(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
        """Return an address with the same origin and as many path segments as the template."""
        path = "/".join(_segment(parts, arguments, secrets) for parts in self.segments)
        query = self.query.fill(arguments, secrets) if self.query is not None else ""
        return f"{self.origin}{path}?{query}" if query else f"{self.origin}{path}"


def _origin(text: str) -> str:
    match = _ORIGIN.match(text)
    if match is None:
        raise TemplateError("an address starts with http:// or https:// and a host", 0)
    host = match[2]
    start = match.start(2)
    if not host:
        raise TemplateError("an address needs a host", start)
    if "$" in host:
        reason = "a placeholder cannot be part of the host: a value would decide who is called"
        raise TemplateError(reason, start + host.index("$"))
    if bad := _IN_DOUBT.search(host):
        raise TemplateError("a host holds no user, blank or backslash", start + bad.start())
    return match[0]


def _cut_at_query(parts: Parts) -> tuple[Parts, Parts | None]:
    for number, part in enumerate(parts):
        if isinstance(part, str) and "?" in part:
            before, _, after = part.partition("?")
            return joined((*parts[:number], before)), joined((after, *parts[number + 1 :]))
    return parts, None


def _segments(path: Parts) -> tuple[Parts, ...]:
    segments: list[Parts] = [()]
    for part in path:
        first, *more = part.split("/") if isinstance(part, str) else (part,)
        segments[-1] = (*segments[-1], first)
        segments += [(text,) for text in more]
    return tuple(map(joined, segments))


def _segment(parts: Parts, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
    """Return one segment; refuse values that make it empty, `.` or `..`."""
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    names = sorted(names_in(parts))
    if is_left_out(parts, arguments):
        raise FillError(names[0], "the path of the address needs it")
    text = encoded(parts, arguments, secrets)
    if names and unquote(text) in ("", ".", ".."):
        raise FillError(names[0], f"{unquote(text)!r} would change the path of the address")
    return text
