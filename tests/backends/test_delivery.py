"""How arguments arrive in a script: every convention, in every language, with awkward values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, ToolResult
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(files: dict[str, str], front: str | None = None) -> SkillManager:
        (tmp_path / "workspace").mkdir()
        root = write_skill(files=files, front=front).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False)

    return make


def value(result: ToolResult) -> Any:
    assert result.outcome == "ok", result.content
    return result.structured


def declared(script: str, parameters: dict[str, Any] | None = None) -> str:
    entry: dict[str, Any] = {"name": "x", "description": "Does x.", "script": script}
    return json.dumps([entry if parameters is None else {**entry, "parameters": parameters}])


PYTHON_HANDLERS = {
    "sync": "def handler(args):\n    return {'got': args}\n",
    "async": "import asyncio\nasync def handler(args):\n"
    "    await asyncio.sleep(0)\n    return {'got': args}\n",
    "main block": "import sys\ndef handler(args):\n    return {'got': args}\n"
    "if __name__ == '__main__':\n    sys.exit('not called')\n",
}
NODE_HANDLERS = {
    "x.mjs": "export default (args) => ({ got: args });\n",
    "x.js": "export default async function (args) { return { got: args }; }\n",
    "x.cjs": "module.exports = async (args) => ({ got: args });\n",
    "y.js": "module.exports = function (args) { return { got: args }; };\n",
    "z.cjs": "exports.handler = async (args) => ({ got: args });\n",
    "w.mjs": "export async function handler(args) { return { got: args }; }\n",
    "v.cjs": "module.exports = { default: (args) => ({ got: args }) };\n",
}


@pytest.mark.parametrize("code", PYTHON_HANDLERS.values(), ids=PYTHON_HANDLERS)
def test_a_python_handler_gets_its_arguments_as_one_value(
    code: str, manager_of: MakeManager
) -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    files = {"scripts/x.py": code, "tools.json": declared("scripts/x.py", schema)}
    given = {"a": {"n": 1, "t": "ü\n", "l": [None, True, 1.5]}}
    manager = manager_of(files)

    got = value(manager.call("x", given))["got"]

    assert manager.get_tool("x").convention == "handler"
    assert got.pop("__workDir").endswith("/workspace")
    assert got == given


@pytest.mark.parametrize("name", NODE_HANDLERS)
def test_a_javascript_handler_gets_its_arguments_as_one_value(
    name: str, manager_of: MakeManager
) -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    script = f"scripts/{name}"
    manager = manager_of({script: NODE_HANDLERS[name], "tools.json": declared(script, schema)})

    got = value(manager.call("x", {"a": ["ü", {"n": None}]}))["got"]

    assert manager.get_tool("x").convention == "handler"
    assert got.pop("__workDir").endswith("/workspace")
    assert got == {"a": ["ü", {"n": None}]}


def test_only_what_tools_json_declares_gets_the_work_folder_among_its_arguments(
    manager_of: MakeManager,
) -> None:
    front = (
        "name: demo\ndescription: d\n"
        "tools:\n  - {name: b, description: b, script: scripts/b.py, parameters: {q: string}}\n"
    )
    handler = PYTHON_HANDLERS["sync"]
    files = {"scripts/a.py": handler, "scripts/b.py": handler}
    manager = manager_of(files, front)

    assert value(manager.call("demo.a", {"q": "1"})) == {"got": {"q": "1"}}
    assert value(manager.call("demo.b", {"q": "1"})) == {"got": {"q": "1"}}


@pytest.mark.parametrize("parameters", [None, {"q": "string"}], ids=["none", "some"])
def test_every_script_of_tools_json_gets_the_work_folder_whatever_its_language(
    parameters: dict[str, Any] | None, manager_of: MakeManager, tmp_path: Path
) -> None:
    script = "cat; echo; printf '%s' \"$TOOL_ARGS\"\n"
    files = {"scripts/x.sh": script, "tools.json": declared("scripts/x.sh", parameters)}
    given = {"q": "1"} if parameters else {}

    first, second = manager_of(files).call("x", given).stdout.split("\n")

    assert json.loads(first) == json.loads(second)
    assert json.loads(first) == {**given, "__workDir": str(tmp_path / "workspace")}


def test_a_main_gets_its_arguments_by_name_and_type(manager_of: MakeManager) -> None:
    code = (
        "import enum\nfrom pathlib import Path\n"
        "class Kind(enum.Enum):\n    A = 'a'\n"
        "def main(name: str, count: int = 2, *, path: Path = Path('.'), kind: Kind = Kind.A,"
        " flag: bool = False) -> list:\n"
        "    print('working')\n"
        "    return [name, count, type(path).__name__, kind.name, flag]\n"
    )
    manager = manager_of({"scripts/x.py": code})

    result = manager.call("x", {"name": "-n", "path": "a/b", "kind": "a", "flag": True})

    assert manager.get_tool("x").convention == "main"
    assert value(result) == ["-n", 2, "PosixPath", "A", True]
    assert result.stdout == "working\n"


def test_a_main_gets_a_path_also_where_it_may_be_none(manager_of: MakeManager) -> None:
    code = (
        "from pathlib import Path\nfrom typing import Optional\n"
        "def main(a: Path | None = None, b: Optional[Path] = None, c: Path | None = None):\n"
        "    return [type(each).__name__ for each in (a, b, c)]\n"
    )

    result = manager_of({"scripts/x.py": code}).call("x", {"a": "x", "b": "y"})

    assert value(result) == ["PosixPath", "PosixPath", "NoneType"]


def test_an_async_main_is_awaited(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.py": "async def main(n: int) -> int:\n    return n + 1\n"})

    assert value(manager.call("x", {"n": 41})) == 42


def test_a_main_that_takes_nothing_and_that_nobody_calls_is_called(
    manager_of: MakeManager,
) -> None:
    manager = manager_of({"scripts/x.py": "def main():\n    print('ran')\n"})

    assert manager.call("x").content == "ran"


def test_what_a_main_without_a_value_prints_is_its_answer(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.py": "def main(n: int) -> None:\n    print(n + 1)\n"})

    result = manager.call("x", {"n": 41})

    assert (result.content, result.structured, result.stdout) == ("42", 42, "42\n")


# Spelled so that no reader sees that it looks at its words: that is what makes it untyped.
UNTYPED = "import json, sys\nprint(json.dumps([vars(sys)['ar' 'gv'][1:], sys.stdin.read()]))\n"


@pytest.mark.parametrize(
    ("given", "words", "stdin"),
    [
        (None, [], "{}"),
        ({}, [], "{}"),
        ({"data": None}, [], "{}"),
        ("World", ["World"], '"World"'),
        ("- W", ["- W"], '"- W"'),
        (["a b", "", "-c"], ["a b", "", "-c"], '["a b", "", "-c"]'),
        ([], [], "[]"),
        (["a", 1], [], '["a", 1]'),
        ({"x": "ü"}, [], '{"x": "ü"}'),
        ({"data": {"x": 1}}, [], '{"x": 1}'),
        ('{"x":  1}', [], '{"x":  1}'),
        ("{not json", ["{not json"], '"{not json"'),
        (3, [], "3"),
    ],
)
def test_an_untyped_script_gets_json_on_standard_input_and_texts_also_as_words(
    given: Any, words: list[str], stdin: str, manager_of: MakeManager
) -> None:
    manager = manager_of({"scripts/x.py": UNTYPED})
    assert manager.get_tool("x").convention == "stdin"

    assert value(manager.call("x", given)) == [words, stdin]


@pytest.mark.parametrize("name", ["x.sh", "x.py", "h.py", "h.mjs"])
def test_explicit_standard_input_wins_and_the_arguments_still_arrive(
    name: str, manager_of: MakeManager
) -> None:
    scripts = {
        "x.sh": 'printf "%s " "$TOOL_ARGS"; cat\n',
        "x.py": "import os, sys\nprint(os.environ['TOOL_ARGS'], sys.stdin.read(), end='')\n",
        "h.py": "import json, sys\ndef handler(args):\n"
        "    return json.dumps(args) + ' ' + sys.stdin.read()\n",
        "h.mjs": "import { readFileSync } from 'node:fs';\n"
        "export default (args) => JSON.stringify(args) + ' ' + readFileSync(0, 'utf8');\n",
    }
    manager = manager_of({f"scripts/{name}": scripts[name]})
    tool = manager.tools[0].id

    assert manager.call(tool, {"data": [1]}, stdin="mine ü").content == "[1] mine ü"
    assert manager.call(tool, {"data": [1]}, stdin=b"").content.rstrip() == "[1]"


FILTERS = {
    "x.py": "import sys\nfor line in sys.stdin:\n    print('-', line.strip())\n",
    "x.sh": '# List.\nwhile read -r line; do echo "- $line"; done\ncat < /dev/stdin\n',
    "x.js": "// List.\nconst text = require('fs').readFileSync(0, 'utf8').trimEnd();\n"
    "if (text) for (const line of text.split('\\n')) console.log('- ' + line);\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILTERS)
def test_a_script_that_reads_text_gets_it_as_it_is(
    name: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill(files={f"scripts/{name}": FILTERS[name]})
    manager = SkillManager(home.parent, workspace=tmp_path, cache=False)

    assert manager.call("demo.x", {"data": 'one "a"\ntwo'}).content == '- one "a"\n- two'
    assert manager.call("demo.x", {"data": ["one", "two"]}).content == "- one\n- two"
    assert manager.call("demo.x").content == ""


@pytest.mark.slow
def test_a_script_that_knows_json_gets_json(write_skill: WriteSkill, tmp_path: Path) -> None:
    script = "import json, sys\nprint(json.load(sys.stdin))\n"
    home = write_skill(files={"scripts/x.py": script})
    manager = SkillManager(home.parent, workspace=tmp_path, cache=False)

    assert [manager.call("demo.x", {"data": data}).content for data in ("one", None)] == [
        "one",
        "{}",
    ]
