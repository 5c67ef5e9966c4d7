import pytest

from skillpouch.checks.report import find_shadowed_modules, find_windows_line_ends
from skillpouch.problems import Problem


def test_a_script_named_like_a_standard_module_is_told_what_breaks() -> None:
    assert find_shadowed_modules("web/scripts/http.py", "http") == [
        Problem(
            path="web/scripts/http.py",
            code="shadows-stdlib",
            severity="warning",
            message="named like the standard library module 'http': "
            "`import http` in this folder finds this file, "
            "and every library that needs the real module breaks; rename it",
        )
    ]


def test_a_script_named_like_a_built_in_module_cannot_be_imported() -> None:
    [problem] = find_shadowed_modules("a/scripts/time.py", "time")

    assert "`import time` always finds the built-in module" in problem.message


@pytest.mark.parametrize("name", ["extract", "Json", "json_tools", "__init__", ""])
def test_other_names_are_no_problem(name: str) -> None:
    assert find_shadowed_modules(f"a/scripts/{name}.py", name) == []


def test_a_shell_script_with_windows_line_ends_is_reported() -> None:
    [problem] = find_windows_line_ends("a/scripts/x.sh", b"#!/bin/bash\r\necho hi\r\n")

    assert (problem.code, problem.severity) == ("windows-line-ends", "warning")
    assert "Windows line ends" in problem.message


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.sh", b"echo a\nprintf '\\r\\n'\r\n"),
        ("x.sh", b""),
        ("x.py", b"1\r\n"),
        ("x.bat", b"a\r\n"),
    ],
)
def test_line_ends_that_break_nothing_are_no_problem(name: str, data: bytes) -> None:
    assert find_windows_line_ends(f"a/scripts/{name}", data) == []
