"""Skill Tools §6: what a handler returns, and how it fails."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.errors import ScriptExecutionError

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

FAILING = {
    "throw.mjs": 'export default function () { throw new Error("no such city"); }\n',
    "reject.js": 'export default async () => { throw new Error("no such city"); };\n',
    "raise.py": 'def handler(args):\n    raise ValueError("no such city")\n',
    "araise.py": 'async def handler(args):\n    raise LookupError("no such city")\n',
    "main.py": (
        'import json, sys\n\ndef handler(args):\n    raise ValueError("no such city")\n\n'
        'if __name__ == "__main__":\n    print(json.dumps(handler(json.load(sys.stdin))))\n'
    ),
}


def manager_over(write_skill: WriteSkill, scripts: Mapping[str, str]) -> SkillManager:
    """Declare each script in tools.json, named after its file."""
    declared = [
        {
            "name": Path(name).stem,
            "description": "Does its work",
            "script": f"scripts/{name}",
        }
        for name in scripts
    ]
    files = {f"scripts/{name}": source for name, source in scripts.items()}
    home = write_skill("my-skill", files={"tools.json": json.dumps(declared), **files})
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace)
    manager.discover()
    return manager


@pytest.mark.parametrize("extension", ["js", "py"])
def test_the_output_is_any_value_that_json_can_hold(
    write_skill: WriteSkill, extension: str
) -> None:
    values: dict[str, Any] = {
        "string": "done ✓",
        "object": {"a": {"b": []}},
        "array": [1, "two", None],
        "number": 2.5,
        "boolean": False,
    }
    wrap = {
        "js": "export default async () => JSON.parse({text!r});\n",
        "py": "import json\n\ndef handler(args):\n    return json.loads({text!r})\n",
    }[extension]
    scripts = {
        f"{name}.{extension}": wrap.format(text=json.dumps(value)) for name, value in values.items()
    }
    manager = manager_over(write_skill, scripts)

    results = {name: manager.call(name) for name in values}

    assert {name: result.structured for name, result in results.items()} == values
    assert results["string"].content == "done ✓"
    assert all(
        json.loads(result.content) == values[name]
        for name, result in results.items()
        if name != "string"
    )


def test_what_a_handler_prints_is_not_what_it_returns(write_skill: WriteSkill) -> None:
    scripts = {
        "js_prints.js": 'export default async () => { console.log("{}"); return { a: 1 }; };\n',
        "py_prints.py": 'def handler(args):\n    print("{}")\n    return {"a": 1}\n',
    }
    manager = manager_over(write_skill, scripts)

    for name in ("js_prints", "py_prints"):
        result = manager.call(name)

        assert (result.structured, result.stdout) == ({"a": 1}, "{}\n")


@pytest.mark.parametrize("name", FAILING)
def test_a_handler_that_fails_answers_with_an_error_and_its_message(
    write_skill: WriteSkill, name: str
) -> None:
    manager = manager_over(write_skill, {name: FAILING[name]})

    result = manager.call(Path(name).stem)

    assert (result.outcome, result.is_error) == ("failed", True)
    assert result.structured == {"error": "no such city"}
    # Skillpouch adds stderr: the object comes first, on a line of its own.
    assert json.loads(result.content.splitlines()[0]) == {"error": "no such city"}


@pytest.mark.parametrize("name", ["reject.js", "raise.py"])
def test_invoking_a_handler_that_fails_raises_its_message(
    write_skill: WriteSkill, name: str
) -> None:
    tool = manager_over(write_skill, {name: FAILING[name]}).tools[0]

    with pytest.raises(ScriptExecutionError, match="no such city"):
        tool.invoke({})


# "Return a JSON-serializable value": what is not one is the handler's failure, as it would be in
# `print(json.dumps(handler(args)))`.
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("object.py", "def handler(args):\n    return object()\n"),
        ("nan.py", 'def handler(args):\n    return {"mean": float("nan")}\n'),
        ("cycle.py", "def handler(args):\n    a = []\n    a.append(a)\n    return a\n"),
        ("cycle.js", "export default async () => { const a = {}; a.a = a; return a; };\n"),
        ("bigint.js", "export default async () => 10n;\n"),
    ],
    ids=["object.py", "nan.py", "cycle.py", "cycle.js", "bigint.js"],
)
def test_a_handler_that_returns_no_json_value_fails(
    write_skill: WriteSkill, name: str, source: str
) -> None:
    manager = manager_over(write_skill, {name: source})

    result = manager.call(Path(name).stem)

    assert (result.outcome, result.is_error) == ("failed", True)
    assert isinstance(result.structured, dict)
    assert set(result.structured) == {"error"}


def test_in_other_languages_a_failure_is_an_exit_code_and_stderr(write_skill: WriteSkill) -> None:
    script = "#!/bin/bash\necho 'no such city' >&2\nexit 3\n"
    manager = manager_over(write_skill, {"weather.sh": script})

    result = manager.call("weather")

    assert (result.is_error, result.exit_code) == (True, 3)
    assert "no such city" in result.content


@pytest.mark.parametrize("printed", ["Hello, {World", "NaN", '{"a": 1}\n{"a": 2}'])
def test_in_other_languages_text_that_is_no_json_is_still_the_answer(
    write_skill: WriteSkill, printed: str
) -> None:
    manager = manager_over(write_skill, {"hello.sh": f"#!/bin/bash\necho '{printed}'\n"})

    result = manager.call("hello")

    assert (result.is_error, result.content, result.structured) == (False, printed, None)
