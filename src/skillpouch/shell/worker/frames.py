"""Sends values over a socket: four bytes of length, then JSON; neither end trusts the other."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")


class FrameError(ValueError):
    """Bytes that are no frame."""


def frame(value: dict[str, Any]) -> bytes:
    """Return a value as bytes to send."""
    data = json.dumps(value).encode()
    if len(data) > LARGEST:
        raise FrameError(f"a frame of {len(data):,} bytes")
    return _LENGTH.pack(len(data)) + data


class Frames:
    """Puts frames together from whatever pieces arrive."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the values that are whole now; FrameError when the bytes are no frames."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data)
            if size > LARGEST:
                raise FrameError(f"a frame of {size:,} bytes")
            end = _LENGTH.size + size
            if len(self._data) < end:
                return
            text = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            yield _value(text)


def _value(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame that is not JSON") from error
    if not isinstance(value, dict):
        raise FrameError("a frame that is not an object")
    return value
