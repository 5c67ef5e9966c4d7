"""System calls that the kernel hands over (seccomp_unotify(2)), and how a sandbox answers them."""

from __future__ import annotations

import errno
import os
import select
import struct

from skillpouch.execution.zygote import folder_moves, kernel, seccomp, wire

# _IOWR('!', 0, struct seccomp_notif), _IOWR('!', 1, struct seccomp_notif_resp) and
# _IOW('!', 2, __u64) of linux/seccomp.h.
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
# struct seccomp_notif: id, thread, flags; system call, architecture, instruction, six arguments.
_NOTICE = struct.Struct("QII iIQ 6Q")
_ANSWER = struct.Struct("QqiI")  # struct seccomp_notif_resp: id, value, error, flags
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE, since Linux 5.5: the kernel makes the call itself
_AF_UNIX = 1
_MOST_REFUSED = 64  # sockets of one call of which its sandbox is told


class Notice:
    """One system call whose thread waits for an answer."""

    def __init__(self, identity: int, thread: int, number: int, arguments: list[int]) -> None:
        self.identity = identity
        self.thread = thread
        self.number = number
        self.arguments = arguments


def receive(listener: int) -> Notice | None:
    """Receive one system call; None if its caller was killed meanwhile."""
    buffer = kernel.buffer(_NOTICE.size)
    try:
        kernel.control(listener, _RECEIVE, buffer)
    except OSError:
        return None
    identity, thread, _, number, _, _, *arguments = _NOTICE.unpack(buffer.raw)
    return Notice(identity, thread, number, arguments)


def check_waiting(listener: int, notice: Notice) -> None:
    """Raise OSError unless the caller still waits.

    If it does, its id was not used again, and what was opened by this id is the caller's.
    """
    identity = kernel.buffer_of(struct.pack("Q", notice.identity))
    kernel.control(listener, _IS_VALID, identity)


def answer(listener: int, notice: Notice, code: int) -> None:
    """Let a system call fail with an error number, or succeed with 0 without being made."""
    _send(listener, notice, code, 0)


def proceed(listener: int, notice: Notice) -> None:
    """Let the kernel make the system call.

    Its caller may have changed what its pointers lead to: only for calls that need no check.
    """
    _send(listener, notice, 0, _CONTINUE)


def _send(listener: int, notice: Notice, code: int, flags: int) -> None:
    packed = kernel.buffer_of(_ANSWER.pack(notice.identity, 0, -code, flags))
    try:
        kernel.control(listener, _SEND, packed)
    except OSError:
        return  # the caller was killed meanwhile


class HandedOver:
    """Answers the system calls that a sandbox is handed: refused sockets, and renames in a layer.

    Of refused sockets it remembers the kinds, and answers only the first ones: after that nobody
    listens, and the kernel refuses the others itself (ENOSYS), so that a call cannot keep its
    sandbox busy with them. Where renames are handed over, somebody must listen to the end.
    """

    def __init__(self, listener: int, *, moves: bool = False) -> None:
        self.fd = listener
        self.tried = 0  # TRIED_SOCKETS, TRIED_NETWORK
        self._left = _MOST_REFUSED
        self._moves = moves
        numbers = seccomp.NUMBERS[os.uname().machine]
        self._renames = {numbers[name]: name for name in seccomp.RENAMES if name in numbers}

    def watch(self, poll: select.poll) -> None:
        if self.fd >= 0:
            poll.register(self.fd, select.POLLIN)

    def take(self, poll: select.poll, events: int) -> None:
        """Answer one system call, after `poll` has told of it."""
        is_told = bool(events & select.POLLIN)
        notice = receive(self.fd) if is_told else None
        if notice is not None and notice.number in self._renames:
            self._rename(notice)
        elif notice is not None:
            self._refuse(notice)
        # Without POLLIN it is POLLHUP: the prefork server is gone.
        if not is_told or (self._left <= 0 and not self._moves):
            poll.unregister(self.fd)
            os.close(self.fd)
            self.fd = -1

    def _refuse(self, notice: Notice) -> None:
        self._left -= 1
        is_unix = notice.arguments[0] & 0xFFFFFFFF == _AF_UNIX
        self.tried |= wire.TRIED_SOCKETS if is_unix else wire.TRIED_NETWORK
        answer(self.fd, notice, errno.EUNATCH if is_unix else errno.EACCES)

    def _rename(self, notice: Notice) -> None:
        process = "/proc/%d" % notice.thread
        try:
            name = self._renames[notice.number]
            asked = folder_moves.read_rename(process, name, notice.arguments)
        except OSError:
            proceed(self.fd, notice)  # the kernel knows best what is wrong with it
            return
        try:
            check_waiting(self.fd, notice)
            if asked.is_of_folder:
                self._move_aside(asked, notice)
            else:
                proceed(self.fd, notice)
        except OSError:
            return  # the caller was killed meanwhile
        finally:
            asked.close()

    def _move_aside(self, asked: folder_moves.Rename, notice: Notice) -> None:
        """Move a folder in a process of its own.

        That may take long, and the sandbox must be able to obey. The process is one of the call: it
        ends when the call is ended, and nothing of the layer is taken before that.
        """
        try:
            is_here = os.fork() != 0
        except OSError:  # no process is left to it
            proceed(self.fd, notice)
            return
        if is_here:
            return
        try:
            answer(self.fd, notice, folder_moves.rename_folder(asked))
        finally:
            os._exit(0)
