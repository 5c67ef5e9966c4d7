"""Runs an http tool: makes its request, sends it within the limits, and reads the answer."""

import asyncio
import json
import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from mimetypes import guess_extension
from typing import Any, Literal

from skillpouch.calls import ToolCall
from skillpouch.errors import CommandStartError, InvalidArgumentsError
from skillpouch.execution.command import TIMED_OUT
from skillpouch.execution.streams import Capture, save_output
from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.needs import Need
from skillpouch.net.http.bodies import is_text, media_type, shown_headers, value_of
from skillpouch.net.http.exchange import HttpResponse, Way, exchange
from skillpouch.net.http.guard import ExchangeError, GrantedHosts, PlanError
from skillpouch.net.http.plan import RequestPlan, Shape, plan_of
from skillpouch.net.http.receiving import Received, Receiver, Sink, receive
from skillpouch.net.http.request import Filling, HttpRequest, UploadError, make_request
from skillpouch.results import Captured, HttpAnswer, ToolResult
from skillpouch.templates import FillError
from skillpouch.text import clean
from skillpouch.tools import Http
from skillpouch.trust.errors import UngrantedError

# Headers that a caller needs for the next step: a new address, when to retry, the next page.
_SAID = ("location", "retry-after", "link")
_PROTECTIONS = {"net": "hosts+addresses"}
_EXIT_CODES = {"ok": 0, "timed_out": TIMED_OUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEnd:
    """How an exchange ended, and the part of the answer that was received."""

    outcome: Literal["ok", "failed", "timed_out", "killed"]
    code: str | None
    why: str  # Skillpouch's own message, "" when the answer needs none
    reason: str
    http: HttpAnswer | None
    captured: Captured | None
    received: Received | None
    is_text: bool
    shape: Shape
    milliseconds: float


def result_of_http(call: ToolCall, end: HttpEnd) -> ToolResult:
    """Return the result: status, address and type, then the body, with JSON indented."""
    captured = end.captured or Captured()
    value = _value(end)
    body, is_cut = _body(call, end, captured, value)
    head, said = "\n".join(_head(end)), "\n".join(filter(None, (body, end.why)))
    return ToolResult(
        tool=call.tool.id,
        outcome=end.outcome,
        content=clean("\n\n".join(filter(None, (head, said)))),
        structured=None if value is NO_VALUE else value,
        exit_code=_EXIT_CODES.get(end.outcome, 1),
        stdout=captured.text if end.is_text else "",
        stderr=f"{end.why}\n" if end.why else "",
        truncated=is_cut,
        duration_ms=end.milliseconds,
        protections=_PROTECTIONS,
        code=end.code,
        saved=(captured.saved_to,) if captured.saved_to else (),
        timeout_seconds=call.limits.timeout_seconds,
        http=end.http,
    )


def _head(end: HttpEnd) -> list[str]:
    if end.http is None:
        return []
    headers = end.http.headers
    has_body = end.received is not None and end.received.total_bytes > 0
    shown = _SAID if has_body else [name for name in headers if name != "content-type"]
    return [
        f"HTTP {end.http.status} {end.reason}".rstrip(),
        end.http.url,
        *([headers["content-type"]] if "content-type" in headers else []),
        *(f"{name}: {headers[name]}" for name in shown if name in headers),
    ]


def _value(end: HttpEnd) -> Any:
    """Return the answer as a value, if it is complete and not too long."""
    received = end.received
    if received is None or not received.is_whole or not received.total_bytes or not end.is_text:
        return NO_VALUE
    if received.values:
        return list(received.values)
    is_complete = end.code is None and end.shape.mode != "lines"
    return json_value(received.whole.decode("utf-8", "replace")) if is_complete else NO_VALUE


def _body(call: ToolCall, end: HttpEnd, captured: Captured, value: Any) -> tuple[str, bool]:
    if not end.is_text:
        return _described(captured), False
    if isinstance(value, dict | list) and end.received is not None and not end.received.values:
        return _cut(json.dumps(value, ensure_ascii=False, indent=2), call.limits.keep_bytes)
    return captured.text.removesuffix("\n"), captured.truncated


def _described(captured: Captured) -> str:
    if not captured.total_bytes:
        return ""
    where = f"saved as {captured.saved_to}" if captured.saved_to else "not kept"
    return f"[{captured.total_bytes:,} bytes that are not text, {where}]"


def _cut(text: str, keep: int) -> tuple[str, bool]:
    kept = Captured.of(text.encode("utf-8", "replace"), keep)
    return (kept.text, True) if kept.truncated else (text, False)


_Outcome = Literal["ok", "failed", "timed_out", "killed"]
_OUTCOMES: dict[str, _Outcome] = {"idle_timeout": "timed_out", "output_limit": "killed"}


@dataclass(slots=True, kw_only=True)
class _SoFar:
    """What was received so far, kept for a call whose time runs out in the middle."""

    status: int = 0
    reason: str = ""
    http: HttpAnswer | None = None
    capture: Capture | None = None
    received: Received | None = None
    is_text: bool = True


class HttpCall:
    """Sends one request and reads its answer; whatever happens, there is a result."""

    def __init__(self, call: ToolCall, plan: RequestPlan, granted: GrantedHosts) -> None:
        self._call = call
        self._plan = plan
        self._granted = granted
        self._so_far = _SoFar()

    async def run(self, request: HttpRequest) -> ToolResult:
        started = time.monotonic()
        limit = self._call.limits.timeout_seconds
        clock = asyncio.timeout(limit)
        outcome: _Outcome = "ok"
        code = why = ""
        try:
            async with clock:
                await self._exchange(request)
        except ExchangeError as error:
            outcome, code, why = _OUTCOMES.get(error.code, "failed"), error.code, str(error)
        except TimeoutError:
            if not clock.expired():
                raise
            outcome, code, why = "timed_out", "timeout", f"timed out after {limit:g} s"
        finally:
            captured = self._so_far.capture.finish() if self._so_far.capture else None
        self._call.watch.lap("run")
        so_far = self._so_far
        if outcome == "ok" and not 200 <= so_far.status < 300:  # noqa: PLR2004 - success
            outcome = "failed"
        end = HttpEnd(
            outcome=outcome,
            code=code or None,
            why=why,
            reason=so_far.reason,
            http=so_far.http,
            captured=captured,
            received=so_far.received,
            is_text=so_far.is_text,
            shape=self._plan.shape,
            milliseconds=round((time.monotonic() - started) * 1000, 3),
        )
        return result_of_http(self._call, end)

    async def _exchange(self, request: HttpRequest) -> None:
        call = self._call
        way = Way(
            granted=self._granted,
            retries=self._plan.retries,
            deadline=asyncio.get_running_loop().time() + call.limits.timeout_seconds,
            has_secret=lambda text: call.redactor.text(text) != text,
        )
        async with exchange(request, way) as answer:
            receiver = self._receiver(answer)
            await receive(answer.response, receiver, self._plan.shape.idle_seconds)

    def _receiver(self, answer: HttpResponse) -> Receiver:
        so_far, headers = self._so_far, answer.headers
        content_type = value_of("content-type", headers)
        media = media_type(content_type)
        so_far.status, so_far.reason = answer.response.status, answer.reason
        so_far.http = HttpAnswer(
            status=so_far.status,
            url=str(answer.request.url),
            headers=shown_headers(headers),
        )
        so_far.is_text = is_text(media)
        so_far.capture = Capture(
            self._call.limits.keep_bytes if so_far.is_text else 0,
            partial(save_output, self._call.terms.workspace, _file_name(media)),
        )
        receiver = Receiver(
            self._sink(so_far.capture, so_far.status),
            encoding=value_of("content-encoding", headers),
            content_type=content_type if so_far.is_text else "",
        )
        so_far.received = receiver.received
        return receiver

    def _show(self) -> Callable[[bytes], None] | None:
        on_output = self._call.on_output
        return partial(on_output, "stdout") if on_output and self._so_far.is_text else None

    def _sink(self, capture: Capture, status: int) -> Sink:
        call, shape = self._call, self._plan.shape
        most = call.limits.kill_bytes
        is_good = 200 <= status < 300  # noqa: PLR2004 - an error answer is not read as a stream
        return Sink(
            keep=capture,
            shape=shape if is_good else Shape(max_bytes=shape.max_bytes),
            most_bytes=min(shape.max_bytes or most, most),
            new_filter=call.redactor.stream if call.access.secrets else None,
            show=self._show(),
        )


@lru_cache(maxsize=256)
def _file_name(media: str) -> str:
    return f"answer{guess_extension(media) or ('.txt' if is_text(media) else '.bin')}"


class HttpBackend:
    """Sends requests."""

    async def run(self, call: ToolCall) -> ToolResult:
        """Send the request of a tool and return what came back.

        Raises when nothing was sent: for a value that does not fit its place, a file that cannot be
        sent, a host or an address that was not granted.
        """
        http = call.tool.runs
        assert isinstance(http, Http)
        from skillpouch.net.http.guard import GrantedHosts

        granted = GrantedHosts(hosts=call.access.hosts, skill=shlex.quote(call.tool.skill))
        try:
            plan = plan_of(http)
        except PlanError as error:
            raise CommandStartError(
                call.tool.id, str(error), hint="run `skillpouch check`"
            ) from None
        with ExitStack() as files:
            request = _request(call, plan, files)
            if not granted.covers(request.url.host):
                need = Need(kind="host", value=request.url.authority)
                raise UngrantedError(call.tool.skill, [need])
            call.watch.lap("prepare")
            result = await HttpCall(call, plan, granted).run(request)
        call.watch.lap("read the answer")
        return result


def _request(call: ToolCall, plan: RequestPlan, files: ExitStack) -> HttpRequest:
    filling = Filling(
        arguments=call.arguments,
        secrets=call.access.variables,
        workspace=call.terms.workspace,
        stack=files,
        most_bytes=call.limits.file_bytes,
    )
    try:
        return make_request(plan, filling)
    except FillError as error:
        if error.is_variable and error.name in call.access.variables:
            raise CommandStartError(call.tool.id, str(error)) from None
        if error.is_variable:
            need = Need(kind="secret", value=error.name)
            raise UngrantedError(call.tool.skill, [need]) from None
        raise InvalidArgumentsError(call.tool.id, [str(error)], usage=error.hint) from None
    except UploadError as error:
        raise InvalidArgumentsError(call.tool.id, [str(error)]) from None
