"""What a program sees of its interpreter: its main module, paths, modules, limits."""

CASES = {
    "main_guard": """
if __name__ == "__main__":
    import sys
    print("main", sys.argv, __file__)
""",
    "sysmodules_main": """
import sys
A = 5
print(sys.modules["__main__"].A, __name__, __spec__, __package__, __doc__)
""",
    "docstring_main": '''
"""doc"""
print(__doc__)
''',
    "main_loader": """
print(type(__loader__).__name__, __loader__.name, __loader__.path, __cached__, __annotations__)
print(__loader__.get_source("__main__"))
""",
    "main_annotations": """
x: int = 1
print(__annotations__)
""",
    "main_imported_again": """
if __name__ == "__main__":
    import __main__, script
    print(__main__ is script, __main__.__file__ == script.__file__, script.__name__)
""",
    "globals": """
print(sorted(globals()))
""",
    "globals_order": """
print(list(globals()))
""",
    "globals_values": """
print({k: repr(v).split(" at 0x")[0] for k, v in list(globals().items())})
""",
    "builtins_": """
print(type(__builtins__), exit, quit)
print(sorted(__builtins__.__dict__))
""",
    "sibling_import": """
import sibling
print(sibling.X)
""",
    "sibling_package": """
from pack.deep import tool
from pack import name
print(tool(), name, tool.__module__)
""",
    "namespace_package": """
import loose.part
print(loose.part.here, loose.__path__)
""",
    "relative_import_fails": """
from . import sibling
""",
    "sibling_reload": """
import importlib, sibling
sibling.X = 1
print(importlib.reload(sibling).X)
""",
    "library_reload": """
import importlib, json
json.loads = None
print(importlib.reload(json).loads("[1]"))
""",
    "import_by_path": """
import importlib.util, os
path = os.path.join(os.path.dirname(__file__), "sibling.py")
spec = importlib.util.spec_from_file_location("other", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.X)
""",
    "importlib_resources": """
from importlib import resources
print(resources.files("pack").joinpath("data.txt").read_text())
""",
    "pkgutil_walk": """
import os, pkgutil
print([m.name for m in pkgutil.iter_modules([os.path.dirname(__file__)])])
""",
    "zip_main": """
import os, runpy
print(runpy.run_path(os.path.join(os.path.dirname(__file__), "sibling.py"))["X"])
""",
    "runpy_module": """
import runpy
print(sorted(runpy.run_module("sibling", run_name="ran")))
""",
    "runpy_main": """
import os, runpy
if "inner" not in os.environ:
    os.environ["inner"] = "1"
    found = runpy.run_path(__file__, run_name="__main__")
    print("outer", found["__name__"])
else:
    print("inner", __name__)
""",
    "meta_path": """
import sys
print(sys.meta_path, sys.path_hooks)
""",
    "sys_flags": """
import sys
print(sys.flags)
""",
    "sys_path": """
import sys
print(sys.path)
""",
    "sys_exec": """
import sys
print(sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix, sys.platlibdir)
""",
    "sys_orig": """
import sys
print(sys.orig_argv)
""",
    "sys_argv": """
import sys
print(sys.argv, type(sys.argv), type(sys.argv[0]))
""",
    "sys_options": """
import sys
print(sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.pycache_prefix)
print(sys.getswitchinterval(), sys.getdlopenflags(), sys.tracebacklimit if 0 else None)
print(sys.gettrace(), sys.getprofile(), sys.excepthook is sys.__excepthook__)
print(sys.displayhook is sys.__displayhook__, sys.breakpointhook is sys.__breakpointhook__)
print(hasattr(sys, "last_value"), hasattr(sys, "ps1"), sys.getfilesystemencoding())
""",
    "sys_names": """
import sys
print(sorted(sys.__dict__))
""",
    "recursion": """
def f(n):
    return 0 if n == 0 else 1 + f(n - 1)
print(f(980))
""",
    "recursion_limit": """
import sys
print(sys.getrecursionlimit())
sys.setrecursionlimit(20_000)
def f(n):
    return 0 if n == 0 else 1 + f(n - 1)
print(f(15_000))
""",
    "recursion_depth": """
def f(n):
    try:
        return f(n + 1)
    except RecursionError:
        return n
print(f(0))
""",
    "modules": """
import sys
print(sorted(sys.modules))
""",
    "frames": """
import sys
frame = sys._getframe()
count = 0
while frame:
    count += 1
    frame = frame.f_back
print(count)
""",
    "frame_above": """
import sys
try:
    print(sys._getframe(1))
except ValueError as error:
    print(error)
""",
    "print_stack": """
import traceback
def f():
    traceback.print_stack()
f()
""",
    "inspect_stack": """
import inspect
def f():
    return inspect.stack()
print([frame.function for frame in f()])
""",
    "future_annot": """
from __future__ import annotations
def f(x: Nope):
    pass
print(f.__annotations__)
""",
    "future_not_inherited": """
def f(x: int):
    pass
print(f.__annotations__, compile("1", "x", "eval").co_flags)
""",
    "code_flags": """
import sys
print(sys._getframe().f_code.co_flags, sys._getframe().f_code.co_filename)
print(sys._getframe().f_code.co_name, sys._getframe().f_lineno)
""",
    "import_order_effects": """
import sys
before = "colorsys" in vars()
import colorsys
print(before, colorsys.__name__, sys.modules["colorsys"] is colorsys)
""",
    "module_of_own_name": """
import sys
sys.modules["fake"] = type(sys)("fake")
import fake
print(fake)
""",
}

SIBLINGS = {
    "pack/__init__.py": "name = __name__\n",
    "pack/deep.py": "from . import name\n\n\ndef tool():\n    return name\n",
    "pack/data.txt": "data\n",
    "loose/part.py": "here = __name__\n",
}
