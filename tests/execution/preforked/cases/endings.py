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
}
