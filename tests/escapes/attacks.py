"""Attempts to get out, each a few lines of Python that must fail: name → (promise, code).

They run in the tool. A line that gets through prints ESCAPED; every refusal is an OSError, or an
`Unreachable` raised by a look at what can be seen.
"""

PRELUDE = """
import ctypes, errno, fcntl, os, signal, socket, stat, struct, sys
E = os.environ
OUTSIDE, WORKSPACE, SKILL = E["OUTSIDE"], E["WORKSPACE"], E["SKILL"]
HOST, SIBLING, TCP, UDP = int(E["HOST"]), int(E["SIBLING"]), int(E["TCP"]), int(E["UDP"])
SLOT = os.getppid() or 1  # whoever was forked from outside has no parent in sight
libc = ctypes.CDLL(None, use_errno=True)
class Unreachable(OSError): pass
def call(number, *arguments):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)]
    if libc.syscall(*words) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def must_not(seen):
    if not seen:
        raise Unreachable(0, "not in sight")
def ask(first):
    sock = socket.create_connection(('127.0.0.1', 3128), 5)
    sock.sendall(f'{first} HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n'.encode())
    return sock.recv(100)
def read(path):
    with open(path, "rb") as file:
        return file.read(10)
try:
"""
POSTLUDE = """
except (OSError, MemoryError) as error:
    print("denied", type(error).__name__)
else:
    print("ESCAPED")
"""

FILES = {
    "read a file outside": ("fs-1", "read(OUTSIDE + '/secret')"),
    "list a folder outside": ("fs-1", "os.listdir(OUTSIDE)"),
    "read a home": ("fs-1", "must_not([h for h in ('/root', '/home') if os.listdir(h)])"),
    "read another skill": ("fs-1", "read(OUTSIDE + '/other-skill/SKILL.md')"),
    "read through /proc/self/root": ("fs-1", "read('/proc/self/root' + OUTSIDE + '/secret')"),
    "read through /proc/1/root": ("fs-1", "read('/proc/1/root' + OUTSIDE + '/secret')"),
    "read through a symbolic link": (
        "fs-1",
        "os.symlink(OUTSIDE + '/secret', WORKSPACE + '/link'); read(WORKSPACE + '/link')",
    ),
    "read the password hashes": ("fs-1", "read('/etc/shadow')"),
    "read a private key of the system": ("fs-1", "os.listdir('/etc/ssl/private')"),
    "read settings of this machine": (
        "fs-8",
        "for p in ('fstab', 'machine-id', 'hostname', 'shadow-', 'subuid', 'npmrc'):\n"  # noqa: ISC004
        "        try: read('/etc/' + p)\n"
        "        except OSError: continue\n"
        "        break\n"
        "    else: raise Unreachable(0, 'none of them')",
    ),
    "write settings for others": ("fs-2", "open('/run/skillpouch/system/etc/new', 'w')"),
    "read a disk": ("fs-1", "must_not([d for d in ('/dev/vda', '/dev/sda') if read(d)])"),
    "create a file outside": ("fs-2", "open(OUTSIDE + '/new', 'w')"),
    "append to a file outside": ("fs-2", "open(OUTSIDE + '/secret', 'a').write('x')"),
    "truncate a file outside": ("fs-2", "os.truncate(OUTSIDE + '/secret', 0)"),
    "delete a file outside": ("fs-2", "os.unlink(OUTSIDE + '/secret')"),
    "rename a file outside": ("fs-2", "os.rename(OUTSIDE + '/secret', OUTSIDE + '/moved')"),
    "link a file outside into the workspace": (
        "fs-2",
        "os.link(OUTSIDE + '/secret', WORKSPACE + '/hard'); open(WORKSPACE + '/hard', 'a')",
    ),
    "make a folder outside": ("fs-2", "os.mkdir(OUTSIDE + '/folder')"),
    "write a system program": ("fs-2", "open('/usr/bin/env', 'r+b')"),
    "write the skill": ("fs-2", "open(E['SKILL'] + '/SKILL.md', 'a')"),
    "write a kernel setting": ("fs-2", "open('/proc/sys/kernel/core_pattern', 'r+b')"),
    "pull a kernel lever": ("fs-2", "os.open('/proc/sysrq-trigger', os.O_WRONLY)\nraise OSError"),
    "make a device": (
        "fs-2",
        "os.mknod(WORKSPACE + '/disk', stat.S_IFBLK | 0o600, os.makedev(254, 0))",
    ),
    "give a folder away": ("proc-10", "os.chown(WORKSPACE, 12345, 12345)"),
}

# A file with one of these bits would give its owner's rights to whoever runs it, after the call.
_NEW = "f = WORKSPACE + '/marked'; open(f, 'w').close()\n"
MARKED_PROGRAMS = {
    "mark a program setuid": ("proc-10", _NEW + "os.chmod(f, 0o4755)"),
    "mark a program setgid": ("proc-10", _NEW + "os.chmod(f, 0o2755)"),
    "mark an open program setuid": ("proc-10", _NEW + "os.fchmod(os.open(f, 0), 0o4755)"),
    "mark a program setuid by its folder": (
        "proc-10",
        _NEW + "os.chmod('marked', 0o6755, dir_fd=os.open(WORKSPACE, os.O_RDONLY))",
    ),
    "mark a program setuid by the newest call": (
        "proc-10",
        _NEW + "call(452, -100, f.encode(), 0o4755, 0)",
    ),
    "make a setuid file": ("proc-10", "os.open(WORKSPACE + '/s1', os.O_CREAT | 1, 0o4755)"),
    "make a setgid file": ("proc-10", "os.open(WORKSPACE + '/s2', os.O_CREAT | 1, 0o2755)"),
    "make a setuid file by open": (
        "proc-10",
        "call(2, (WORKSPACE + '/s3').encode(), 0o101, 0o4755)",
    ),
    "make a setuid file by creat": ("proc-10", "call(85, (WORKSPACE + '/s4').encode(), 0o4755)"),
    "make a setuid file by openat2": (
        "proc-10",
        "call(437, -100, (WORKSPACE + '/s5').encode(), struct.pack('QQQ', 0o101, 0o4755, 0), 24)",
    ),
    "make a setuid file without a name": (
        "proc-10",
        "os.open(WORKSPACE, os.O_TMPFILE | os.O_WRONLY, 0o4755)",
    ),
    "make a setuid file by mknod": ("proc-10", "os.mknod(WORKSPACE + '/s6', 0o104755)"),
    "make a setuid file by mknodat": (
        "proc-10",
        "call(259, -100, (WORKSPACE + '/s7').encode(), 0o104755, 0)",
    ),
    "make a setgid folder": ("proc-10", "os.mkdir(WORKSPACE + '/s8', 0o2755)"),
    "make a setgid folder by mkdirat": (
        "proc-10",
        "call(258, -100, (WORKSPACE + '/s9').encode(), 0o2755)",
    ),
    "give a program a capability": (
        "proc-10",
        _NEW + "os.setxattr(f, 'security.capability', struct.pack('<5I', 0x2000001, 1, 0, 0, 0))",
    ),
}

LEASES = {
    "let everybody wait who opens the skill": (
        "fs-7",
        "fcntl.fcntl(os.open(E['SKILL'] + '/SKILL.md', 0), fcntl.F_SETLEASE, fcntl.F_WRLCK)",
    ),
    "let everybody wait who writes a file of the system": (
        "fs-7",
        "fcntl.fcntl(os.open('/etc/passwd', 0), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    ),
    "let everybody wait who opens a file of the workspace": (
        "fs-7",
        "fcntl.fcntl(os.open(WORKSPACE + '/leased', 0o100), fcntl.F_SETLEASE, fcntl.F_WRLCK)",
    ),
    "let everybody wait by a delegation": (
        "fs-7",
        "fcntl.fcntl(os.open(WORKSPACE, 0), 1040, struct.pack('IHH', 0, fcntl.F_RDLCK, 0))",
    ),
}

METADATA = {
    "chmod a file outside": ("fs-3", "os.chmod(OUTSIDE + '/secret', 0o777)"),
    "change the time of a file outside": ("fs-3", "os.utime(OUTSIDE + '/secret', (1, 1))"),
    "chmod a system program": ("fs-3", "os.chmod('/usr/bin/env', 0o755)  # as it is"),
    "set an attribute outside": ("fs-3", "os.setxattr(OUTSIDE + '/secret', 'user.x', b'y')"),
    "chmod the skill": ("fs-3", "os.chmod(E['SKILL'] + '/SKILL.md', 0o777)"),
    "chmod a device": ("fs-3", "os.chmod('/dev/null', 0o640)"),
    "chmod another device": ("fs-3", "os.chmod('/dev/urandom', 0o640)"),
    "chmod the device that is its input": ("fs-3", "os.fchmod(0, 0o640)"),
    "keep the next call from making terminals": ("proc-11", "os.chmod('/dev/pts/ptmx', 0)"),
    "change the time of a device": ("fs-3", "os.utime('/dev/zero', (1, 1))"),
    "chmod what hides the kernel's memory": ("fs-3", "os.chmod('/proc/kcore', 0o640)"),
}

NETWORK = {
    "connect by TCP": ("net-1", "socket.create_connection(('127.0.0.1', TCP), 2)"),
    "connect by TCP over IPv6": (
        "net-1",
        "socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', TCP))",
    ),
    "connect by MPTCP": (
        "net-2",
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(('127.0.0.1', TCP))",
    ),
    "send by UDP": (
        "net-2",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'out', ('127.0.0.1', UDP))",
    ),
    "send raw packets": ("net-2", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)"),
    "talk to the kernel by netlink": ("net-2", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    "reach the hypervisor by vsock": ("net-2", "socket.socket(40, socket.SOCK_STREAM)"),
    "use the kernel's cipher sockets": ("net-2", "socket.socket(38, socket.SOCK_SEQPACKET)"),
    "connect to a unix socket outside": (
        "net-3",
        "socket.socket(socket.AF_UNIX).connect(OUTSIDE + '/socket')",
    ),
    "connect to a unix socket in the workspace": (
        "net-3",
        "socket.socket(socket.AF_UNIX).connect(WORKSPACE + '/socket')",
    ),
    "connect to an abstract unix socket": (
        "net-3",
        "socket.socket(socket.AF_UNIX).connect(E['ABSTRACT'].replace('@', chr(0)))",
    ),
    "send a datagram to a unix socket outside": (
        "net-3",
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"  # noqa: ISC004
        "    a.sendto(b'out', OUTSIDE + '/datagrams')",
    ),
    "send a datagram to a unix socket in the workspace": (
        "net-3",
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"  # noqa: ISC004
        "    a.connect(WORKSPACE + '/datagrams'); a.send(b'out')",
    ),
    "send a datagram by a raw unix socket": (
        "net-3",  # the kernel takes SOCK_RAW for SOCK_DGRAM here
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)\n"  # noqa: ISC004
        "    a.sendto(b'out', WORKSPACE + '/datagrams')",
    ),
    "call from a connected unix socket": (
        "net-3",
        "a, b = socket.socketpair(); b.close(); a.connect(WORKSPACE + '/socket')",
    ),
    "listen on a connected unix socket": (
        "net-3",
        "a, b = socket.socketpair(); a.bind(WORKSPACE + '/bound'); a.listen()",
    ),
    "use io_uring": ("net-2", "call(425, 8, ctypes.create_string_buffer(120))"),
}

# Closed where a call has no network of its own, and on its own loopback elsewhere.
LISTENING = {
    "listen by TCP": ("loop-2", "socket.create_server(('127.0.0.1', 0))"),
    "listen by TCP over IPv6": (
        "loop-2",
        "s = socket.socket(socket.AF_INET6); s.bind(('::1', 0)); s.listen()",
    ),
}

# By a tool that was granted local sockets. Each ends with the refusal of the last line, or without.
_OWN = "s = socket.socket(socket.AF_UNIX); s.bind('/tmp/own'); s.listen()\n"
_SUPERVISED = {
    "connect through a link in its own folder": (
        "os.symlink(WORKSPACE + '/socket', '/tmp/link')\n"
        "socket.socket(socket.AF_UNIX).connect('/tmp/link')"
    ),
    "connect by a name in the workspace": (
        "os.chdir(WORKSPACE); socket.socket(socket.AF_UNIX).connect('socket')"
    ),
    "connect from its own folder upwards": (
        "os.chdir('/tmp'); socket.socket(socket.AF_UNIX).connect('..' + WORKSPACE + '/socket')"
    ),
    "connect through its current folder in /proc": (
        "os.chdir(WORKSPACE)\n"
        "socket.socket(socket.AF_UNIX).connect(f'/proc/{os.getpid()}/cwd/socket')"
    ),
    "connect through its own /proc": (
        "os.chdir(WORKSPACE); socket.socket(socket.AF_UNIX).connect('/proc/self/cwd/socket')"
    ),
    "connect through a descriptor": (
        "fd = os.open(WORKSPACE + '/socket', os.O_PATH)\n"
        "socket.socket(socket.AF_UNIX).connect(f'/proc/{os.getpid()}/fd/{fd}')"
    ),
    "connect packets in the workspace": (
        "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(WORKSPACE + '/socket')"
    ),
    "connect in the workspace without waiting": (
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)\n"
        "s.connect(WORKSPACE + '/socket')"
    ),
    "connect a socket of its own to another": (
        _OWN + "c = socket.socket(socket.AF_UNIX); c.connect('/tmp/own'); s.close()\n"
        "c.connect(WORKSPACE + '/socket')"
    ),
    "link the socket of the workspace to its own folder": (
        "os.link(WORKSPACE + '/socket', '/tmp/linked')\n"
        "socket.socket(socket.AF_UNIX).connect('/tmp/linked')"
    ),
    "move its own socket to the workspace": _OWN + "os.rename('/tmp/own', WORKSPACE + '/moved')",
    "make a socket in the workspace": (
        "s = socket.socket(socket.AF_UNIX); s.bind(WORKSPACE + '/made'); s.listen()"
    ),
    "make a socket of packets in the workspace": (
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "s.bind(WORKSPACE + '/packets'); s.listen()"
    ),
    "make a socket in the workspace and hide its name": (
        "s = socket.socket(socket.AF_UNIX); s.bind(WORKSPACE + '/hidden')\n"
        "os.link(WORKSPACE + '/hidden', WORKSPACE + '/kept'); os.unlink(WORKSPACE + '/hidden')\n"
        "s.listen()"
    ),
    "make a socket in the workspace while it is looked at": (
        # Without a name when it is looked at, with one in the workspace when it listens.
        "import threading, time\n"
        "ended, listening = time.monotonic() + 0.5, []\n"
        "def make(place):\n"
        "    while time.monotonic() < ended and not listening:\n"
        "        s = socket.socket(socket.AF_UNIX)\n"
        "        name = threading.Timer(0.0005, s.bind, (place,)); name.start()\n"
        "        if libc.listen(s.fileno(), 1) == 0: listening.append(s)\n"
        "        name.join(); s.close(); os.unlink(place)\n"
        "names = [f'{WORKSPACE}/late-{n}' for n in range(16)]\n"
        "threads = [threading.Thread(target=make, args=(each,)) for each in names]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "must_not(listening)"
    ),
    "send a datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "change the name while it is looked at": (
        # Two threads: one writes two names over each other, one connects to what is there.
        "import threading, time\n" + _OWN + "both = ('/tmp/own', WORKSPACE + '/socket')\n"
        "names = [struct.pack('H108s', 1, each.encode()) for each in both]\n"
        "name = ctypes.create_string_buffer(names[0], 110)\n"
        "ended = time.monotonic() + 0.5\n"
        "def change():\n"
        "    while time.monotonic() < ended:\n"
        "        for each in names: name.raw = each\n"
        "def connect():\n"
        "    while time.monotonic() < ended:\n"
        "        c = socket.socket(socket.AF_UNIX)\n"
        "        libc.connect(c.fileno(), name, 110); c.close()\n"
        "def accept():\n"
        "    while True: s.accept()[0].close()\n"
        "threading.Thread(target=accept, daemon=True).start()\n"
        "threads = [threading.Thread(target=run) for run in (change, connect)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "raise Unreachable(0, 'the listener in the workspace counts')"
    ),
    "change the link while it is looked at": (
        "import threading, time\n" + _OWN + "ended = time.monotonic() + 0.5\n"
        "def change():\n"
        "    while time.monotonic() < ended:\n"
        "        for each in ('/tmp/own', WORKSPACE + '/socket'):\n"
        "            os.symlink(each, '/tmp/next'); os.rename('/tmp/next', '/tmp/link')\n"
        "def connect():\n"
        "    while time.monotonic() < ended:\n"
        "        c = socket.socket(socket.AF_UNIX)\n"
        "        libc.connect(c.fileno(), struct.pack('H108s', 1, b'/tmp/link'), 110); c.close()\n"
        "def accept():\n"
        "    while True: s.accept()[0].close()\n"
        "threading.Thread(target=accept, daemon=True).start()\n"
        "threads = [threading.Thread(target=run) for run in (change, connect)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "raise Unreachable(0, 'the listener in the workspace counts')"
    ),
    "change the descriptor while it is looked at": (
        # A socket of the machine, if there were one, could be put under the number of another.
        "import threading, time\n" + _OWN + "ended = time.monotonic() + 0.3\n"
        "place = socket.socket(socket.AF_UNIX)\n"
        "def change():\n"
        "    while time.monotonic() < ended:\n"
        "        for kind in (socket.AF_UNIX, socket.AF_INET):\n"
        "            c = socket.socket(kind); os.dup2(c.fileno(), place.fileno()); c.close()\n"
        "name = struct.pack('H108s', 1, (WORKSPACE + '/socket').encode())\n"
        "def connect():\n"
        "    while time.monotonic() < ended: libc.connect(place.fileno(), name, 110)\n"
        "threads = [threading.Thread(target=run) for run in (change, connect)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "raise Unreachable(0, 'the listener in the workspace counts')"
    ),
    "take the place of its supervisor": (
        # A second listener for connects, and a filter that allows them.
        "code = struct.pack('HBBI', 6, 0, 0, 0x7fff0000)\n"
        "text = ctypes.create_string_buffer(code, 8)\n"
        "header = struct.pack('HxxxxxxQ', 1, ctypes.addressof(text))\n"
        "call(317, 1, 0, ctypes.create_string_buffer(header, 16))\n"
        "socket.socket(socket.AF_UNIX).connect(WORKSPACE + '/socket')"
    ),
    "listen to connects itself": (
        "code = struct.pack('HBBI', 6, 0, 0, 0x7fc00000)\n"
        "text = ctypes.create_string_buffer(code, 8)\n"
        "header = struct.pack('HxxxxxxQ', 1, ctypes.addressof(text))\n"
        "call(317, 1, 8, ctypes.create_string_buffer(header, 16))"
    ),
}
LOCAL_SOCKETS = {
    name: ("local-2" if "its own socket" in name or "make" in name else "local-1", code)
    for name, code in _SUPERVISED.items()
}

PROCESSES = {
    "trace a sibling": ("proc-6", "call(101, 16, SIBLING, 0, 0)"),
    "trace its own first process": ("proc-6", "call(101, 16, 1, 0, 0)"),
    "read the memory of the host": (
        "proc-6",
        "a = ctypes.create_string_buffer(16)\n    call(310, HOST, a, 1, a, 1, 0)",
    ),
    "open the memory of the host": ("proc-6", "os.open(f'/proc/{HOST}/mem', os.O_RDONLY)"),
    "read the environment of the host": ("proc-6", "read(f'/proc/{HOST}/environ')"),
    "read the command line of a sibling": ("proc-6", "read(f'/proc/{SIBLING}/cmdline')"),
    "read the memory of the sandbox": ("proc-6", "os.open(f'/proc/{SLOT}/mem', os.O_RDONLY)"),
    "read the environment of the sandbox": ("proc-6", "read(f'/proc/{SLOT}/environ')"),
    "see the processes of others": (
        "proc-6",
        "seen = {int(p) for p in os.listdir('/proc') if p.isdigit()}\n"  # noqa: ISC004
        "    must_not(seen - {os.getpid(), SLOT})",
    ),
    "stop the host": ("proc-5", "os.kill(HOST, signal.SIGSTOP)"),
    "signal the host": ("proc-5", "os.kill(HOST, 0)"),
    "kill a sibling": ("proc-5", "os.kill(SIBLING, signal.SIGKILL)"),
    "kill the group of the host": ("proc-5", "os.killpg(int(E['HOST_GROUP']), signal.SIGKILL)"),
    "kill the host through a descriptor": (
        "proc-5",
        "signal.pidfd_send_signal(os.pidfd_open(HOST), signal.SIGKILL)",
    ),
    "have the kernel signal the host": (
        "proc-5",
        "fcntl.fcntl(socket.socketpair()[0], fcntl.F_SETOWN, HOST)",
    ),
    "have the kernel signal the host, said otherwise": (
        "proc-5",
        "fcntl.fcntl(socket.socketpair()[0], 15, struct.pack('ii', 1, HOST))",
    ),
    "have the kernel signal the host, said to the socket": (
        "proc-5",
        "fcntl.ioctl(socket.socketpair()[0], 0x8901, struct.pack('i', HOST))",
    ),
    "have the kernel signal a sibling, said to the socket": (
        "proc-5",
        "fcntl.ioctl(socket.socketpair()[0], 0x8902, struct.pack('i', SIBLING))",
    ),
    "take a descriptor from the host": (
        "proc-6",
        "call(438, os.pidfd_open(HOST), 0, 0)",
    ),
    "limit the sandbox": (
        "proc-5",
        "import resource\n    resource.prlimit(SLOT, resource.RLIMIT_NOFILE, (3, 3))",
    ),
    "slow the sandbox down": ("proc-5", "os.setpriority(os.PRIO_PROCESS, SLOT, 19)"),
    "slow a group down": ("proc-5", "os.setpriority(os.PRIO_PGRP, 0, 19)"),
    "slow the user down": ("proc-5", "os.setpriority(os.PRIO_USER, 0, 19)"),
    "let the sandbox run last": (
        "proc-5",
        "os.sched_setscheduler(SLOT, os.SCHED_IDLE, os.sched_param(0))",
    ),
    "let the sandbox run last by attributes": (
        "proc-5",
        "call(314, SLOT, struct.pack('IIQiIQQQ', 48, 5, 0, 0, 0, 0, 0, 0), 0)",
    ),
    "set the parameters of the sandbox": (
        "proc-5",
        "os.sched_setparam(SLOT, os.sched_param(0))",
    ),
    "hold the sandbox to one processor": ("proc-5", "os.sched_setaffinity(SLOT, {0})"),
    "let the sandbox read and write last": ("proc-5", "call(251, 1, SLOT, 3 << 13)"),
    "let a group read and write last": ("proc-5", "call(251, 2, 0, 3 << 13)"),
    "let the user read and write last": ("proc-5", "call(251, 3, os.getuid(), 3 << 13)"),
    "write to a terminal's input": (
        "proc-7",
        "try: fcntl.ioctl(0, 0x5412, b'x')\n"  # noqa: ISC004
        "    except OSError as error:\n"
        "        if error.errno == errno.EPERM: raise\n",
    ),
}

# Terminals: those of the machine are out of reach, and nobody types into the sandbox's own.
_OWN_TERMINAL = "import pty; ours, theirs = pty.openpty(); "
TERMINALS = {
    "open a terminal of the machine": ("proc-11", "os.open(E['TERMINAL'], os.O_RDWR)"),
    "list the terminals of the machine": (
        "proc-11",
        "must_not(set(os.listdir('/dev/pts')) - {'ptmx'})",
    ),
    "open the terminal of its user": ("proc-11", "os.open('/dev/tty', os.O_RDWR)"),
    "make a terminal its own that it never opened": (
        "proc-11",
        "fcntl.ioctl(0, 0x540E, 1)",  # TIOCSCTTY
    ),
    "type into a terminal of its own": (
        "proc-7",
        _OWN_TERMINAL + "fcntl.ioctl(theirs, 0x5412, b'x')",
    ),
    "load a line discipline": (
        "proc-11",
        _OWN_TERMINAL + "fcntl.ioctl(theirs, 0x5423, struct.pack('i', 13))",
    ),
    "take all terminals of the machine": (
        "proc-11",
        "import pty; kept = [pty.openpty() for _ in range(100)]",
    ),
}
USES_TERMINAL = """
import os, pty
pid, terminal = pty.fork()
if pid == 0:
    os.write(1, os.ttyname(0).encode() + b" " + str(os.open("/dev/tty", os.O_RDWR) > 2).encode())
    os._exit(0)
said = b""
try:
    while piece := os.read(terminal, 100):
        said += piece
except OSError:
    pass
print(said.decode(), sorted(os.listdir("/dev/pts")))
"""

PRIVILEGES = {
    "make a user namespace": ("proc-9", "call(272, 0x10000000)"),
    "make a user namespace by clone": ("proc-9", "call(56, 0x10000000 | 17, 0, 0, 0, 0)"),
    "make a user namespace by clone3": ("proc-9", "call(435, ctypes.create_string_buffer(88), 88)"),
    "enter the namespaces of another": (
        "proc-9",
        "call(308, os.open(f'/proc/{SLOT}/ns/mnt', os.O_RDONLY), 0)",
    ),
    "mount": ("proc-9", "call(165, b'tmpfs', WORKSPACE.encode(), b'tmpfs', 0, None)"),
    "unmount": ("proc-9", "call(166, b'/proc', 2)"),
    "mount by the new calls": ("proc-9", "call(430, b'tmpfs', 0)"),
    "make the root writable": (
        "proc-9",
        "call(442, -100, b'/', 0x8000, struct.pack('QQQQ', 0, 1, 0, 0), 32)",
    ),
    "change the root": ("proc-9", "os.chroot(WORKSPACE)"),
    "open a file by its handle": ("proc-9", "call(304, -100, ctypes.create_string_buffer(64), 0)"),
    "load a program into the kernel": (
        "proc-9",
        "call(321, 5, ctypes.create_string_buffer(128), 128)",
    ),
    "watch the machine": ("proc-9", "call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)"),
    "handle page faults": ("proc-9", "call(323, 0)"),
    "take the machine's asynchronous reads": (
        "proc-9",  # their number is the machine's, not a user's
        "call(206, 60000, ctypes.create_string_buffer(8))",
    ),
    "use the keyring": ("proc-9", "call(250, 0, -3, 1)"),
    "become another user": ("proc-10", "os.setuid(12345 if os.getuid() != 12345 else 12346)"),
    "hold a capability": (
        "proc-10",
        "data = ctypes.create_string_buffer(24)\n"  # noqa: ISC004
        "    libc.capget(struct.pack('Ii', 0x20080522, 0), data)\n"
        "    must_not(any(data.raw))",
    ),
    "gain privileges by exec": ("proc-10", "must_not(libc.prctl(39, 0, 0, 0, 0) != 1)"),
    "take the user's inotify instances": (
        "sess-1",
        "for _ in range(100): call(294, 0)",
    ),
    "take memory in a file that is nowhere": (
        "limit-3",
        "os.ftruncate(os.memfd_create('memory'), 1 << 20)",
    ),
    "take shared memory beside its limit": (
        "limit-3",  # a half of what its limit allows, in one piece
        "import mmap\n    mmap.mmap(-1, 512 << 20)",
    ),
    "fill a temporary folder with files": (
        "limit-3",
        "os.mkdir('/tmp/many')\n"  # noqa: ISC004
        "    free = os.statvfs('/tmp').f_ffree\n"
        "    must_not(free > 1 << 17)",
    ),
    "leave shared memory behind": ("limit-6", "call(29, 4711, 4096, 0o1600)"),
    "leave a message queue behind": ("limit-6", "call(240, b'queue', 0o102, 0o600, None)"),
}

# Through the proxy of a tool that was granted one other host. Outside of that there is none, and
# nothing to connect to: refused all the same.
_ASK = "must_not(ask({first!r}.replace('TCP', str(TCP))).startswith(b'HTTP/1.1 2'))"
PROXIED = {
    f"ask the proxy: {first}": ("net-5", _ASK.format(first=first))
    for first in (
        "CONNECT 127.0.0.1:TCP",
        "CONNECT localhost:TCP",
        "CONNECT LOCALHOST.:TCP",
        "CONNECT 127.1:TCP",
        "CONNECT 2130706433:TCP",
        "CONNECT 0x7f000001:TCP",
        "CONNECT 0177.0.0.1:TCP",
        "CONNECT 0.0.0.0:TCP",
        "CONNECT [::1]:TCP",
        "CONNECT [::ffff:127.0.0.1]:TCP",
        "CONNECT example.com@127.0.0.1:TCP",
        "CONNECT example.com:TCP",
        "GET http://127.0.0.1:TCP/",
        "GET http://example.com@127.0.0.1:TCP/",
        "GET http://example.com#@127.0.0.1:TCP/",
        "GET http://example.com\\@127.0.0.1:TCP/",
    )
}
PROXIED["ask the proxy for a path"] = ("net-5", _ASK.format(first="GET /"))
PROXIED["connect to the port of the host"] = (
    "net-8",
    "socket.create_connection(('127.0.0.1', TCP), 2)",
)

# With a layer over the workspace: no way leads to the layer but the overlay, and none to the
# workspace below it.
_MOUNTS = "mounts = [line.split() for line in open('/proc/self/mountinfo')]\n"
LAYERED = {
    "list the layers of all calls": ("layer-3", "os.listdir(E['LAYERS'])"),
    "find the layers among the mounts": (
        "layer-3",
        _MOUNTS + "must_not([words for words in mounts if '/layers/' in words[3]])",
    ),
    "find the layers where a zygote has them": (
        "layer-3",
        "must_not(set(os.listdir('/dev/pts')) - {'ptmx'})",
    ),
    "find a layer by its name": (
        "layer-3",
        (
            "open(WORKSPACE + '/my-own-mark', 'w').close()\n"
            "found = [top for top, _, names in os.walk('/') if 'my-own-mark' in names]\n"
            "must_not([top for top in found if not os.path.samefile(top, WORKSPACE)])"
        ),
    ),
    "find the workspace below the overlay": (
        "layer-3",
        _MOUNTS + "status = os.stat(WORKSPACE)\n"
        "seen = f'{os.major(status.st_dev)}:{os.minor(status.st_dev)}'\n"
        "hidden = [w[2] for w in mounts if w[4] == WORKSPACE and 'overlay' not in w]\n"
        "must_not(seen in hidden)",
    ),
    "find the workspace through an open folder": (
        "layer-3",
        (
            "found = []\n"
            "for process in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try: names = os.listdir(f'/proc/{process}/fd')\n"
            "    except OSError: continue\n"
            "    for name in names:\n"
            "        try: mode = os.stat(f'/proc/{process}/fd/{name}').st_mode\n"
            "        except OSError: continue\n"
            "        found += [name] if stat.S_ISDIR(mode) else []\n"
            "must_not(found)"
        ),
    ),
    "find the workspace above its root": (
        "layer-3",
        (
            "os.chdir(WORKSPACE); os.chdir('..'); name = os.path.basename(WORKSPACE)\n"
            "must_not(os.stat(name).st_dev != os.stat(WORKSPACE).st_dev)"
        ),
    ),
    "list a layer of its session that waits": ("undo-6", "os.listdir(E['STAGED'])"),
    "write to a layer of its session that waits": (
        "undo-6",
        (
            "open(WORKSPACE + '/staged-mark', 'w').write('through the overlay')\n"
            "open(E['STAGED'] + '/staged-mark', 'w').write('beside it')"
        ),
    ),
    "remove what waits in a layer of its session": (
        "undo-6",
        "os.unlink(WORKSPACE + '/staged-mark'); os.unlink(E['STAGED'] + '/staged-mark')",
    ),
    "list what another session has staged": ("undo-6", "os.listdir(E['OTHERS'])"),
    "find layers that wait among the mounts": (
        "undo-6",
        _MOUNTS + "must_not([words for words in mounts if '/changes/' in words[3]])",
    ),
    "find what another session has staged by its name": (
        "undo-6",
        "must_not([top for top, _, names in os.walk('/') if 'others-mark' in names])",
    ),
    "unmount the overlay": ("layer-3", "call(166, WORKSPACE.encode(), 2)"),
    "have the kernel forget the layer": ("layer-3", "call(433, -100, WORKSPACE.encode(), 0)"),
    "move the overlay": (
        "layer-3",
        "call(429, -100, WORKSPACE.encode(), -100, b'/tmp', 0)",
    ),
    "make a mark of a deleted file": (
        "layer-3",
        "os.mknod(WORKSPACE + '/whiteout', stat.S_IFCHR | 0o600, 0)",
    ),
    "leave a mark of a deleted file by a rename": (
        "layer-3",
        "open('moved', 'w').close(); call(316, -100, b'moved', -100, b'away', 4)",
    ),
    "mark a folder with a note of the overlay": (
        "layer-3",
        (
            "os.makedirs('noted', exist_ok=True)\n"
            "os.setxattr('noted', 'trusted.overlay.redirect', b'/etc')"
        ),
    ),
}

# Calls that may write in the folder of their skill, and keep `data` and `lib/cache` there. Each
# runs after the one before it, in the same folder.
_PLANTED = "('json.py', 'sitecustomize.py', 'scripts.py', 'node_modules', 'lib/json.py')"
OWN_FOLDER = {
    "write to a file of the skill": ("own-1", "open(SKILL + '/scripts/module.py', 'a')"),
    "truncate a file of the skill": ("own-1", "os.truncate(SKILL + '/SKILL.md', 0)"),
    "write to a file beside what may be made": ("own-1", "open(SKILL + '/lib/module.py', 'w')"),
    "replace a file of the skill": (
        "own-1",
        "open(SKILL + '/new', 'w').close(); os.rename(SKILL + '/new', SKILL + '/SKILL.md')",
    ),
    "remove a file of the skill": ("own-1", "os.unlink(SKILL + '/SKILL.md')"),
    "remove a file beside what may be made": ("own-1", "os.unlink(SKILL + '/lib/module.py')"),
    "move a folder of the skill": ("own-1", "os.rename(SKILL + '/scripts', SKILL + '/old')"),
    "move a folder in which entries may be made": (
        "own-1",
        "os.rename(SKILL + '/lib', SKILL + '/old')",
    ),
    "exchange a folder of the skill": (
        "own-1",
        (
            "os.mkdir(SKILL + '/mine')\n"
            "pair = [(SKILL + name).encode() for name in ('/scripts', '/mine')]\n"
            "call(316, -100, pair[0], -100, pair[1], 2)"
        ),
    ),
    "move the folder of the skill itself": ("own-1", "os.rename(SKILL, SKILL + '-old')"),
    "add a file to a folder of the skill": ("own-1", "open(SKILL + '/scripts/json.py', 'w')"),
    "add compiled code to a folder of the skill": (
        "own-1",
        "os.mkdir(SKILL + '/scripts/__pycache__')",
    ),
    "change the mode of a file of the skill": ("own-1", "os.chmod(SKILL + '/SKILL.md', 0o777)"),
    "change the times of a folder of the skill": ("own-1", "os.utime(SKILL + '/scripts', (0, 0))"),
    "give a file of the skill another name": (
        "own-1",
        "os.link(SKILL + '/SKILL.md', SKILL + '/same')",
    ),
    "unmount a file of the skill": ("own-1", "call(166, (SKILL + '/SKILL.md').encode(), 2)"),
    "mount over a folder of the skill": (
        "own-1",
        (
            "os.makedirs(SKILL + '/data/scripts', exist_ok=True)\n"
            "pair = [(SKILL + name).encode() for name in ('/data/scripts', '/scripts')]\n"
            "call(165, pair[0], pair[1], None, 4096, None)"
        ),
    ),
    "leave code for the next call": (
        "own-2",
        (
            f"for name in {_PLANTED}: open(SKILL + '/' + name, 'w').write('planted')\n"
            "os.makedirs(SKILL + '/data', exist_ok=True)\n"
            "os.makedirs(SKILL + '/lib/cache', exist_ok=True)\n"
            "open(SKILL + '/data/kept', 'w').close()\n"
            "os.unlink(SKILL + '/linked'); os.symlink('data', SKILL + '/linked')\n"
            "os.chmod(SKILL, 0o500)\n"
            "must_not(False)"
        ),
    ),
    "find what another call left": (
        "own-2",
        (
            "assert os.path.exists(SKILL + '/data/kept') and os.path.isdir(SKILL + '/lib/cache')\n"
            "assert os.readlink(SKILL + '/linked') == 'lib', os.readlink(SKILL + '/linked')\n"
            f"must_not([name for name in {_PLANTED} if os.path.lexists(SKILL + '/' + name)])"
        ),
    ),
    "find the folder where it is kept": (
        "own-3",
        (
            "found = [top for top, _, names in os.walk('/') if 'kept' in names]\n"
            "must_not(set(found) - {SKILL + '/data'})"
        ),
    ),
}

EVERYTHING = {
    **FILES,
    **MARKED_PROGRAMS,
    **LEASES,
    **METADATA,
    **NETWORK,
    **LISTENING,
    **PROCESSES,
    **TERMINALS,
    **PRIVILEGES,
}


def program(name: str) -> str:
    """Return the whole program of one attempt."""
    if name in LOCAL_SOCKETS or name in LAYERED or name in OWN_FOLDER:
        code = {**LOCAL_SOCKETS, **LAYERED, **OWN_FOLDER}[name][1]
        lines = ["    " + line for line in code.split("\n")]
        return PRELUDE + "\n".join(lines) + POSTLUDE
    code = {**EVERYTHING, **PROXIED}[name][1]
    lines = [line if line.startswith("    ") else "    " + line for line in code.split("\n")]
    return PRELUDE + "\n".join(lines) + POSTLUDE
