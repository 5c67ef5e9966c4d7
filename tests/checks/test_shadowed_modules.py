import pytest

from skillpouch.checks.report import find_shadowed_modules
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
