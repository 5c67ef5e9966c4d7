"""What a call is told of the packages that it has: what they miss, and what they read."""

import asyncio
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, ToolResult
from skillpouch.needs import Need
from skillpouch.provision.packages.recipe import find_python, own_python
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("with_uv")]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def called(home: Path, workspace: Path, *packages: str) -> ToolResult:
    manager = SkillManager(home.parent, workspace=workspace, policy=Policy(), cache=False)
    needs = [Need(kind="packages", value=name) for name in packages]
    Grants().grant(manager.get_skill("demo"), needs)
    return manager.call("demo.x")


CLIENT = """import os
_, TEXT = "_", "a"
class Lamp:
    def __init__(self):
        self.key = os.environ.get("TINYLAMP_API_KEY")
        self.site = os.environ.get("TINYLAMP_SITE")
        if not self.key:
            raise TypeError("Could not resolve authentication: expected a key")
        if not self.site:
            raise TypeError("the site is not configured; set TINYLAMP_SITE")
"""
USES = "import tinylamp\ntinylamp.Lamp()\nprint('lit')\n"


def test_a_key_that_only_a_package_reads_and_that_is_set_here_is_proposed(
    registry: Registry, write_skill: WriteSkill, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add_wheel("tinylamp", files={"tinylamp.py": CLIENT})
    home = write_skill(files={"scripts/x.py": USES})
    unset = called(home, workspace, "tinylamp").content
    monkeypatch.setenv("TINYLAMP_API_KEY", "abc-123-def")
    monkeypatch.setenv("OTHER_API_KEY", "abc-456-def")
    monkeypatch.setenv("_", "/usr/bin/python3")

    result = called(home, workspace, "tinylamp")

    assert "skillpouch trust" not in unset
    assert "note: it reads TINYLAMP_API_KEY, which was not granted to it" in result.content
    assert f"`skillpouch trust demo --secret TINYLAMP_API_KEY --root {home.parent}`" in (
        result.content
    )
    assert "OTHER_API_KEY" not in result.content


def test_a_variable_that_a_package_asks_for_and_reads_is_proposed_where_it_is_set(
    registry: Registry, write_skill: WriteSkill, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = CLIENT.replace("if not self.key:", "if False:")
    registry.add_wheel("tinylamp", files={"tinylamp.py": client})
    home = write_skill(files={"scripts/x.py": USES})
    monkeypatch.setenv("TINYLAMP_SITE", "kitchen")

    content = called(home, workspace, "tinylamp").content

    assert "note: it reads TINYLAMP_SITE, which was not granted to it" in content


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("dotenv", "the user can grant python-dotenv: `skillpouch trust demo --package"),
        ("quokka_like", "if it is known: `skillpouch trust demo --package NAME"),
    ],
)
def test_a_module_that_a_package_needs_and_does_not_declare_is_named(
    module: str, told: str, registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    registry.add_wheel("tinylamp", files={"tinylamp.py": f"import {module}\n"})
    home = write_skill(files={"scripts/x.py": "import tinylamp\nprint(tinylamp)\n"})

    content = called(home, workspace, "tinylamp").content

    assert f"note: a package of it imports {module}, and does not declare" in content
    assert told in content


READS = """def read(path):
    try:
        import tinyshade
    except ImportError:
        return "`Import tinyshade` failed.  Use pip to install the tinyshade package."
"""


def test_an_optional_part_that_the_files_tell_to_install_is_proposed_though_the_call_went_on(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    registry.add_wheel("tinylamp", files={"tinylamp.py": READS})
    script = "import tinylamp\nprint('one sheet:', tinylamp.read('a.xlsx'))\n"
    body = "Prepare:\n\n```\npip install tinylamp tinyshade\n```\n"
    home = write_skill(files={"scripts/x.py": script}, body=body)

    result = called(home, workspace, "tinylamp")

    assert result.outcome == "ok"
    [note] = result.notes
    assert f"`skillpouch trust demo --package tinyshade --root {home.parent}`" in note


KEEPS = """from pathlib import Path
def entries():
    folder = Path.home() / ".tinylamp" / "known"
    folder.mkdir(parents=True, exist_ok=True)
    return sorted(each.name for each in folder.iterdir())
"""


def test_a_package_that_keeps_its_state_in_the_home_is_told_of_the_one_of_the_user(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    registry.add_wheel("tinylamp", files={"tinylamp.py": KEEPS})
    home = write_skill(files={"scripts/x.py": "import tinylamp\nprint(tinylamp.entries())\n"})
    empty = called(home, workspace, "tinylamp")
    known = Path.home() / ".tinylamp" / "known"
    known.mkdir(parents=True)
    (known / "hall").touch()

    result = called(home, workspace, "tinylamp")

    assert (empty.content, result.data) == ("[]", "[]\n")
    [note] = result.notes
    assert note.startswith("note: its code uses ~/.tinylamp/known, and its HOME is a folder of its")
    assert f"`skillpouch trust demo --write {known} --root {home.parent}`" in note


NODE = """import subprocess
print(subprocess.check_output(['tiny-lamp'], text=True).strip())
subprocess.run(['node', '-e', "console.log('and', require('tiny-lamp/lib').name)"], check=True)
"""


@pytest.mark.parametrize("also", [(), ("tinylib",)], ids=["npm alone", "both"])
def test_a_script_in_python_has_the_programs_of_npm_packages_that_it_was_granted(
    also: tuple[str, ...], registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    registry.add_wheel("tinylib")
    program = "#!/usr/bin/env node\nconsole.log('lit by', require('tiny-lamp/lib').name)\n"
    files = {"cli.js": program, "lib.js": "exports.name = 'node'\n"}
    registry.add_npm("tiny-lamp", "1.0.0", files, bin={"tiny-lamp": "cli.js"})
    text = NODE + "".join(f"import {name}\n" for name in also)
    home = write_skill(files={"scripts/x.py": text})

    result = called(home, workspace, "npm:tiny-lamp", *also)

    assert (result.outcome, sorted(result.data.split("\n"))) == (
        "ok",
        ["", "and node", "lit by node"],
    )


def asking(wanted: str) -> str:
    block = f'# /// script\n# requires-python = "{wanted}"\n# dependencies = ["tinylib"]\n# ///\n'
    return f"{block}import sys, tinylib\nprint(tinylib.VERSION, *sys.version_info[:2])\n"


def commanded(home: Path, workspace: Path, command: str) -> ToolResult:
    manager = SkillManager(
        home.parent, workspace=workspace, policy=Policy(), cache=False, builtins=True
    )
    Grants().grant(manager.get_skill("demo"), [Need(kind="packages", value="tinylib")])
    return manager.call("run_for_skill", {"skill": "demo", "command": command})


@pytest.mark.parametrize("command", ["uv run scripts/x.py", "python scripts/x.py", "x.py"])
async def test_a_command_runs_a_script_on_the_python_that_it_declares(
    command: str, registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    own = own_python()
    other = await find_python(f"!={own.version[0]}.{own.version[1]}.*,>=3.9", "on")
    if other is None:
        pytest.skip("no other Python is installed")
    registry.add_wheel("tinylib")
    home = write_skill(files={"scripts/x.py": asking(f"=={other.text}")})

    result = await asyncio.to_thread(commanded, home, workspace, command)

    assert result.content == "1.0 {} {}".format(*other.version[:2])


def test_a_command_for_a_python_that_is_nowhere_runs_on_ours_and_says_so(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    registry.add_wheel("tinylib")
    home = write_skill(files={"scripts/x.py": asking(">=3.99")})

    result = commanded(home, workspace, "uv run scripts/x.py")

    own = own_python()
    assert result.data == "1.0 {} {}\n".format(*own.version[:2])
    [note] = result.notes
    assert note == (
        "note: x.py ran on the Python of Skillpouch: it needs Python >=3.99, Skillpouch runs on"
        f" {own.text}; this machine has no other that fits; install such a Python"
    )
