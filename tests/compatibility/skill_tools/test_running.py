"""Skill Tools §6: how a handler is called in every language, and what it receives."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.errors import InvalidArgumentsError

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

# §6, "JavaScript Convention" and "Examples", to the letter but for the logic left open there.
JAVASCRIPT = """export default async function handler(args) {
  const { text } = args;
  const words = text.trim().split(/\\s+/).filter(Boolean);
  return { count: words.length };
}
"""
JAVASCRIPT_COMMONJS = """module.exports = async function handler(args) {
  return { count: args.text.trim().split(/\\s+/).filter(Boolean).length };
};
"""
JAVASCRIPT_NOT_ASYNC = """export default ({ text }) => ({ count: text.split(" ").length });
"""
PYTHON = """def handler(args):
    text = args.get("text", "")
    words = text.split()
    return {"count": len(words)}
"""
PYTHON_ASYNC = """import asyncio

async def handler(args):
    await asyncio.sleep(0)
    return {"count": len(args["text"].split())}
"""
PYTHON_WITH_MAIN_BLOCK = """import json, sys

def handler(args):
    work_dir = args.get("__workDir")
    text = args.get("text", "")
    words = text.split()
    return {"count": len(words)}

if __name__ == "__main__":
    args = json.loads(sys.argv[1]) if len(sys.argv) > 1 else json.load(sys.stdin)
    print(json.dumps(handler(args)))
"""
# "Other Languages": JSON in on stdin, JSON out on stdout.
PERL = """use JSON::PP;
local $/;
my $args = decode_json(<STDIN>);
my @words = split ' ', $args->{text};
print encode_json({ count => scalar @words });
"""
RUBY = """require "json"
args = JSON.parse($stdin.read)
puts JSON.generate({ count: args["text"].split.length })
"""
BASH = """#!/bin/bash
text=$(sed -E 's/.*"text": ?"([^"]*)".*/\\1/')
set -- $text
echo "{\\"count\\": $#}"
"""

SAY_WHERE = {
    "say.js": "export default async ({ __workDir: workDir }) => [workDir, process.cwd()];\n",
    "say.py": 'import os\n\ndef handler(args):\n    return [args["__workDir"], os.getcwd()]\n',
    "say.sh": (
        '#!/bin/bash\nworkdir=$(sed -E \'s/.*"__workDir": ?"([^"]*)".*/\\1/\')\n'
        'printf \'["%s", "%s"]\' "$workdir" "$PWD"\n'
    ),
}


def manager_over(
    write_skill: WriteSkill, scripts: Mapping[str, str], parameters: Mapping[str, Any] | None = None
) -> SkillManager:
    """Declare each script in tools.json, named after its file."""
    declared = [
        {
            "name": Path(name).stem,
            "description": "Does its work",
            "script": f"scripts/{name}",
            "parameters": parameters or {},
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


@pytest.mark.parametrize(
    ("extension", "source"),
    [
        ("js", JAVASCRIPT),
        ("mjs", JAVASCRIPT),
        ("js", JAVASCRIPT_COMMONJS),
        ("cjs", JAVASCRIPT_COMMONJS),
        ("js", JAVASCRIPT_NOT_ASYNC),
        ("py", PYTHON),
        ("py", PYTHON_ASYNC),
        ("py", PYTHON_WITH_MAIN_BLOCK),
        ("pl", PERL),
        ("rb", RUBY),
        ("sh", BASH),
    ],
    ids=[
        "esm",
        "mjs",
        "commonjs",
        "cjs",
        "not-async",
        "python",
        "python-async",
        "python-with-main-block",
        "perl",
        "ruby",
        "bash",
    ],
)
def test_a_handler_receives_json_and_returns_json_in_every_language(
    write_skill: WriteSkill, extension: str, source: str
) -> None:
    text = {"type": "string", "description": "The text"}
    manager = manager_over(write_skill, {f"count_words.{extension}": source}, {"text": text})

    result = manager.call("count_words", {"text": "the quick brown fox"})

    assert (result.outcome, result.is_error, result.structured) == ("ok", False, {"count": 4})
    assert json.loads(result.content) == {"count": 4}


async def test_a_handler_is_invoked_like_any_other_tool(write_skill: WriteSkill) -> None:
    text = {"type": "string", "description": "The text"}
    tool = manager_over(write_skill, {"count_words.py": PYTHON}, {"text": text}).tools[0]

    assert json.loads(tool.invoke({"text": "to be or not to be"})) == {"count": 6}
    assert json.loads(await tool.ainvoke({"text": "to be or not to be"})) == {"count": 6}


@pytest.mark.parametrize("extension", ["js", "py"])
def test_the_input_is_one_object_with_every_parameter_and_the_work_dir(
    write_skill: WriteSkill, tmp_path: Path, extension: str
) -> None:
    source = {
        "js": "export default async function handler(args) { return args; }\n",
        "py": "def handler(args):\n    return args\n",
    }[extension]
    parameters = {
        "text": {"type": "string", "description": "A string"},
        "size": {"type": "number", "description": "A number"},
        "deep": {"type": "boolean", "description": "A boolean"},
        "with": {"type": "object", "description": "An object"},
        "also": {"type": "array", "description": "An array", "optional": True},
    }
    manager = manager_over(write_skill, {f"same.{extension}": source}, parameters)
    given = {"text": "naïve → ✓\n", "size": 2.5, "deep": False, "with": {"a": [None]}}

    result = manager.call("same", given)

    assert result.structured == {**given, "__workDir": str(tmp_path / "work")}


@pytest.mark.parametrize("name", SAY_WHERE)
def test_the_work_dir_is_the_folder_that_the_handler_runs_in(
    write_skill: WriteSkill, tmp_path: Path, name: str
) -> None:
    manager = manager_over(write_skill, {name: SAY_WHERE[name]})

    result = manager.call("say")

    assert result.structured == [str(tmp_path / "work"), str(tmp_path / "work")]


# "injected by the runtime": an agent cannot choose where a handler works.
def test_the_caller_cannot_set_the_work_dir(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill, {"say.py": SAY_WHERE["say.py"]})

    with pytest.raises(InvalidArgumentsError, match="__workDir"):
        manager.call("say", {"__workDir": "/etc"})


def test_arguments_that_do_not_fit_the_parameters_never_reach_the_handler(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    parameters = {
        "text": {"type": "string", "description": "The text"},
        "format": {"type": "string", "description": "How", "enum": ["text", "html"]},
    }
    source = 'def handler(args):\n    open("ran", "w").close()\n'
    manager = manager_over(write_skill, {"convert.py": source}, parameters)

    with pytest.raises(InvalidArgumentsError, match="format"):
        manager.call("convert", {"text": "x"})
    with pytest.raises(InvalidArgumentsError, match="text"):
        manager.call("convert", {"text": 5, "format": "text"})
    with pytest.raises(InvalidArgumentsError, match="html"):
        manager.call("convert", {"text": "x", "format": "pdf"})
    assert not (tmp_path / "work" / "ran").exists()
