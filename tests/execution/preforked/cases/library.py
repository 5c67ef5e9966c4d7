"""Parts of the standard library that look at the interpreter around them."""

CASES = {
    "pickle_main": """
import pickle
class C:
    pass
print(type(pickle.loads(pickle.dumps(C()))).__name__, C.__module__)
""",
    "inspect_src": """
import inspect
def f():
    return 1
print(inspect.getsource(f))
""",
    "inspect_module": """
import inspect, sys
class A:
    x = 1
print(inspect.getfile(A), inspect.getmodule(A) is sys.modules["__main__"])
print(inspect.getsource(sys.modules["__main__"]))
print(inspect.getsource(A))
""",
    "dataclass": """
from dataclasses import dataclass
@dataclass
class A:
    x: int = 1
print(A())
""",
    "type_hints": """
from __future__ import annotations
import typing
class A:
    x: list[int]
def f(a: A) -> "A": ...
print(typing.get_type_hints(A), typing.get_type_hints(f))
""",
    "enum_and_namedtuple": """
import collections, enum
class Colour(enum.Enum):
    RED = 1
P = collections.namedtuple("P", "x y")
print(Colour.RED, P(1, 2), P.__module__)
""",
    "gc": """
import gc
print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks, gc.garbage)
""",
    "gc_frozen": """
import gc
print(gc.get_freeze_count())
""",
    "gc_collects": """
import gc, weakref
class A:
    pass
a = A()
a.me = a
r = weakref.ref(a)
del a
gc.collect()
print(r())
""",
    "random": """
import random
r = random.random()
print(0 <= r < 1)
""",
    "random_seeded": """
import random
random.seed(7)
print(random.random(), random.Random(3).random())
""",
    "hash": """
print(isinstance(hash("a"), int))
""",
    "breakpoint_": """
import pdb
print("pdb")
""",
    "pdb_at_end_of_input": """
import sys
sys.stdin.read()
breakpoint()
print("after")
""",
    "ast_names": """
import ast
print(ast.dump(ast.parse("x = 1")))
print(ast.unparse(ast.parse("lambda: (yield)")))
""",
    "tracing": """
import sys
seen = []
def trace(frame, event, arg):
    seen.append((frame.f_code.co_name, event))
sys.settrace(trace)
def f():
    return 1
f()
sys.settrace(None)
print(seen)
""",
    "codecs": """
import codecs
print("héllo".encode("cp1252"), codecs.lookup("utf_8_sig").name, "x".encode("punycode"))
""",
    "doctest": """
def f():
    '''
    >>> f()
    1
    '''
    return 2
import doctest
print(doctest.testmod())
""",
    "unittest_main": """
import sys, unittest
class T(unittest.TestCase):
    def test_a(self):
        self.assertEqual(1, 1)
sys.stderr = sys.stdout
unittest.main(argv=["x"], exit=False, verbosity=0, testRunner=unittest.TextTestRunner(
    stream=open("/dev/null", "w")))
print("after")
""",
    "argparse_help": """
import argparse
p = argparse.ArgumentParser(description="Does it.")
p.add_argument("first")
p.add_argument("--n", type=int, default=3)
p.parse_args(["-h"])
""",
    "argparse_error": """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--n", type=int)
p.parse_args(["--n", "x"])
""",
    "ctypes_calls": """
import ctypes
libc = ctypes.CDLL(None)
print(libc.abs(-5), ctypes.sizeof(ctypes.c_void_p))
libc.printf(b"from C %d\\n", 3)
libc.fflush(None)
""",
    "ctypes_errno": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.close(999), ctypes.get_errno())
""",
    "c_output_unflushed": """
import ctypes
ctypes.CDLL(None).printf(b"left in the buffer of C\\n")
""",
    "sqlite": """
import sqlite3
c = sqlite3.connect("x.db")
c.execute("create table t (a)")
c.execute("insert into t values (1)")
c.commit()
print(c.execute("select * from t").fetchall())
""",
    "decimal_context": """
import decimal
print(decimal.getcontext())
decimal.getcontext().prec = 5
print(decimal.Decimal(1) / 3)
""",
    "context_variables": """
import contextvars
print(list(contextvars.copy_context()))
""",
    "lazy_imports": """
def work():
    import html, colorsys, textwrap
    return html.escape("<"), colorsys.rgb_to_hls(1, 0, 0), textwrap.shorten("a b c", 4)
print(work())
import email.message
print(email.message.EmailMessage().as_string())
""",
    "interned_and_identity": """
import sys
a = "hello world"
print(sys.intern(a) is a, 256 is int("256"), () is tuple([]))
""",
    "tracemalloc": """
import tracemalloc
tracemalloc.start()
x = [b"x" * 1000 for _ in range(10)]
print(tracemalloc.get_traced_memory()[0] >= 10_000)
""",
}
