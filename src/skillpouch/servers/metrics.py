"""Counters of a server, and the page that shows them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from skillpouch.servers.addresses import Address, listen, require_safe
from skillpouch.servers.admission import Admission

_BOUNDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)  # seconds


class Metrics:
    """What ended how, how long it took, what was refused, and what runs now.

    No names of tools: a skill could have thousands, and they are nobody else's business.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._ended: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether new calls are taken."""
        return not self._admission.is_stopping

    def ended(self, outcome: str, seconds: float) -> None:
        """Count a call that ran."""
        self._ended[outcome] += 1
        self._seconds += seconds
        self._within.update(bound for bound in _BOUNDS if seconds <= bound)

    def refused(self, fault: str) -> None:
        """Count a call that did not."""
        self._refused[fault] += 1

    def text(self) -> str:
        """Return everything in the exposition format."""
        total = sum(self._ended.values())
        lines = [
            "# TYPE skillpouch_calls_total counter",
            *(
                f'skillpouch_calls_total{{outcome="{o}"}} {n}'
                for o, n in sorted(self._ended.items())
            ),
            "# TYPE skillpouch_refused_total counter",
            *(
                f'skillpouch_refused_total{{fault="{f}"}} {n}'
                for f, n in sorted(self._refused.items())
            ),
            "# TYPE skillpouch_call_seconds histogram",
            *(f'skillpouch_call_seconds_bucket{{le="{b:g}"}} {self._within[b]}' for b in _BOUNDS),
            f'skillpouch_call_seconds_bucket{{le="+Inf"}} {total}',
            f"skillpouch_call_seconds_sum {self._seconds:.6f}",
            f"skillpouch_call_seconds_count {total}",
            "# TYPE skillpouch_running gauge",
            f"skillpouch_running {self._admission.running}",
            "# TYPE skillpouch_waiting gauge",
            f"skillpouch_waiting {self._admission.waiting}",
        ]
        return "\n".join(lines) + "\n"


_MOST_BYTES = 8 * 1024
_PATIENCE_SECONDS = 5.0


@asynccontextmanager
async def metrics_page(address: Address, metrics: Metrics) -> AsyncIterator[int]:
    """Answer `/metrics`, `/healthz` and `/readyz` while inside; yields the port."""
    require_safe(address, has_tokens=False)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError
        ):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, metrics))
                await writer.drain()
        writer.close()

    listener = listen(address)
    port: int = listener.getsockname()[1]
    server = await asyncio.start_server(answer, sock=listener, limit=_MOST_BYTES)
    try:
        yield port
    finally:
        server.close()


def _response(head: bytes, metrics: Metrics) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    path = words[1].partition(b"?")[0] if len(words) > 1 else b""
    status, text = _page(words[0], path, metrics)
    body = f"{text.rstrip()}\n".encode()
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _page(method: bytes, path: bytes, metrics: Metrics) -> tuple[HTTPStatus, str]:
    if method != b"GET":
        return HTTPStatus.METHOD_NOT_ALLOWED, "only GET"
    if path == b"/metrics":
        return HTTPStatus.OK, metrics.text()
    if path == b"/healthz":
        return HTTPStatus.OK, "ok"
    if path == b"/readyz":
        ready = metrics.is_ready
        return (HTTPStatus.OK, "ready") if ready else (HTTPStatus.SERVICE_UNAVAILABLE, "stopping")
    return HTTPStatus.NOT_FOUND, "no such page"
