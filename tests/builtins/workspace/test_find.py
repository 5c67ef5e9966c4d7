"""`glob` and `ls`: what is there, without what .gitignore leaves out."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.builtins.workspace.search.patterns import PathPattern, PatternError
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(workspace: Path) -> Path:
    for path in (
        "a.py",
        "b.ts",
        "src/c.py",
        "src/deep/d.py",
        "src/deep/[x].py",
        ".github/ci.yml",
        ".git/HEAD",
        "build/e.py",
        "src/gen.py",
    ):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("x")
    (workspace / ".gitignore").write_text("build/\n")
    (workspace / "src" / ".gitignore").write_text("gen.*\n")
    (workspace / "away").symlink_to("/etc")
    return workspace


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"pattern": "*.py"}, ["a.py"]),
        ({"pattern": "**/*.py"}, ["a.py", "src/c.py", "src/deep/[x].py", "src/deep/d.py"]),
        ({"pattern": "src/*.py"}, ["src/c.py"]),
        (
            {"pattern": "**"},
            ["a.py", "away", "b.ts", "src/c.py", "src/deep/[x].py", "src/deep/d.py"],
        ),
        ({"pattern": "*.{py,ts}"}, ["a.py", "b.ts"]),
        ({"pattern": "src/deep/[[]x].py"}, ["src/deep/[x].py"]),
        ({"pattern": "**/[!d].py", "path": "src"}, ["src/c.py"]),
        ({"pattern": "deep/*", "path": "src"}, ["src/deep/[x].py", "src/deep/d.py"]),
        ({"pattern": "**/*.yml"}, []),
        ({"pattern": "**/*.yml", "hidden": True}, [".github/ci.yml"]),
        ({"pattern": "**/HEAD", "hidden": True}, []),
        ({"pattern": "build/*"}, []),
        ({"pattern": "away/*"}, []),
    ],
)
@pytest.mark.usefixtures("tree")
def test_a_pattern_finds_files(arguments: dict[str, object], files: list[str], use: Use) -> None:
    result = use("glob", **arguments)

    assert result.structured == {"files": files, "total": len(files)}


@pytest.mark.parametrize("pattern", ["[", "a{b", "}", "{" * 900, "{a,b}" * 20, "\\", "/"])
def test_a_pattern_that_means_nothing_is_an_error(pattern: str, use: Use, workspace: Path) -> None:
    if pattern == "/":
        pattern = f"{workspace}/"
    assert use("glob", pattern=pattern).code == "invalid_argument"


def test_what_changed_last_comes_first(use: Use, workspace: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        (workspace / name).write_text("")
        os.utime(workspace / name, (1000 - age, 1000 - age))

    assert use("glob", pattern="*", sort="mtime").content == "new\nmiddle\nold"


def test_more_than_the_limit_is_counted(use: Use, workspace: Path) -> None:
    for number in range(30):
        (workspace / f"{number:02}").write_text("")

    result = use("glob", pattern="*", limit=2)

    assert result.content == "00\n01\n[2 of 30 files]"
    assert result.truncated


@settings(deadline=None)
@given(
    pattern=st.text(alphabet="ab*?[]!{},\\-/", max_size=12),
    path=st.lists(st.text(alphabet="ab*-", min_size=1, max_size=5), min_size=1, max_size=4),
)
def test_any_text_is_a_pattern_or_an_error(pattern: str, path: list[str]) -> None:
    try:
        found = PathPattern(pattern)
    except PatternError:
        return

    assert found.matches(path) in (True, False)


def test_no_pattern_takes_long() -> None:
    pattern = PathPattern("*a" * 60 + "b")
    folders = PathPattern("**/a*/" * 30 + "b")

    assert not pattern.matches(["a" * 255])
    assert not folders.matches(["aaa"] * 200)


@pytest.mark.usefixtures("tree")
def test_a_folder_is_listed_folders_first(use: Use) -> None:
    result = use("ls")

    assert [line.split() for line in result.content.split("\n")] == [
        ["folder", ".git/", "(ignored)"],
        ["folder", ".github/"],
        ["folder", "build/", "(ignored)"],
        ["folder", "src/"],
        ["file", "7", ".gitignore"],
        ["file", "1", "a.py"],
        ["link", "away", "->", "/etc"],
        ["file", "1", "b.ts"],
    ]
    assert result.structured["total"] == 8


@pytest.mark.usefixtures("tree")
def test_deeper_levels_leave_out_what_is_ignored(use: Use) -> None:
    result = use("ls", path="src", depth=3)

    paths = [(entry["path"], entry["ignored"]) for entry in result.structured["entries"]]
    assert paths == [
        ("deep", False),
        ("deep/[x].py", False),
        ("deep/d.py", False),
        (".gitignore", False),
        ("c.py", False),
        ("gen.py", True),
    ]
    all_paths = [entry["path"] for entry in use("ls", depth=9).structured["entries"]]
    assert not [path for path in all_paths if path.startswith((".git/", "build/", "away/"))]


def test_an_empty_folder_and_a_long_one_say_so(use: Use, workspace: Path) -> None:
    assert use("ls").content == "[the folder is empty]"
    for number in range(5):
        (workspace / str(number)).mkdir()

    assert use("ls", limit=2).content.endswith("1/\n[2 of 5 entries]")
    assert use("ls", path="nope").code == "not_found"
