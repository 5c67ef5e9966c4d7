"""What a command for a skill is told besides its own words: the same as a call of its script."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, ToolResult
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MISSES = """import os, sys
if not os.environ.get("LAMP_API_KEY"):
    sys.exit("LAMP_API_KEY environment variable is required")
print("lit")
"""
LISTS = """from pathlib import Path
print("here:", sorted(path.name for path in (Path.home() / ".lamps" / "known").glob("*")))
"""
Command = Callable[[str], ToolResult]


@pytest.fixture
def commands(tmp_path: Path) -> Callable[[Path], Command]:
    def of(home: Path) -> Command:
        (tmp_path / "work").mkdir(exist_ok=True)
        manager = SkillManager(
            home.parent,
            workspace=tmp_path / "work",
            builtins=True,
            policy=Policy(),
            journal=False,
            cache=False,
        )
        return lambda line: manager.call("run_for_skill", {"skill": "demo", "command": line})

    return of


def granted(home: Path, *needs: Need) -> None:
    Grants().grant(SkillManager(home.parent, cache=False).get_skill("demo"), needs)


@pytest.mark.parametrize(
    "files",
    [
        {"scripts/x.py": MISSES},
        {
            "scripts/x.py": "import client\nprint(client.key())\n",
            "scripts/client.py": "import os\n\ndef key():\n    return os.environ['LAMP_API_KEY']\n",
        },
        {"scripts/x.py": "import os\nprint(os.environ['LAMP_API_KEY'])\n"},
    ],
    ids=["its own words", "of a module", "without words"],
)
@pytest.mark.parametrize("is_granted", [False, True], ids=["never granted", "for tools"])
def test_a_command_that_misses_a_secret_is_told_the_grant_with_which_it_has_it(
    is_granted: bool,
    files: dict[str, str],
    write_skill: WriteSkill,
    commands: Callable[[Path], Command],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAMP_API_KEY", "hunter2hunter2")
    home = write_skill(files=files)
    secret = Need(kind="secret", value="LAMP_API_KEY")
    if is_granted:
        granted(home, secret)
    run = commands(home)

    missed = run("python scripts/x.py")
    granted(home, secret, Need(kind="commands"))
    had = run("python scripts/x.py")

    command = f"skillpouch trust demo --secret LAMP_API_KEY --commands --root {home.parent}"
    assert missed.is_error
    assert missed.content.endswith(
        "note: it reads LAMP_API_KEY, which was not granted to commands;"
        f" the user can grant it: `{command}`"
    )
    assert (had.outcome, "note:" in had.content) == ("ok", False)


def test_a_setting_is_proposed_to_a_command_without_naming_commands(
    write_skill: WriteSkill, commands: Callable[[Path], Command]
) -> None:
    home = write_skill(files={"scripts/x.py": "import os\nprint(os.environ['BRIDGE_URL'])\n"})

    content = commands(home)("python scripts/x.py").content

    command = f"skillpouch trust demo --set BRIDGE_URL=VALUE --root {home.parent}"
    assert content.endswith(f"was not granted to commands; the user can grant it: `{command}`")


def test_a_script_that_the_command_does_not_name_is_no_reason_for_a_note(
    write_skill: WriteSkill, commands: Callable[[Path], Command]
) -> None:
    home = write_skill(files={"scripts/x.py": MISSES, "scripts/y.py": "raise SystemExit(1)\n"})

    assert "note:" not in commands(home)("python scripts/y.py").content


@pytest.mark.parametrize("is_granted", [False, True], ids=["never granted", "for tools"])
def test_a_command_that_does_not_see_the_home_of_the_user_is_told_the_grant(
    is_granted: bool, write_skill: WriteSkill, commands: Callable[[Path], Command]
) -> None:
    home = write_skill(files={"scripts/x.py": LISTS})
    known = Path.home() / ".lamps" / "known"
    known.mkdir(parents=True)
    (known / "desk").touch()
    read = Need(kind="read", value=str(known))
    if is_granted:
        granted(home, read)
    run = commands(home)

    missed = run("python3 scripts/x.py")
    granted(home, read, Need(kind="commands"))
    seen = run("python3 scripts/x.py")

    command = f"skillpouch trust demo --read {known} --commands --root {home.parent}"
    assert missed.stdout == "here: []\n"
    assert "note: its code uses ~/.lamps/known, and its HOME" in missed.content
    assert missed.content.endswith(f"those that exist in yours: `{command}`")
    assert (seen.stdout, "note:" in seen.content) == ("here: ['desk']\n", False)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("ssh: connect to host 192.0.2.1 port 22: Network is unreachable", "192.0.2.1 port 22"),
        (
            "ssh: Could not resolve hostname gw.example.com: Temporary failure in name resolution",
            "gw.example.com",
        ),
        (
            'connection to server at "192.0.2.1", port 5432 failed: Network is unreachable',
            "192.0.2.1 port 5432",
        ),
        (
            'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused',
            "localhost port 5432",
        ),
        (
            'could not translate host name "db.example.com" to address: Name or service not known',
            "db.example.com",
        ),
    ],
)
@pytest.mark.parametrize("hosts", [(), ("gw.example.com", "192.0.2.1")], ids=["none", "granted"])
def test_a_program_that_does_not_speak_to_a_proxy_is_told_so_and_no_grant_is_proposed(
    hosts: tuple[str, ...],
    words: str,
    place: str,
    write_skill: WriteSkill,
    commands: Callable[[Path], Command],
) -> None:
    script = f"import sys\nsys.stderr.write({words!r})\nsys.exit(255)\n"
    home = write_skill(files={"scripts/x.py": script})
    granted(home, *(Need(kind="host", value=host) for host in hosts), Need(kind="commands"))

    for result in (
        commands(home)("python scripts/x.py --host 192.0.2.1"),
        SkillManager(home.parent, cache=False).call("demo.x"),
    ):
        assert f"note: it wanted {place}, but not through the proxy by which" in result.content
        assert "--host" not in result.content.partition("note:")[2]


BESIDE = """import sys
from pathlib import Path
SHARED = Path(__file__).resolve().parents[2] / "shared" / "python"
{check}
sys.path.insert(0, str(SHARED))
import lamps
print(lamps.ALL)
"""
CHECK = """if not SHARED.is_dir():
    raise SystemExit(f"shared modules not found at {SHARED}")"""


@pytest.mark.parametrize("check", ["", CHECK], ids=["imports it", "looks for it"])
def test_a_command_that_lacks_a_folder_beside_its_skill_is_told_the_grant(
    check: str, write_skill: WriteSkill, commands: Callable[[Path], Command]
) -> None:
    home = write_skill(files={"scripts/x.py": BESIDE.format(check=check)})
    shared = home.parent / "shared" / "python"
    shared.mkdir(parents=True)
    (shared / "lamps.py").write_text("ALL = 3\n")

    as_tool = SkillManager(home.parent, cache=False).call("demo.x").content
    missed = commands(home)("python scripts/x.py").content
    granted(home, Need(kind="read", value=str(shared)), Need(kind="commands"))
    had = commands(home)("python scripts/x.py")

    reason = f"note: it imports modules of {shared}, which lies outside its skill; the user can"
    grant = f"skillpouch trust demo --read {shared}"
    assert as_tool.endswith(f"{reason} let it read that: `{grant} --root {home.parent}`")
    assert missed.endswith(f"{reason} let it read that: `{grant} --commands --root {home.parent}`")
    assert had.stdout == "3\n"


SETUP = """import venv
from pathlib import Path
venv.EnvBuilder().create(Path(__file__).resolve().parents[1] / ".lampenv")
"""


@pytest.mark.parametrize("declared", ["", "lamp-nobody-has==1"], ids=["none", "a package"])
def test_a_command_that_makes_an_environment_in_its_skill_is_told_that_it_needs_none(
    declared: str, write_skill: WriteSkill, commands: Callable[[Path], Command]
) -> None:
    files = {"scripts/setup.py": SETUP, "requirements.txt": f"{declared}\n"}
    body = "Run scripts/setup.py once, then `.lampenv/bin/python scripts/x.py`.\n"
    home = write_skill(body=body, files=files)

    content = commands(home)("python scripts/setup.py").content

    told = "note: .lampenv cannot be made in the folder of the skill, and is not needed: a command"
    grant = f"`skillpouch trust demo --package {declared} --root {home.parent}`"
    assert told in content
    assert content.endswith(grant if declared else "has the packages that were granted")


TASK = """import os
key = os.environ.get("LAMP_API_KEY")  # a secret is not proposed to a call that went well
task = os.environ.get("LAMP_TASK", "light the hall")
print("done:", task)
"""
TASKS = {"x.py": TASK, "x.sh": '# Work: $LAMP_API_KEY\necho "done: ${LAMP_TASK:-light the hall}"\n'}


@pytest.mark.parametrize("way", ["tool", "command"])
@pytest.mark.parametrize("name", TASKS)
def test_an_answer_without_a_variable_that_is_set_and_read_says_so(
    name: str, way: str, write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_skill(files={f"scripts/{name}": TASKS[name]})
    manager = SkillManager(
        home.parent, workspace=tmp_path, builtins=True, policy=Policy(), journal=False, cache=False
    )
    line = {"skill": "demo", "command": f"scripts/{name}"}

    def run() -> ToolResult:
        return manager.call("demo.x") if way == "tool" else manager.call("run_for_skill", line)

    unset = run()
    monkeypatch.setenv("LAMP_TASK", "light the yard")
    withheld = run()
    monkeypatch.setenv("USER", "somebody")
    monkeypatch.setenv("LAMP_API_KEY", "abc-123-def")
    granted(home, Need(kind="setting", value="LAMP_TASK=light the yard"))
    given = run()

    assert unset.content == "done: light the hall"
    assert withheld.data == "done: light the hall\n"
    [note] = withheld.notes
    assert note.startswith("note: it reads LAMP_TASK, which was not granted to ")
    assert f"`skillpouch trust demo --set LAMP_TASK --root {home.parent}`" in note
    assert given.content == "done: light the yard"


def test_a_script_that_a_command_runs_by_its_name_alone_counts_like_any(
    write_skill: WriteSkill, commands: Callable[[Path], Command]
) -> None:
    home = write_skill(files={"scripts/lamp.py": MISSES})

    content = commands(home)("lamp.py").content

    command = f"skillpouch trust demo --secret LAMP_API_KEY --commands --root {home.parent}"
    assert content.endswith(f"not granted to commands; the user can grant it: `{command}`")


SHOWS = """from pathlib import Path
folder = Path.home() / ".lamps" / "known"
print(f"{folder}: {len(list(folder.glob('*')))} lamps, clean")
"""


def test_a_script_that_only_reads_a_path_of_the_home_is_told_the_grant_to_read(
    write_skill: WriteSkill, commands: Callable[[Path], Command]
) -> None:
    known = Path.home() / ".lamps" / "known"
    known.mkdir(parents=True)
    home = write_skill(files={"scripts/x.py": SHOWS})

    content = commands(home)("python scripts/x.py").content

    assert f"`skillpouch trust demo --read {known} --commands --root {home.parent}`" in content
