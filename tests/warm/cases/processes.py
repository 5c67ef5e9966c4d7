"""Other processes, threads, and what they inherit."""

CASES = {
    "thread_join": """
import threading, time
def w():
    time.sleep(0.1)
    print("thread done")
threading.Thread(target=w).start()
print("main done")
""",
    "daemon_thread": """
import threading, time
def w():
    time.sleep(5)
    print("never")
threading.Thread(target=w, daemon=True).start()
print("main done")
""",
    "thread_names": """
import threading
t = threading.Thread(target=lambda: print(threading.current_thread().name))
t.start()
t.join()
print(threading.main_thread().name, threading.current_thread() is threading.main_thread())
print(threading.active_count(), threading.get_ident() == threading.main_thread().ident)
""",
    "thread_ids": """
import os, threading
print(threading.get_native_id() == os.getpid())
print(threading.main_thread().native_id == os.getpid())
""",
    "thread_outlives_error": """
import threading, time
def w():
    time.sleep(0.1)
    print("thread after error")
threading.Thread(target=w).start()
raise ValueError("main")
""",
    "thread_local": """
import threading
local = threading.local()
local.x = 1
t = threading.Thread(target=lambda: print(hasattr(local, "x")))
t.start()
t.join()
""",
    "timer": """
import threading
threading.Timer(0.05, print, ["timer"]).start()
""",
    "cf_threads": """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(3)
print(sorted(pool.map(str, range(5))))
pool.submit(print, "late")
""",
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
    "asyncio": """
import asyncio
async def m():
    p = await asyncio.create_subprocess_exec("/bin/echo", "sub", stdout=-1)
    print((await p.communicate())[0])
asyncio.run(m())
""",
    "asyncio_tasks": """
import asyncio
async def f(n):
    await asyncio.sleep(0.01 * n)
    return n
async def m():
    print(await asyncio.gather(f(3), f(1), asyncio.to_thread(str, 2)))
    asyncio.create_task(f(100))
asyncio.run(m())
""",
    "asyncio_signal": """
import asyncio, os, signal
async def m():
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, got.set)
    os.kill(os.getpid(), signal.SIGTERM)
    await got.wait()
    print("got it")
asyncio.run(m())
""",
    "asyncio_interrupt": """
import asyncio, os, signal
async def m():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(5)
asyncio.run(m())
""",
    "asyncio_error_never_retrieved": """
import asyncio
async def bad():
    raise ValueError("lost")
async def m():
    t = asyncio.create_task(bad())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del t
asyncio.run(m())
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
