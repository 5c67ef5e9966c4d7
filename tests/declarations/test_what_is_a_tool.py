"""Which files of a skill are tools, judged as their authors meant them, and what shows that."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.checks.report import check_skills
from skillpouch.errors import InvalidArgumentsError
from skillpouch.tools import Tool
from tests.conftest import WriteSkill

Read = Callable[..., SkillManager]
PRINTS = "print('hello')\n"
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.fixture
def read(write_skill: WriteSkill, tmp_path: Path) -> Read:
    """A skill `demo` with these files and this text."""

    def written(files: Mapping[str, str], body: str = "Do it.\n", front: str = "") -> SkillManager:
        head = f"name: demo\ndescription: Does it.\n{front}"
        home = write_skill(front=head, body=body, files=files)
        return SkillManager(home.parent, cache=False, workspace=tmp_path)

    return written


def tools_of(manager: SkillManager) -> dict[str, Tool]:
    return {tool.id: tool for tool in manager.get_skill_tools("demo")}


def noted(manager: SkillManager, code: str) -> list[tuple[str, int | None, str]]:
    """Return what `skillpouch check` shows under a code: file, line and words."""
    checked = check_skills(manager.roots, strict=False, progress=lambda _done, _all: None)
    return [
        (Path(problem.path).name, problem.line, problem.message)
        for problem in checked.problems
        if problem.code == code
    ]


LIBRARIES = {
    "empty.py": "",
    "remarks.sh": "#!/bin/bash\n# Nothing here yet.\n",
    "defines.py": "import logging\nlog = logging.getLogger()\ndef parse(text):\n    return text\n",
    "settings.py": "import os\nROOT = os.path.join('a', 'b')\nKINDS = {}\nKINDS.update(b=2)\n",
    "paths.py": "import sys, os\nsys.path.append(str(os.path.dirname(__file__)))\n",
    "registers.py": "import abc\nclass A(abc.ABC): ...\nA.register(int)\nglobals().update(b=1)\n",
    "refuses.py": "class A: ...\nif __name__ == '__main__':\n    raise SystemExit('import me')\n",
    "guarded.py": "class A: ...\nif __name__ == '__main__':\n    pass\n",
    "uncalled.py": "import argparse as a\ndef main(argv): a.ArgumentParser().parse_args(argv)\n",
    "common.sh": '[[ -n "${_COMMON:-}" ]] && return 0\n_COMMON=1\nlog() { echo "$*"; }\n',
    "vars.sh": "set -e\nexport ROOT=/tmp\nreadonly NAME=x\n",
    "exports.js": "const a = require('fs');\nfunction b() { return a; }\nmodule.exports = { b };\n",
    "types.ts": "export interface A { b: string }\nexport const c: A = { b: 'x' };\n",
    "module.mjs": "export function add(a, b) { return a + b; }\nexport const one = load();\n",
    "helpers.rb": "module Helpers\n  def self.x\n    1\n  end\nend\n",
    "Lib.pl": "package Lib;\nsub x { 1 }\n1;\n",
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_file_in_which_nothing_runs_is_no_tool(read: Read, name: str) -> None:
    manager = read({f"scripts/{name}": LIBRARIES[name]})

    assert tools_of(manager) == {}
    ((file, _, message),) = noted(manager, "script-dropped")
    assert (file, message.partition(": ")[0]) == (name, "no tool")
    assert "nothing in it runs" in message


def test_the_drop_names_what_the_file_defines_and_where(read: Read) -> None:
    manager = read({"scripts/lib.py": "import os\n\n\ndef one(): ...\n\n\nclass Two: ...\n"})

    assert noted(manager, "script-dropped") == [
        ("lib.py", 4, "no tool: nothing in it runs: it only defines one, Two")
    ]


def test_include_makes_a_tool_of_it_all_the_same(read: Read) -> None:
    front = "metadata: {skillpouch: {scripts: {include: [lib.py, empty.sh]}}}\n"

    manager = read({"scripts/lib.py": "X = 1\n", "scripts/empty.sh": ""}, front=front)

    assert sorted(tools_of(manager)) == ["demo.empty", "demo.lib"]


RUNNING = {
    "raises.py": "def main(): print(1)\nif __name__ == '__main__':\n    raise SystemExit(main())\n",
    "listed.py": "[print(n) for n in range(3)]\n",
    "short.py": "import os\nos.path.exists('x') and print('there')\n",
    "kept.py": "import subprocess\ndone = subprocess.run(['ls'])\n",
    "called.py": "def work():\n    print('done')\n    return 1\n\nresult = work()\n",
    "matched.py": "match 1:\n    case 1:\n        print('one')\n",
    "loops.py": "while True:\n    pass\n",
    "fails.py": "import os\nos.environ['NOT_SET']\n",
    "checks.sh": "[ -f package.json ]\n",
    "waits.sh": "while :; do :; done\n",
    "wraps.sh": 'source "$(dirname "$0")/impl.sh"\n',
    "starts.js": "const out = execSync('ls');\n",
    "kept.js": "const total = sum();\nfunction sum() { console.log(3); return 3; }\n",
    "loads.mjs": "import './other.mjs';\n",
    "default.mjs": "export default function (args) { return args.a; }\n",
}


@pytest.mark.parametrize("name", RUNNING)
def test_whatever_may_do_something_stays_a_tool(read: Read, name: str) -> None:
    stem = name.partition(".")[0]

    assert list(tools_of(read({f"scripts/{name}": RUNNING[name]}))) == [f"demo.{stem}"]


def test_tests_are_no_tools_with_or_without_a_main_block(read: Read) -> None:
    main = "if __name__ == '__main__':\n    test_parse()\n"
    manager = read(
        {
            "scripts/parse.py": "def parse(): ...\nif __name__ == '__main__':\n    parse()\n",
            "scripts/test_parse.py": f"from parse import parse\ndef test_parse(): parse()\n{main}",
            "scripts/tests/test_all.sh": "echo all\n",
            "scripts/test_connection.py": "print('connected')\n",
            "scripts/unit.py": f"import unittest\ndef test_parse(): ...\n{main}",
        }
    )

    assert sorted(tools_of(manager)) == ["demo.parse", "demo.test_connection"]
    assert [message for _, _, message in noted(manager, "script-dropped")] == [
        "no tool: a test of scripts/parse.py",
        "no tool: a test in scripts/tests",
        "no tool: a test, not a tool",
    ]


def test_a_script_that_reads_no_input_is_shown_without_parameters(read: Read) -> None:
    manager = read({"scripts/greet.py": PRINTS, "scripts/echo.sh": "cat\n"})

    tools = tools_of(manager)

    assert tools["demo.greet"].input_schema == NOTHING
    assert list(tools["demo.echo"].input_schema["properties"]) == ["data"]
    assert [file for file, _, _ in noted(manager, "reads-no-input")] == ["greet.py"]


def test_a_script_may_read_input_in_a_file_that_it_imports(read: Read) -> None:
    manager = read(
        {
            "scripts/direct.py": "from shared import run\nrun()\n",
            "scripts/shared.py": "import deep\ndef run(): print(deep.text())\n",
            "scripts/deep.py": "import sys\ndef text(): return sys.stdin.read()\n",
            "scripts/package.py": "from kit import run\nrun()\n",
            "scripts/kit/__init__.py": "import sys\ndef run(): print(sys.argv)\n",
            "scripts/kit/part.py": PRINTS,
            "scripts/sources.sh": 'source "$(dirname "$0")/ask.sh"\nask\n',
            "scripts/ask.sh": 'ask() { read -r line; echo "$line"; }\n',
            "scripts/absent.js": "require('./lib/input')();\n",
            "scripts/quiet.py": "from words import hello\nprint(hello())\n",
            "scripts/words.py": "def hello(): return 'hello'\n",
        }
    )

    tools = tools_of(manager)
    unread = {short for short, tool in tools.items() if tool.input_schema == NOTHING}

    assert unread == {"demo.kit-part", "demo.quiet"}


# It reads in a way that nobody sees by reading the script.
SECRETIVE = (
    'import os, sys\nprint(getattr(sys, "std" + "in").read(), getattr(sys, "ar" + "gv")[1:],'
    ' os.environ["TOOL_" + "ARGS"])\n'
)


def test_text_reaches_a_script_that_reads_text_as_it_is(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    script = "import sys\nfor line in sys.stdin:\n    print('-', line.strip())\n"
    root = write_skill(files={"scripts/list.py": script}).parent
    (tmp_path / "work").mkdir()
    manager = SkillManager(root, workspace=tmp_path / "work", cache=False)
    (tool,) = manager.tools

    assert "as it is" in tool.input_schema["properties"]["data"]["description"]
    assert manager.call(tool.id, {"data": "one\ntwo\n"}).stdout == "- one\n- two\n"
    assert manager.call(tool.id, {"data": {"a": 1}}).stdout == '- {"a": 1}\n'
    assert manager.call(tool.id).stdout == ""


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (None, "{} [] {}"),
        ({}, "{} [] {}"),
        ("World", '"World" [\'World\'] "World"'),
        ({"data": "World"}, '"World" [\'World\'] "World"'),
        ({"data": {"n": [1, 2]}}, '{"n": [1, 2]} [] {"n": [1, 2]}'),
        (["a", "b"], '["a", "b"] [\'a\', \'b\'] ["a", "b"]'),
        ({"data": '{"a":1}'}, '{"a":1} [] {"a":1}'),
    ],
)
def test_a_script_that_reads_no_input_is_given_data_all_the_same(
    read: Read, arguments: object, output: str
) -> None:
    result = read({"scripts/quiet.py": SECRETIVE}).call("demo.quiet", arguments)

    assert result.content == output


def test_any_other_argument_of_such_a_script_is_refused(read: Read) -> None:
    manager = read({"scripts/quiet.py": SECRETIVE})

    with pytest.raises(InvalidArgumentsError, match="allowed are none"):
        manager.call("demo.quiet", {"name": "Ada"})


BODY = """# Demo

Convert with `python tools/convert.py in.txt`, then check.

```bash
./check.sh --all
node "$SKILL_DIR/lib/cli.mjs" build
cd {baseDir} && bash run.sh
python3 skills/demo/bin/deep/report.py
source env.sh
cat tools/shown.py
python src/main.py
```

```
tools/listed.py
```

Finally run `./final.sh`.
"""
NAMED = {
    "tools/convert.py": PRINTS,
    "check.sh": "echo checked\n",
    "lib/cli.mjs": "console.log(1);\n",
    "run.sh": "echo ran\n",
    "bin/deep/report.py": PRINTS,
    "final.sh": "echo done\n",
}


def test_a_file_that_the_text_runs_is_a_tool_wherever_it_lies(read: Read) -> None:
    others = {"env.sh": "echo\n", "tools/shown.py": PRINTS, "tools/listed.py": PRINTS}

    manager = read(NAMED | others | {"main.py": PRINTS}, BODY)

    assert sorted(tools_of(manager)) == [
        *("demo.bin-deep-report", "demo.check", "demo.final", "demo.lib-cli", "demo.run"),
        "demo.tools-convert",
    ]
    assert manager.call("demo.tools-convert").content == "hello"
    # Lines of SKILL.md: four of frontmatter and a blank one come before the text.
    assert [
        (line, words.partition(" ")[0]) for _, line, words in noted(manager, "script-named")
    ] == [
        (8, "tools/convert.py"),
        (11, "check.sh"),
        (12, "lib/cli.mjs"),
        (13, "run.sh"),
        (14, "bin/deep/report.py"),
        (24, "final.sh"),
    ]


def test_scripts_keep_their_names_and_the_file_elsewhere_gets_its_extension(read: Read) -> None:
    body = "```bash\npython run.py\nbash utils/run.sh\n```\n"
    files = {"scripts/run.py": PRINTS, "run.py": PRINTS, "utils/run.sh": "echo\n"}

    manager = read(files | {"scripts/utils/run.sh": "echo\n"}, body)

    assert {
        short: tool.origin.partition("/demo/")[2] for short, tool in tools_of(manager).items()
    } == {
        "demo.run": "scripts/run.py",
        "demo.run-py": "run.py",
        "demo.utils-run": "scripts/utils/run.sh",
        "demo.utils-run-sh": "utils/run.sh",
    }


def test_nothing_outside_the_skill_is_ever_run_by_name(read: Read, tmp_path: Path) -> None:
    outside = tmp_path / "skills" / "outside.py"
    body = f"""```bash
python ../outside.py
python tools/../../outside.py
python {outside}
python tools/link.py
python linked/outside.py
python inner/theirs.py
python node_modules/pkg/cli.js
```
"""
    manager = read(
        {"inner/SKILL.md": "Inner.\n", "inner/theirs.py": PRINTS, "tools/own.txt": ""}
        | {"node_modules/pkg/cli.js": "console.log(1)\n"},
        body,
    )
    outside.write_text(PRINTS)
    home = manager.get_skill("demo").home
    (home / "tools/link.py").symlink_to(outside)
    (home / "linked").symlink_to(tmp_path / "skills")

    assert tools_of(manager) == {}
    assert {file for file, _, _ in noted(manager, "script-outside")} == {"link.py", "outside.py"}


def test_a_test_or_a_library_that_the_text_runs_is_no_tool(read: Read) -> None:
    body = "```bash\npython tests/test_x.py\npython lib.py\n```\n"
    files = {"tests/test_x.py": PRINTS, "lib.py": "def a(): ...\n"}

    manager = read(files, body)

    assert tools_of(manager) == {}
    assert len(noted(manager, "script-dropped")) == 2


def test_a_named_file_that_appears_later_is_found(write_skill: WriteSkill) -> None:
    files = {"tools/notes.txt": ""}
    home = write_skill(body="```bash\npython tools/late.py\n```\n", files=files)
    assert tools_of(SkillManager(home.parent)) == {}

    (home / "tools/late.py").write_text(PRINTS)

    assert list(tools_of(SkillManager(home.parent))) == ["demo.tools-late"]


SAID = {
    "- `scripts/run.sh` - Counts the words of a text.": "Counts the words of a text.",
    "* **run.sh**: counts words, **fast**": "counts words, fast",
    "| Script | Purpose |\n|---|---|\n| `run.sh` | Counts the words of a text |": (
        "Counts the words of a text"
    ),
    "### run.sh\n\nCounts the words. It is fast.": "Counts the words.",
    "First this. Use `run.sh` to count words. Then that.": "Use run.sh to count words.",
    "```\nscripts/\n├── run.sh   # Counts the words\n```": "Counts the words",
    "```bash\n# Count the words of a text\nbash scripts/run.sh\n```": "Count the words of a text",
    "- `$COUNTER` (usually: `~/x/scripts/run.sh`) \u2014 Counts the words.": "Counts the words.",
    "## Common errors\n\n`run.sh` stops early.\n\n## Use\n\nCount words by `run.sh` first.": (
        "Count words by run.sh first."
    ),
    "### Counting of words (`run.sh`)": "Counting of words",
    "See [the counter](scripts/run.sh) for counting.": "See the counter for counting.",
}


@pytest.mark.parametrize("body", SAID)
def test_a_script_that_says_nothing_is_described_by_the_text(read: Read, body: str) -> None:
    manager = read({"scripts/run.sh": "wc -w\n"}, f"# Demo\n\n{body}\n")

    assert tools_of(manager)["demo.run"].description == SAID[body]
    ((file, line, _),) = noted(manager, "described-by-text")
    assert file == "SKILL.md"
    assert line is not None
    assert line > 5


@pytest.mark.parametrize(
    "body",
    [
        "Nothing about it.",
        "1. Run: `bash scripts/run.sh all`",
        "- `other/run.sh` - Another file.",
        "- `scripts/run.sh`",
        "```bash\n# First\nbash scripts/run.sh a\nbash scripts/run.sh b\n```",
        "```bash\n# First do this\nbash run.sh a\n```\n\nAnd:\n\n```bash\nbash run.sh b\n```",
        "```bash\n# Replace with your own words\nbash scripts/run.sh a\n```",
        "Use prerun.sh to count, or run.sh.bak.",
        '- **"No words"**: Ensure `bash scripts/run.sh all` was run before the others.',
        "## Troubleshooting\n\n### Too slow\n\n- Start `scripts/run.sh` again if nothing is shown.",
    ],
)
def test_a_text_without_a_word_about_it_leaves_the_default(read: Read, body: str) -> None:
    tool = tools_of(read({"scripts/run.sh": "wc -w\n"}, f"# Demo\n\n{body}\n"))["demo.run"]

    assert tool.description == "Execute run"


def test_what_the_script_says_comes_first(read: Read) -> None:
    manager = read({"scripts/run.sh": "# Counts.\nwc -w\n"}, "- `run.sh` - Something else here.\n")

    assert tools_of(manager)["demo.run"].description == "Counts."


def test_a_strict_check_is_not_failed_by_what_explains_a_tool(
    read: Read,
) -> None:
    manager = read({"tools/run.sh": "echo\n"}, "Count with `bash tools/run.sh` what is there.\n")

    checked = check_skills(manager.roots, strict=True, progress=lambda _done, _all: None)

    assert {problem.code for problem in checked.problems} == {
        *("reads-no-input", "script-named", "described-by-text")
    }
    assert checked.is_clean


SETS = """#!/bin/bash
# Find the project.
#HEADER
. "$(dirname "${BASH_SOURCE[0]}")/folders.sh"
CACHE="$(cache_folder)"
find_project() {
  PROJECT="$(git rev-parse --show-toplevel 2>/dev/null || true)"
  mkdir -p "$CACHE/$PROJECT"
}
find_project
PROJECT_NAME="$(basename "$PROJECT")"
if [ -n "$PROJECT_NAME" ]; then
  LOCK="$PROJECT/.lock"
fi
export PROJECT_NAME LOCK
"""
FOLDERS = 'cache_folder() {\n  printf "%s" "$HOME/.cache"\n}\n'
WORKS = 'SKILL="$(cd "$(dirname "$0")/.." && pwd)"\nsource PATH\necho "$PROJECT_NAME"\n'


@pytest.mark.parametrize(
    ("header", "files", "reason"),
    [
        (
            "# Sourced by observe.sh and the hooks.",
            {},
            "nothing in it runs: it only defines find_project",
        ),
        (
            "# Usage: source this file",
            {},
            "nothing in it runs: it only defines find_project",
        ),
        (
            "",
            {"scripts/work.sh": WORKS.replace("PATH", '"$SKILL/scripts/detect.sh"')},
            "a module that scripts/work.sh imports, with nothing to run itself",
        ),
        (
            "",
            {"scripts/work.sh": WORKS.replace("PATH", '"$(dirname "$0")"/detect.sh')},
            "a module that scripts/work.sh imports, with nothing to run itself",
        ),
    ],
)
def test_a_shell_file_that_others_source_for_its_variables_is_no_tool(
    header: str, files: dict[str, str], reason: str, write_skill: WriteSkill
) -> None:
    detect = SETS.replace("#HEADER", header)
    home = write_skill(files={"scripts/detect.sh": detect, "scripts/folders.sh": FOLDERS, **files})
    manager = SkillManager(home.parent, cache=False)

    tools = [tool.id for tool in manager.get_skill_tools("demo")]

    assert "demo.detect" not in tools
    assert ("demo.work" in tools) == bool(files)
    assert any(reason in problem.message for problem in manager.problems)


@pytest.mark.parametrize(
    "text",
    [
        SETS,  # nobody sources it
        SETS.replace("#HEADER", "# Sourced by others.") + "find_project\n",  # ends with its work
        SETS.replace("#HEADER", "# Sourced by others.") + 'echo "$PROJECT_NAME"\n',
        SETS.replace("#HEADER", "# Sourced by others.").replace("find_project\nP", "make all\nP"),
        SETS.replace("#HEADER", "# The data is sourced from the web."),
    ],
)
def test_a_shell_file_that_may_do_its_work_alone_is_a_tool(
    text: str, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/detect.sh": text, "scripts/folders.sh": FOLDERS})

    tools = SkillManager(home.parent, cache=False).get_skill_tools("demo")

    assert [tool.id for tool in tools] == ["demo.detect"]
