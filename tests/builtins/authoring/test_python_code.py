"""The body of a Python function becomes a script, and means the same there."""

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.builtins.authoring.request import NotPythonError, python_module

pytestmark = pytest.mark.slow

MULTILINE = '''text = """first
  second
\tthird"""
more = f"""{
len(text)
}
last"""
return [text, more]'''


def run(code: str, args: Any = None) -> Any:
    """Call the handler of a script that was made of some code."""
    space: dict[str, Any] = {}
    exec(python_module(code, "Does it."), space)
    return space["handler"](args)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("return args['n'] + 1", 3),
        ("    return args['n'] + 1", 3),
        ("\treturn args['n'] + 1\n", 3),
        ("n = args['n']\r\nif n:\r\n\treturn n\r\nreturn 0", 2),
        ("def double(x):\n    return 2 * x\nreturn double(args['n'])", 4),
        ("import math\nreturn math.floor(args['n'])  # down", 2),
        ("def handler(args):\n    return args['n']", 2),
        ("LIMIT = 5\n\ndef handler(args):\n    return LIMIT", 5),
        ("# a comment first\n\nreturn args['n']", 2),
        ("return (args\n['n'])", 2),
        ("return 1, \\\n2", (1, 2)),
        ("args['n']", None),
    ],
)
def test_a_body_or_a_module_answers_what_it_says(code: str, answer: object) -> None:
    assert run(code, {"n": 2}) == answer


def test_not_a_character_of_a_string_changes() -> None:
    expected: dict[str, Any] = {}
    indented = MULTILINE.replace("return [text, more]", "answer = [text, more]")
    exec(indented, expected)

    assert run(MULTILINE) == expected["answer"]


def test_a_body_that_awaits_is_a_coroutine() -> None:
    source = python_module("import asyncio\nawait asyncio.sleep(0)\nreturn 1", "Waits.")

    assert "async def handler(args):" in source
    inner = python_module("async def f():\n    await g()\nreturn 1", "Does not.")
    assert "\ndef handler(args):" in inner


@pytest.mark.parametrize(
    "code",
    [
        "return (",
        "retrun 1",
        "break",
        "# only a comment",
        "return 1\n  return 2",
        "    return 1\nprint('outside')",
        "const { text } = args;",
        "from os import *",
        "x = 1\n\0",
        "(" * 5000,
        "def handler(args):\n    return 1\nreturn 2",
        "class A:\n    return 1",
    ],
)
def test_what_is_no_body_is_refused_before_it_is_saved(code: str) -> None:
    with pytest.raises(NotPythonError):
        python_module(code, "Does it.")


def test_the_line_of_a_mistake_is_named() -> None:
    with pytest.raises(NotPythonError, match=r"^line 2: "):
        python_module("x = 1\ny = = 2", "Does it.")


_LINES = st.lists(
    st.sampled_from(
        [
            "x = 1",
            "if args:",
            "    y = 2",
            "\tz = 3",
            "  return x",
            "return x",
            '"""',
            "'''",
            "s = '''a",
            "b'''",
            "# note",
            "",
            "else:",
            "def f():",
            "f'''{",
            "}'''",
            "\\",
            "(",
            ")",
        ]
    ),
    max_size=8,
)


@pytest.mark.timeout(120)
@settings(deadline=None, max_examples=150)
@given(_LINES)
def test_any_lines_are_one_function_or_refused(lines: list[str]) -> None:
    code = "\n".join(lines)
    try:
        source = python_module(code, "Does it.")
    except NotPythonError:
        return

    (handler,) = ast.parse(source).body
    assert isinstance(handler, ast.FunctionDef)
    assert handler.name == "handler"


@pytest.mark.timeout(120)
@settings(deadline=None, max_examples=100)
@given(st.text())
def test_any_text_is_a_script_or_refused(text: str) -> None:
    try:
        source = python_module(text, "Does it.")
    except NotPythonError:
        return

    compile(source, "tool", "exec")
