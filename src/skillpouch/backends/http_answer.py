"""The answer of a web service, as a model and a program read it."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from skillpouch.calls import ToolCall
from skillpouch.execution.command import TIMED_OUT, Captured
from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.net.http.receiving import Received
from skillpouch.net.http.shapes import Shape
from skillpouch.results import HttpAnswer, ToolResult
from skillpouch.text import clean

# What a caller acts on next: whither, when again, where the next page is.
_SAID = ("location", "retry-after", "link")
_PROTECTIONS = {"net": "hosts+addresses"}
_EXIT_CODES = {"ok": 0, "timed_out": TIMED_OUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEnd:
    """How an exchange ended, and what there is of the answer."""

    outcome: Literal["ok", "failed", "timed_out", "killed"]
    code: str | None
    why: str  # what Skillpouch has to say about it, "" when the answer speaks for itself
    reason: str
    http: HttpAnswer | None
    captured: Captured | None
    received: Received | None
    is_text: bool
    shape: Shape
    milliseconds: float


def result_of_http(call: ToolCall, end: HttpEnd) -> ToolResult:
    """Return the result: status, address and type, then the body, of JSON with its lines set."""
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
    """Return what the answer means to a program, if it was not too long and came to its end."""
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
    return f"[{captured.total_bytes:,} bytes that are no text, {where}]"


def _cut(text: str, keep: int) -> tuple[str, bool]:
    kept = Captured.of(text.encode("utf-8", "replace"), keep)
    return (kept.text, True) if kept.truncated else (text, False)
