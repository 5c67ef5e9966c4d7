"""The warm index: a second discovery only stats, every change is seen."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.discovery.index import is_settled
from skillpouch.untrusted_files import (
    SCRIPT_BYTES,
    CannotReadError,
    hold_open,
    read_inside,
    stamp_of,
)

Change = Callable[[Path], object]

SKILL = "---\nname: {name}\ndescription: {description}\n---\n\nDo it.\n"
TOOLS = '[{{"name": "{name}", "description": "Declared."}}]'

# Prints every file that is opened and every folder that is listed below the root.
WATCHED = """
import json, os, sys
from skillpouch import SkillManager
SkillManager(sys.argv[2], cache=False).tools  # loads what is loaded late
root, seen = sys.argv[1], []
def watch(event, args):
    if event in ("open", "os.scandir", "os.listdir") and isinstance(args[0], (str, bytes)):
        path = os.fsdecode(args[0])
        if path.startswith(root):
            seen.append((event, path))
sys.addaudithook(watch)
manager = SkillManager(root)
manager.discover()
names = [skill.name for skill in manager.list_skills()]
by_discovery = len(seen)
ids = [tool.id for tool in manager.tools]
print(json.dumps([names, ids, seen[:by_discovery], seen[by_discovery:]]))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Skills with every kind of file that is remembered."""
    root = tmp_path / "skills"
    for name in ("alpha", "beta", "plugged/gamma"):
        home = root / name
        (home / "scripts/deep").mkdir(parents=True)
        (home / "SKILL.md").write_text(SKILL.format(name=home.name, description="First."))
        (home / "tools.json").write_text(TOOLS.format(name="declared"))
        (home / "scripts/run.py").write_text("import sys\nprint(sys.argv[1])\n")
        (home / "scripts/deep/more.sh").write_text("# Says more.\necho\n")
    (root / "beta/notes.md").write_text(SKILL.format(name="noted", description="A note."))
    (root / "link").symlink_to("beta")
    (root / "plugged/.claude-plugin").mkdir()
    (root / "plugged/.claude-plugin/plugin.json").write_text('{"name": "office"}')
    return root


def settle(root: Path) -> None:
    """Wait until no file is so young that its next change could keep its stamp."""
    stamps = [stamp_of(path.lstat()) for path in (root, *root.rglob("*"))]
    deadline = time.monotonic() + 10
    while not all(map(is_settled, stamps)) and time.monotonic() < deadline:
        time.sleep(0.005)


def answers(root: Path, *, cache: bool = True) -> tuple[Any, ...]:
    manager = SkillManager(root, cache=cache)
    manager.discover()
    tools = manager.tools
    return manager.list_skills(), tools, manager.problems, manager.found, manager.skipped


def watched(root: Path, tmp_path: Path) -> tuple[list[str], list[str], list[Any], list[Any]]:
    trivial = tmp_path / "trivial"
    (trivial / "scripts").mkdir(parents=True, exist_ok=True)
    (trivial / "SKILL.md").write_text("Trivial.\n")
    (trivial / "tools.json").write_text(TOOLS.format(name="x"))
    (trivial / "scripts/run.py").write_text("import argparse\n")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(root), str(trivial)],
        capture_output=True,
        check=True,
        text=True,
    )
    names, ids, by_discovery, by_tools = json.loads(done.stdout)
    return names, ids, by_discovery, by_tools


@pytest.mark.slow
def test_a_second_discovery_opens_and_lists_nothing(root: Path, tmp_path: Path) -> None:
    settle(root)
    first = watched(root, tmp_path)

    second = watched(root, tmp_path)

    assert first[:2] == second[:2]
    assert first[2]
    assert first[3]
    assert second[2:] == ([], [])


@pytest.mark.slow
def test_after_one_change_only_what_changed_is_read(root: Path, tmp_path: Path) -> None:
    settle(root)
    watched(root, tmp_path)
    (root / "alpha/SKILL.md").write_text(SKILL.format(name="alpha", description="Other."))

    _, _, opened, _ = watched(root, tmp_path)

    assert {path for _, path in opened} == {str(root / "alpha/SKILL.md")}


def test_what_is_remembered_is_what_is_read(root: Path) -> None:
    settle(root)

    first, second, cold = answers(root), answers(root), answers(root, cache=False)

    assert first == second == cold


def rewrite(path: Path, old: str, new: str) -> None:
    """Change a file in place, and give it its old date again."""
    status = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path: Path, text: str) -> None:
    other = path.with_name("other")
    other.write_text(text)
    other.replace(path)


def relink(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def nest(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(SKILL.format(name=path.name, description="Nested."))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: rewrite(root / "alpha/SKILL.md", "First.", "First!"),
        lambda root: rewrite(root / "alpha/SKILL.md", "First.", "Second, and longer."),
        lambda root: replace(
            root / "alpha/SKILL.md", SKILL.format(name="alpha", description="Fresh.")
        ),
        lambda root: (root / "alpha/SKILL.md").unlink(),
        lambda root: (root / "alpha/SKILL.md").rename(root / "alpha/skill.md"),
        lambda root: (root / "alpha/SKILL.md").write_bytes(b""),
        lambda root: relink(root / "beta/SKILL.md", "notes.md"),
        lambda root: (root / "alpha").rename(root / "omega"),
        lambda root: nest(root / "alpha/inner"),
        lambda root: nest(root / "alpha/scripts/deep/inner"),
        lambda root: nest(root / "new/deeper/still"),
        lambda root: rewrite(root / "plugged/.claude-plugin/plugin.json", "office", "pencil"),
        lambda root: (root / "plugged/.claude-plugin/plugin.json").unlink(),
        lambda root: (root / "plugged/.claude-plugin").rename(root / "plugged/not-plugin"),
        lambda root: rewrite(root / "alpha/tools.json", "declared", "different"),
        lambda root: (root / "alpha/tools.json").unlink(),
        lambda root: (root / "alpha/scripts/manifest.yml").write_text(
            "tools: [{name: m, script: run.py}]\n"
        ),
        lambda root: rewrite(root / "alpha/scripts/run.py", "sys.argv[1]", "input('a?')"),
        lambda root: rewrite(root / "alpha/scripts/deep/more.sh", "Says", "Asks"),
        lambda root: (root / "alpha/scripts/deep/new.rb").write_text("puts 1\n"),
        lambda root: (root / "alpha/scripts/run.py").unlink(),
        lambda root: (root / "alpha/scripts").rename(root / "alpha/other"),
    ],
)
def test_every_change_is_seen(root: Path, change: Change) -> None:
    settle(root)
    manager = SkillManager(root)
    before = answers(root)
    manager.discover()

    change(root)

    after = answers(root)
    assert after == answers(root, cache=False)
    assert after != before
    manager.discover()
    assert [skill.file for skill in manager.list_skills()] == [skill.file for skill in after[0]]
    assert manager.tools == after[1]


def test_a_change_within_the_same_moment_and_of_the_same_size_is_seen(root: Path) -> None:
    seen = []
    for number in range(20):
        text = SKILL.format(name="alpha", description=f"Number {number:02}.")
        (root / "alpha/SKILL.md").write_text(text)
        (root / "alpha/tools.json").write_text(TOOLS.format(name=f"tool_{number:02}"))
        manager = SkillManager(root)
        [tool, *_] = manager.get_skill_tools("alpha")
        seen.append((manager.get_skill("alpha").description, tool.id))

    assert seen == [(f"Number {n:02}.", f"alpha.tool_{n:02}") for n in range(20)]


def test_a_declaration_that_was_too_large_is_read_once_it_has_shrunk(root: Path) -> None:
    file = root / "alpha/tools.json"
    os.truncate(file, 2_000_000)
    settle(root)
    assert "alpha.declared" not in [tool.id for tool in answers(root)[1]]

    with file.open("r+") as open_file:  # in place: the folder does not notice
        open_file.truncate(0)
        open_file.write(TOOLS.format(name="small"))

    assert "alpha.small" in [tool.id for tool in answers(root)[1]]


def test_a_new_file_in_a_folder_that_is_only_included_is_seen(root: Path) -> None:
    (root / "alpha/bin").mkdir()
    (root / "alpha/bin/one.py").write_text("print(1)\n")
    (root / "alpha/SKILL.md").write_text(
        "---\nname: alpha\ndescription: Includes.\n"
        "metadata: {skillpouch: {scripts: {include: 'bin/*.py'}}}\n---\n"
    )
    settle(root)
    assert len([tool for tool in answers(root)[1] if tool.skill == "alpha"]) == 4

    (root / "alpha/bin/two.py").write_text("print(2)\n")

    assert answers(root)[1] == answers(root, cache=False)[1]


def test_a_dangling_link_that_gets_a_target_is_seen(root: Path) -> None:
    (root / "alpha/scripts/late.py").symlink_to("../lib/late.py")
    (root / "alpha/lib").mkdir()
    settle(root)
    assert "alpha.late" not in [tool.id for tool in answers(root)[1]]

    (root / "alpha/lib/late.py").write_text("print(1)\n")

    assert "alpha.late" in [tool.id for tool in answers(root)[1]]


def test_a_file_that_is_edited_while_it_is_watched_never_gives_an_older_answer(root: Path) -> None:
    versions = []
    for number in range(12):
        (root / "beta/SKILL.md").write_text(SKILL.format(name="beta", description=str(number)))
        versions.append(int(SkillManager(root).get_skill("beta").description))

    assert all(earlier < later for earlier, later in pairwise(versions))


def test_roots_do_not_share_what_they_know(root: Path) -> None:
    settle(root)
    whole = {skill.source for skill in answers(root)[0]}
    part = {skill.source for skill in answers(root / "alpha")[0]}

    assert (whole, part) == ({str(root)}, {str(root / "alpha")})
    assert {skill.source for skill in answers(root)[0]} == {str(root)}


def test_the_same_skill_under_a_plugin_and_alone_has_two_names_and_two_sets_of_tools(
    root: Path,
) -> None:
    settle(root)
    for _ in range(2):
        inside = {tool.id for tool in answers(root)[1] if "gamma" in tool.id}
        alone = {tool.id for tool in answers(root / "plugged/gamma")[1]}

        assert {tool.split(":")[-1] for tool in inside} == alone
        assert all(tool.startswith("office:gamma.") for tool in inside)


def _script_in(home: Path) -> Path:
    script = home / "scripts" / "run.py"
    script.parent.mkdir(parents=True)
    script.write_text("print(1)\n")
    return script


def test_all_readers_of_a_skill_see_the_same_bytes(tmp_path: Path) -> None:
    script = _script_in(tmp_path / "a")
    home = str(tmp_path / "a")
    with hold_open(home):
        first = read_inside(str(script), home, SCRIPT_BYTES)
        script.write_text("print(2)\n")
        assert read_inside(str(script), home, SCRIPT_BYTES) == first
    assert read_inside(str(script), home, SCRIPT_BYTES).data == b"print(2)\n"


def test_a_file_that_was_read_is_still_too_large_for_a_smaller_limit(tmp_path: Path) -> None:
    script = _script_in(tmp_path / "a")
    home = str(tmp_path / "a")
    with hold_open(home):
        read_inside(str(script), home, SCRIPT_BYTES)
        with pytest.raises(CannotReadError, match="more than the 3 allowed"):
            read_inside(str(script), home, 3)
