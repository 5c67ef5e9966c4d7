"""What is served after an edit, whatever way it was saved, and what listeners are told."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillpouch import SkillManager
from skillpouch.discovery.watching.listening import ChangedNames, Changes
from skillpouch.errors import SkillNotFoundError, UnknownToolError
from tests.discovery.watching import skills

if TYPE_CHECKING:
    from skillpouch.discovery.watching.watcher import SkillWatcher

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # longer than what is waited for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    skills.write(tmp_path / "skills" / "demo")
    return tmp_path / "skills"


class Watched:
    """A manager that looks for changes when it is told to, and what its listener heard."""

    def __init__(self, *roots: Path, workspace: Path) -> None:
        self.manager = SkillManager(*roots, workspace=workspace, journal=False)
        self.heard: list[Changes] = []
        self.watcher: SkillWatcher | None = None

    def refresh(self) -> Changes | None:
        """Look now; return what was heard of it."""
        before = len(self.heard)
        self.manager.discover()
        return self.heard[-1] if len(self.heard) > before else None

    def say(self, name: str = "demo.say") -> list[int]:
        structured: list[int] = self.manager.call(name).structured
        return structured


@contextmanager
def watched(*roots: Path, missing_seconds: float = 0.0) -> Iterator[Watched]:
    found = Watched(*roots, workspace=roots[0].parent / "work")
    watching = found.manager.watch(
        found.heard.append,
        polling=True,
        poll_seconds=3600,
        settle_seconds=0.02,
        missing_seconds=missing_seconds,
    )
    with watching as found.watcher:
        yield found


@pytest.mark.parametrize("save", skills.SAVES, ids=[save.__name__ for save in skills.SAVES])
def test_a_script_that_was_saved_is_run_as_it_is_now(root: Path, save: skills.Save) -> None:
    with watched(root) as it:
        assert it.say() == [1, 1]

        save(root / "demo/scripts/say.py", skills.script(2))
        changes = it.refresh()

        assert it.say() == [2, 2]
    assert changes == Changes(changed=ChangedNames(skills=("demo",), tools=("demo.say",)))


@pytest.mark.parametrize("save", skills.SAVES[:-2], ids=[s.__name__ for s in skills.SAVES[:-2]])
def test_a_skill_md_that_was_saved_is_read_as_it_is_now(root: Path, save: skills.Save) -> None:
    with watched(root) as it:
        save(root / "demo/SKILL.md", skills.skill_md("demo", 2))
        it.refresh()

        skill = it.manager.get_skill("demo")
        assert (skill.description, it.manager.load_skill("demo").body) == (
            "Says 2.",
            "Say version 2.\n",
        )


@pytest.mark.parametrize("text", ["", "   \n", skills.script(2)[:200], "def handler(args:\n"])
def test_a_half_written_script_is_not_served_and_said_until_it_is_mended(
    root: Path, text: str
) -> None:
    script = root / "demo/scripts/say.py"
    with watched(root) as it:
        script.write_text(text)
        held = it.refresh()

        assert it.say() == [1, 1]
        assert held is not None
        assert (held.problems[0].path, held.problems[0].code) == (str(script), "half-written")
        assert not held
        assert {*held.problems} <= {*it.manager.problems}
        assert it.refresh() is None

        script.write_text(skills.script(3))
        mended = it.refresh()

        assert it.say() == [3, 3]
        assert mended == Changes(changed=ChangedNames(skills=("demo",), tools=("demo.say",)))
        assert "half-written" not in {each.code for each in it.manager.problems}


@pytest.mark.parametrize(
    "text",
    ["", "---\nna", "---\nname: demo\n", "---\nname: demo\ndescription: X.\n", "# D\n", "\0"],
)
def test_a_half_written_skill_md_unloads_nothing(root: Path, text: str) -> None:
    with watched(root) as it:
        (root / "demo/SKILL.md").write_text(text)
        held = it.refresh()

        assert held is not None
        assert "half-written" in {each.code for each in held.problems}
        assert it.say() == [1, 1]
        assert it.manager.get_skill("demo").description == "Says 1."
        assert "Say version 1." in it.manager.invoke_skill("demo")


@pytest.mark.parametrize("end", [0, 1, 30, -1])
def test_a_half_written_tools_json_unloads_nothing(root: Path, end: int) -> None:
    file = root / "demo/tools.json"
    file.write_text(skills.tools_json(1))
    with watched(root) as it:
        file.write_text(skills.tools_json(2)[:end])
        it.refresh()

        assert it.say("demo.tell") == [1, 1]
        assert it.manager.get_tool("demo.tell").description == "Tells version 1."

        file.write_text(skills.tools_json(2))
        it.refresh()

        assert it.manager.get_tool("demo.tell").description == "Tells version 2."


def test_a_declared_script_that_is_gone_keeps_its_tool_until_it_is_no_longer_declared(
    root: Path,
) -> None:
    (root / "demo/tools.json").write_text(skills.tools_json(1))
    with watched(root) as it:
        (root / "demo/scripts/say.py").unlink()
        it.refresh()
        assert it.say("demo.tell") == [1, 1]

        (root / "demo/tools.json").write_text("[]")
        changes = it.refresh()

        assert changes is not None
        assert changes.removed == ChangedNames(tools=("demo.tell",))


def test_a_skill_that_was_wrong_from_the_start_is_served_as_it_is(root: Path) -> None:
    (root / "demo/tools.json").write_text("[")
    with watched(root) as it:
        assert it.say() == [1, 1]

        (root / "demo/scripts/say.py").write_text(skills.script(2))
        it.refresh()

        assert it.say() == [2, 2]


def test_a_skill_that_comes_is_added_and_one_that_goes_is_removed(root: Path) -> None:
    with watched(root) as it:
        skills.write(root / "new", 5)
        added = it.refresh()
        assert it.say("new.say") == [5, 5]

        shutil.rmtree(root / "new")
        removed = it.refresh()

        with pytest.raises(UnknownToolError):
            it.say("new.say")
        with pytest.raises(SkillNotFoundError):
            it.manager.get_skill("new")
    names = ChangedNames(skills=("new",), tools=("new.say",))
    assert (added, removed) == (Changes(added=names), Changes(removed=names))


def test_a_tool_that_comes_and_goes_is_told_by_its_id(root: Path) -> None:
    with watched(root) as it:
        (root / "demo/scripts/more.py").write_text(skills.script(1))
        added = it.refresh()
        (root / "demo/scripts/more.py").unlink()
        removed = it.refresh()

    changed = ChangedNames(skills=("demo",), tools=("demo.say",))
    more = ChangedNames(tools=("demo.more",))
    assert added == Changes(added=more, changed=changed)
    assert removed == Changes(removed=more, changed=changed)


def test_what_is_gone_for_a_moment_stays(root: Path) -> None:
    home = root / "demo"
    with watched(root, missing_seconds=3600) as it:
        assert it.watcher is not None
        it.watcher._stop.set()  # nobody waits an hour here

        home.rename(root.parent / "aside")
        assert it.refresh() is None
        assert it.say() == [1, 1]

        (root.parent / "aside").rename(home)
        assert it.refresh() is None
        (home / "scripts/say.py").unlink()
        assert it.refresh() is None
        assert it.say() == [1, 1]


def test_a_folder_that_was_renamed_is_the_same_skill_from_another_place(root: Path) -> None:
    with watched(root) as it:
        (root / "demo").rename(root / "other")
        changes = it.refresh()

        assert it.say() == [1, 1]
        assert it.manager.get_skill("demo").home == root / "other"
    assert changes == Changes(changed=ChangedNames(skills=("demo",), tools=("demo.say",)))


def test_a_new_date_is_no_change(root: Path) -> None:
    with watched(root) as it:
        os.utime(root / "demo/scripts/say.py", (1, 1))

        assert it.refresh() is None


def test_a_file_beside_the_scripts_is_part_of_the_version(root: Path) -> None:
    data = root / "demo/data.txt"
    data.write_text("old")
    text = '"""Read."""\nimport os\ndef handler(args):\n    return open(PATH).read()\n'
    path = 'PATH = os.environ["SKILL_BASE_DIR"] + "/data.txt"\n'
    (root / "demo/scripts/read.py").write_text(text + path)
    with watched(root) as it:
        assert it.manager.call("demo.read").structured == "old"

        data.write_text("new")
        assert it.manager.call("demo.read").structured == "old"
        it.refresh()

        assert it.manager.call("demo.read").structured == "new"


def test_a_root_that_appears_later_is_searched(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    root = tmp_path / "later"
    with watched(root) as it:
        assert it.manager.list_skills() == []
        assert [each.code for each in it.manager.problems] == ["root-missing"]

        skills.write(root / "demo", 4)
        it.refresh()

        assert it.say() == [4, 4]
        assert it.manager.problems == []


def test_a_root_that_is_a_link_is_followed_to_where_it_leads_now(root: Path) -> None:
    link = root.parent / "current"
    skills.write(root.parent / "next" / "demo", 2)
    link.symlink_to(root.name)
    with watched(link) as it:
        assert it.say() == [1, 1]

        other = root.parent / "swap"
        other.symlink_to("next")
        other.replace(link)
        it.refresh()

        assert it.say() == [2, 2]


def test_a_later_root_takes_a_name_over_and_gives_it_back(root: Path) -> None:
    over = root.parent / "over"
    with watched(root, over) as it:
        skills.write(over / "demo", 7)
        it.refresh()
        assert it.say() == [7, 7]

        shutil.rmtree(over)
        it.refresh()

        assert it.say() == [1, 1]


def test_only_what_changed_is_read_again(root: Path) -> None:
    skills.write(root / "other", 1)
    with watched(root) as it:
        before = it.manager.get_tool("other.say").runs

        (root / "demo/scripts/say.py").write_text(skills.script(2))
        it.refresh()

        assert it.manager.get_tool("other.say").runs is before


def test_a_plugin_that_is_renamed_renames_its_skills(root: Path) -> None:
    plugin = root / "pack/.claude-plugin/plugin.json"
    skills.write(root / "pack/inner", 1)
    plugin.parent.mkdir()
    plugin.write_text(json.dumps({"name": "office"}))
    with watched(root) as it:
        plugin.write_text(json.dumps({"name": "bureau"}))
        changes = it.refresh()

    assert changes == Changes(
        added=ChangedNames(skills=("bureau:inner",), tools=("bureau:inner.say",)),
        removed=ChangedNames(skills=("office:inner",), tools=("office:inner.say",)),
    )


def test_a_half_written_plugin_file_renames_nothing(root: Path) -> None:
    plugin = root / "pack/.claude-plugin/plugin.json"
    skills.write(root / "pack/inner", 1)
    plugin.parent.mkdir()
    plugin.write_text(json.dumps({"name": "office"}))
    with watched(root) as it:
        plugin.write_text('{"na')
        held = it.refresh()

        assert held is not None
        assert [each.code for each in held.problems] == ["half-written", "plugin-invalid"]
        assert it.say("office:inner.say") == [1, 1]

        plugin.write_text(json.dumps({"name": "office"}))
        mended = it.refresh()

        assert mended == Changes()


def test_after_watching_calls_run_what_lies_in_the_folder(root: Path) -> None:
    with watched(root) as it:
        assert it.say() == [1, 1]
    (root / "demo/scripts/say.py").write_text(skills.script(2))

    assert it.say() == [2, 2]
