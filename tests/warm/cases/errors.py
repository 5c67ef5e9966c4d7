"""Errors and what is printed about them."""

CASES = {
    "raise": """
def g():
    raise ValueError("boom")
def f():
    g()
f()
""",
    "raise_helper": """
import sibling
sibling.f()
""",
    "raise_chain": """
try:
    1 / 0
except Exception as e:
    raise KeyError("x") from e
""",
    "raise_context": """
try:
    1 / 0
except Exception:
    int("x")
""",
    "raise_from_none": """
try:
    1 / 0
except Exception:
    raise KeyError("x") from None
""",
    "raise_base": """
class Mine(BaseException):
    pass
raise Mine("base")
""",
    "raise_generator_exit": """
raise GeneratorExit("odd")
""",
    "raise_unprintable": """
class Bad(Exception):
    def __str__(self):
        raise TypeError("no str")
raise Bad
""",
    "raise_multiline": """
raise ValueError("one\\ntwo\\n  three")
""",
    "raise_long_expression": """
def f(**kw):
    return kw["a"]["b"][
        "c"
    ]
f(a={"b": {}})
""",
    "syntax_error": """
def f(:
  pass
""",
    "indent_error": """
if 1:
print(1)
""",
    "tab_error": """
if 1:
        a = 1
\tb = 2
""",
    "unclosed_bracket": """
print((1, 2
x = 3
""",
    "unterminated_text": """
x = '''never
ends
""",
    "return_outside": """
return 3
""",
    "await_outside": """
await x
""",
    "null_bytes": "print(1)\n\0\n",
    "future_unknown": """
from __future__ import braces
""",
    "syntax_error_in_sibling": """
import broken
""",
    "error_in_sibling_import": """
import failing
""",
    "missing_module": """
import no_such_module_at_all
""",
    "missing_name": """
from os import no_such_name
""",
    "missing_name_suggestion": """
import os
os.getcwdd()
""",
    "name_suggestion": """
schwarzschild = 1
print(schwarzschil)
""",
    "circular_import": """
import circle_a
""",
    "exc_group": """
raise ExceptionGroup("eg", [ValueError(1), TypeError(2)])
""",
    "exc_group_nested": """
def f(x):
    raise ValueError(x)
errors = []
for x in range(3):
    try:
        f(x)
    except ValueError as e:
        errors.append(e)
raise ExceptionGroup("outer", [ExceptionGroup("inner", errors), KeyError("k")])
""",
    "except_star": """
try:
    raise ExceptionGroup("eg", [ValueError(1), TypeError(2)])
except* ValueError as e:
    print(e.exceptions)
""",
    "notes": """
e = ValueError("noted")
e.add_note("first note")
e.add_note("second\\nnote")
raise e
""",
    "exec_traceback": """
code = compile("def f():\\n    return 1/0\\n", "<made>", "exec")
exec(code)
f()
""",
    "eval_traceback": """
eval("1 + undefined_name")
""",
    "exec_syntax_error": """
exec("def f(:")
""",
    "recursion_error_text": """
def f():
    f()
f()
""",
    "recursion_err": """
def f():
    f()
try:
    f()
except RecursionError:
    print("re")
""",
    "memory_error": """
x = bytearray(1 << 44)
""",
    "huge_integer": """
print(int("9" * 5000))
""",
    "huge_integer_ok": """
print(len(str(2**14000)), 2**300)
""",
    "assertion": """
assert 1 == 2, "not equal"
""",
    "excepthook": """
import sys
sys.excepthook = lambda t, e, tb: print("hook", e)
raise ValueError("x")
""",
    "excepthook_frames": """
import sys, traceback
def hook(t, e, tb):
    for frame, line in traceback.walk_tb(tb):
        print(frame.f_code.co_name, line)
    print(e.__traceback__ is tb, sys.last_type is t, sys.last_value is e, sys.last_traceback is tb)
sys.excepthook = hook
def f():
    raise ValueError("x")
f()
""",
    "excepthook_fails": """
import sys
def hook(t, e, tb):
    raise TypeError("in hook")
sys.excepthook = hook
raise ValueError("x")
""",
    "excepthook_exits": """
import sys
def hook(t, e, tb):
    print("hook")
    sys.exit(9)
sys.excepthook = hook
raise ValueError("x")
""",
    "excepthook_none": """
import sys
sys.excepthook = None
raise ValueError("x")
""",
    "excepthook_deleted": """
import sys
del sys.excepthook
raise ValueError("x")
""",
    "excepthook_for_interrupt": """
import sys
sys.excepthook = lambda t, e, tb: print("hook", t.__name__)
raise KeyboardInterrupt
""",
    "thread_exc": """
import threading
def w():
    raise ValueError("t")
t = threading.Thread(target=w, name="T")
t.start()
t.join()
print("ok")
""",
    "threading_excepthook": """
import threading
threading.excepthook = lambda args: print("hook", args.exc_value, args.thread.name)
t = threading.Thread(target=lambda: 1 / 0, name="T")
t.start()
t.join()
""",
    "unraisablehook": """
import sys
sys.unraisablehook = lambda u: print("unraisable", u.exc_value)
class A:
    def __del__(self):
        raise ValueError("in del")
a = A()
del a
""",
    "print_exc_inside": """
import traceback
def f():
    1 / 0
try:
    f()
except ZeroDivisionError:
    traceback.print_exc()
    print(traceback.format_exc())
""",
    "traceback_limit": """
import sys
sys.tracebacklimit = 1
def f():
    1 / 0
f()
""",
    "traceback_chain_limit_zero": """
import sys
sys.tracebacklimit = 0
1 / 0
""",
    "logging_exception": """
import logging
try:
    {}["k"]
except KeyError:
    logging.exception("failed")
""",
    "warnings": """
import warnings
warnings.warn("careful")
""",
    "warnings_function": """
import warnings
def old():
    warnings.warn("old", DeprecationWarning, stacklevel=2)
old()
""",
    "warnings_beyond_the_top": """
import warnings
warnings.warn("from above", stacklevel=2)
warnings.warn("from far above", stacklevel=9)
""",
    "warnings_once": """
import warnings
for _ in range(3):
    warnings.warn("repeated")
warnings.simplefilter("error")
warnings.warn("now an error")
""",
    "warnings_filters": """
import warnings
print(warnings.filters)
""",
    "deprec": """
import warnings
warnings.warn("dep", DeprecationWarning)
""",
    "syntax_warning_run_time": """
exec(compile("x = 1 is 1", "<made>", "exec"))
""",
    "resource_warning": """
import warnings
warnings.simplefilter("always")
open("x", "w")
print("end")
""",
}

SIBLINGS = {
    "broken.py": "x = (\n",
    "failing.py": "def f():\n    return {}['key']\n\n\nf()\n",
    "circle_a.py": "from circle_b import b\n\na = 1\n",
    "circle_b.py": "from circle_a import a\n\nb = 1\n",
}
