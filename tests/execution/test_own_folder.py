"""A skill that may write in its own folder: what its calls find there, and what never changes."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.discovery.digest import digest_of
from skillpouch.execution import own_folder
from skillpouch.execution.confinement import (
    Confinement,
    OwnFolder,
    ProfileUnavailableError,
    plan,
    plan_around,
)
from skillpouch.execution.own_folder import (
    OwnFolderError,
    list_own_folders,
    prune_own_folders,
)
from skillpouch.execution.zygote_client import probe
from skillpouch.needs import Need
from skillpouch.results import ToolResult
from skillpouch.trust.errors import GrantRefusedError
from skillpouch.trust.grant import Grant, needs_of_commands
from skillpouch.trust.grantable import grantable
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

# It runs what it is told: as far as a call can go at all.
ANY = """
import argparse, os, sys
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("code")
home = Path(__file__).parent.parent
data, venv = home / "data", home / ".venv"
exec(parser.parse_args().code)
"""


class Keeper:
    """A skill whose only tool runs any code, and the user who grants it something."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home = home
        self.manager = SkillManager(home.parent, workspace=workspace, cache=False)

    def grant(self, *names: str) -> None:
        needs = [Need(kind="own-folder", value=name) for name in names]
        Grants().grant(self.manager.get_skill("demo"), needs)

    async def __call__(self, code: str) -> ToolResult:
        return await self.manager.acall("demo.any", {"code": code})


@pytest.fixture
def keeper(write_skill: WriteSkill, workspace: Path) -> Keeper:
    home = write_skill(files={"scripts/any.py": ANY, "scripts/words.py": "WORD = 'as it was'\n"})
    return Keeper(home, workspace)


@pytest.mark.promise("own-1")
async def test_what_a_call_keeps_is_there_for_the_next_and_the_skill_is_as_it_was(
    keeper: Keeper,
) -> None:
    keeper.grant("data", ".venv")
    before = digest_of(keeper.home)

    first = await keeper(
        "data.mkdir(); (data / 'n').write_text('one'); venv.mkdir(); print('made')"
    )
    second = await keeper(
        "print((data / 'n').read_text(), venv.is_dir(), sorted(os.listdir(home)))"
    )

    assert (first.stdout, first.content) == ("made\n", "made")
    assert second.stdout == "one True ['.venv', 'SKILL.md', 'data', 'scripts']\n"
    assert second.protections["profiles"] == "loopback+own-folder"
    assert digest_of(keeper.home) == before
    assert sorted(path.name for path in keeper.home.iterdir()) == ["SKILL.md", "scripts"]


@pytest.mark.promise("own-2")
async def test_code_that_a_call_plants_is_gone_before_the_next(keeper: Keeper) -> None:
    keeper.grant("data")
    planted = ("json.py", "sitecustomize.py", "words.py", "yaml/__init__.py", "__pycache__/x.pyc")
    plant = (
        f"for name in {planted}:\n"
        "    (home / name).parent.mkdir(exist_ok=True)\n"
        "    (home / name).write_text('print(\"PLANTED\")')\n"
        "print('planted')"
    )

    planting = await keeper(plant)
    found = await keeper(
        "sys.path.insert(0, str(home)); import json, words; print(words.WORD, os.listdir(home))"
    )

    assert planting.stdout == "planted\n"
    assert found.stdout.startswith("as it was [")
    assert set(json.loads(found.stdout[10:].replace("'", '"'))) == {"SKILL.md", "scripts"}


@pytest.mark.promise("own-2")
async def test_calls_of_one_skill_in_its_own_folder_run_one_after_the_other(keeper: Keeper) -> None:
    keeper.grant("data")
    alone = (
        "assert not (home / 'running').exists(); (home / 'running').touch()\n"
        "data.mkdir(exist_ok=True)\n"
        "number = len(os.listdir(data)); (data / str(number)).touch()\n"
        "os.unlink(home / 'running'); print(number)"
    )

    results = await asyncio.gather(*(keeper(alone) for _ in range(4)))

    assert sorted(result.stdout for result in results) == ["0\n", "1\n", "2\n", "3\n"]


@pytest.mark.promise("own-2")
async def test_a_call_whose_host_was_killed_leaves_only_what_was_granted(keeper: Keeper) -> None:
    keeper.grant("data")
    await keeper("data.mkdir(); (data / 'kept').touch()")
    [stored] = list_own_folders()
    [top] = stored.path.glob("top-*")
    # As after a kill: the mark of a running call is there, and so is what it planted.
    (stored.path / "busy").touch()
    (top / "json.py").write_text("planted")

    result = await keeper("print(os.listdir(data), sorted(os.listdir(home)))")

    assert result.stdout == "['kept'] ['SKILL.md', 'data', 'scripts']\n"
    assert [each for each in stored.path.glob("top-*") if each != top]
    assert not top.exists()


@pytest.mark.promise("own-3")
async def test_what_is_kept_belongs_to_one_skill_and_one_version_of_it(
    keeper: Keeper, workspace: Path
) -> None:
    keeper.grant("data")
    await keeper("data.mkdir()")
    copied = keeper.home.parents[1] / "elsewhere" / "demo"
    shutil.copytree(keeper.home, copied)
    other = Keeper(copied, workspace)
    other.grant("data")

    elsewhere = await other("print(data.exists())")
    (keeper.home / "scripts/words.py").write_text("WORD = 'changed'\n")
    keeper.grant("data")
    changed = await keeper("print(data.exists())")

    assert (elsewhere.stdout, changed.stdout) == ("False\n", "False\n")


@pytest.mark.promise("own-3")
async def test_what_is_kept_goes_with_its_grant(keeper: Keeper) -> None:
    keeper.grant("data")
    await keeper("data.mkdir(); (data / 'kept').touch()")
    granted = [each.skill for each in list_own_folders()]

    was_granted = Grants().revoke(keeper.manager.get_skill("demo"))

    assert (granted, was_granted, list_own_folders()) == (["demo"], True, [])


async def test_what_no_grant_keeps_is_pruned_unless_a_call_uses_it(keeper: Keeper) -> None:
    keeper.grant("data")
    await keeper("data.mkdir()")
    [stored] = list_own_folders()

    kept = prune_own_folders(lambda _own: True)
    planned = prune_own_folders(lambda _own: False, dry_run=True)
    removed = prune_own_folders(lambda _own: False)

    assert (kept, planned, removed, list_own_folders()) == ([], [stored], [stored], [])


async def test_a_folder_that_keeps_too_much_takes_no_more_calls(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.grant("data")
    monkeypatch.setattr(own_folder, "MOST_BYTES", 1 << 20)
    await keeper("data.mkdir(); (data / 'much').write_bytes(bytes(2 << 20)); print('written')")

    with pytest.raises(OwnFolderError, match="may keep 1MiB") as refused:
        await keeper("print('ran')")

    assert refused.value.hint.startswith("`skillpouch trust demo --revoke ")


async def test_a_skill_inside_the_workspace_keeps_beside_itself_too(
    write_skill: WriteSkill,
) -> None:
    home = write_skill(files={"scripts/any.py": ANY})
    keeper = Keeper(home, home.parents[1])
    keeper.grant("data", "scripts/cache")

    code = (
        "data.mkdir(exist_ok=True); (home / 'scripts/cache').mkdir(exist_ok=True)\n"
        "(data / str(len(os.listdir(data)))).touch(); Path('made').touch()\n"
        "try: (home / 'scripts/any.py').write_text('')\n"
        "except OSError as error: print(len(os.listdir(data)), error.strerror)"
    )
    first, second = await keeper(code), await keeper(code)

    assert (first.stdout, second.stdout) == (
        "1 Read-only file system\n",
        "2 Read-only file system\n",
    )
    assert first.protections["writes"] == "undoable (overlay)"
    assert sorted(path.name for path in home.iterdir()) == ["SKILL.md", "scripts"]
    assert sorted(path.name for path in (home / "scripts").iterdir()) == ["any.py"]


async def test_a_folder_that_is_kept_can_be_renamed_by_a_call(keeper: Keeper) -> None:
    keeper.grant("data")
    await keeper("(data / 'old').mkdir(parents=True); (data / 'old/file').touch()")

    result = await keeper("os.rename(data / 'old', data / 'new'); print(os.listdir(data / 'new'))")

    assert result.stdout == "['file']\n"


async def test_the_failed_call_names_the_grant_with_which_it_works(keeper: Keeper) -> None:
    failed = await keeper("(home / 'data').mkdir()")
    hidden = await keeper("(home / 'of-my-own').mkdir()")
    went_on = await keeper("try: venv.mkdir()\nexcept OSError as error: print(error)")

    root = keeper.home.parent
    assert f"`skillpouch trust demo --own-folder data --root {root}`" in failed.content
    assert f"`skillpouch trust demo --own-folder . --root {root}`" in hidden.content
    assert "of-my-own --root" not in hidden.content
    assert (went_on.outcome, went_on.content.count("--own-folder .venv --root")) == ("ok", 1)


async def test_a_call_is_told_what_it_made_and_may_not_keep(keeper: Keeper) -> None:
    keeper.grant(".", "scripts")

    made = "data.mkdir(); (home / 'of-my-own').mkdir(); (home / 'scripts/json.py').touch()"
    result = await keeper(f"{made}; print('made')")
    again = await keeper("print(sorted(os.listdir(home)), os.listdir(home / 'scripts'))")

    note = "note: it made data in its own folder, which was removed afterwards"
    assert result.stdout == "made\n"
    assert note in result.content
    assert "of-my-own" not in result.content
    assert again.stdout.startswith("['SKILL.md', 'scripts'] [")
    assert "json.py" not in again.stdout


@pytest.mark.parametrize(
    "name",
    [
        *("json.py", "words.so", "lib.pth", "node_modules", "package.json", "__pycache__", "json"),
        *("../other", "/etc/data", "a/b/c/d/e/f", "SKILL.md", "scripts/any.py"),
        *("nowhere/data", "words", "scripts/words", "scripts/run.sh", "a\u202eb"),
    ],
)
@pytest.mark.promise("own-2")
def test_a_name_by_which_code_is_found_or_that_the_skill_has_is_not_granted(
    write_skill: WriteSkill, name: str
) -> None:
    script = "import words\n"
    home = write_skill(files={"scripts/any.py": script, "scripts/words.py": ""})

    with pytest.raises(GrantRefusedError):
        grantable(Need(kind="own-folder", value=name), str(home))


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        *(("data", "data"), (".venv/", ".venv"), ("./scripts/cache", "scripts/cache")),
        *((".", "."), ("scripts", "scripts")),
    ],
)
def test_an_entry_is_stored_in_one_spelling(
    write_skill: WriteSkill, name: str, stored: str
) -> None:
    home = write_skill(files={"scripts/any.py": ""})

    assert grantable(Need(kind="own-folder", value=name), str(home)).value == stored


@pytest.mark.promise("own-3")
def test_commands_that_an_agent_writes_never_write_the_own_folder_of_a_skill() -> None:
    grant = Grant(skill="demo", home="/x", digest="", commands=True, own_folder=("data",))

    assert [need.kind for need in needs_of_commands(grant)] == []


def test_a_path_of_the_skill_itself_is_not_granted_for_writing(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/any.py": ""})

    with pytest.raises(GrantRefusedError) as refused:
        grantable(Need(kind="write", value=f"{home}/data"), str(home))

    assert "its calls can write beside it: --own-folder data" in refused.value.hint


async def test_a_path_below_the_skill_that_it_declares_for_writing_is_its_own_folder(
    write_skill: WriteSkill, workspace: Path
) -> None:
    asks = "metadata: {skillpouch: {write: data, own-folder: [.venv]}}"
    front = f"name: demo\ndescription: Keeps.\n{asks}\n"
    home = write_skill(front=front, files={"scripts/any.py": ANY})
    manager = SkillManager(home.parent, workspace=workspace, cache=False)
    asked = manager.get_skill_tools("demo")[0].asks

    assert [(need.kind, need.value) for need in asked] == [
        ("own-folder", "data"),
        ("own-folder", ".venv"),
    ]


@pytest.mark.promise("own-4")
def test_where_it_cannot_be_held_nothing_runs(workspace: Path, tmp_path: Path) -> None:
    own = OwnFolder(top=tmp_path)
    confinement = Confinement(
        workspace=workspace, skill=tmp_path, own=own, profiles=("own-folder",)
    )

    with pytest.raises(ProfileUnavailableError, match="needs namespaces"):
        plan(confinement, replace(probe(), namespaces=False))
    with pytest.raises(ProfileUnavailableError, match="cannot show it"):
        plan_around(replace(confinement, sandbox="other"), {}, probe())
