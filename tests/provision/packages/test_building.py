"""Environments built for real, from a registry on loopback."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch.declarations.packages.declared_files import (
    DependencyError,
    InstallError,
    RequirementRefusedError,
)
from skillpouch.environment import environments_directory
from skillpouch.errors import SandboxUnavailableError
from skillpouch.execution import engine
from skillpouch.execution.engine import Engine
from skillpouch.execution.machine import Machine
from skillpouch.execution.zygote_client import probe
from skillpouch.provision.packages.building import EnvironmentBuild, run_step
from skillpouch.provision.packages.configuration import Settings
from skillpouch.provision.packages.housekeeping import SHARED
from skillpouch.provision.packages.lookup import recipe_for
from skillpouch.provision.packages.ready import Environment
from skillpouch.provision.packages.recipe import Step, _candidates, find_python, own_python
from skillpouch.provision.packages.store import READY, downloads_folder, open_store
from tests.conftest import WriteSkill
from tests.provision.packages.conftest import Run, installed, script_at
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PRINTS = "import lamp\nprint(lamp.VERSION)\n"
# Builds in a process of its own: BUILDER script home, and says what it is told.
BUILDER = """
import asyncio, sys
from skillpouch.trust.granted_packages import package_needs
from skillpouch.provision.packages.lookup import environment_for
from skillpouch.declarations.packages.needs import declared_needs
from skillpouch.tools import Script
script, home = Script(file=sys.argv[1], language="python", convention="stdin"), sys.argv[2]
said = tuple(need.value for need in package_needs(declared_needs(script, home)))
say = lambda line: print(line, flush=True)
print(asyncio.run(environment_for(script, home, packages=said, on_progress=say)).folder)
"""


def builder(home: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", BUILDER, str(home / "scripts/x.py"), str(home)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


async def environment_of(home: Path, script: str = "scripts/x.py") -> Environment:
    found = await installed(script_at(home, script), home)
    assert found is not None
    return found


async def until(fact: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)


def unfinished() -> list[Path]:
    root = environments_directory()
    assert root is not None
    places = [place for place in root.iterdir() if place.name != SHARED]
    places = [place for place in places if not (place / READY).exists()]
    return [entry for place in places for entry in place.iterdir() if entry.is_dir()]


def running(word: str) -> list[int]:
    """The processes that have a word on their command line and are not waiting to be reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            found += [int(entry.name)] if word.encode() in line else []
    return found


async def test_a_script_finds_what_it_declares(
    installer: str, registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    registry.add_wheel("lamp", "2.0", requires="bulb")
    registry.add_wheel("bulb", "1.5")
    home = write_skill(
        "light",
        files={
            "scripts/x.py": PRINTS + "import bulb\nprint(bulb.VERSION)\n",
            "requirements.txt": "lamp>=1\n",
        },
    )
    said: list[str] = []

    script = script_at(home, "scripts/x.py")
    found = await installed(script, home, on_progress=said.append)
    assert found is not None
    ended = await run(found, script, home)

    assert ended.stdout.text == "2.0\n1.5\n", ended.stderr.text
    assert found.requirements == ("lamp>=1",)
    assert said[0] == "installing lamp>=1 for light"
    assert said[-1].startswith("installed lamp>=1 for light in ")
    assert list(found.folder.rglob("lamp*.pyc")), installer
    assert stat.S_IMODE(found.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(found.folder.parent.stat().st_mode) == 0o700


@pytest.mark.usefixtures("with_uv")
async def test_what_is_ready_is_not_fetched_again(
    registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})
    first = await environment_of(home)
    asked = list(registry.asked)

    again = await environment_of(home)
    other_skill = write_skill(
        "other",
        files={"scripts/x.py": '# /// script\n# dependencies = ["Lamp"]\n# ///\n'},
    )
    shared_one = await environment_of(other_skill)

    assert [again, shared_one] == [first, first]
    assert registry.asked == asked


@pytest.mark.usefixtures("with_uv")
async def test_another_list_is_another_environment(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    registry.add_wheel("lamp", "1.0")
    registry.add_wheel("lamp", "2.0")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp==1.0\n"})
    script = script_at(home, "scripts/x.py")
    versions = []

    for version in ("1.0", "2.0"):
        (home / "requirements.txt").write_text(f"lamp=={version}\n")
        versions.append((await run(await environment_of(home), script, home)).stdout.text)

    assert versions == ["1.0\n", "2.0\n"]


@pytest.mark.usefixtures("with_uv")
async def test_what_skillpouch_itself_has_does_not_count(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    registry.add_wheel("click", "0.0.1")
    home = write_skill(
        files={"scripts/x.py": "import click\nprint(click.VERSION)\n", "requirements.txt": "click"}
    )

    ended = await run(await environment_of(home), script_at(home, "scripts/x.py"), home)

    assert ended.stdout.text == "0.0.1\n"


async def test_the_same_builder_twice_at_once_builds_once(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})

    found = await asyncio.gather(
        *(environment_of(home) for _ in range(3)),
        *(asyncio.to_thread(lambda: asyncio.run(environment_of(home))) for _ in range(3)),
    )

    assert len({each.folder for each in found}) == 1, installer
    assert registry.asked.count("/simple/lamp/") == 1


async def test_two_processes_build_once_and_the_second_says_that_it_waits(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})
    registry.open.clear()

    first = builder(home)
    await until(registry.arrived.is_set)
    second = builder(home)
    assert second.stdout is not None
    waiting = await asyncio.to_thread(second.stdout.readline)
    registry.open.set()
    ends = [await asyncio.to_thread(each.communicate) for each in (first, second)]

    assert waiting == "waiting for another process that is installing lamp for demo\n", installer
    folders = {out.splitlines()[-1] for out, _ in ends}
    assert len(folders) == 1
    assert registry.asked.count("/simple/lamp/") == 1


@pytest.mark.promise("dep-6")
async def test_a_builder_that_is_killed_leaves_nothing_that_counts(
    installer: str, registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})
    registry.open.clear()
    killed = builder(home)
    await until(registry.arrived.is_set)
    (torn,) = unfinished()

    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    await until(lambda: not running(torn.name))
    registry.open.set()
    found = await environment_of(home)
    ended = await run(found, script_at(home, "scripts/x.py"), home)

    assert ended.stdout.text == "1.0\n", installer
    assert not torn.exists()
    assert unfinished() == []


@pytest.mark.promise("dep-6")
async def test_cancelling_ends_the_installer_and_clears_up(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})
    registry.open.clear()
    building = asyncio.ensure_future(environment_of(home))
    await until(registry.arrived.is_set)
    (folder,) = unfinished()
    assert running(folder.name), installer

    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building

    assert running(folder.name) == []
    assert unfinished() == []


@pytest.mark.usefixtures("without_uv")
async def test_a_build_that_takes_too_long_is_ended(
    registry: Registry, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})
    registry.open.clear()

    with pytest.raises(InstallError, match="not done after 2 s") as caught:
        await installed(script_at(home, "scripts/x.py"), home, timeout_seconds=2)

    assert caught.value.code == "install_failed"
    assert unfinished() == []


async def test_a_failure_is_told_with_the_next_step_and_tried_again(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp>=7\n"})
    registry.add_wheel("lamp", "1.0")

    with pytest.raises(InstallError, match="no wheel that fits, or no such package") as caught:
        await environment_of(home)
    registry.add_wheel("lamp", "7.0")
    found = await environment_of(home)

    assert "lamp" in caught.value.output, installer
    assert "pip download --only-binary :all: 'lamp>=7'" in caught.value.hint
    assert found.requirements == ("lamp>=7",)


@pytest.mark.promise("dep-3")
async def test_a_package_without_a_wheel_is_not_built(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_source("lamp")
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})

    with pytest.raises(InstallError, match="no wheel that fits") as caught:
        await environment_of(home)

    assert "setup.py ran" not in caught.value.output, installer


@pytest.mark.promise("dep-3")
@pytest.mark.promise("dep-1")
@pytest.mark.parametrize("file", ["bulb-1.0.tar.gz", "bulb-1.0-py3-none-any.whl"])
async def test_a_package_that_asks_for_another_by_address_is_not_installed(
    file: str, installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_source("bulb")
    registry.add_wheel("bulb")
    registry.add_wheel("lamp", requires=f"bulb @ {registry.address}/files/{file}")
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})

    with pytest.raises(InstallError, match="by address: only packages by name") as caught:
        await environment_of(home)

    assert "setup.py ran" not in caught.value.output, installer
    assert unfinished() == []


@pytest.mark.usefixtures("without_uv")
async def test_where_skillpouch_has_no_pip_the_one_of_the_environment_serves(
    registry: Registry, write_skill: WriteSkill, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillpouch.provision.packages.python_recipe.find_spec", lambda _name: None)
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})

    ended = await run(await environment_of(home), script_at(home, "scripts/x.py"), home)

    assert ended.stdout.text == "1.0\n"


async def test_a_package_that_is_not_the_pinned_one_is_refused(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    right = registry.add_wheel("lamp")
    wrong = "0" * 64
    lines = {"one": f"lamp==1.0 --hash=sha256:{wrong}\n", "two": f"lamp==1.0 --hash=sha256:{right}"}
    homes = [
        write_skill(name, files={"scripts/x.py": "", "requirements.txt": line})
        for name, line in lines.items()
    ]

    with pytest.raises(InstallError, match="not the one that was pinned"):
        await environment_of(homes[0])
    found = await environment_of(homes[1])

    assert found.requirements == ("lamp==1.0",), installer


@pytest.mark.promise("dep-4")
async def test_what_a_wheel_runs_at_start_runs_confined_and_never_while_building(
    installer: str, registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    attack = "import os, sys; open(os.path.join(sys.prefix, 'ran'), 'w').close()"
    registry.add_wheel("lamp", files={"lamp.py": "VERSION = '1'\n", "lamp.pth": f"{attack}\n"})
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})

    found = await environment_of(home)
    mark = Path(found.python).parent.parent / "ran"
    was_run = mark.exists()
    ended = await run(found, script_at(home, "scripts/x.py"), home)

    assert not was_run, installer
    assert ended.stdout.text == "1\n"
    assert "lamp.pth" in ended.stderr.text  # it ran, and could write nothing
    assert not mark.exists()


@pytest.mark.promise("dep-1")
async def test_a_list_that_names_another_index_asks_nobody(
    registry: Registry, write_skill: WriteSkill
) -> None:
    line = f"--extra-index-url {registry.address}/evil\nlamp\n"
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": line})

    with pytest.raises(RequirementRefusedError, match="where packages come from"):
        await environment_of(home)

    assert registry.asked == []


@pytest.mark.promise("dep-5")
async def test_an_installer_sees_no_variable_but_its_own_settings(
    installer: str,
    registry: Registry,
    write_skill: WriteSkill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2")
    monkeypatch.setenv("PIP_TARGET", "/nowhere")
    monkeypatch.setenv("UV_PUBLISH_TOKEN", "hunter2")
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})
    registry.open.clear()
    building = asyncio.ensure_future(environment_of(home))
    await until(registry.arrived.is_set)

    (folder,) = unfinished()
    seen = [Path(f"/proc/{pid}/environ").read_bytes() for pid in running(folder.name)]
    building.cancel()
    await asyncio.wait({building})

    assert seen
    for variables in seen:
        assert b"hunter2" not in variables
        assert b"PIP_TARGET" not in variables
        own = b"PIP_INDEX_URL" if installer == "pip" else b"UV_DEFAULT_INDEX"
        assert own in variables


@pytest.mark.promise("dep-5")
@pytest.mark.usefixtures("with_uv")
async def test_an_installer_writes_its_environment_and_its_downloads_only(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})
    from skillpouch.declarations.packages.needs import declared_needs

    needs = declared_needs(script_at(home, "scripts/x.py"), str(home))
    assert needs is not None
    store = open_store()
    place = store / "place"
    folder = place / "folder"
    (folder / "tmp").mkdir(parents=True)
    (tmp_path / "secret").write_text("hunter2")
    downloads = downloads_folder(store)
    tries = [folder, downloads / "uv", place, store, downloads.parent, Path.home(), home, tmp_path]
    job = EnvironmentBuild(
        recipe=await recipe_for(needs, "demo", "on", None),
        skill="demo",
        store=store,
        say=lambda _line: None,
        timeout_seconds=20,
    )
    # Somewhere below /tmp it may believe that it has written: that folder is its own.
    lines = [f"mkdir -p {each}; touch {each}/mark" for each in tries]
    program = "\n".join([*lines, f"cat {tmp_path}/secret"])
    step = Step(argv=("/bin/sh", "-c", program), settings=Settings(), network="host")

    ended = await run_step(job, step, folder, downloads)

    assert [each for each in tries if (each / "mark").exists()] == tries[:2]
    assert "hunter2" not in ended.stdout.text


async def test_where_nothing_can_be_confined_nothing_is_installed(
    registry: Registry,
    write_skill: WriteSkill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_engine", Engine(machine=Machine(adoption=True)))
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})

    with pytest.raises(SandboxUnavailableError):
        await environment_of(home)

    assert registry.asked == []
    assert unfinished() == []


async def test_a_machine_without_namespaces_builds_too(
    installer: str, registry: Registry, write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = replace(probe(), namespaces=False, user_namespace=False)
    if machine.landlock < 3:
        pytest.skip("without namespaces and Landlock nothing is confined here")
    async with Engine(machine=machine) as other:
        monkeypatch.setattr(engine, "run_on_thread", lambda running: running)
        monkeypatch.setattr(engine, "_engine", other)
        registry.add_wheel("lamp")
        home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})

        found = await environment_of(home)

    assert found.requirements == ("lamp",), installer


async def test_the_settings_in_the_home_of_the_user_hold(
    installer: str,
    registry: Registry,
    write_skill: WriteSkill,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("PIP_CONFIG_FILE", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    from tests.provision.packages.registry import wheel

    file, data = wheel("lamp", "3.0")
    (wheels / file).write_bytes(data)
    config = Path.home() / ".config"
    (config / "pip").mkdir(parents=True)
    (config / "pip/pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {wheels}\n")
    (config / "uv").mkdir()
    (config / "uv/uv.toml").write_text(f'no-index = true\nfind-links = ["{wheels}"]\n')
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp==3.0\n"})

    found = await environment_of(home)

    assert found.requirements == ("lamp==3.0",), installer
    assert registry.asked == []


async def test_a_secret_in_an_address_is_not_repeated(
    registry: Registry,
    write_skill: WriteSkill,
    monkeypatch: pytest.MonkeyPatch,
    installer: str,
) -> None:
    address = registry.address.replace("://", "://user:hunter2@")
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple/")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple/")
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "absent\n"})

    with pytest.raises(InstallError) as caught:
        await environment_of(home)

    assert "hunter2" not in str(caught.value), installer


async def test_a_store_that_others_may_write_is_not_used(write_skill: WriteSkill) -> None:
    root = environments_directory()
    assert root is not None
    root.mkdir(parents=True)
    root.chmod(0o777)
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})

    with pytest.raises(DependencyError, match="others may write there"):
        await environment_of(home)


@pytest.mark.usefixtures("with_uv")
async def test_a_damaged_record_is_built_again(registry: Registry, write_skill: WriteSkill) -> None:
    registry.add_wheel("lamp")
    home = write_skill(files={"scripts/x.py": PRINTS, "requirements.txt": "lamp\n"})
    first = await environment_of(home)

    for damage in (b"", b"{}", b"[" * 9999, b'{"format": 1, "folder": "../../x", "kind": "node"}'):
        (first.folder.parent / READY).write_bytes(damage)
        again = await environment_of(home)
        assert Path(again.python).exists()
        assert again.folder.parent == first.folder.parent


async def test_a_python_that_is_nowhere_is_named(write_skill: WriteSkill) -> None:
    block = '# /// script\n# requires-python = ">=3.99"\n# dependencies = ["six"]\n# ///\n'
    home = write_skill(files={"scripts/x.py": block})

    with pytest.raises(InstallError, match=r"it needs Python >=3\.99, Skillpouch runs on 3\."):
        await environment_of(home)


async def test_a_python_that_is_ours_needs_no_environment(write_skill: WriteSkill) -> None:
    block = '# /// script\n# requires-python = ">=3.11"\n# ///\n'
    home = write_skill(files={"scripts/x.py": block})

    assert await installed(script_at(home, "scripts/x.py"), home) is None


@pytest.mark.usefixtures("with_uv")
async def test_another_python_is_used_when_it_is_there(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    own = own_python()
    other = await find_python(f"!={own.version[0]}.{own.version[1]}.*,>=3.9", "on")
    if other is None:
        pytest.skip(f"no other Python is installed beside {len(_candidates())} of our own version")
    registry.add_wheel("lamp")
    wanted = f"=={other.text}"
    block = f'# /// script\n# requires-python = "{wanted}"\n# dependencies = ["lamp"]\n# ///\n'
    program = f"{block}import lamp, sys\nprint(*sys.version_info[:3], sep='.')\n"
    home = write_skill(files={"scripts/x.py": program})

    ended = await run(await environment_of(home), script_at(home, "scripts/x.py"), home)

    assert ended.stdout.text == f"{other.text}\n", ended.stderr.text


@pytest.mark.usefixtures("with_uv")
async def test_packages_for_another_python_are_used_with_it_when_it_is_there(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    own = own_python()
    other = await find_python(f">{own.version[0]}.{own.version[1]}.{own.version[2]}", "on")
    if other is None or other.version[:2] == own.version[:2]:
        pytest.skip(f"no newer Python is installed beside {len(_candidates())} others")
    newer = f">={other.version[0]}.{other.version[1]}"
    registry.add_wheel("lamp", requires_python=newer)
    registry.add_wheel("lamp", "2.0", requires_python=">=3.99")
    program = "import lamp, sys\nprint(lamp.VERSION, *sys.version_info[:3], sep='.')\n"
    home = write_skill(files={"scripts/x.py": program, "requirements.txt": "lamp\n"})

    found = await environment_of(home)
    ended = await run(found, script_at(home, "scripts/x.py"), home)
    asked = len(registry.asked)
    again = builder(home).communicate()[0]

    assert ended.stdout.text == f"1.0.{other.text}\n", ended.stderr.text
    assert (again, len(registry.asked)) == (f"{found.folder}\n", asked)


async def test_packages_for_a_python_that_is_nowhere_say_so(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_wheel("lamp", requires_python=">=3.98")
    registry.add_wheel("lamp", "2.0", requires_python=">=3.99,<4")
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})

    wanted = r"needs Python >=3\.99,?(?:<4)? or Python >=3\.98, Skillpouch runs on 3\."
    with pytest.raises(InstallError, match=wanted) as caught:
        await environment_of(home)

    assert caught.value.hint.startswith("install such a Python, and uv"), installer


async def test_a_version_that_is_missing_is_no_matter_of_python(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_wheel("lamp")
    registry.add_wheel("lamp", "2.0", requires_python=">=3.99")
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp==1.5\n"})

    with pytest.raises(InstallError, match="no wheel that fits, or no such package") as caught:
        await environment_of(home)

    assert "Python" not in caught.value.reason, installer


@pytest.mark.usefixtures("with_uv")
async def test_no_installer_from_the_workspace_is_used(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    from skillpouch.declarations.packages.needs import declared_needs
    from skillpouch.provision.packages.python_recipe import PythonRecipe

    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})
    needs = declared_needs(script_at(home, "scripts/x.py"), str(home))
    assert needs is not None
    uv = Path(os.environ["PATH"].split(":")[0])

    recipes = [await recipe_for(needs, "demo", "on", place.resolve()) for place in (tmp_path, uv)]

    assert [isinstance(each, PythonRecipe) and bool(each.uv) for each in recipes] == [True, False]
