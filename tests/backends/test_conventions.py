"""How arguments arrive in a script: every convention, in every language, with awkward values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kitbag import SkillManager, ToolResult
from kitbag.errors import InvalidArgumentsError, KitbagError
from tests.conftest import WriteSkill

MakeManager = Callable[..., SkillManager]
AWKWARD = [
    "",
    " ",
    "-",
    "--",
    "-x",
    "--name=y",
    "a b",
    "'",
    '"',
    "a\nb",
    "\n",
    "ü€😀",
    "$(id)",
    "`id`",
]
AWKWARD += [
    "*",
    "~",
    "\\",
    "@file",
    "a=b",
    "\t",
    "\r\n",
    "%s",
    "${HOME}",
    "; echo no",
    "-5",
    "null",
]


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
        "def main(a: Path | None = None, b: Optional[Path] = None, c: Path | None = None) -> list:\n"
        "    return [type(each).__name__ for each in (a, b, c)]\n"
    )

    result = manager_of({"scripts/x.py": code}).call("x", {"a": "x", "b": "y"})

    assert value(result) == ["PosixPath", "PosixPath", "NoneType"]


def test_an_async_main_is_awaited(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.py": "async def main(n: int) -> int:\n    return n + 1\n"})

    assert value(manager.call("x", {"n": 41})) == 42


def test_what_a_main_without_a_value_prints_is_its_answer(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.py": "def main(n: int) -> None:\n    print(n + 1)\n"})

    result = manager.call("x", {"n": 41})

    assert (result.content, result.structured, result.stdout) == ("42", 42, "42\n")


ARGPARSE = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("first")
parser.add_argument("--name", "-n")
parser.add_argument("-s")
parser.add_argument("--many", action="append")
parser.add_argument("--list", nargs="*")
parser.add_argument("--on", action="store_true")
parser.add_argument("--count", type=int, default=1)
parser.add_argument("--ratio", type=float)
if __name__ == "__main__":
    print(json.dumps(vars(parser.parse_args())))
"""


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
def test_any_text_arrives_unchanged_as_flag_and_as_positional(
    text: str, manager_of: MakeManager
) -> None:
    manager = manager_of({"scripts/x.py": ARGPARSE})
    given: dict[str, Any] = {
        "first": text,
        "name": text,
        "s": text,
        "many": [text, text],
        "on": True,
    }

    try:
        result = manager.call("x", {**given, "count": -3, "ratio": -1e300})
    except InvalidArgumentsError:
        assert text == "--"  # argparse before 3.13 loses it, so it may be refused
    else:
        assert value(result) == {**given, "list": None, "count": -3, "ratio": -1e300}


SUBCOMMANDS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--loud", action="store_true")
commands = parser.add_subparsers(dest="command", required=True)
add = commands.add_parser("add")
add.add_argument("items", nargs="+")
add.add_argument("--to")
remove = commands.add_parser("remove")
remove.add_argument("--all", action="store_true")
if __name__ == "__main__":
    import json
    print(json.dumps(vars(parser.parse_args())))
"""


def test_a_sub_command_is_a_tool_of_its_own(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.py": SUBCOMMANDS})

    added = manager.call("demo.x.add", {"items": ["a b", "-c"], "to": "-d", "loud": True})
    removed = manager.call("demo.x.remove", {"all": True})

    assert value(added) == {"loud": True, "command": "add", "items": ["a b", "-c"], "to": "-d"}
    assert value(removed) == {"loud": False, "command": "remove", "all": True}


WORDS = {
    "x.sh": 'for word in "$@"; do printf "%s\\0" "$word"; done\n',
    "x.js": "process.stdout.write(process.argv.slice(2).map((w) => w + '\\0').join(''));\n",
    "x.rb": 'ARGV.each { |word| print word, "\\0" }\n',
    "x.pl": 'print "$_\\0" for @ARGV;\n',
    "x.py": "import sys\nprint(*sys.argv[1:], sep='\\0', end='\\0')\n",
}


@pytest.mark.parametrize("name", WORDS)
def test_words_arrive_unchanged_in_every_language(name: str, manager_of: MakeManager) -> None:
    manager = manager_of({f"scripts/{name}": WORDS[name]})

    result = manager.call("x", AWKWARD)

    assert manager.get_tool("x").convention == "argv"
    assert result.outcome == "ok", result.content
    assert result.stdout.split("\0")[:-1] == AWKWARD


def test_a_word_with_a_nul_is_refused_before_anything_runs(manager_of: MakeManager) -> None:
    with pytest.raises(InvalidArgumentsError, match="NUL"):
        manager_of({"scripts/x.sh": WORDS["x.sh"]}).call("x", ["a\0b"])


def test_a_word_too_long_for_any_command_line_is_an_error_and_not_a_lost_call(
    manager_of: MakeManager,
) -> None:
    with pytest.raises(KitbagError, match="(?i)too long"):
        manager_of({"scripts/x.sh": WORDS["x.sh"]}).call("x", ["x" * 1_000_000])


def test_parameters_of_a_manifest_are_positionals_in_their_order(manager_of: MakeManager) -> None:
    manifest = (
        "tools:\n  - name: x\n    script: x.sh\n    description: d\n"
        "    parameters:\n      - {name: b, type: string}\n      - {name: a, type: integer}\n"
    )
    files = {"scripts/x.sh": WORDS["x.sh"], "scripts/manifest.yml": manifest}

    result = manager_of(files).call("demo.x", {"a": 7, "b": "- b"})

    assert result.stdout == "- b\0007\0"


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
