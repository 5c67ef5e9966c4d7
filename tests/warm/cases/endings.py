"""How a program ends: statuses, signals, what runs last."""

CASES = {
    "exit0": """
import sys
print("a")
sys.exit()
""",
    "exit3": """
import sys
sys.exit(3)
""",
    "exit_str": """
import sys
sys.exit("bad thing")
""",
    "exit_neg": """
import sys
sys.exit(-1)
""",
    "exit_big": """
import sys
sys.exit(256 + 7)
""",
    "exit_true": """
import sys
sys.exit(True)
""",
    "exit_tuple": """
import sys
sys.exit((1, 2))
""",
    "exit_float": """
raise SystemExit(2.5)
""",
    "exit_none": """
raise SystemExit(None)
""",
    "exit_huge": """
import sys
sys.exit(2**70)
""",
    "exit_wide": """
import sys
sys.exit(2**40 + 5)
""",
    "exit_object": """
class Reason:
    def __str__(self):
        return "a reason"
raise SystemExit(Reason())
""",
    "exit_unprintable": """
class Reason:
    def __str__(self):
        raise ValueError("no text")
raise SystemExit(Reason())
""",
    "exit_nested": """
import sys
sys.exit(SystemExit(4))
""",
    "exit_empty_text": """
import sys
sys.exit("")
""",
    "exit_bytes": """
import sys
sys.exit(b"raw")
""",
    "exit_subclass": """
class Leave(SystemExit):
    code = 6
raise Leave("ignored")
""",
    "exit_in_finally": """
import sys
try:
    sys.exit(1)
finally:
    sys.exit(2)
""",
    "exit_in_thread": """
import sys, threading
t = threading.Thread(target=sys.exit, args=(3,))
t.start()
t.join()
print("still here")
""",
    "help_exit": """
exit(3)
""",
    "quit_closes_stdin": """
quit("gone")
""",
    "os_exit": """
import os
print("lost")
os._exit(7)
""",
    "kbdint": """
raise KeyboardInterrupt
""",
    "kbdint_signal": """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(5)
""",
    "kbdint_caught": """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("caught")
""",
    "kbdint_atexit": """
import atexit
atexit.register(print, "last words")
raise KeyboardInterrupt("stop")
""",
    "atexit": """
import atexit
atexit.register(lambda: print("bye"))
print("hi")
""",
    "atexit_order": """
import atexit
for number in range(5):
    atexit.register(print, number)
raise ValueError("first the error")
""",
    "atexit_exc": """
import atexit
def b():
    raise RuntimeError("in atexit")
atexit.register(b)
print("hi")
""",
    "atexit_exit": """
import atexit, sys
atexit.register(print, "after")
atexit.register(sys.exit, 5)
print("hi")
""",
    "atexit_registers": """
import atexit
atexit.register(lambda: atexit.register(print, "late"))
""",
    "atexit_unregister": """
import atexit
atexit.register(print, "a")
atexit.unregister(print)
print("only this")
""",
    "atexit_thread": """
import atexit, threading
atexit.register(print, "atexit")
threading.Thread(target=lambda: print("thread")).start()
""",
    "weakref_finalize": """
import weakref
class A:
    pass
a = A()
weakref.finalize(a, print, "finalized")
print("end")
""",
    "segv": """
import ctypes
ctypes.string_at(0)
""",
    "segv_faulthandler": """
import ctypes, faulthandler
faulthandler.enable()
print("before")
ctypes.string_at(0)
""",
    "abort": """
import os
os.abort()
""",
    "kill_self": """
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
""",
    "term_self": """
import os, signal, time
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.2)
print("survived")
""",
    "alarm": """
import signal, time
signal.alarm(1)
time.sleep(1.5)
print("survived alarm")
""",
    "alarm_handler": """
import signal
def ring(number, frame):
    print("ring", number)
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.05)
signal.pause()
""",
    "sigterm_handler": """
import os, signal, sys
signal.signal(15, lambda *a: sys.exit(9))
os.kill(os.getpid(), 15)
""",
    "signal_user": """
import os, signal
signal.signal(signal.SIGUSR1, lambda *a: print("usr1"))
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR2)
""",
    "signal_segv_sent": """
import os, signal
os.kill(os.getpid(), signal.SIGSEGV)
""",
    "kill_group": """
import os, signal
print(os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid(), flush=True)
os.killpg(0, signal.SIGHUP)
""",
    "xfsz": """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
with open("big", "wb") as f:
    f.write(b"x" * 100)
""",
    "del_at_exit": """
class A:
    def __del__(self):
        print("del")
a = A()
print("x")
""",
    "del_order": """
class A:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("del", self.name)
c, a, b, _p = A("c"), A("a"), A("b"), A("_p")
print("x")
""",
    "del_uses_globals": """
import os
class A:
    def __del__(self):
        print(os.path.basename("/x/y"), helper(), TEXT)
a = A()
TEXT = "text"
def helper():
    return "helped"
""",
    "del_of_cycle": """
class A:
    def __del__(self):
        print("del cycle")
a = A()
a.me = a
del a
print("end")
""",
    "del_in_sibling": """
import own_things
print("main over")
""",
    "del_raises": """
class A:
    def __del__(self):
        raise ValueError("in del")
a = A()
del a
print("end")
""",
    "del_raises_at_exit": """
class A:
    def __del__(self):
        raise ValueError("in del")
a = A()
""",
    "del_after_error": """
class A:
    def __del__(self):
        print("del")
def f():
    a = A()
    raise ValueError("with a local")
f()
""",
    "del_prints_to_error": """
import sys
class A:
    def __del__(self):
        print("del", file=sys.stderr)
a = A()
""",
    "generator_left_open": """
def g():
    try:
        yield 1
    finally:
        print("closed")
it = g()
print(next(it))
""",
    "coroutine_never_awaited": """
async def f():
    pass
f()
print("end")
""",
    "coroutine_left_over": """
async def f():
    pass
c = f()
print("end")
""",
    "async_generator_left_open": """
import asyncio
async def g():
    try:
        yield 1
    finally:
        print("closed")
async def main():
    async for x in g():
        print(x)
        break
asyncio.run(main())
""",
    "context_manager_left_open": """
import contextlib
@contextlib.contextmanager
def m():
    print("in")
    try:
        yield
    finally:
        print("out")
cm = m()
cm.__enter__()
""",
}

SIBLINGS = {
    "own_things.py": """
class Thing:
    def __del__(self):
        print("del in sibling")
thing = Thing()
""",
}
