"""A page of counts for Prometheus, beside a server that does not speak HTTP itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from skillpouch.servers.addresses import Address, listen, require_safe
from skillpouch.servers.metrics import Metrics

_MOST_BYTES = 8 * 1024
_PATIENCE_SECONDS = 5.0
_GONE = (OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError)


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
