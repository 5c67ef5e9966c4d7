"""A network of one slot's own: loopback and nothing else, with one door that the host answers."""

from __future__ import annotations

import _socket
import struct

from skillpouch.execution.zygote import kernel, wire

_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP = 1
_MOST_WAITING = 128  # connections that nobody has accepted yet


def enter(porch: int, port: int) -> None:
    """Move into a network of our own, and send what listens there to the host.

    A socket stays in the network it was made in, whoever holds it: the host accepts from it
    itself. One network for each slot, so that no call ever shares a network with another.
    """
    kernel.unshare(kernel.NEWNET)
    _raise_loopback()
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(_MOST_WAITING)
    listener.setblocking(False)
    to_host = _socket.socket(fileno=porch)
    wire.send(to_host, wire.READY, (listener.fileno(),))
    to_host.close()
    listener.close()


def _raise_loopback() -> None:
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    kernel.control(any_socket.fileno(), _SET_FLAGS, struct.pack("16sH22x", b"lo", _UP))
    any_socket.close()
