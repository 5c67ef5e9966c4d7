"""Hooks, warnings and what they print."""

CASES = {
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
