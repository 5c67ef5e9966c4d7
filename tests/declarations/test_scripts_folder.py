"""A bare scripts/ folder: which files are tools, under which names, and why others are not."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.problems import Problem

WriteSkill = Callable[..., Path]
Scripts = Callable[..., SkillManager]

PRINTS = "print('hello')\n"
RUNS = {
    **dict.fromkeys(("py", "sh", "bash", "zsh"), "print hello\n"),
    **dict.fromkeys(("js", "mjs", "cjs", "ts"), "console.log(1);\n"),
    "py": PRINTS,
    "rb": "puts 1\n",
    "pl": "print 1;\n",
}
LIBRARY = "def helper():\n    return 1\n"


@pytest.fixture
def scripts(write_skill: WriteSkill) -> Scripts:
    """A skill `demo` with these files; `front` is added to its frontmatter."""

    def write_and_read(files: Mapping[str, str], front: str = "") -> SkillManager:
        home = write_skill(front=f"name: demo\ndescription: Does it.\n{front}", files=files)
        return SkillManager(home.parent, cache=False)

    return write_and_read


def ids(manager: SkillManager) -> list[str]:
    return sorted(tool.id for tool in manager.get_skill_tools("demo"))


def drops(manager: SkillManager) -> list[str]:
    """Return the files that are no tools; reading them was never worth more than an info."""
    manager.get_skill_tools("demo")
    assert {problem.severity for problem in manager.problems} <= {"info"}
    return sorted(Path(problem.path).name for problem in manager.problems)


def problems_of(manager: SkillManager, name: str) -> list[Problem]:
    return [problem for problem in manager.problems if Path(problem.path).name == name]


def test_every_known_language_makes_a_tool_without_an_executable_bit(scripts: Scripts) -> None:
    manager = scripts({f"scripts/run_{ext}.{ext}": text for ext, text in RUNS.items()})

    assert ids(manager) == sorted(f"demo.run_{ext}" for ext in RUNS)
    assert not (manager.get_skill("demo").home / "scripts/run_py.py").stat().st_mode & 0o111


def test_other_files_and_hidden_ones_are_no_tools_and_not_worth_a_word(scripts: Scripts) -> None:
    names = ["README.md", "data.json", "main.go", "noext", ".hidden.py", "__init__.py", "run.py~"]

    manager = scripts(
        {f"scripts/{name}": PRINTS for name in names}
        | {"scripts/.cache/x.py": PRINTS, "scripts/__pycache__/y.py": PRINTS}
        | {"scripts/node_modules/z/index.js": "", "run.py": PRINTS, "tools/run.py": PRINTS}
    )

    assert (ids(manager), manager.problems) == ([], [])


def test_a_virtual_environment_below_scripts_is_no_heap_of_tools(scripts: Scripts) -> None:
    manager = scripts(
        {"scripts/run.py": PRINTS, "scripts/env/pyvenv.cfg": "home = /usr/bin\n"}
        | {"scripts/env/lib/python3/site.py": PRINTS, "scripts/env/bin/activate.sh": "echo\n"}
    )

    assert ids(manager) == ["demo.run"]


def test_upper_case_extensions_count(scripts: Scripts) -> None:
    assert ids(scripts({"scripts/RUN.PY": PRINTS})) == ["demo.RUN"]


def test_subfolders_are_part_of_the_name(scripts: Scripts) -> None:
    manager = scripts({"scripts/utils/parse.py": PRINTS, "scripts/a/b/c.sh": "echo\n"})

    assert ids(manager) == ["demo.a-b-c", "demo.utils-parse"]


def test_five_levels_are_searched_and_what_lies_deeper_is_on_record(scripts: Scripts) -> None:
    manager = scripts({"scripts/1/2/3/4/in.py": PRINTS, "scripts/1/2/3/4/5/6/out.py": PRINTS})

    assert ids(manager) == ["demo.1-2-3-4-in"]
    assert [problem.severity for problem in manager.problems] == ["info"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["run.py", "run.sh"], ["demo.run", "demo.run-sh"]),
        (["run.py", "run.sh", "run.js"], ["demo.run", "demo.run-py", "demo.run-sh"]),
        (["a-b.py", "a/b.py"], ["demo.a-b", "demo.a-b-py"]),
    ],
)
def test_the_same_stem_twice_adds_the_extension_to_the_later_one(
    scripts: Scripts, files: list[str], expected: list[str]
) -> None:
    manager = scripts({f"scripts/{name}": RUNS[name.rpartition(".")[2]] for name in files})

    assert ids(manager) == expected
    assert {problem.severity for problem in manager.problems} == {"info"}


def test_no_two_tools_of_a_skill_ever_share_an_id(scripts: Scripts) -> None:
    commands = (
        "import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "commands = parser.add_subparsers()\n"
        "commands.add_parser('b')\n"
        "parser.parse_args()\n"
    )

    manager = scripts(
        {"scripts/a.py": commands, "scripts/a.b.py": PRINTS, "scripts/a.b.sh": "echo\n"}
        | {"scripts/run.py": PRINTS, "scripts/run.sh": "echo\n", "scripts/run-sh.py": PRINTS}
    )
    found = [tool.id for tool in manager.get_skill_tools("demo")]

    assert len(found) == len(set(found)) == 6
    assert len({tool.name for tool in manager.get_skill_tools("demo")}) == 6


@pytest.mark.parametrize(
    "importer",
    [
        "import helpers\nprint(helpers.helper())\n",
        "from helpers import helper\nprint(helper())\n",
        "def main():\n    from helpers import helper\n    print(helper())\nmain()\n",
    ],
)
def test_a_module_that_a_sibling_imports_is_dropped_and_the_drop_is_on_record(
    scripts: Scripts, importer: str
) -> None:
    manager = scripts({"scripts/run.py": importer, "scripts/helpers.py": LIBRARY})

    assert (ids(manager), drops(manager)) == (["demo.run"], ["helpers.py"])


@pytest.mark.parametrize(
    "module",
    [
        "def helper():\n    return 1\nif __name__ == '__main__':\n    print(helper())\n",
        "def main():\n    print(1)\n",
        "def handler(args):\n    return args\n",
    ],
)
def test_an_imported_module_that_can_be_run_itself_stays_a_tool(
    scripts: Scripts, module: str
) -> None:
    manager = scripts(
        {"scripts/run.py": "import helpers\nprint(1)\n", "scripts/helpers.py": module}
    )

    assert ids(manager) == ["demo.helpers", "demo.run"]


def test_without_evidence_nothing_is_dropped(scripts: Scripts) -> None:
    manager = scripts(
        {"scripts/_private.py": PRINTS, "scripts/test_speed.py": PRINTS, "scripts/lib.py": PRINTS}
    )

    assert ids(manager) == ["demo._private", "demo.lib", "demo.test_speed"]


@pytest.mark.parametrize(
    "text", ["import pytest\n", "import unittest\n", "from pytest import mark\n"]
)
def test_a_test_that_imports_a_test_framework_is_dropped(scripts: Scripts, text: str) -> None:
    manager = scripts({"scripts/test_run.py": f"{text}\ndef test_x():\n    assert 1\n"})

    assert (ids(manager), drops(manager)) == ([], ["test_run.py"])


def test_include_overrules_the_evidence_and_exclude_removes(scripts: Scripts) -> None:
    front = "metadata: {skillpouch: {scripts: {include: helpers.py, exclude: ['old/*', 'x.sh']}}}\n"

    manager = scripts(
        {"scripts/run.py": "import helpers\nprint(1)\n", "scripts/helpers.py": LIBRARY}
        | {"scripts/old/a.py": PRINTS, "scripts/x.sh": "echo\n", "scripts/y.sh": "echo\n"},
        front,
    )

    assert ids(manager) == ["demo.helpers", "demo.run", "demo.y"]


def test_include_reaches_files_outside_scripts_but_never_outside_the_skill(
    scripts: Scripts, tmp_path: Path
) -> None:
    (tmp_path / "skills/other").mkdir(parents=True)
    (tmp_path / "skills/other/foreign.py").write_text(PRINTS)
    absolute = tmp_path / "skills/other/*.py"
    include = f"['bin/*.py', '../*/*.py', '{absolute}']"
    front = f"metadata: {{skillpouch: {{scripts: {{include: {include}}}}}}}\n"

    manager = scripts({"bin/tool.py": PRINTS, "other/no.py": PRINTS}, front)

    assert [tool.split(".")[1] for tool in ids(manager)] == ["bin-tool"]


def test_a_file_that_two_patterns_include_is_one_tool(scripts: Scripts) -> None:
    front = "metadata: {skillpouch: {scripts: {include: ['bin/*.py', 'bin/x.py', '**/*.py']}}}\n"

    assert ids(scripts({"bin/x.py": PRINTS}, front)) == ["demo.bin-x"]


def test_include_does_not_take_the_files_of_a_skill_inside(scripts: Scripts) -> None:
    manager = scripts(
        {"bin/mine.py": PRINTS, "inner/SKILL.md": "Inner.\n", "inner/scripts/theirs.py": PRINTS},
        "metadata: {skillpouch: {scripts: {include: '**/*.py'}}}\n",
    )

    assert [tool for tool in ids(manager) if "theirs" in tool] == []
    assert [tool.id for tool in manager.get_skill_tools("inner")] == ["inner.theirs"]


@pytest.mark.parametrize(
    "pattern",
    [
        "'**x'",
        "'.'",
        "''",
        "'[a'",
        "'a/../..'",
        '"a\\0b"',
        "7",
        "{a: b}",
        "[[x]]",
        "'/'",
    ],
)
@pytest.mark.parametrize("key", ["include", "exclude"])
def test_an_odd_pattern_never_raises_and_loses_no_script(
    scripts: Scripts, key: str, pattern: str
) -> None:
    front = f"metadata: {{skillpouch: {{scripts: {{{key}: {pattern}}}}}}}\n"

    assert "demo.run" in ids(scripts({"scripts/run.py": PRINTS}, front))


def test_a_skill_below_scripts_keeps_its_own_files(scripts: Scripts) -> None:
    manager = scripts(
        {"scripts/run.py": PRINTS, "scripts/inner/SKILL.md": "Inner.\n"}
        | {"scripts/inner/theirs.py": PRINTS, "scripts/inner/scripts/own.py": PRINTS}
    )

    assert ids(manager) == ["demo.run"]
    assert [tool.id for tool in manager.get_skill_tools("inner")] == ["inner.own"]


def test_a_degraded_skill_keeps_its_scripts_but_not_its_declarations(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    (home / "scripts").mkdir(parents=True)
    (home / "scripts/run.py").write_text(PRINTS)
    (home / "SKILL.md").write_text(
        "---\nname: demo\ndescription: Does it.\nx: &a 1\ntools: [{name: declared}]\n---\n"
    )
    manager = SkillManager(tmp_path, cache=False)

    assert ids(manager) == ["demo.run"]
    assert manager.get_skill("demo").degraded
    assert [problem.line for problem in manager.problems if problem.severity == "error"] == [4]


def test_a_script_too_large_to_read_is_an_untyped_tool_and_says_why(scripts: Scripts) -> None:
    manager = scripts({"scripts/big.py": "x = 1\n" * 1_000_000, "scripts/run.py": PRINTS})

    tools = {tool.id: tool for tool in manager.get_skill_tools("demo")}

    assert list(tools["demo.big"].input_schema["properties"]) == ["data"]
    assert [problem.severity for problem in problems_of(manager, "big.py")] == ["info"]


def test_a_link_inside_the_skill_is_followed_and_a_dangling_one_reported(scripts: Scripts) -> None:
    manager = scripts({"scripts/run.py": PRINTS, "lib/real.py": PRINTS})
    home = manager.get_skill("demo").home
    (home / "scripts/link.py").symlink_to("../lib/real.py")
    (home / "scripts/gone.py").symlink_to("nowhere.py")

    assert ids(manager) == ["demo.link", "demo.run"]
    assert len(problems_of(manager, "gone.py")) == 1


@pytest.mark.parametrize(
    "module",
    [
        'class V: ...\nif __name__ == "__main__":\n    raise RuntimeError("not to be run")\n',
        "from .other import thing\ndef main():\n    thing()\nmain()\n",
    ],
)
def test_an_imported_module_that_cannot_be_run_is_no_tool(scripts: Scripts, module: str) -> None:
    manager = scripts({"scripts/run.py": f"import lib\n{PRINTS}", "scripts/lib.py": module})

    assert ids(manager) == ["demo.run"]
    assert drops(manager) == ["lib.py"]


@pytest.mark.parametrize("line", ["from .docx import check", "from . import docx", "import v.docx"])
def test_a_package_counts_as_an_importer_though_it_is_no_tool(scripts: Scripts, line: str) -> None:
    files = {"scripts/run.py": PRINTS, "scripts/v/__init__.py": line, "scripts/v/docx.py": LIBRARY}

    manager = scripts(files)

    assert ids(manager) == ["demo.run"]
    assert drops(manager) == ["docx.py"]


COMMANDS = """import argparse
parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command")
commands.add_parser("add").add_argument("--title")
commands.add_parser("list")
parser.parse_args()
"""


def test_each_sub_command_has_the_lines_that_show_it(write_skill: WriteSkill) -> None:
    body = "```bash\npython scripts/notes.py add --title x\npython scripts/notes.py list\n```\n"
    home = write_skill(
        front="name: demo\ndescription: Does it.\n", body=body, files={"scripts/notes.py": COMMANDS}
    )
    manager = SkillManager(home.parent, cache=False)

    assert {tool.id: tool.examples for tool in manager.get_skill_tools("demo")} == {
        "demo.notes.add": ("python scripts/notes.py add --title x",),
        "demo.notes.list": ("python scripts/notes.py list",),
    }
