"""Bodies and headers of a request, filled from templates."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skillpouch.net.http.guard import PlanError
from skillpouch.templates import FormTemplate, JsonTemplate, TemplateError, TextTemplate
from skillpouch.tools import Http

# Set by Skillpouch alone: they decide the length of a request, its host, and the encoding.
OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te"),
        *("trailer", "upgrade", "expect", "accept-encoding"),
        *("proxy-connection", "proxy-authorization"),
    }
)
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # what RFC 9110 calls a token

# Headers that are useful to a caller and hold no secrets: no cookies, no tokens.
_SHOWN = frozenset(
    {
        *("age", "allow", "accept-ranges", "api-version", "cache-control", "date", "deprecation"),
        *("content-disposition", "content-language", "content-length", "content-range"),
        *("content-type", "etag", "expires", "last-modified", "link", "location", "request-id"),
        *("retry-after", "sunset", "vary", "warning", "www-authenticate", "x-request-id"),
        *("x-correlation-id", "x-total-count", "x-total", "x-next-page", "x-page"),
    }
)
_SHOWN_FAMILIES = ("ratelimit", "x-ratelimit", "x-rate-limit")
_LONGEST_SHOWN = 500
_TEXT = (
    *("json", "xml", "javascript", "ecmascript", "yaml", "toml", "csv", "graphql", "sql"),
    *("x-www-form-urlencoded", "event-stream", "x-sh", "problem"),
)

RawHeaders = Iterable[tuple[bytes, bytes]]


def shown_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers of an answer that may be shown; names are in lower case."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name in _SHOWN or name.startswith(_SHOWN_FAMILIES):
            found[name] = f"{found[name]}, {value}" if name in found else value
    return {name: value[:_LONGEST_SHOWN] for name, value in found.items()}


def decoded(raw: RawHeaders) -> list[tuple[str, str]]:
    """Return headers as text: names in lower case."""
    return [(n.decode("latin-1").lower(), v.decode("utf-8", "replace").strip()) for n, v in raw]


def value_of(name: str, headers: Iterable[tuple[str, str]]) -> str:
    """Return the first value of a header, "" when there is none."""
    return next((value for key, value in headers if key.lower() == name), "")


def media_type(content_type: str) -> str:
    """Return `text/html` of `Text/HTML; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def is_text(media: str) -> bool:
    """Tell whether a body of this type can be read by people; one without a type may be."""
    kind, _, inner = media.partition("/")
    return kind in ("", "text", "message") or any(word in inner for word in _TEXT)


def is_json(media: str) -> bool:
    """Tell whether a media type is JSON."""
    return media.endswith(("/json", "+json"))


def is_form(media: str) -> bool:
    """Tell whether a media type is that of a form."""
    return media == "application/x-www-form-urlencoded"


def static_content_type(headers: Mapping[str, str]) -> str:
    """Return the content type that an author declares, "" when there is none."""
    return value_of("content-type", headers.items())


_FIELDS = ("body_template", "body", "multipart", "body_file")
_WITH_BODY = ("POST", "PUT", "PATCH")
_NO_NAMES: frozenset[str] = frozenset()
_PART_KEYS = {"path", "filename", "content_type"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonBody:
    """JSON; `as_form` sends its members as the pairs of a form instead."""

    template: JsonTemplate
    as_form: bool = False

    @property
    def names(self) -> frozenset[str]:
        return self.template.names


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBody:
    """Text with the content type that its author declares, or a form."""

    template: TextTemplate | FormTemplate

    @property
    def names(self) -> frozenset[str]:
        return self.template.names


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeArguments:
    """All arguments, as JSON or as the pairs of a form."""

    as_form: bool = False
    names: frozenset[str] = _NO_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file of the workspace; `path` is the template of its path."""

    path: TextTemplate
    filename: TextTemplate | None = None
    content_type: str = ""

    @property
    def names(self) -> frozenset[str]:
        return self.path.names | (self.filename.names if self.filename else _NO_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Multipart:
    """Fields, each a text or a file."""

    fields: tuple[tuple[str, JsonTemplate | FilePart], ...]

    @property
    def names(self) -> frozenset[str]:
        return _NO_NAMES.union(*(value.names for _, value in self.fields))


BodyTemplate = JsonBody | TextBody | WholeArguments | FilePart | Multipart


def body_template_of(http: Http) -> BodyTemplate | None:
    """Return the declared body; without one, all arguments, or None for methods without a body."""
    declared: dict[str, Any] = {**http.extra, "body_template": http.body_template}
    given = [name for name in _FIELDS if declared.get(name) is not None]
    if len(given) > 1:
        raise PlanError(f"there can be one body, not {' and '.join(given)}", given[1])
    media = media_type(static_content_type(http.headers))
    if not given:
        return WholeArguments(as_form=is_form(media)) if http.method in _WITH_BODY else None
    value = declared[given[0]]
    match given[0]:
        case "multipart":
            return _multipart(value)
        case "body_file":
            return _file(value if isinstance(value, Mapping) else {"path": value}, "body_file")
        case _ if isinstance(value, str):
            return _text(value, media, given[0])
        case _:
            return JsonBody(template=JsonTemplate.of(value), as_form=is_form(media))


def _text(text: str, media: str, field: str) -> BodyTemplate:
    if is_form(media):
        return TextBody(template=FormTemplate.parse(text.strip()))
    if media and not is_json(media):
        return TextBody(template=TextTemplate.parse(text))
    try:
        return JsonBody(template=JsonTemplate.parse(text))
    except TemplateError as error:
        hint = "" if media else "; for anything but JSON declare a Content-Type header"
        raise PlanError(f"{error}{hint}", field, in_template=True) from None


def _multipart(value: Any) -> Multipart:
    if not isinstance(value, Mapping) or not value:
        raise PlanError("it is not a mapping of fields", "multipart")
    return Multipart(fields=tuple(_fields(value)))


def _fields(value: Mapping[str, Any]) -> Iterator[tuple[str, JsonTemplate | FilePart]]:
    for name, each in value.items():
        for item in each if isinstance(each, list) else [each]:
            if isinstance(item, Mapping) and "path" in item:
                yield name, _file(item, f"multipart.{name}")
            else:
                yield name, JsonTemplate.of(item)


def _file(value: Mapping[str, Any], at: str) -> FilePart:
    if unknown := sorted(set(value) - _PART_KEYS):
        raise PlanError(f"{unknown[0]!r:.60} is not path, filename or content_type", at)
    path, filename = value.get("path"), value.get("filename")
    content_type = value.get("content_type") or ""
    if not all(isinstance(each, str) for each in (path, filename or "", content_type)):
        raise PlanError("path, filename and content_type must be text", at)
    if any(ord(letter) < ord(" ") for letter in content_type):
        raise PlanError("a content type must be one line", at)
    return FilePart(
        path=TextTemplate.parse(str(path)),
        filename=TextTemplate.parse(filename) if filename else None,
        content_type=content_type,
    )
