"""Functions, classes and dictionaries that fire runs."""

from typing import Any

import pytest

from skillpouch.signatures.argv import words
from skillpouch.signatures.python.reading import read_python


def calls(text: str) -> dict[str, Any]:
    signature = read_python(f"import fire\n{text}")
    assert signature.uncertain == ""
    assert signature.reader == "fire"
    return signature.commands or {"": signature.interface}


def test_each_value_is_written_as_a_literal_so_that_text_stays_text() -> None:
    found = calls(
        "def greet(name: str, times: int = 1, loud: bool = False, tags=()): ...\nfire.Fire(greet)"
    )[""]

    call = {"name": "12", "times": 3, "loud": True, "tags": ["a", "-b"]}
    assert words(found.plan, call) == [
        "--name='12'",
        "--times=3",
        "--loud=True",
        "--tags=['a', '-b']",
    ]
    assert found.input_schema["required"] == ["name"]
    assert found.input_schema["properties"]["times"] == {"type": "integer", "default": 1}


def test_each_method_of_a_class_is_a_command_after_the_parameters_of_the_class() -> None:
    found = calls(
        "class Tool:\n"
        "    def __init__(self, root='.'): ...\n"
        "    def show(self, path): ...\n"
        "    @staticmethod\n"
        "    def version(style='short'): ...\n"
        "    def _own(self): ...\n"
        "fire.Fire(Tool)"
    )

    assert list(found) == ["show", "version"]
    assert words(found["show"].plan, {"root": "x", "path": "y"}) == [
        "--root='x'",
        "show",
        "--path='y'",
    ]
    assert words(found["version"].plan, {"style": "long"}) == ["version", "--style='long'"]


def test_each_key_of_a_dictionary_and_each_function_of_a_file_is_a_command() -> None:
    functions = "def add(a, b): ...\ndef run(mode='fast'): ...\n"

    assert list(calls(functions + "fire.Fire({'add': add, 'go': run})")) == ["add", "go"]
    assert list(calls(functions + "if __name__ == '__main__':\n    fire.Fire()")) == ["add", "run"]


@pytest.mark.parametrize(
    "text",
    [
        "def run(*files): ...\nfire.Fire(run)",
        "def run(**options): ...\nfire.Fire(run)",
        "from other import run\nfire.Fire(run)",
        "def run(): ...\nfire.Fire(run, command='x')",
        "class A(B):\n    def go(self): ...\nfire.Fire(A)",
        "class A:\n    def __init__(self, x): ...\n    def go(self, x): ...\nfire.Fire(A)",
        "def run(): ...\nfire.Fire(run)\nfire.Fire(run)",
        "@wrapped\ndef run(): ...\nfire.Fire(run)",
    ],
)
def test_what_fire_would_see_only_at_run_time_is_uncertain(text: str) -> None:
    assert read_python(f"import fire\n{text}").uncertain
