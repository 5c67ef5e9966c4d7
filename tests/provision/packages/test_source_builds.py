"""Packages without a wheel: built by an explicit grant only, confined, without a network."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.declarations.packages.declared_files import InstallError
from skillpouch.needs import Need
from skillpouch.provision.packages import python_recipe
from skillpouch.provision.packages.housekeeping import prune
from skillpouch.provision.packages.recipe import RecipeError
from skillpouch.provision.packages.store import downloads_folder, open_store
from skillpouch.trust.grants import Grants
from tests.cli.conftest import Skillpouch, skillpouch
from tests.conftest import WriteSkill
from tests.provision.packages.conftest import Run, installed, script_at
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

__all__ = ["skillpouch"]  # a fixture of the command line's tests

# A source that builds itself, and tells in its module what it could reach while it was built.
BACKEND = """
import json, os, socket, zipfile
def tried(way):
    try:
        return bool(way())
    except OSError:
        return False
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    facts = {
        "network": tried(lambda: socket.create_connection(("127.0.0.1", PORT), 2)),
        "home": tried(lambda: open("HOME/private")),
        "downloads": tried(lambda: open("DOWNLOADS/planted", "w")),
        "settings": sorted(name for name in os.environ if "INDEX" in name or "URL" in name),
    }
    name = "lamp-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr("lamp.py", f"FACTS = {facts!r}\\nVERSION = 'built'\\n")
        info = "lamp-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: lamp\\nVersion: 1.0\\n")
        tag = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
PROJECT = '[build-system]\nrequires = [REQUIRES]\nbuild-backend = "back"\nbackend-path = ["."]\n'
SCRIPT = "import json, lamp\nprint(json.dumps(lamp.FACTS))\n"


def source(registry: Registry, requires: str = "", **files: str) -> Mapping[str, str]:
    (Path.home() / "private").write_text("mine")
    backend = BACKEND.replace("PORT", registry.address.rpartition(":")[2])
    backend = backend.replace("HOME", str(Path.home()))
    backend = backend.replace("DOWNLOADS", str(downloads_folder(open_store())))
    return {"pyproject.toml": PROJECT.replace("REQUIRES", requires), "back.py": backend, **files}


@pytest.mark.promise("dep-8")
@pytest.mark.escape
async def test_a_granted_build_runs_confined_and_without_a_network(
    installer: str, registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    registry.add_source("lamp", files=source(registry))
    registry.add_wheel("bulb")
    home = write_skill(files={"scripts/x.py": SCRIPT, "requirements.txt": "lamp\nbulb\n"})
    script = script_at(home, "scripts/x.py")
    said: list[str] = []

    found = await installed(script, home, builds=("lamp",), on_progress=said.append)
    assert found is not None
    ended = await run(found, script, home)

    assert json.loads(ended.stdout.text) == {
        "network": False,
        "home": False,
        "downloads": False,
        "settings": [],
    }, installer
    assert "building lamp for demo" in said
    left = {each.name for each in found.folder.iterdir()}
    assert left == {"limits.txt", "python", "requirements.txt", "wheels"}


@pytest.mark.promise("dep-8")
async def test_without_the_grant_the_error_names_it(
    installer: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_source("lamp", files=source(registry))
    registry.add_source("lamp", "1.1", files=source(registry))
    registry.add_wheel("shade", requires="lamp")
    homes = [
        write_skill(name, files={"scripts/x.py": "", "requirements.txt": f"{package}\n"})
        for name, package in (("one", "lamp>=1"), ("two", "shade"))
    ]

    for home in homes:
        with pytest.raises(InstallError, match="no wheel that fits") as caught:
            await installed(script_at(home, "scripts/x.py"), home)
        assert f"skillpouch trust {home.name} --build lamp" in caught.value.hint, installer


@pytest.mark.usefixtures("without_uv")
def test_the_error_names_the_skill_and_not_its_folder(
    registry: Registry, write_skill: WriteSkill, skillpouch: Skillpouch, tmp_path: Path
) -> None:
    registry.add_source("lamp", files=source(registry))
    home = write_skill(
        "demo-1.2.0", front="name: demo\ndescription: d\n", files={"scripts/x.py": SCRIPT}
    )
    manager = SkillManager(home.parent, workspace=tmp_path, cache=False)
    words = ("trust", "demo", "--package", "lamp", "--root", home.parent)
    command = f"`skillpouch trust demo --build lamp --root {home.parent}`"

    refused = skillpouch(*words, "--yes")
    Grants().grant(manager.get_skill("demo"), [Need(kind="packages", value="lamp")])
    with pytest.raises(InstallError, match="for demo:") as caught:
        manager.call("demo.x")

    assert command in refused.err
    assert "installing lamp for demo\n" in refused.err
    assert command in caught.value.hint


@pytest.mark.usefixtures("without_uv")
async def test_what_a_package_needs_itself_is_built_too_when_it_was_granted(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    registry.add_source("lamp", files=source(registry))
    registry.add_wheel("shade", requires="lamp")
    home = write_skill(files={"scripts/x.py": SCRIPT, "requirements.txt": "shade\n"})
    script = script_at(home, "scripts/x.py")

    found = await installed(script, home, builds=("lamp",))
    assert found is not None

    assert json.loads((await run(found, script, home)).stdout.text)["network"] is False


@pytest.mark.usefixtures("without_uv")
async def test_the_source_must_have_the_declared_checksum(
    registry: Registry, write_skill: WriteSkill, run: Run
) -> None:
    right = registry.add_source("lamp", files=source(registry))
    homes = {
        name: write_skill(
            name,
            files={
                "scripts/x.py": SCRIPT,
                "requirements.txt": f"lamp==1.0 --hash=sha256:{checksum}\n",
            },
        )
        for name, checksum in (("wrong", "0" * 64), ("right", right))
    }

    with pytest.raises(InstallError, match="not the one that was pinned"):
        await installed(script_at(homes["wrong"], "scripts/x.py"), homes["wrong"], builds=("lamp",))
    script = script_at(homes["right"], "scripts/x.py")
    found = await installed(script, homes["right"], builds=("lamp",))
    assert found is not None

    assert (await run(found, script, homes["right"])).exit_code == 0


@pytest.mark.usefixtures("without_uv")
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"pyproject.toml": PROJECT.replace("REQUIRES", '"x @ https://e.com/x.whl"')}, "address"),
        ({"back.py": "def build_wheel(*_words, **_more): raise SystemExit('no compiler')"}, "fail"),
    ],
)
async def test_a_source_that_cannot_be_built_says_why(
    files: dict[str, str], reason: str, registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_source("lamp", files={**source(registry), **files})
    home = write_skill(files={"scripts/x.py": "", "requirements.txt": "lamp\n"})

    with pytest.raises(InstallError, match=reason):
        await installed(script_at(home, "scripts/x.py"), home, builds=("lamp",))


def a_pipe(wheels: Path, _outside: Path) -> None:
    wheels.mkdir()
    os.mkfifo(wheels / "lamp-1.0-py3-none-any.whl")


def a_link(wheels: Path, outside: Path) -> None:
    wheels.mkdir()
    (wheels / "lamp-1.0-py3-none-any.whl").symlink_to(outside / "lamp-2.0-py3-none-any.whl")


def a_link_to_a_folder(wheels: Path, outside: Path) -> None:
    wheels.symlink_to(outside)


@pytest.mark.promise("dep-8")
@pytest.mark.parametrize("left", [a_pipe, a_link, a_link_to_a_folder])
def test_of_what_a_build_left_only_a_file_in_its_own_folder_is_taken(
    left: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for each in (folder / "build", folder / "wheels", outside):
        each.mkdir(parents=True)
    theirs = outside / "lamp-2.0-py3-none-any.whl"
    theirs.write_text("not of this build")
    left(folder / "build" / "wheels", outside)

    with pytest.raises(RecipeError):
        python_recipe._keep_wheel("lamp", folder)

    assert theirs.read_text() == "not of this build"


@pytest.mark.promise("dep-8")
@pytest.mark.usefixtures("without_uv")
def test_the_grant_is_for_one_package_and_the_same_bytes(
    registry: Registry, write_skill: WriteSkill, skillpouch: Skillpouch, tmp_path: Path
) -> None:
    registry.add_source("lamp", files=source(registry))
    files = {"scripts/x.py": SCRIPT, "requirements.txt": "lamp\n"}
    home = write_skill(files=files)
    root = ("--root", str(home.parent))
    skillpouch("trust", "demo", "--yes", *root)

    before = skillpouch("call", "demo.x", *root)
    granted = skillpouch("trust", "demo", "--build", "Lamp", "--yes", *root)
    built = skillpouch("call", "demo.x", *root)
    skill = SkillManager(home.parent).get_skill("demo")
    grant = Grants().for_skill(skill)
    (home / "scripts/x.py").write_text(f"{SCRIPT}# changed\n")
    later = SkillManager(home.parent, workspace=tmp_path, policy=Policy.trusting())

    assert (before.code, "--build lamp" in before.err) == (4, True)
    assert (granted.code, built.code) == (0, 0), built.err
    assert grant is not None
    assert grant.builds == ("lamp",)
    assert grant.covers(Need(kind="build", value="lamp"))
    assert not grant.covers(Need(kind="build", value="bulb"))
    with pytest.raises(InstallError, match="no wheel that fits"):
        later.call("demo.x")


@pytest.mark.promise("shell-1")
@pytest.mark.usefixtures("without_uv")
def test_a_command_for_the_skill_has_what_was_built_and_keeps_it_from_being_pruned(
    registry: Registry, write_skill: WriteSkill, skillpouch: Skillpouch, tmp_path: Path
) -> None:
    registry.add_source("lamp", files=source(registry))
    home = write_skill(files={"scripts/x.py": SCRIPT, "requirements.txt": "lamp\n"})
    for words in ((), ("--build", "lamp")):
        skillpouch("trust", "demo", *words, "--yes", "--root", str(home.parent))
    # Directly: it meets the file that is made while it runs.
    manager = SkillManager(home.parent, workspace=tmp_path, builtins=True, writes="direct")
    removed: list[object] = []

    def when_it_runs(_stream: str, _piece: bytes) -> None:
        removed.append(prune(0).removed)
        (tmp_path / "pruned").touch()

    waiting = "echo it runs; until [ -e pruned ]; do :; done; python scripts/x.py"
    arguments = {"skill": "demo", "command": waiting}
    result = manager.call("run_for_skill", arguments, on_output=when_it_runs)

    assert '"network": false' in result.content
    assert removed[0] == ()


def test_only_the_name_of_a_python_package_can_be_granted(
    write_skill: WriteSkill, skillpouch: Skillpouch
) -> None:
    root = ("--root", str(write_skill(files={"scripts/x.py": ""}).parent))

    for name in ("npm:ws", "lamp==1.0", "-x"):
        ran = skillpouch("trust", "demo", "--build", name, "--yes", *root)
        assert (ran.code != 0, "cannot grant building" in ran.err) == (True, True), ran.err
