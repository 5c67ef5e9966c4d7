"""A path that lies below the skill while a call runs in the workspace: said, with what works."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch import SkillManager, ToolResult
from skillpouch.backends.program_results import note_on_skill_paths
from tests.conftest import WriteSkill

SKILL = {
    "templates/a.txt": "Dear",
    "references/x.json": "{}",
    "assets/two words.txt": "two",
    "scripts/part.sh": "# Part.\necho part\n",
    "scripts/fill.py": (
        '"""Fill a template."""\nimport argparse\nparser = argparse.ArgumentParser()\n'
        "parser.add_argument('template')\nparser.add_argument('--out', default='-')\n"
        "print(open(parser.parse_args().template).read())\n"
    ),
}


def call(
    write_skill: WriteSkill, tmp_path: Path, files: dict[str, str], tool: str, **arguments: str
) -> tuple[ToolResult, Path]:
    (tmp_path / "work").mkdir()
    home = write_skill(files={**SKILL, **files})
    manager = SkillManager(home.parent, workspace=tmp_path / "work", cache=False)
    return manager.call(f"demo.{tool}", arguments), home


def test_a_path_argument_below_the_skill_is_named_with_the_path_that_works(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    failed, home = call(write_skill, tmp_path, {}, "fill", template="templates/a.txt")

    assert failed.outcome == "failed"
    assert failed.content.splitlines()[-1] == (
        "note: templates/a.txt lies in the folder of the skill, not in the workspace; "
        f"the path that works is {home}/templates/a.txt"
    )
    path = failed.content.split()[-1]
    manager = SkillManager(home.parent, workspace=tmp_path / "work", cache=False)
    assert manager.call("demo.fill", {"template": path}).stdout == "Dear\n"


@pytest.mark.parametrize(
    ("script", "path"),
    [
        ("x.py", "open('references/x.json')"),
        ("x.py", "import os; open(os.path.abspath('references/x.json'))"),
        ("x.py", "open('assets/two words.txt')"),
        ("x.sh", "cat references/x.json"),
        ("x.sh", "cat < references/x.json"),
        ("x.sh", "bash scripts/part.sh"),
        ("x.sh", "python3 scripts/fill.py"),
        ("x.sh", 'echo "Error: template not found: templates/a.txt" >&2; exit 1'),
        ("x.js", "require('fs').readFileSync('references/x.json')"),
        ("x.pl", "open(my $f, '<', 'references/x.json') or die \"no references/x.json: $!\";"),
        ("x.rb", "File.read('references/x.json')"),
    ],
)
def test_a_path_in_the_error_of_a_program_is_named(
    write_skill: WriteSkill, tmp_path: Path, script: str, path: str
) -> None:
    comment = "//" if script.endswith("js") else "#"

    files = {f"scripts/{script}": f"{comment} X.\n{path}\n"}

    failed, home = call(write_skill, tmp_path, files, "x")

    note = failed.content.splitlines()[-1]
    assert failed.outcome == "failed"
    named = note.removeprefix("note: ").partition(" lies in the folder of the skill")[0]
    assert note.endswith(f"the path that works is {home}/{named}")
    assert (home / named).is_file()
    assert named in path


@pytest.mark.parametrize(
    "template",
    ["templates/none.txt", "../secret.txt", "/etc/none", "templates", "", "-", "http://a/b.txt"],
)
def test_a_path_that_is_wrong_everywhere_gets_no_note(
    write_skill: WriteSkill, tmp_path: Path, template: str
) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "secret.txt").write_text("s")

    failed, _ = call(write_skill, tmp_path, {}, "fill", template=template)

    assert failed.outcome == "failed"
    assert "folder of the skill" not in failed.content


def test_a_file_that_the_workspace_has_gets_no_note(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    broken = "# X.\nmkdir templates; touch templates/a.txt; echo templates/a.txt missing; exit 1\n"

    failed, _ = call(write_skill, tmp_path, {"scripts/x.sh": broken}, "x")

    assert "folder of the skill" not in failed.content


def test_a_link_that_leaves_the_skill_is_not_told_to_exist(tmp_path: Path) -> None:
    home, outside = tmp_path / "skill", tmp_path / "outside.txt"
    home.mkdir()
    outside.write_text("s")
    (home / "link.txt").symlink_to(outside)

    assert note_on_skill_paths(["link.txt"], home=str(home), workspace=str(tmp_path / "w")) == ""


@settings(deadline=None)
@given(words=st.lists(st.text(st.sampled_from("ab./\\\0- =~ü'"), max_size=12), max_size=5))
def test_only_files_of_the_skill_are_ever_named(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    base = tmp_path_factory.getbasetemp() / "paths"
    home = base / "skill"
    (home / "a").mkdir(parents=True, exist_ok=True)
    (home / "a" / "b.a").touch()
    (base / "b.b").touch()

    note = note_on_skill_paths(words, home=str(home), workspace=str(base / "work"))

    for line in note.splitlines():
        path = Path(line.partition("the path that works is ")[2])
        assert path.exists()
        assert home in path.resolve().parents or path.resolve() == home


def test_a_failure_that_misses_nothing_names_no_path(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    script = 'for each in "$@"; do echo "$each is protected" >&2; done\nexit 1\n'
    home = write_skill(files={"scripts/x.sh": script, "README.md": "read me"})
    manager = SkillManager(home.parent, workspace=tmp_path)

    result = manager.call("x", {"args": ["README.md", "x.yml"]})

    assert "note:" not in result.content
