"""Other processes, threads, and what they inherit."""

CASES = {
    "mp_fork": """
import multiprocessing as mp
def f(x):
    return x * x
if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as p:
        print(p.map(f, [1, 2, 3]))
""",
    "mp_spawn": """
import multiprocessing as mp
def f(x):
    return x * x
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(2) as p:
        print(p.map(f, [1, 2, 3]))
""",
    "mp_forkserver": """
import multiprocessing as mp
def f(x):
    return x * x
if __name__ == "__main__":
    with mp.get_context("forkserver").Pool(2) as p:
        print(p.map(f, [1, 2, 3]))
""",
    "mp_process": """
import multiprocessing as mp
def f(q):
    q.put((mp.current_process().name, mp.parent_process().name))
if __name__ == "__main__":
    q = mp.Queue()
    p = mp.Process(target=f, args=(q,))
    p.start()
    print(q.get(), mp.current_process().name, mp.parent_process())
    p.join()
    print(p.exitcode)
""",
    "mp_not_joined": """
import multiprocessing as mp, time
def f():
    time.sleep(0.1)
    print("child", flush=True)
if __name__ == "__main__":
    mp.Process(target=f).start()
    print("parent", flush=True)
""",
    "mp_semaphore": """
import multiprocessing as mp
def f(lock, value):
    with lock:
        value.value += 1
if __name__ == "__main__":
    lock, value = mp.Lock(), mp.Value("i", 0)
    ps = [mp.Process(target=f, args=(lock, value)) for _ in range(3)]
    [p.start() for p in ps]
    [p.join() for p in ps]
    print(value.value, mp.BoundedSemaphore(2).acquire())
""",
    "mp_shared_memory": """
from multiprocessing import shared_memory
m = shared_memory.SharedMemory(create=True, size=16)
m.buf[0] = 7
n = shared_memory.SharedMemory(m.name)
print(n.buf[0])
n.close()
m.close()
m.unlink()
""",
    "mp_manager": """
import multiprocessing as mp
if __name__ == "__main__":
    with mp.Manager() as manager:
        d = manager.dict()
        d["a"] = 1
        print(dict(d))
""",
    "mp_child_error": """
import multiprocessing as mp
def f():
    raise ValueError("in child")
if __name__ == "__main__":
    p = mp.Process(target=f)
    p.start()
    p.join()
    print(p.exitcode)
""",
    "cf_procpool": """
from concurrent.futures import ProcessPoolExecutor as P
def f(x):
    return x + 1
if __name__ == "__main__":
    with P(2) as p:
        print(list(p.map(f, [1, 2])))
""",
    "subproc": """
import subprocess
print(subprocess.run(["/bin/sh", "-c", "echo $K; exit 4"], capture_output=True))
""",
    "subproc_inherit": """
import subprocess
print("a", flush=True)
subprocess.run(["/bin/echo", "b"])
print("c")
""",
    "subproc_stdin": """
import subprocess
subprocess.run(["/bin/cat"])
""",
    "subproc_fails": """
import subprocess
subprocess.run(["/bin/false"], check=True)
""",
    "subproc_descriptors": """
import subprocess
subprocess.run(["/bin/sh", "-c", "ls /proc/self/fd"])
""",
    "subproc_signals": """
import subprocess
subprocess.run(["/bin/grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"])
""",
    "subproc_python": """
import subprocess, sys
code = "import sys; print(sys.flags, sys.path[1:])"
subprocess.run([sys.executable, "-c", code])
""",
    "subproc_left_running": """
import subprocess
subprocess.Popen(["/bin/sleep", "30"])
print("not waiting")
""",
    "sigpipe": """
import subprocess
ran = subprocess.run(
    ["/bin/bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"], capture_output=True
)
print(ran.stdout)
""",
    "fork_in_handler": """
import os
p = os.fork()
if p == 0:
    print("child")
    raise SystemExit(5)
print("parent", os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))
""",
    "fork_child_falls_through": """
import os
p = os.fork()
if p:
    os.waitpid(p, 0)
print("parent" if p else "child")
""",
    "fork_child_error": """
import os
p = os.fork()
if p == 0:
    raise ValueError("in child")
print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))
""",
    "fork_hooks": """
import os
os.register_at_fork(before=lambda: print("before", flush=True),
                    after_in_parent=lambda: print("parent", flush=True))
p = os.fork()
if p == 0:
    os._exit(0)
os.waitpid(p, 0)
""",
    "wait_without_children": """
import os
try:
    os.wait()
except ChildProcessError as error:
    print(error)
""",
    "exec_py": """
import os, sys
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, "-c", "print(1+1)"])
""",
    "system": """
import os
print(os.system("exit 3"), os.popen("echo popen").read())
""",
    "signals": """
import signal
print([
    (s.name, str(signal.getsignal(s)))
    for s in signal.valid_signals()
    if isinstance(s, signal.Signals) and signal.getsignal(s) != signal.SIG_DFL
])
wanted = ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")
print([line for line in open("/proc/self/status") if line.startswith(wanted)])
print(signal.set_wakeup_fd(-1), signal.pthread_sigmask(signal.SIG_BLOCK, []))
""",
    "socket_pair": """
import socket
a, b = socket.socketpair()
a.send(b"x")
print(b.recv(1))
""",
    "no_network": """
import socket
try:
    socket.create_connection(("127.0.0.1", 9), 1)
except OSError as error:
    print(type(error).__name__)
""",
}
