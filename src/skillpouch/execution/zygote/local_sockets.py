"""The supervisor of a sandbox with local sockets: it connects them, and only to the call's own.

A seccomp filter cannot read the address of a connect(2), and Landlock sees no unix socket that has
a path before its ABI 9. So the kernel hands each connect of the call to this process
(seccomp_unotify(2)), which copies the address once, opens the socket that it names, and connects
the call's descriptor to exactly this socket. It must lie in a temporary folder that only this
sandbox has: no other process of the machine can have made it. Each listen(2) is handed over, too:
a socket listens only if it lies there, so that nobody outside can connect to it.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import os
import select
import stat
import struct

from skillpouch.execution.zygote import kernel, namespaces, notices, seccomp, wire

_FAMILY = struct.Struct("H")  # the beginning of every address
_AF_UNIX = 1
_LONGEST_ADDRESS = 128  # struct sockaddr_storage
_SO_DOMAIN, _SO_NETNS_COOKIE = 39, 71
_MOST_WAITING = 256  # connects that wait for a full backlog, each in a thread
_STACK_BYTES = 256 * 1024
# CAP_SYS_PTRACE, to read the address and to copy the descriptor, and CAP_NET_ADMIN, to ask for the
# file of a socket.
_CAPABILITIES = 1 << 19 | 1 << 12
_FILE_OF_SOCKET = 0x89E0  # SIOCUNIXFILE, linux/un.h, since Linux 4.12
_FILE = os.O_PATH | os.O_CLOEXEC
_VIEW = (kernel.NEWNS, kernel.NEWNET)


def supervise(line: _socket.socket, granted: list[str]) -> None:
    """Answer the connects of one sandbox until all of its processes are gone.

    `line` brings the mounts and the network of the sandbox, then the listener of its filter.
    """
    kernel.die_with_parent()
    # A /proc with the ids by which the kernel names the callers to this process. It is used by its
    # descriptor: the mounts of the sandbox have another one.
    kernel.unshare(kernel.NEWNS)
    namespaces.mount_own_processes()
    processes = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    given: list[int] = []
    while len(given) <= len(_VIEW):
        message = wire.receive(line)
        if message is None:
            return  # the sandbox could not be made
        given += message.fds
    line.close()
    for fd, kind in zip(given, _VIEW):
        kernel.setns(fd, kind)
        os.close(fd)
    own = [os.stat(path).st_dev for path in namespaces.TEMPORARY if path not in granted]
    os.fchdir(processes)
    kernel.drop_capabilities(keep=_CAPABILITIES)
    Supervisor(given[-1], own).serve()


class _Caller:
    """A thread that waits for an answer; what is opened is put into `opened`."""

    def __init__(self, thread: int, opened: list[int]) -> None:
        self._opened = opened
        self.memory = self.keep(os.open("%d/mem" % thread, os.O_RDONLY | os.O_CLOEXEC))
        self.folder = self.keep(os.open("%d/cwd" % thread, _FILE | os.O_DIRECTORY))
        self._process = self.keep(os.pidfd_open(_process_of(thread)))

    def keep(self, fd: int) -> int:
        self._opened.append(fd)
        return fd

    def socket(self, fd: int) -> int:
        """Return a copy of the caller's descriptor; its other threads may replace their own."""
        return self.keep(kernel.copy_descriptor(self._process, fd & 0xFFFFFFFF))


def _process_of(thread: int) -> int:
    """Return the process of a thread: before Linux 6.9 there are no pidfds of other threads."""
    with open("%d/status" % thread, "rb") as status:
        return int(next(line for line in status if line.startswith(b"Tgid:"))[5:])


class Supervisor:
    """Connects the sockets of a call. Its current folder is a /proc that shows this process."""

    def __init__(self, listener: int, own: list[int]) -> None:
        self._listener = listener
        self._own = own  # the file systems that only this sandbox has
        self._network = _own_network()
        self._listen_number = seccomp.NUMBERS[os.uname().machine]["listen"]
        self._waiting: set[int] = set()

    def serve(self) -> None:
        _thread.stack_size(_STACK_BYTES)
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            for _, events in poll.poll():
                if not events & select.POLLIN:
                    return  # POLLHUP: no process has this filter any more
                self.take()

    def take(self) -> None:
        """Receive one call, and answer it in a thread: it may have to wait for its peer."""
        notice = notices.receive(self._listener)
        if notice is None:
            return
        if len(self._waiting) >= _MOST_WAITING:
            notices.answer(self._listener, notice, errno.EAGAIN)
            return
        self._waiting.add(notice.identity)
        _thread.start_new_thread(self._serve_one, (notice,))

    def _serve_one(self, notice: notices.Notice) -> None:
        opened: list[int] = []
        code = errno.EACCES
        try:
            caller = _Caller(notice.thread, opened)
            notices.check_waiting(self._listener, notice)
            if notice.number == self._listen_number:
                code = self._listen(caller, *notice.arguments[:2])
            else:
                code = self._connect(caller, *notice.arguments[:3])
        except OSError as error:
            code = error.errno or errno.EACCES
        finally:
            for each in opened:
                os.close(each)
            self._waiting.discard(notice.identity)
            notices.answer(self._listener, notice, code)

    def _listen(self, caller: _Caller, fd: int, backlog: int) -> int:
        """Have a socket listen if its file or its abstract name is of this sandbox alone."""
        sock = caller.socket(fd)
        if kernel.socket_option(sock, _SO_DOMAIN) != _AF_UNIX:
            return kernel.listen(sock, backlog)
        # The name first: a socket gets one once and keeps it. Without one, it could get it in the
        # workspace between the look at its file and the listen.
        name = _name_of(sock)
        if not name:
            return errno.EINVAL  # as without a supervisor
        if name[0] == 0:
            is_own = _network_of(sock) == self._network
        else:
            file = caller.keep(kernel.control(sock, _FILE_OF_SOCKET, b""))
            is_own = os.fstat(file).st_dev in self._own
        return kernel.listen(sock, backlog) if is_own else errno.EACCES

    def _connect(self, caller: _Caller, fd: int, address: int, length: int) -> int:
        """Connect a socket of the caller, and return the error or 0."""
        if length > _LONGEST_ADDRESS:
            return errno.EINVAL
        name = os.pread(caller.memory, length, address)
        sock = caller.socket(fd)
        # Other sockets are TCP, in a network without any other machine; and what is no name of a
        # unix socket, the kernel refuses.
        is_unix = kernel.socket_option(sock, _SO_DOMAIN) == _AF_UNIX and len(name) > _FAMILY.size
        if not is_unix or _FAMILY.unpack_from(name) != (_AF_UNIX,):
            return kernel.connect(sock, name)
        if name[_FAMILY.size] == 0:
            return self._connect_abstract(sock, name)
        path = name[_FAMILY.size :].partition(b"\0")[0]
        return self._connect_file(sock, caller.keep(os.open(path, _FILE, dir_fd=caller.folder)))

    def _connect_abstract(self, sock: int, name: bytes) -> int:
        """Connect by a name that belongs to a network: to that in which the socket was made."""
        if _network_of(sock) != self._network:
            return errno.EACCES
        return kernel.connect(sock, name)

    def _connect_file(self, sock: int, file: int) -> int:
        status = os.fstat(file)
        if not stat.S_ISSOCK(status.st_mode):
            return errno.ECONNREFUSED  # as without a supervisor, connect(2)
        if status.st_dev not in self._own:
            return errno.EACCES
        # By its descriptor: the name could lead to another socket by now.
        return kernel.connect(sock, _FAMILY.pack(_AF_UNIX) + b"self/fd/%d\0" % file)


def _own_network() -> int:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        return _network_of(sock.fileno())
    finally:
        sock.close()


def _name_of(sock: int) -> bytes:
    """Return the name of a unix socket: a path, after a zero byte an abstract name, or nothing."""
    found = _socket.socket(fileno=os.dup(sock))
    try:
        return os.fsencode(found.getsockname())
    finally:
        found.close()


def _network_of(sock: int) -> int:
    """Return the cookie of the network namespace of a socket, which is never used again."""
    return kernel.socket_option(sock, _SO_NETNS_COOKIE)
