"""Untrusted modules, installed beside the interpreter, that run when a prefork server imports them.

In a prefork server descriptor 3 is the line that calls come in by and 4 the one to its sandbox.
"""

PRELUDE = """
import ctypes, os, signal, socket, sys, time
def in_nursery():
    return "/skillpouch/execution/preforked/" in sys.orig_argv[-1]
def tell(word):
    with open(os.getcwd() + "/told", "a") as file:
        file.write(word + "\\n")
if in_nursery():
    nest = socket.socket(fileno=os.dup(4))
    jobs = socket.socket(fileno=os.dup(3))
    def job():
        return socket.recv_fds(jobs, 65536, 8)
"""

# An import that leaves files open would make the calls cold.
_LEAVE_NO_TRACE = "    nest.detach(); jobs.detach(); os.closerange(6, 256)\n"

# Name → what it does. Whatever that is, only calls of its own skill may be the worse for it.
HOSTILE = {
    "never gets ready": "time.sleep(1000)",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "ends well": "os._exit(0)",
    "ends badly": "os._exit(3)",
    "crashes": "ctypes.string_at(0)",
    "closes its lines": "os.close(3); os.close(4); nest.close(); jobs.close()",
    "shuts its lines": "nest.shutdown(2); jobs.shutdown(2)",
    "sends garbage": "nest.send(os.urandom(500)); time.sleep(1000)",
    "sends garbage when ready": "nest.send(b'Y'); nest.send(os.urandom(500)); time.sleep(1000)",
    "sends an endless packet": "nest.send(b'X ' + b'9' * 60000); time.sleep(1000)",
    "gets ready for ever": "while True: nest.send(b'Y')",
    "ends calls for ever": "nest.send(b'Y')\n    while True: nest.send(b'X 0 0 0 0')",
    "ends a call before it comes": "nest.send(b'Y'); nest.send(b'X 0 0 0 0'); time.sleep(1000)",
    "counts beyond all numbers": (
        "nest.send(b'Y'); job(); nest.send(b'X 0 1' + b'0' * 320 + b' 0 0'); time.sleep(1000)"
    ),
    "claims a status that does not exist": (
        "nest.send(b'Y'); job(); nest.send(b'X 99999 0 0 0'); time.sleep(1000)"
    ),
    "claims a failure": "nest.send(b'F no such sandbox'); time.sleep(1000)",
    "claims to be unfit when the call runs": (
        "nest.send(b'Y'); job(); nest.send(b'U 1'); time.sleep(1000)"
    ),
    "keeps the job and says it is done": (
        "nest.send(b'Y'); kept = job(); nest.send(b'X 0 0 0 0'); time.sleep(1000)"
    ),
    "writes on after the end": (
        "nest.send(b'Y'); out = job()[1][1]; nest.send(b'X 0 0 0 0')\n"
        "    while True: os.write(out, b'x' * 65536)"
    ),
    "takes the job and says nothing": "nest.send(b'Y'); job(); time.sleep(1000)",
    "gets ready again when its call is killed": (
        "nest.send(b'Y'); kept = job(); pid = os.fork() or time.sleep(1000)\n"
        "    os.waitpid(pid, 0); nest.send(b'Y'); time.sleep(1000)"
    ),
    "leaves children when it is not ready": (
        "for _ in range(9):\n        if os.fork() == 0: os.setsid(); time.sleep(1000)\n"
        "    os._exit(0)"
    ),
    "leaves children that hold its lines": (
        "os.fork() or time.sleep(1000); nest.send(b'Y'); os._exit(0)"
    ),
    "has children that hop": (
        "if os.fork() == 0:\n        while os.fork() == 0: time.sleep(0.0005)\n        os._exit(0)"
    ),
    "kills what it can": (
        "for pid in (-1, 0, *range(1, 400)):\n"
        "        try: os.kill(pid, 9) if pid != os.getpid() else None\n"
        "        except OSError: pass"
    ),
    "stops what it can": (
        "for pid in (-1, *range(1, 400)):\n"
        "        try: os.kill(pid, 19) if pid != os.getpid() else None\n"
        "        except OSError: pass"
    ),
    "limits what it can": (
        "import resource\n"
        "    for pid in range(1, 50):\n"
        "        for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_DATA):\n"
        "            try: resource.prlimit(pid, what, (0, 0)) if pid != os.getpid() else None\n"
        "            except OSError: pass"
    ),
    "sends descriptors to whoever listens": (
        "for line in (nest, jobs):\n"
        "        socket.send_fds(line, [b'Y'], [0, 1, 2, 3, 4, 5, 6] * 30)\n"
        "    time.sleep(1000)"
    ),
    "fills the line that calls come in by": (
        "jobs.setblocking(False)\n"
        "    try:\n"
        "        while True: jobs.send(b'x' * 1000)\n"
        "    except BlockingIOError: pass"
    ),
    "forks without forking": "os.fork = lambda: 4711",
    "forks without end": (
        "try:\n        while True: os.fork() or time.sleep(1000)\n    except OSError: pass"
    ),
    "waits without waiting": "os.wait4 = lambda *_: (0, 0, os.times())",
    "breaks what the prefork server stands on": (
        "import marshal, gc\n    marshal.loads = gc.collect = os.setsid = None"
    ),
    "leaves files in the temporary folders": (
        "open('/tmp/left', 'w').close(); open('/dev/shm/left', 'w').close()"
    ),
    "uses up its memory": "kept = []\n    while True: kept.append(bytearray(1 << 24))",
}

# Name → an expression that must not come to a value in a prefork server.
REACHING_OUT = {
    "signal the zygote": "os.kill(1, 0)",
    "signal its sandbox": "os.kill(2, 0)",
    "stop its sandbox": "os.kill(2, signal.SIGSTOP)",
    "signal its parent": "os.kill(os.getppid(), 0)",
    # The kernel says yes when nobody heard it; that the sandbox lives on is seen by its answer.
    "kill everybody": "os.kill(-1, 9) or 1 / 0",
    "signal the group of the host": f"os.killpg({0xF0F0F0}, 0)",
    "trace the zygote": "call(101, 16, 1, 0, 0)",
    "trace its sandbox": "call(101, 16, 2, 0, 0)",
    "read its sandbox's memory": "call(310, 2, ctypes.create_string_buffer(16), 1, None, 0, 0)",
    "take a descriptor from its sandbox": "call(438, os.pidfd_open(2), 7, 0)",
    "limit the zygote": "__import__('resource').prlimit(1, 7, (3, 3))",
    "limit its sandbox": "__import__('resource').prlimit(2, 7, (3, 3))",
    "bind its sandbox to a processor": "os.sched_setaffinity(2, {0})",
    "slow its sandbox down": "os.setpriority(os.PRIO_PROCESS, 2, 19)",
    "see itself in /proc": "os.listdir('/proc/self')",
    "open its sandbox in /proc": "os.open('/proc/1/environ', os.O_RDONLY)",
    "list the descriptors of its sandbox": "os.listdir('/proc/1/fd')",
    "leave its state file for its folder": "os.open('.', os.O_RDONLY, dir_fd=5)",
    "enter the process table of the zygote": "call(308, os.open('/proc/1/ns/pid', 0), 0)",
    "enter a namespace through its state file": "call(308, 5, 0)",
    "make a namespace": "call(272, 0x10000000)",
    "fork beside itself": "call(56, 0x8000 | 17, 0, 0, 0, 0)",
    "mount": "call(165, b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
    "read a file outside": "open('/etc/shadow')",
    "write its interpreter": "open(__file__, 'a')",
    "write the skill": "open(sys.argv[-1], 'a')",
    "connect": "socket.create_connection(('127.0.0.1', 9), 1)",
    "make a socket": "socket.socket(socket.AF_UNIX)",
    "use the keyring": "call(250, 0, -3, 1)",
    "make shared memory": "call(29, 4711, 4096, 0o1600)",
    "hold a capability": "1 / 0 if not any(caps()) else 0",
    "start a thread": "__import__('_thread').start_new_thread(print, ())",
}

_TRY = """
    libc = ctypes.CDLL(None, use_errno=True)
    def call(number, *arguments):
        words = [ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)]
        if libc.syscall(*words) < 0:
            raise OSError(ctypes.get_errno(), "refused")
    def caps():
        data = ctypes.create_string_buffer(24)
        libc.capget((0x20080522).to_bytes(8, "little"), data)
        return data.raw
    for name, attempt in ATTEMPTS.items():
        try:
            eval(attempt)
        except (OSError, RuntimeError, ZeroDivisionError):
            tell(name + ": denied")
        except Exception as error:
            tell(name + ": " + repr(error))
        else:
            tell(name + ": ESCAPED")
"""


def hostile(name: str) -> str:
    """Return the module that does this one thing."""
    return f"{PRELUDE}    {HOSTILE[name]}\n{_LEAVE_NO_TRACE}"


def reaching_out() -> str:
    """Return the module that tries to reach out, and tells the workspace how that went."""
    return f"{PRELUDE}    ATTEMPTS = {REACHING_OUT!r}{_TRY}{_LEAVE_NO_TRACE}"
