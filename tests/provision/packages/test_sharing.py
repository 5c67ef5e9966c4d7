"""Environments keep one copy of what they have in common, and no call can change it."""

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.environment import environments_directory
from skillpouch.execution.zygote_client import probe
from skillpouch.provision.packages import building
from skillpouch.provision.packages.housekeeping import SHARED, prune, share_files, size_on_disk
from skillpouch.provision.packages.ready import Environment
from skillpouch.provision.packages.store import READY, in_use, open_store
from tests.cli.conftest import Skillpouch, skillpouch
from tests.conftest import WriteSkill
from tests.provision.packages.conftest import Run, installed, script_at
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

__all__ = ["skillpouch"]  # a fixture of the command line's tests

LARGE = "TEXT = '''" + "light\n" * 50_000 + "'''\nVERSION = '1.0'\n"
# Tries every way to change a file, and prints those that worked.
VANDAL = """
import json, os, sys
import lamp
path, worked = lamp.__file__, []
ways = {
    "write": lambda: open(path, "a").write("VERSION = 'evil'"),
    "truncate": lambda: os.truncate(path, 0),
    "chmod": lambda: os.chmod(path, 0o777),
    "utime": lambda: os.utime(path, (0, 0)),
    "unlink": lambda: os.unlink(path),
    "rename": lambda: os.rename(path, path + "x"),
    "link": lambda: (os.link(path, "mine"), open("mine", "a").write("VERSION = 'evil'")),
    "setxattr": lambda: os.setxattr(path, "user.x", b"1"),
    "chown": lambda: os.chown(path, os.getuid(), os.getgid()),
}
for name, way in ways.items():
    try:
        way()
        worked.append(name)
    except OSError:
        pass
print(json.dumps(worked))
"""


async def environment(home: Path) -> Environment:
    found = await installed(script_at(home, "scripts/x.py"), home)
    assert found is not None
    return found


def module(found: Environment, name: str = "lamp.py") -> Path:
    return next(found.folder.glob(f"python/lib/*/site-packages/{name}"))


def compiled(found: Environment) -> Path:
    return next(found.folder.glob("python/lib/*/site-packages/__pycache__/lamp.*.pyc"))


def root() -> Path:
    found = environments_directory()
    assert found is not None
    return found


@pytest.fixture
def lamps(registry: Registry, write_skill: WriteSkill) -> tuple[Path, Path]:
    """Two skills whose environments have a large package in common."""
    registry.add_wheel("lamp", files={"lamp.py": LARGE})
    registry.add_wheel("bulb")
    one = write_skill("one", files={"scripts/x.py": VANDAL, "requirements.txt": "lamp\n"})
    two = write_skill("two", files={"scripts/x.py": VANDAL, "requirements.txt": "lamp\nbulb\n"})
    return one, two


async def test_two_environments_have_one_copy_of_what_they_share(
    installer: str, lamps: tuple[Path, Path]
) -> None:
    first = await environment(lamps[0])
    alone = size_on_disk()
    second = await environment(lamps[1])

    assert first.folder != second.folder
    assert module(first).stat().st_ino == module(second).stat().st_ino, installer
    assert compiled(first).stat().st_ino == compiled(second).stat().st_ino
    assert stat.S_IMODE(module(first).stat().st_mode) == 0o444
    assert size_on_disk() - alone < len(LARGE)


@pytest.mark.promise("dep-7")
@pytest.mark.escape
@pytest.mark.usefixtures("with_uv")
async def test_a_call_cannot_change_a_file_that_environments_share(
    lamps: tuple[Path, Path], run: Run
) -> None:
    found = await environment(lamps[0]), await environment(lamps[1])
    before = module(found[0]).stat(), module(found[0]).read_bytes()

    ended = await run(found[0], script_at(lamps[0], "scripts/x.py"), lamps[0])

    assert ended.stdout.text == "[]\n", ended.stderr.text
    after = module(found[1]).stat(), module(found[1]).read_bytes()
    assert after[1] == before[1]
    facts = [(s.st_ino, s.st_mode, s.st_mtime_ns, s.st_ctime_ns) for s in (before[0], after[0])]
    assert facts[0] == facts[1]


@pytest.mark.promise("dep-7")
@pytest.mark.usefixtures("with_uv")
async def test_without_namespaces_environments_share_no_file(
    lamps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = replace(probe(), namespaces=False, user_namespace=False)
    monkeypatch.setattr(building, "probe", lambda: machine)

    found = await environment(lamps[0]), await environment(lamps[1])

    assert [module(each).stat().st_nlink for each in found] == [1, 1]


@pytest.mark.promise("dep-7")
@pytest.mark.usefixtures("with_uv")
async def test_a_shared_file_that_somebody_changed_is_not_used_again(
    lamps: tuple[Path, Path],
) -> None:
    first = await environment(lamps[0])
    module(first).chmod(0o644)
    module(first).write_text(LARGE.replace("light", "night"))

    second = await environment(lamps[1])

    assert module(second).read_text() == LARGE


@pytest.mark.usefixtures("without_uv")
async def test_where_files_cannot_be_linked_they_are_copies(
    lamps: tuple[Path, Path], run: Run
) -> None:
    elsewhere = Path("/dev/shm")  # another file system
    own = open_store().stat().st_dev
    if not os.access(elsewhere, os.W_OK) or elsewhere.stat().st_dev == own:
        pytest.skip("there is no second file system here")
    store = elsewhere / f"skillpouch-test-{os.getpid()}"
    store.mkdir()
    (open_store() / SHARED).symlink_to(store)

    try:
        found = await environment(lamps[0]), await environment(lamps[1])
        ended = await run(found[0], script_at(lamps[0], "scripts/x.py"), lamps[0])
    finally:
        for folder in store.iterdir():
            folder.rmdir()
        store.rmdir()

    assert ended.stdout.text == "[]\n", ended.stderr.text
    assert module(found[0]).stat().st_ino != module(found[1]).stat().st_ino


def test_links_and_empty_files_are_left_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (tmp_path / "outside").write_text("not ours")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "empty").touch()
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "same").write_text("#!/bin/sh\n")

    share_files(tmp_path, folder)

    assert (folder / "link").is_symlink()
    assert (tmp_path / "outside").stat().st_nlink == 1
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o555
    assert not (folder / "run").samefile(folder / "same")  # another mode
    assert sorted(each.name for each in folder.iterdir()) == ["empty", "link", "run", "same"]


@pytest.mark.usefixtures("with_uv")
async def test_pruning_says_what_the_disk_really_gains(lamps: tuple[Path, Path]) -> None:
    first, second = await environment(lamps[0]), await environment(lamps[1])
    sizes = [size_on_disk()]

    told = prune(0, keep=[first.folder.parent.name], dry_run=True)
    sizes.append(size_on_disk())
    one = prune(0, keep=[first.folder.parent.name])
    sizes.append(size_on_disk())
    rest = prune(0)
    sizes.append(size_on_disk())

    assert (told.freed_bytes, sizes[1]) == (one.freed_bytes, sizes[0])
    assert one.freed_bytes == sizes[0] - sizes[2] < len(LARGE)
    assert not second.folder.exists()
    assert rest.freed_bytes == sizes[2] - sizes[3] > len(LARGE)


@pytest.mark.usefixtures("with_uv")
async def test_what_a_running_call_uses_is_not_pruned(lamps: tuple[Path, Path]) -> None:
    found = await environment(lamps[0])
    place = found.folder.parent
    using = in_use(place)
    assert using is not None

    during = await asyncio.to_thread(prune, 0)
    os.close(using)
    after = await asyncio.to_thread(prune, 0)

    assert (during.removed, [each.digest for each in after.removed]) == ((), [place.name])
    assert in_use(place) is None


@pytest.mark.usefixtures("with_uv")
async def test_a_call_holds_its_environment_until_it_ends(
    registry: Registry, write_skill: WriteSkill, tmp_path: Path
) -> None:
    registry.add_wheel("lamp")
    code = (
        "# /// script\n# dependencies = ['lamp']\n# ///\nimport pathlib\n"
        "pathlib.Path('began').touch()\nwhile not pathlib.Path('go on').exists(): pass\n"
        "import lamp\nprint(lamp.VERSION)\n"
    )
    home = write_skill(files={"scripts/x.py": code})
    trusting = Policy.trusting()
    manager = SkillManager(home.parent, workspace=tmp_path, policy=trusting, writes="direct")

    call = asyncio.ensure_future(manager.acall("demo.x"))
    while not (tmp_path / "began").exists():
        await asyncio.sleep(0.01)
    during = await asyncio.to_thread(prune, 0)
    (tmp_path / "go on").touch()
    result = await call

    assert (result.stdout, during.removed) == ("1.0\n", ())
    assert len((await asyncio.to_thread(prune, 0)).removed) == 1
    assert (await manager.acall("demo.x")).stdout == "1.0\n"  # installed again


@pytest.mark.usefixtures("with_uv")
def test_prune_frees_what_no_grant_uses(
    registry: Registry, write_skill: WriteSkill, skillpouch: Skillpouch
) -> None:
    registry.add_wheel("lamp")
    registry.add_wheel("bulb")
    packages = {"one": "lamp", "two": "bulb"}
    homes = {
        name: write_skill(
            name,
            files={
                "scripts/x.py": f"import {package}\nprint({package}.VERSION)\n",
                "requirements.txt": f"{package}\n",
            },
        )
        for name, package in packages.items()
    }
    skills = ("--root", str(homes["two"].parent))
    for name in homes:
        skillpouch("trust", name, "--yes", *skills)
        assert skillpouch("call", f"{name}.x", *skills).out == "1.0\n"
    everything = skillpouch("environments", "prune", "--dry-run", "--json").json
    (homes["two"] / "SKILL.md").write_text("---\nname: two\ndescription: Changed.\n---\n")

    told = skillpouch("environments", "prune", "--dry-run", "--json").json
    recent = skillpouch("environments", "prune", "--unused-for", "1")
    done = skillpouch("environments", "prune")

    assert (everything["removed"], everything["freed_bytes"]) == ([], 0)
    assert [each["requirements"] for each in told["removed"]] == [["bulb"]]
    assert recent.err.startswith("0 removed, freed 0 bytes")
    assert done.err.startswith(f"1 removed, freed {told['freed_bytes']:,} bytes")
    left = skillpouch("environments", "--json").json["environments"]
    assert [each["requirements"] for each in left] == [["lamp"]]
    asked = len(registry.asked)
    assert skillpouch("call", "one.x", *skills).out == "1.0\n"
    assert (root() / left[0]["digest"] / READY).exists()
    assert len(registry.asked) == asked
