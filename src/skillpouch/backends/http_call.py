"""One request under way: its time, its limits, and what there is of its answer so far."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from mimetypes import guess_extension
from typing import Literal

from skillpouch.backends.http_answer import HttpEnd, result_of_http
from skillpouch.calls import ToolCall
from skillpouch.execution.capture import Capture
from skillpouch.execution.saved_output import save_output
from skillpouch.net.http.errors import ExchangeError
from skillpouch.net.http.exchange import Answer, Way, exchange
from skillpouch.net.http.guard import Granted
from skillpouch.net.http.headers import is_text, media_type, shown_headers, value_of
from skillpouch.net.http.plan import Plan
from skillpouch.net.http.receiving import Received, Receiver, Sink, receive
from skillpouch.net.http.request import Request
from skillpouch.net.http.shapes import Shape
from skillpouch.results import HttpAnswer, ToolResult

_Outcome = Literal["ok", "failed", "timed_out", "killed"]
_OUTCOMES: dict[str, _Outcome] = {"idle_timeout": "timed_out", "output_limit": "killed"}


@dataclass(slots=True, kw_only=True)
class _SoFar:
    """What is known of the answer, also when time is up in the middle of it."""

    status: int = 0
    reason: str = ""
    http: HttpAnswer | None = None
    capture: Capture | None = None
    received: Received | None = None
    is_text: bool = True


class HttpCall:
    """Sends one request and reads its answer; whatever happens, there is a result."""

    def __init__(self, call: ToolCall, plan: Plan, granted: Granted) -> None:
        self._call = call
        self._plan = plan
        self._granted = granted
        self._so_far = _SoFar()

    async def run(self, request: Request) -> ToolResult:
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

    async def _exchange(self, request: Request) -> None:
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

    def _receiver(self, answer: Answer) -> Receiver:
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
        is_good = 200 <= status < 300  # noqa: PLR2004 - what is no success is no stream either
        return Sink(
            keep=capture,
            shape=shape if is_good else Shape(max_bytes=shape.max_bytes),
            most_bytes=min(shape.max_bytes or most, most),
            new_filter=call.redactor.stream if call.given.secrets else None,
            show=self._show(),
        )


@lru_cache(maxsize=256)
def _file_name(media: str) -> str:
    return f"answer{guess_extension(media) or ('.txt' if is_text(media) else '.bin')}"
