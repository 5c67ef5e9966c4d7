"""What a declared http tool will send, checked before any argument is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from skillpouch.net.http.bodies import NAME, OURS, BodyTemplate, body_template_of
from skillpouch.net.http.guard import BadUrlError, PlanError, read_url
from skillpouch.runtime.memoize import memoize_by_id
from skillpouch.templates import HeaderTemplate, TemplateError, UrlTemplate
from skillpouch.tools import Http

Mode = Literal["buffered", "lines", "ndjson", "sse"]
_MODES: tuple[str, ...] = get_args(Mode)
_KEYS = ("mode", "event", "until", "max_bytes", "max_events", "idle_timeout_ms")
MOST_EVENTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How to read an answer: only events named `event` count, `until` is the text that ends it.

    Reading stops after `max_events`, when that is declared; more than `MOST_EVENTS` is an error. So
    is `idle_seconds` without a byte; with None only the time limit of the call counts.
    """

    mode: Mode = "buffered"
    event: str = ""
    until: str = ""
    max_bytes: int | None = None
    max_events: int | None = None
    idle_seconds: float | None = None


def read_shape(value: Any) -> Shape:
    """Read `response` of a declaration; raise PlanError when it is not valid."""
    if value is None:
        return Shape()
    if isinstance(value, str):
        value = {"mode": value}
    if not isinstance(value, Mapping):
        raise PlanError("it is not a mapping", "response")
    if unknown := sorted(set(value) - set(_KEYS)):
        raise PlanError(f"{unknown[0]!r:.60} is not one of {', '.join(_KEYS)}", "response")
    mode = value.get("mode", "buffered")
    if mode not in _MODES:
        raise PlanError(f"mode {mode!r:.60} is not one of {', '.join(_MODES)}", "response")
    idle, most = _number(value, "idle_timeout_ms"), _number(value, "max_events")
    return Shape(
        mode=mode,
        event=_text(value, "event"),
        until=_text(value, "until"),
        max_bytes=_number(value, "max_bytes"),
        max_events=None if most is None else min(most, MOST_EVENTS),
        idle_seconds=None if idle is None else idle / 1000,
    )


def _number(value: Mapping[str, Any], key: str) -> int | None:
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise PlanError(f"{key} is {found!r:.60}, not a number above 0", "response")
    return found


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key, "")
    if not isinstance(found, str):
        raise PlanError(f"{key} is a {type(found).__name__}, not text", "response")
    return found


# Sent twice, they have the same effect as once, RFC 9110, 9.2.2.
_IDEMPOTENT = ("GET", "HEAD", "PUT", "DELETE")
_RETRIES = 2
_MOST_RETRIES = 5
_WITH_QUERY = ("GET", "HEAD", "DELETE")
KNOWN_FIELDS = ("body", "body_file", "multipart", "response", "retries")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """`used` are the arguments that a template names; a GET sends the others in its query."""

    method: str
    url: UrlTemplate
    headers: tuple[tuple[str, HeaderTemplate], ...]
    body: BodyTemplate | None
    used: frozenset[str]
    shape: Shape
    retries: int

    @property
    def puts_rest_into_query(self) -> bool:
        return self.method in _WITH_QUERY


@memoize_by_id
def plan_of(http: Http) -> RequestPlan:
    """Compile a declaration once; raise PlanError that names the wrong field."""
    url = _url(http.url)
    headers = _headers(http.headers)
    try:
        body = body_template_of(http)
    except TemplateError as error:
        raise PlanError(str(error), "body", in_template=True) from None
    used = url.names.union(*(template.names for _, template in headers))
    return RequestPlan(
        method=http.method,
        url=url,
        headers=headers,
        body=body,
        used=used | (body.names if body is not None else frozenset()),
        shape=read_shape(http.extra.get("response")),
        retries=_retries(http.extra.get("retries"), http.method),
    )


def _url(text: str) -> UrlTemplate:
    try:
        template = UrlTemplate.parse(text)
        read_url(template.origin)
    except TemplateError as error:
        raise PlanError(str(error), "url", in_template=True) from None
    except BadUrlError as error:
        raise PlanError(str(error), "url") from None
    return template


def _headers(headers: Mapping[str, str]) -> tuple[tuple[str, HeaderTemplate], ...]:
    found: dict[str, tuple[str, HeaderTemplate]] = {}
    for name, text in headers.items():
        if not NAME.match(name):
            raise PlanError(f"{name!r:.60} is not the name of a header", "headers")
        if name.lower() in found:
            raise PlanError(f"{name} appears twice", "headers")
        try:
            found[name.lower()] = (name, HeaderTemplate.parse(text))
        except TemplateError as error:
            raise PlanError(f"{name}: {error}", "headers", in_template=True) from None
    return tuple(pair for key, pair in found.items() if key not in OURS)


def _retries(value: Any, method: str) -> int:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise PlanError(f"it is {value!r:.60}, not a number", "retries")
    if method not in _IDEMPOTENT:
        if value:
            raise PlanError(f"a {method} that is sent twice may take effect twice", "retries")
        return 0
    return _RETRIES if value is None else max(0, min(value, _MOST_RETRIES))
