"""Messages between host and zygote: their fields, and the descriptors sent with them."""

from __future__ import annotations

import _socket
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Fields = dict[str, Any]


# Host to zygote.
CONFIGURE, NEW_SANDBOX = b"C", b"S"
# Host to sandbox; RUN also to the child of a prefork server.
RUN, TERMINATE, KILL = b"R", b"T", b"K"
# Host to prefork server; sandbox to prefork server.
PREPARE, NEXT = b"P", b"G"
# Zygote to host: a layer is mounted.
LAYER = b"D"
# Back to the host; those of a prefork server come through its sandbox.
READY, FAILED, ENDED, NOT_STARTED, INELIGIBLE, LOST = b"Y", b"F", b"X", b"N", b"U", b"L"

# Added to whether a sandbox is as new: what the call tried without a grant, a unix socket or a look
# at the names of the network; and what it left: hidden files in its HOME, which goes with it, a
# connection of its own loopback that nobody accepted, a server of its own, other processes that it
# meant to outlive it.
TRIED_SOCKETS, TRIED_NETWORK, LEFT_HOME, FOUND_NOBODY = 2, 4, 8, 16
LEFT_SERVER, LEFT_PROCESSES = 32, 64
TRACES = TRIED_SOCKETS | TRIED_NETWORK | LEFT_HOME | FOUND_NOBODY | LEFT_SERVER | LEFT_PROCESSES

# Prefix of a failure that is not one of confinement: a path is no longer what the host opened.
REPLACED = "replaced: "

# Sockets are SOCK_SEQPACKET: a packet arrives whole or not at all, unix(7), and must fit the send
# buffer (net.core.wmem_default, 208 KiB unless lowered). A longer value is sent in a memory file,
# whose descriptor comes last.
_INLINE_BYTES = 60_000
_IN_FILE = b"+"
# Below SCM_MAX_FD, the 253 descriptors that the kernel passes with one packet, unix(7).
MOST_DESCRIPTORS = 240
_DESCRIPTOR_BYTES = _socket.CMSG_SPACE(4 * (MOST_DESCRIPTORS + 1))  # plus one for a memory file
_received = bytearray(65_536)  # for one packet at a time; larger than _INLINE_BYTES
# MSG_CMSG_CLOEXEC: a spawned tool must not inherit received descriptors.
_CLOSE_ON_EXEC = 0x40000000
# marshal, because it is built in and imports nothing. Every Python from 3.9 on, as a prefork server
# may be, reads format 2; later formats differ between versions.
_MARSHAL_FORMAT = 2


class Message:
    """One received packet."""

    __slots__ = ("_packet", "fds")

    def __init__(self, packet: bytearray, fds: list[int]) -> None:
        self._packet = packet
        self.fds = fds

    @property
    def kind(self) -> bytes:
        return bytes(self._packet[:1])

    @property
    def body(self) -> bytes:
        return bytes(self._packet[1:])

    def value(self) -> Any:
        """Unmarshal the body; only for messages from the host, because marshal is not safe."""
        if self._packet[1:2] != _IN_FILE:
            return marshal.loads(self._packet[2:])  # noqa: S302 - the host is the trusted side
        fd = self.fds.pop()
        try:
            return marshal.loads(_read_all(fd))  # noqa: S302
        finally:
            os.close(fd)


def _read_all(fd: int) -> bytes:
    # One read is enough: the file was written completely before it was sent.
    return os.pread(fd, os.fstat(fd).st_size, 0)


def packed(kind: bytes, value: Any) -> tuple[bytes, tuple[int, ...]]:
    """Return a packet and, if the value is long, its memory file, which the caller must close."""
    body = marshal.dumps(value, _MARSHAL_FORMAT)
    if len(body) < _INLINE_BYTES:
        return kind + b" " + body, ()
    file = os.memfd_create("skillpouch-message")
    try:
        with open(file, "wb", closefd=False) as out:
            out.write(body)
    except BaseException:
        os.close(file)
        raise
    return kind + _IN_FILE, (file,)


def rights(fds: tuple[int, ...]) -> list[tuple[int, int, bytes]]:
    """Return descriptors as the ancillary data of sendmsg(2)."""
    numbers = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    return [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)]


def send_value(sock: _socket.socket, kind: bytes, value: Any, fds: tuple[int, ...] = ()) -> None:
    packet, files = packed(kind, value)
    try:
        send(sock, packet, (*fds, *files))
    finally:
        for file in files:
            os.close(file)


def send(sock: _socket.socket, packet: bytes, fds: tuple[int, ...] = ()) -> None:
    if fds:
        sock.sendmsg([packet], rights(fds))
    else:
        sock.send(packet)


def send_failure(sock: _socket.socket, error: BaseException) -> None:
    try:
        sock.send(FAILED + b" " + str(error).encode(errors="replace")[:500])
    except OSError:
        return  # the receiver is gone


def receive(sock: _socket.socket) -> Message | None:
    """Return the next packet, or None when the other side is gone."""
    try:
        size, ancillary, _, _ = sock.recvmsg_into([_received], _DESCRIPTOR_BYTES, _CLOSE_ON_EXEC)
    except ConnectionResetError:
        return None  # the other side closed with packets of ours unread
    if not size:
        return None
    fds = []
    for level, kind, rights in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            # A truncated control message may end inside a number, recvmsg(2).
            for place in range(0, len(rights) - 3, 4):
                number = int.from_bytes(rights[place : place + 4], sys.byteorder)
                fds.append(number)
    return Message(_received[:size], fds)
