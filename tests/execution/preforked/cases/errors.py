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
}

SIBLINGS = {
    "broken.py": "x = (\n",
    "failing.py": "def f():\n    return {}['key']\n\n\nf()\n",
    "circle_a.py": "from circle_b import b\n\na = 1\n",
    "circle_b.py": "from circle_a import a\n\nb = 1\n",
}
