"""What runs when a program is over: exit functions, finalizers, generators."""

CASES = {
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
