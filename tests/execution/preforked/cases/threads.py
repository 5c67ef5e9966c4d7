"""Threads and event loops."""

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
}
