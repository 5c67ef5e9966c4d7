"""What surrounds a script: its variables, its large arguments, its siblings, its folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]
ENVIRONMENT = "import json, os\nprint(json.dumps(dict(os.environ)))\n"
HANDLER = "import os\ndef handler(args):\n    return {'args': args, 'env': dict(os.environ)}\n"
TYPED = {"type": "object", "properties": {"a-b": {}, "n": {}, "größe": {}, "text": {}}}


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(files: dict[str, str], front: str | None = None, **options: Any) -> SkillManager:
        (tmp_path / "workspace").mkdir()
        root = write_skill(files=files, front=front).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False, **options)

    return make


def frontmatter(script: str, schema: dict[str, Any] | None = None) -> str:
    tool = {"name": "x", "description": "d", "script": script, "parameters": schema or TYPED}
    return f"name: demo\ndescription: d\nversion: 1.2.3\ntools: {json.dumps([tool])}\n"


def test_arguments_stand_in_variables_too(manager_of: MakeManager) -> None:
    given = {"a-b": "ü\n$(id)", "n": 1.5, "größe": [1], "text": ""}
    manager = manager_of({"scripts/x.py": ENVIRONMENT}, frontmatter("scripts/x.py"))

    seen = manager.call("x", given).structured

    assert json.loads(seen["TOOL_ARGS"]) == given
    assert (seen["TOOL_ARG_A_B"], seen["TOOL_ARG_N"]) == ("ü\n$(id)", "1.5")
    assert (seen["TOOL_ARG_GR_SSE"], seen["TOOL_ARG_TEXT"]) == ("[1]", "")
    assert "TOOL_ARGS_FILE" not in seen


def test_a_nul_in_an_argument_does_not_reach_a_variable(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.py": HANDLER}, frontmatter("scripts/x.py"))

    answer = manager.call("x", {"text": "a\0b", "n": 1}).structured

    assert answer["args"] == {"text": "a\0b", "n": 1}
    assert "TOOL_ARG_TEXT" not in answer["env"]


def test_a_script_knows_its_skill_and_its_work_folder(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    manager = manager_of({"scripts/x.py": ENVIRONMENT}, frontmatter("scripts/x.py"))

    seen = manager.call("x", {}).structured

    assert (seen["SKILL_NAME"], seen["SKILL_VERSION"]) == ("demo", "1.2.3")
    assert seen["SKILL_BASE_DIR"] == str(tmp_path / "skills/demo")
    assert seen["SKILLPOUCH_WORKDIR"] == str(tmp_path / "workspace")


@pytest.mark.parametrize("name", ["x.py", "x.mjs", "x.sh"])
@pytest.mark.parametrize("stdin", [None, "mine"])
def test_a_large_argument_arrives_whole_and_leaves_no_file(
    name: str, stdin: str | None, manager_of: MakeManager, tmp_path: Path
) -> None:
    scripts = {
        "x.py": "import os\ndef handler(args):\n"
        "    return [len(args['text']), os.path.getsize(os.environ['TOOL_ARGS_FILE'])]\n",
        "x.mjs": "import { statSync } from 'node:fs';\nexport default (args) =>"
        " [args.text.length, statSync(process.env.TOOL_ARGS_FILE).size];\n",
        "x.sh": 'size=$(wc -c < "$TOOL_ARGS_FILE")\necho "[$((size - 12)), $size]"\n',
    }
    manager = manager_of({f"scripts/{name}": scripts[name]}, frontmatter(f"scripts/{name}"))

    result = manager.call("x", {"text": "x" * 1_000_000}, stdin=stdin)

    assert result.structured == [1_000_000, 1_000_012], result.content
    assert [path for path in (tmp_path / "workspace").rglob("*") if path.is_file()] == []
    assert result.files == ()


def test_many_large_arguments_do_not_overflow_the_environment(manager_of: MakeManager) -> None:
    properties: dict[str, Any] = {f"p{number}": {} for number in range(200)}
    manager = manager_of(
        {"scripts/x.py": "def handler(args):\n    return sum(map(len, args.values()))\n"},
        frontmatter("scripts/x.py", {"type": "object", "properties": properties}),
    )

    result = manager.call("x", dict.fromkeys(properties, "ü" * 20_000))

    assert result.structured == 200 * 20_000, result.content


SIBLING = "def word():\n    return 'sibling'\n"
IMPORTING = {
    "scripts/x.py": "from helper import word\ndef handler(args):\n    return word()\n",
    "scripts/y.py": "import argparse\nfrom helper import word\n"
    "argparse.ArgumentParser().parse_args()\nprint(word())\n",
    "scripts/deep/z.py": "from helper import word\nfrom beside import other\n"
    "def handler(args):\n    return word() + other()\n",
    "scripts/helper.py": SIBLING,
    "scripts/deep/beside.py": "def other():\n    return ' beside'\n",
    "scripts/j.mjs": "import { word } from './words.mjs';\nexport default () => word();\n",
    "scripts/words.mjs": "export const word = () => 'sibling';\n",
    "scripts/s.sh": '. "$(dirname "$0")/lib.inc"\nword\n',
    "scripts/lib.inc": "word() { echo sibling; }\n",
    "scripts/r.rb": "require_relative 'words'\nputs word\n",
    "scripts/words.rb": "def word\n  'sibling'\nend\n",
}


@pytest.mark.parametrize("name", ["x", "y", "deep-z", "j", "s", "r"])
def test_a_script_finds_its_siblings(name: str, manager_of: MakeManager) -> None:
    result = manager_of(IMPORTING).call(f"demo.{name}", {})

    assert result.content == ("sibling beside" if name == "deep-z" else "sibling"), result.stderr


@pytest.mark.parametrize("module", ["inspect", "json", "traceback", "typing", "types", "enum"])
def test_a_sibling_named_like_a_standard_module_does_not_break_a_handler(
    module: str, manager_of: MakeManager
) -> None:
    files = {
        "scripts/x.py": "def handler(args):\n    return 'fine'\n",
        f"scripts/{module}.py": "raise SystemExit('imported')\n",
    }

    result = manager_of(files).call("demo.x", {})

    assert result.content == "fine"


def test_a_handler_may_itself_be_named_like_a_standard_module(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/json.py": "async def handler(args):\n    return 'fine'\n"})

    assert manager.call("demo.json", {}).content == "fine"


HERE = {
    "scripts/x.sh": "pwd\n",
    "scripts/y.py": "import os\ndef handler(a):\n return os.getcwd()\n",
}


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_script_runs_in_the_workspace(name: str, manager_of: MakeManager, tmp_path: Path) -> None:
    assert manager_of(HERE).call(f"demo.{name}").content == str(tmp_path / "workspace")


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_skill_may_ask_to_run_in_its_own_folder(
    name: str, manager_of: MakeManager, tmp_path: Path
) -> None:
    front = "name: demo\ndescription: d\nmetadata: {skillpouch: {cwd: skill}}\n"

    assert manager_of(HERE, front).call(f"demo.{name}").content == str(tmp_path / "skills/demo")


def test_without_a_workspace_it_is_the_folder_of_the_caller_at_the_time_of_the_call(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = SkillManager(write_skill(files=HERE).parent, cache=False)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)

        assert manager.call("demo.x").content == str(tmp_path / name)


def test_skills_below_a_root_that_is_a_link_run_like_others(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    files = {**IMPORTING, "assets/a.txt": "asset", "scripts/a.sh": "cat $SKILL_BASE_DIR/assets/*\n"}
    home = write_skill(files=files, root="elsewhere")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "skills").symlink_to(home.parent)
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path / "workspace", cache=False)

    found = [manager.call(f"demo.{name}", {}).content for name in ("x", "y", "j", "s", "a")]

    assert found == ["sibling", "sibling", "sibling", "sibling", "asset"]
