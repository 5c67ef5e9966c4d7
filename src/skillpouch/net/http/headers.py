"""Headers: which of them a skill may set, and which of an answer may be shown."""

import re
from collections.abc import Iterable, Mapping

# Skillpouch's own: they decide where a request ends, who is asked, and what can be decoded.
OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te"),
        *("trailer", "upgrade", "expect", "accept-encoding"),
        *("proxy-connection", "proxy-authorization"),
    }
)
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # what RFC 9110 calls a token

# What tells a caller something and gives nothing away: no cookies, no tokens.
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
    """Return those of an answer that may be shown; names are in lower case."""
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
    """Tell whether a type is one of JSON's."""
    return media.endswith(("/json", "+json"))


def is_form(media: str) -> bool:
    """Tell whether a type is that of forms."""
    return media == "application/x-www-form-urlencoded"


def static_content_type(headers: Mapping[str, str]) -> str:
    """Return the content type that an author declares, "" when there is none."""
    return value_of("content-type", headers.items())
