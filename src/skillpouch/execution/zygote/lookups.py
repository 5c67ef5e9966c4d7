"""The names that a call without a network looks up: it asks this sandbox, which knows none.

`RES_OPTIONS=use-vc` (resolv.conf(5)) makes the C library ask by TCP, which a call has on the
loopback of its own network. Whoever called it is told which names it wanted.
"""

from __future__ import annotations

import _socket
import os
import struct

from skillpouch.execution.zygote import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select

PORT = 53
_SET_ADDRESS, _SET_MASK = 0x8916, 0x891C  # of netdevice(7): SIOCSIFADDR, SIOCSIFNETMASK
_MOST_ASKED = 64  # connections that are answered in all; the kernel refuses the others
_MOST_NAMES = 5  # that are told; a search list makes more of each
_MOST_KEPT = 40
_MOST_BYTES = 2048  # of one connection
_HEADER = 12  # bytes before the question of a query, RFC 1035
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
# A response that the server failed (2), with recursion desired and available: "try again later",
# as if no server could be reached.
_FAILED = b"\x81\x82"


class NameServer:
    """Listens in the network of a sandbox, at the addresses of the servers of this machine."""

    def __init__(self) -> None:
        for number, address in enumerate(_servers(), 1):
            _add_address(number, address)
        self._listener: _socket.socket | None = _socket.socket(
            _socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
        )
        self._listener.bind(("0.0.0.0", PORT))  # noqa: S104 - of a network without any other machine
        self._listener.listen(_MOST_ASKED)
        self.asked = 0  # connections that were accepted
        self._names: list[bytes] = []
        self._open: dict[int, _socket.socket] = {}

    @property
    def is_closed(self) -> bool:
        """Whether it was asked so often that it does not answer any more."""
        return self._listener is None

    def watch(self, poll: select.poll) -> None:
        if self._listener is not None:
            poll.register(self._listener.fileno(), 1)  # POLLIN

    def take(self, poll: select.poll, fd: int) -> bool:
        """Handle an event, if it is one of its own."""
        if self._listener is not None and fd == self._listener.fileno():
            self._accept(poll)
        elif fd in self._open:
            poll.unregister(fd)
            connection = self._open.pop(fd)
            self._answer(connection)
            connection.close()
        else:
            return False
        return True

    @property
    def was_asked(self) -> bool:
        """Whether it was asked for a name, other than that of this machine."""
        return bool(self._wanted())

    def names(self) -> list[bytes]:
        """Return the hosts that were looked up, as they were written.

        In small letters, a secret in one would not be found any more.
        """
        return [name for name in self._wanted() if b"." in name][:_MOST_NAMES]

    def _wanted(self) -> list[bytes]:
        """Return the names that were asked for, without what a search list added to them."""
        own = os.uname().nodename.lower().encode(errors="replace")
        asked = tuple(name.lower() + b"." for name in self._names)
        return [
            name
            for name in self._names
            if name.lower() != own and not name.lower().startswith(asked)
        ]

    def _accept(self, poll: select.poll) -> None:
        assert self._listener is not None
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # as socket.py does
        except OSError:
            return
        self.asked += 1
        connection = _socket.socket(fileno=fd)
        connection.setblocking(False)
        self._open[fd] = connection
        poll.register(fd, 1)
        if self.asked >= _MOST_ASKED:
            poll.unregister(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _answer(self, connection: _socket.socket) -> None:
        try:
            data = connection.recv(_MOST_BYTES)
            replies = []
            while len(data) > 2 + _HEADER:
                end = 2 + int.from_bytes(data[:2], "big")
                query, data = data[2:end], data[end:]
                self._keep(name_in(query))
                reply = query[:2] + _FAILED + query[4:]
                replies.append(len(reply).to_bytes(2, "big") + reply)
            connection.send(b"".join(replies))
        except OSError:
            return  # whoever asked is gone

    def _keep(self, name: bytes) -> None:
        is_name = name and not name.endswith(b".arpa")
        if is_name and name not in self._names and len(self._names) < _MOST_KEPT:
            self._names.append(name)


def name_in(query: bytes) -> bytes:
    """Return the name that a query asks for; b"" if it is none of a host."""
    labels: list[bytes] = []
    place = _HEADER
    while place < len(query) and query[place]:
        size = query[place]
        label = query[place + 1 : place + 1 + size]
        if size > _LONGEST_LABEL or len(label) != size or not _LETTERS.issuperset(label):
            return b""
        labels.append(label)
        place += 1 + size
    name = b".".join(labels)
    return name if len(name) <= _LONGEST_NAME and place < len(query) else b""


def _servers() -> list[str]:
    """Return the name servers of this machine, of which the C library uses three."""
    try:
        with open("/etc/resolv.conf", "rb") as file:
            lines = [line.split() for line in file.read(8192).splitlines()]
    except OSError:
        return []
    found = [words[1].decode() for words in lines if len(words) > 1 and words[0] == b"nameserver"]
    return [each for each in found[:3] if _is_other(each)]


def _is_other(address: str) -> bool:
    try:
        return not _socket.inet_aton(address).startswith(b"\x7f")
    except OSError:
        return False  # of IPv6, in which nothing is looked up here


def _add_address(number: int, address: str) -> None:
    """Give the loopback interface of this network another address, and no other of its network."""
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    for request, value in ((_SET_ADDRESS, address), (_SET_MASK, "255.255.255.255")):
        # struct ifreq: after the name a struct sockaddr_in, ip(7).
        where = (b"lo:%d" % number, _socket.AF_INET, 0, _socket.inet_aton(value))
        kernel.control(any_socket.fileno(), request, struct.pack("16sHH4s16x", *where))
    any_socket.close()
