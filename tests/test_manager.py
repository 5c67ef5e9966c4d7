"""SkillManager: the methods that find, list, load and describe, and run nothing."""

import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from skillpouch import SkillManager, SkillpouchError
from skillpouch.errors import (
    AmbiguousNameError,
    InvalidArgumentsError,
    SkillNotFoundError,
    SkillUnreadableError,
    UnknownToolError,
)

WriteSkill = Callable[..., Path]


def declare(*names: str) -> dict[str, str]:
    entries = [{"name": name, "description": f"Does {name}."} for name in names]
    return {"tools.json": json.dumps(entries)}


def test_asking_discovers_when_nobody_has(write_skill: WriteSkill) -> None:
    home = write_skill()

    assert [skill.name for skill in SkillManager(home.parent).list_skills()] == ["demo"]


def test_a_skill_knows_where_it_comes_from(write_skill: WriteSkill) -> None:
    home = write_skill(front="name: demo\ndescription: Does it.\nversion: 1.2.3\nlicense: MIT\n")

    skill = SkillManager(home.parent).get_skill("demo")

    assert (skill.name, skill.description, skill.home, skill.source) == (
        "demo",
        "Does it.",
        home,
        str(home.parent),
    )
    assert (skill.metadata.version, skill.metadata.license) == ("1.2.3", "MIT")


def test_an_unknown_skill_raises_and_names_the_nearest(write_skill: WriteSkill) -> None:
    manager = SkillManager(write_skill().parent)

    with pytest.raises(SkillNotFoundError, match="'dmeo'") as caught:
        manager.get_skill("dmeo")

    assert caught.value.nearest == ["demo"]
    assert isinstance(caught.value, SkillpouchError)


def test_a_bare_name_in_two_plugins_is_ambiguous(write_skill: WriteSkill, tmp_path: Path) -> None:
    for plugin in ("one", "two"):
        write_skill(root=f"skills/{plugin}")
        (tmp_path / "skills" / plugin / ".claude-plugin").mkdir()
        text = json.dumps({"name": plugin})
        (tmp_path / "skills" / plugin / ".claude-plugin/plugin.json").write_text(text)
    manager = SkillManager(tmp_path / "skills")

    with pytest.raises(AmbiguousNameError) as caught:
        manager.get_skill("demo")

    assert sorted(caught.value.candidates) == ["one:demo", "two:demo"]
    assert manager.get_skill("two:demo").name == "two:demo"


def test_every_qualified_name_finds_its_skill(write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill("alone", root="skills")
    write_skill("plugged", root="skills/pack")
    (tmp_path / "skills/pack/.claude-plugin").mkdir()
    (tmp_path / "skills/pack/.claude-plugin/plugin.json").write_text('{"name": "office"}')
    manager = SkillManager(tmp_path / "skills")

    names = manager.list_skills(include_qualified=True)

    assert {"alone", "plugged", "office:plugged"} <= set(names)
    assert {manager.get_skill(name).name for name in names} == {"alone", "office:plugged"}


def test_a_body_is_read_only_when_it_is_asked_for(write_skill: WriteSkill) -> None:
    home = write_skill(body="Old.\n")
    manager = SkillManager(home.parent)
    manager.discover()
    text = (home / "SKILL.md").read_text()
    (home / "SKILL.md").write_text(text.replace("Old.", "New."))

    assert manager.get_skill("demo").body == "New.\n"


def test_a_loaded_skill_keeps_its_body_and_does_not_stop_others_from_reading(
    write_skill: WriteSkill,
) -> None:
    home = write_skill(body="Old.\n")
    manager = SkillManager(home.parent)
    loaded = manager.load_skill("demo")
    text = (home / "SKILL.md").read_text()
    (home / "SKILL.md").write_text(text.replace("Old.", "New."))

    assert (loaded.body, manager.load_skill("demo").body) == ("Old.\n", "New.\n")


def test_a_skill_that_has_gone_meanwhile_is_an_error_of_its_own(write_skill: WriteSkill) -> None:
    home = write_skill()
    manager = SkillManager(home.parent)
    manager.discover()
    (home / "SKILL.md").unlink()

    with pytest.raises(SkillUnreadableError):
        manager.load_skill("demo")


def test_tools_of_a_folder_that_has_gone_are_none_and_say_so(write_skill: WriteSkill) -> None:
    home = write_skill(files=declare("x"))
    write_skill("other", files=declare("y"))
    manager = SkillManager(home.parent)
    manager.discover()
    for file in home.iterdir():
        file.unlink()
    home.rmdir()

    assert [tool.id for tool in manager.tools] == ["other.y"]
    assert "error" in {problem.severity for problem in manager.problems}


def test_scripts_are_read_when_tools_are_asked_for_not_before(write_skill: WriteSkill) -> None:
    home = write_skill()
    manager = SkillManager(home.parent, cache=False)
    manager.discover()
    (home / "scripts").mkdir()
    (home / "scripts/late.py").write_text("print(1)\n")

    assert [tool.id for tool in manager.get_skill_tools("demo")] == ["demo.late"]


def test_problems_of_tools_appear_when_tools_are_asked_for(write_skill: WriteSkill) -> None:
    home = write_skill(files={"tools.json": "not json"})
    manager = SkillManager(home.parent, cache=False)

    before = list(manager.problems)
    manager.get_skill_tools("demo")

    assert before == []
    assert [(p.path, p.severity, p.line) for p in manager.problems] == [
        (str(home / "tools.json"), "error", 1)
    ]


def test_a_problem_is_told_once_however_often_tools_are_asked_for(write_skill: WriteSkill) -> None:
    manager = SkillManager(write_skill(files={"tools.json": "not json"}).parent)

    for _ in range(3):
        manager.get_skill_tools("demo")
        _ = manager.tools

    assert len(manager.problems) == 1


@pytest.mark.parametrize("name", ["demo.search", "search", "demo__search"])
def test_a_tool_is_found_by_any_of_its_names(write_skill: WriteSkill, name: str) -> None:
    manager = SkillManager(write_skill(files=declare("search")).parent)

    assert manager.get_tool(name).id == "demo.search"


def test_an_unknown_tool_raises_and_names_the_nearest(write_skill: WriteSkill) -> None:
    manager = SkillManager(write_skill(files=declare("search")).parent)

    with pytest.raises(UnknownToolError) as caught:
        manager.get_tool("serach")

    assert caught.value.nearest == ["search"]


@pytest.mark.parametrize("first", ["alpha", "beta", None])
def test_what_a_name_means_does_not_depend_on_what_was_asked_before(
    write_skill: WriteSkill, first: str | None
) -> None:
    write_skill("alpha", files=declare("search"))
    root = write_skill("beta", files=declare("search")).parent
    manager = SkillManager(root, cache=False)
    if first is not None:
        manager.get_skill_tools(first)

    assert manager.get_tool("search").id == "beta.search"
    assert manager.get_tool("alpha.search").name == "alpha__search"
    assert {tool.id: tool.name for tool in manager.tools} == {
        "alpha.search": "alpha__search",
        "beta.search": "search",
    }


def test_a_bare_name_that_two_skills_have_is_ambiguous_whatever_was_asked_before(
    write_skill: WriteSkill,
) -> None:
    write_skill("alpha", files={"scripts/run.sh": "echo\n"})
    root = write_skill("beta", files={"scripts/run.sh": "echo\n"}).parent
    manager = SkillManager(root, cache=False)
    manager.get_skill_tools("alpha")

    with pytest.raises(AmbiguousNameError):
        manager.get_tool("run")


def test_a_tool_of_a_shadowed_skill_is_not_there(write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill(files=declare("old"), root="one")
    write_skill(files=declare("new"), root="two")

    manager = SkillManager(tmp_path / "one", tmp_path / "two")

    assert [tool.id for tool in manager.tools] == ["demo.new"]


def test_the_order_of_tools_does_not_change_between_runs(write_skill: WriteSkill) -> None:
    scripts = {"scripts/z.sh": "echo z\n", "scripts/a.sh": "echo a\n"}
    for name in ("zeta", "alpha", "mid"):
        root = write_skill(name, files=declare("b", "a") | scripts)
    root = root.parent

    runs = [[tool.id for tool in SkillManager(root, cache=cache).tools] for cache in (True, False)]

    assert runs[0] == runs[1]
    assert [tool.split(".")[0] for tool in runs[0]] == ["alpha"] * 4 + ["mid"] * 4 + ["zeta"] * 4


def test_a_new_discovery_forgets_what_is_gone_and_its_problems(write_skill: WriteSkill) -> None:
    home = write_skill(front="name: Bad Name\ndescription: Does it.\n", files=declare("x"))
    manager = SkillManager(home.parent)
    assert len(manager.tools) == 1
    assert manager.problems
    (home / "SKILL.md").unlink()

    manager.discover()

    assert (manager.list_skills(), manager.tools, manager.problems) == ([], [], [])


async def test_discovery_without_blocking_finds_the_same(write_skill: WriteSkill) -> None:
    manager = SkillManager(write_skill(files=declare("x")).parent)

    await manager.adiscover()

    assert [tool.id for tool in manager.tools] == ["demo.x"]


def test_a_manager_does_not_write_into_the_skills(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/run.py": "import other\n", "scripts/other.py": "X = 1\n"})
    before = sorted(home.parent.rglob("*"))
    manager = SkillManager(home.parent)
    _ = (manager.tools, manager.invoke_skill("demo"), manager.get_skill("demo").digest)

    assert sorted(home.parent.rglob("*")) == before


def test_nothing_a_skill_says_is_run(write_skill: WriteSkill, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    files = {
        "scripts/run.py": f"open({str(mark)!r}, 'w')\n",
        "scripts/run.sh": f"touch {mark}\n",
        "scripts/__init__.py": f"open({str(mark)!r}, 'w')\n",
        "conftest.py": f"open({str(mark)!r}, 'w')\n",
        "install.sh": f"touch {mark}\n",
    }
    manager = SkillManager(write_skill(body=f"!`touch {mark}`\n", files=files).parent)

    _ = (manager.tools, manager.invoke_skill("demo"), manager.get_skill("demo").digest)

    assert not mark.exists()


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_a_skill_and_its_tools_are_found_by_any_form_of_their_names(
    write_skill: WriteSkill, written: Literal["NFC", "NFD"], asked: Literal["NFC", "NFD"]
) -> None:
    name = normalize(written, "café-crème")
    script = f"scripts/{normalize(written, 'zähle')}.py"
    root = write_skill(name, files={script: "print(1)\n"}).parent
    manager = SkillManager(root)

    skill = manager.get_skill(normalize(asked, name))
    (tool,) = manager.get_skill_tools(normalize(asked, name))

    assert skill.name == "café-crème"
    assert manager.get_tool(normalize(asked, tool.id)) == tool
    assert manager.get_tool(normalize(asked, "zähle")) == tool


def test_a_folder_that_is_not_there_is_why_nothing_is_found(tmp_path: Path) -> None:
    manager = SkillManager(tmp_path / "typo")
    said = []

    for ask in (manager.get_skill, manager.get_tool, manager.call, manager.load_skill):
        with pytest.raises(SkillpouchError) as caught:
            ask("greet")
        said.append(caught.value.hint)

    assert said == [f"there is no such folder: {tmp_path / 'typo'}"] * 4
    assert [problem.code for problem in manager.problems] == ["root-missing"]


@pytest.mark.slow
def test_built_in_tools_are_made_once_whoever_asks_at_the_same_time(tmp_path: Path) -> None:
    # They remember where the shell is: two of a kind would each remember half.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            manager = SkillManager(tmp_path, workspace=tmp_path, builtins=True)
            together = threading.Barrier(4)

            def listed(manager: SkillManager, together: threading.Barrier) -> object:
                together.wait()
                return manager.tools[0].runs.session  # type: ignore[union-attr]

            def found(manager: SkillManager, together: threading.Barrier) -> object:
                together.wait()
                return manager.source.get("bash").runs.session  # type: ignore[union-attr]

            with ThreadPoolExecutor(4) as threads:
                asked = [threads.submit(ask, manager, together) for ask in (listed, found) * 2]

            assert len({id(each.result()) for each in asked}) == 1
    finally:
        sys.setswitchinterval(before)


SUM = (
    '"""Add up."""\nimport argparse\np = argparse.ArgumentParser()\n'
    'p.add_argument("--of", dest="numbers", nargs="+", type=int)\n'
    "print(sum(p.parse_args().numbers))\n"
)


async def test_a_usage_line_is_a_typed_call(write_skill: WriteSkill) -> None:
    manager = SkillManager(write_skill("demo", files={"scripts/sum.py": SUM}).parent)

    line = "cd $SKILL_DIR && python scripts/sum.py --of 1 2"
    assert manager.call_line("demo", line).stdout == "3\n"
    assert (await manager.acall_line("demo", "uv run scripts/sum.py --of 4")).stdout == "4\n"


def test_a_usage_line_runs_no_shell(write_skill: WriteSkill, tmp_path: Path) -> None:
    manager = SkillManager(
        write_skill("demo", files={"scripts/sum.py": SUM}).parent, workspace=tmp_path
    )

    for line in ("python scripts/sum.py --of 1 > out", "touch out; python scripts/sum.py --of 1"):
        with pytest.raises(InvalidArgumentsError, match="no shell"):
            manager.call_line("demo", line)

    assert not (tmp_path / "out").exists()
