"""A Python script as a whole: how it is called, what it says, what it needs."""

from textwrap import dedent

import pytest

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Dependencies, Interface, Signature


def read(text: str) -> Signature:
    return read_python(dedent(text).lstrip("\n"))


def test_a_handler_comes_before_argparse_and_argparse_before_main() -> None:
    argparse = "import argparse\nargparse.ArgumentParser().parse_args()\n"
    handler = "def handler(args): return args['x']\n"
    main = "def main(path: str): ...\n"

    assert read(argparse + handler + main).reader == "handler"
    assert read(argparse + main).reader == "argparse"
    assert read(main + "import sys\nprint(sys.argv)").reader == "main"


def test_a_script_that_reads_its_words_itself_takes_a_list_of_them() -> None:
    signature = read("import sys\nprint(f'Hello, {sys.argv[1:]}!')")

    assert signature.reader == "argv"
    assert signature.interface == Interface(
        convention="argv",
        input_schema={
            "type": "object",
            "properties": {"args": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": False,
        },
        plan=(ArgvArgument(name="args", nargs="*"),),
    )


def test_a_script_that_says_nothing_takes_json_on_stdin() -> None:
    assert read("print('hi')") == Signature(
        reader="comments", interface=Interface(convention="stdin")
    )


@pytest.mark.parametrize("library", ["optparse", "docopt"])
def test_a_command_line_read_by_another_library_is_uncertain(library: str) -> None:
    signature = read(f"import {library}\n{library}.Fire(print)")

    assert signature.uncertain == f"its command line is read by {library}"
    assert signature.interface.input_schema is None


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ('"""From the module.\n\nMore."""\ndef main(x):\n    """From main."""', "From the module."),
        ('def main(x: str):\n    """From main."""', "From main."),
        ('# A comment.\ndef main():\n    """From main."""', "From main."),
        (
            "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n# From a comment.\nx = 1",
            "From a comment.",
        ),
        (
            "# Copyright 2020 Somebody\n#\n# Licensed under the Apache License.\n\n# What it does.",
            "What it does.",
        ),
        (
            "# SPDX-License-Identifier: MIT\n# pylint: disable=all\n# What it does.\n",
            "What it does.",
        ),
        ("# /// script\n# dependencies = []\n# ///\n# What it does.\n", "What it does."),
        ("# ======\n# A title\n# ======\nx = 1", "A title"),
        ("x = 1\n# Not at the top.", ""),
        ("#!/bin/sh\n", ""),
    ],
)
def test_the_description_is_the_first_paragraph_of_the_first_text(
    text: str, description: str
) -> None:
    assert read_python(text).interface.description == description


def test_a_main_that_says_nothing_leaves_the_word_to_the_parser() -> None:
    signature = read("""
        import argparse
        def main():
            '''Main entry point.'''
            argparse.ArgumentParser(description="From the parser.").parse_args()
    """)

    assert signature.interface.description == "From the parser."


def test_variables_are_those_read_by_name() -> None:
    signature = read("""
        import os
        from os import environ as env, getenv
        a = os.environ["A"]
        b = os.environ.get("B", "")
        c = os.getenv("C")
        def late():
            return getenv("D") or env["E"]
        if "F" in os.environ:
            os.environ["WRITTEN"] = "1"
        os.environ[a]
    """)

    assert signature.variables == ("A", "B", "C", "D", "E", "F")


def test_imports_are_collected_wherever_they_stand() -> None:
    signature = read("""
        import os.path, json as j
        from collections.abc import Mapping
        from .sibling import x
        from . import other
        def late():
            try:
                import yaml
            except ImportError:
                pass
    """)

    assert signature.imports == {
        *("os.path", "json", "collections.abc", "yaml"),
        *(".sibling", ".other"),
    }


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("def helper(): ...\nX = 1\nclass A: ...", False),
        ("import sys\nsys.path.insert(0, 'x')\nimport helper", False),
        ("try:\n    import x\nexcept ImportError:\n    print('no x')", False),
        ("'''Only text.'''", False),
        ("def main(): ...", True),
        ("def handler(args): ...", True),
        ("if __name__ == '__main__':\n    x = 1", True),
        ("print('hi')", True),
        ("for x in []:\n    print(x)", True),
        ("with open('x') as f:\n    f.write('')", True),
    ],
)
def test_an_entry_is_whatever_does_something_when_run(text: str, *, entry: bool) -> None:
    assert read(text).has_entry is entry


def test_tests_and_questions_are_noticed() -> None:
    signature = read("""
        import unittest.mock
        def ask():
            return input("Name? ")
    """)

    assert (signature.is_test, signature.reads_input) == (True, True)
    assert read("def f(x): return x.input()").reads_input is False


def test_dependencies_come_from_the_block() -> None:
    signature = read("""
        # /// script
        # requires-python = ">=3.12"
        # dependencies = ["requests<3", "rich"]
        # ///
        print("hi")
    """)

    assert signature.dependencies == Dependencies(
        requires_python=">=3.12", packages=("requests<3", "rich")
    )


def test_a_python_2_script_still_says_what_it_is_for() -> None:
    signature = read('#!/usr/bin/python\n"""Convert a file.\n\nMore."""\nprint "done"\n')

    assert signature.interface == Interface(convention="stdin", description="Convert a file.")
    assert signature.uncertain.startswith("line 5: not valid Python (Missing parentheses")
    assert signature.uncertain_line == 5


@pytest.mark.parametrize(
    "text",
    [
        "(" * 60_000,
        "-" * 100_000 + "1",
        "a" + ".b" * 50_000,
        "1" + "+1" * 50_000,
        "if a:\n  b\n" + "elif a:\n  b\n" * 5_000,
        "x = 'a\0b'",
        "x = '\ud800'",
        "x = 1\n" * 300_000,
        "# /// script\n" * 50_000,
        "def f(:",
    ],
    ids=[
        "brackets",
        "minus",
        "dots",
        "sums",
        "elif",
        "nul",
        "surrogate",
        "long",
        "blocks",
        "syntax",
    ],
)
def test_text_that_is_no_python_gives_an_untyped_interface_and_a_reason(text: str) -> None:
    signature = read_python(text)

    assert signature.interface.input_schema is None
    assert text.startswith("#") or signature.uncertain


HEAD = "import argparse\np = argparse.ArgumentParser()\n"


@pytest.mark.parametrize(
    "text",
    [
        HEAD
        + "".join(f"def f{n}(p):\n  f{n + 1}(p); f{n + 1}(p)\n" for n in range(40))
        + "def f40(p): p.add_argument('--x')\nf0(p)\np.parse_args()\n",
        HEAD + "A = 'x' * 40000\np.add_argument('--x', choices=[[1 for a in A] for b in A])\n",
        HEAD
        + "".join("  " * n + f"for a{n} in range(300):\n" for n in range(10))
        + "  " * 10
        + "p.add_argument('--x')\n",
        "class A(B): ...\nclass B(A): ...\nimport argparse\nA().parse_args()\n",
        "from typing import TypedDict\n"
        + "".join(
            f"class C{n}(TypedDict):\n" + "".join(f"  f{m}: 'C{n + 1}'\n" for m in range(9))
            for n in range(20)
        )
        + "def handler(args: C0): ...\n",
    ],
    ids=["calls", "comprehensions", "loops", "cycle", "types"],
)
def test_a_script_that_asks_for_too_much_is_uncertain_and_soon(text: str) -> None:
    assert read_python(text).uncertain in (
        "there is too much to compute",
        "its definitions are nested too deeply to follow",
    )


def test_a_value_that_would_fill_the_memory_is_not_computed() -> None:
    text = HEAD + "p.add_argument('--x', default='a' * 10**12, help='%999999999d' % 1)\n"

    schema = read_python(text).interface.input_schema

    assert schema is not None
    assert schema["properties"] == {"x": {"type": "string"}}
