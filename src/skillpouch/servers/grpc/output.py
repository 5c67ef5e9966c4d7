"""What a tool prints, on its way to a client: in order, and never more than a client may owe."""

import asyncio
from collections import deque
from typing import Literal

from skillpouch.servers.grpc.v1.skillpouch_pb2 import OutputChunk

# Well below the 4 MiB that clients take in one message; small pieces are put together.
_LONGEST_CHUNK = 64 * 1024
_STREAMS = {"stdout": OutputChunk.STREAM_STDOUT, "stderr": OutputChunk.STREAM_STDERR}


class Output:
    """Keeps up to `most_bytes` for a client that reads slowly; what is dropped is counted.

    The tool never waits for its reader: a client that stops reading would keep it alive.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._chunks: deque[OutputChunk] = deque()
        self._bytes = 0
        self._dropped = 0
        self._news = asyncio.Event()
        self._closed = False

    def heard(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take a piece of output; never waits."""
        for start in range(0, len(data), _LONGEST_CHUNK):
            self._add(_STREAMS[stream], data[start : start + _LONGEST_CHUNK])
        self._news.set()

    def close(self) -> None:
        """Say that nothing more comes."""
        self._closed = True
        self._news.set()

    async def next(self) -> OutputChunk | None:
        """Return the next chunk; None when there are no more."""
        while not self._chunks and not self._closed:
            self._news.clear()
            await self._news.wait()
        if self._chunks:
            chunk = self._chunks.popleft()
            self._bytes -= len(chunk.data)
            return chunk
        dropped, self._dropped = self._dropped, 0
        return OutputChunk(dropped_bytes=dropped) if dropped else None

    def _add(self, stream: "OutputChunk.Stream", data: bytes) -> None:
        if self._bytes + len(data) > self._most_bytes:
            self._dropped += len(data)
            return
        self._bytes += len(data)
        last = self._chunks[-1] if self._chunks else None
        fits = last is not None and len(last.data) + len(data) <= _LONGEST_CHUNK
        if last is not None and fits and last.stream == stream and not self._dropped:
            last.data += data
            return
        self._chunks.append(OutputChunk(stream=stream, data=data, dropped_bytes=self._dropped))
        self._dropped = 0
