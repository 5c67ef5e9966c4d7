import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch.provision.packages.housekeeping import list_environments, prune
from skillpouch.provision.packages.store import (
    READY,
    USED,
    hold,
    open_store,
    read_record,
    write_ready,
)
from tests.cli.conftest import Skillpouch, skillpouch
from tests.conftest import WriteSkill
from tests.provision.packages.conftest import installed, script_at
from tests.provision.packages.registry import Registry

pytestmark = pytest.mark.slow

__all__ = ["skillpouch"]  # a fixture of the command line's tests

DAY = 86_400


def keep(name: str, *, days: float = 0, ready: bool = True) -> Path:
    """Put an environment into the store as if it had been used so many days ago."""
    place = open_store() / name
    (place / "folder").mkdir(parents=True)
    (place / "folder" / "file").write_bytes(b"x" * 5000)
    if ready:
        write_ready(place, {"folder": "folder", "kind": "node", "requirements": ["lamp@1"]})
        then = (place / USED).stat().st_mtime - days * DAY
        os.utime(place / USED, (then, then))
    else:
        then = place.stat().st_mtime - days * DAY
        os.utime(place, (then, then))
    return place


def test_only_what_was_not_used_for_long_is_removed() -> None:
    places = [keep("new"), keep("old", days=40), keep("torn", days=40, ready=False)]

    removed = prune(30 * DAY).removed

    assert sorted(each.digest for each in removed) == ["old", "torn"]
    assert [place.exists() for place in places] == [True, False, False]
    assert [each.digest for each in list_environments()] == ["new"]


async def test_what_is_being_built_is_never_removed() -> None:
    place = keep("busy", days=99)

    async with hold(place, lambda: None):
        assert (await asyncio.to_thread(prune, 0)).removed == ()
        assert read_record(place)

    assert [each.digest for each in prune(0).removed] == ["busy"]


async def test_whoever_waits_for_a_place_that_is_removed_makes_it_again() -> None:
    place = keep("busy")
    told: list[None] = []

    async def wait() -> bool:
        async with hold(place, lambda: told.append(None)):
            return (place / READY).exists()

    async with hold(place, lambda: None):
        waiting = asyncio.ensure_future(wait())
        while not told:
            await asyncio.sleep(0.01)
        place.rename(place.with_name("gone"))

    assert await waiting is False
    assert place.is_dir()


def test_folders_that_nobody_may_write_are_removed_too() -> None:
    place = keep("locked")
    (place / "folder").chmod(0o500)

    assert len(prune(0).removed) == 1
    assert not place.exists()


def test_the_store_may_be_absent() -> None:
    assert list_environments() == []
    assert prune(0).removed == ()


def test_the_command_lists_and_removes(skillpouch: Skillpouch) -> None:
    keep("new")
    keep("old", days=40)
    keep("torn", days=1, ready=False)

    listed = skillpouch("environments")
    pruned = skillpouch("environments", "--prune")
    as_json = skillpouch("environments", "--prune", "0.5", "--json").json

    rows = [line.split("\t") for line in listed.out.splitlines()]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("new", "lamp@1", "today"),
        ("torn", "unfinished", "1 day ago"),
        ("old", "lamp@1", "40 days ago"),
    ]
    assert pruned.err.startswith("1 removed, ")
    assert [each["digest"] for each in as_json["environments"]] == ["new"]
    assert [(each["digest"], each["ready"]) for each in as_json["removed"]] == [("torn", False)]
    assert as_json["environments"][0]["size_bytes"] >= 5000
    assert skillpouch("environments", "--prune", "soon").code == 2


@pytest.mark.usefixtures("with_uv")
async def test_using_an_environment_is_noted(registry: Registry, write_skill: WriteSkill) -> None:
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})
    script = script_at(home, "scripts/x.py")
    found = await installed(script, home)
    assert found is not None
    used = found.folder.parent / USED
    os.utime(used, (0, 0))
    words = [sys.executable, "-c", _USE, script.file, str(home)]

    subprocess.run(words, check=True)

    assert used.stat().st_mtime > 0


_USE = """
import asyncio, sys
from skillpouch.trust.granted_packages import package_needs
from skillpouch.provision.packages.lookup import environment_for
from skillpouch.declarations.packages.needs import declared_needs
from skillpouch.tools import Script
script, home = Script(file=sys.argv[1], language="python", convention="stdin"), sys.argv[2]
said = tuple(need.value for need in package_needs(declared_needs(script, home)))
assert asyncio.run(environment_for(script, home, packages=said))
"""
