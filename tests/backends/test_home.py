"""What a call finds in its HOME: nothing of the user's but what was granted."""

import os
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

READS = """
from pathlib import Path
for name in (".lamp/history.txt", ".config/lamp/settings.txt", ".other"):
    file = Path.home() / name
    print(name, file.read_text() if file.is_file() else "No file found")
(Path.home() / "made.txt").write_text("x")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "home"
    (found / ".lamp").mkdir(parents=True)
    (found / ".lamp/history.txt").write_text("history")
    (found / ".config/lamp").mkdir(parents=True)
    (found / ".config/lamp/settings.txt").write_text("settings")
    (found / ".other").write_text("secret")
    monkeypatch.setenv("HOME", str(found))
    (tmp_path / "workspace").mkdir()
    return found


@pytest.mark.promise("fs-1")
def test_a_granted_path_of_the_users_home_is_found_in_that_of_the_call(
    home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    manager = SkillManager(
        write_skill(files={"scripts/x.py": READS}).parent,
        workspace=tmp_path / "workspace",
        cache=False,
    )

    before = manager.call("demo.x").stdout
    granted = [home / ".lamp", home / ".config/lamp"]
    Grants().grant(
        manager.get_skill("demo"), [Need(kind="read", value=str(path)) for path in granted]
    )
    results = [manager.call("demo.x").stdout for _ in range(2)]

    nothing = "No file found"
    assert before == (
        f".lamp/history.txt {nothing}\n.config/lamp/settings.txt {nothing}\n.other {nothing}\n"
    )
    assert (
        results
        == [f".lamp/history.txt history\n.config/lamp/settings.txt settings\n.other {nothing}\n"]
        * 2
    )
    assert not (home / "made.txt").exists()


LOOKS = {
    "x.py": "from pathlib import Path\nfile = Path.home() / '.lamp' / 'history.txt'\n"
    "print(file.read_text() if file.is_file() else 'No history found')\n",
    "x.sh": '# Uses ~/.other/file.\nF="$HOME/.lamp/history.txt"\n'
    'if [ -f "$F" ]; then cat "$F"; else echo "No history found"; exit 1; fi\n',
    "x.js": "const { join } = require('path'), { homedir } = require('os'), fs = require('fs');\n"
    "const file = join(homedir(), '.lamp', 'history.txt');\n"
    "console.log(fs.existsSync(file) ? String(fs.readFileSync(file)) : 'it does not exist');\n",
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_script_that_finds_nothing_in_its_home_is_told_the_grant_with_which_it_does(
    name: str, home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    skills = write_skill(files={f"scripts/{name}": LOOKS[name]}).parent
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False)

    lacked = manager.call("demo.x")
    path = home / ".lamp/history.txt"
    Grants().grant(manager.get_skill("demo"), [Need(kind="read", value=str(path))])
    granted = manager.call("demo.x")

    note = "note: its code uses ~/.lamp/history.txt, and its HOME is a folder of its own, which is"
    note += " gone now; the user can grant those that exist in yours:"
    assert lacked.notes == (f"{note} `skillpouch trust demo --read {path} --root {skills}`",)
    assert (granted.outcome, granted.stdout.strip(), granted.notes) == ("ok", "history", ())


def test_a_script_that_writes_into_its_home_is_told_that_it_is_gone(
    home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    script = (
        "from pathlib import Path\nfile = Path.home() / '.lamp' / 'settings.json'\n"
        "file.parent.mkdir(exist_ok=True)\nfile.write_text('new')\nprint('Saved to', file)\n"
    )
    skills = write_skill(files={"scripts/x.py": script}).parent
    (home / ".lamp/settings.json").write_text("old")
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False)

    lost = manager.call("demo.x")
    path = home / ".lamp/settings.json"
    Grants().grant(manager.get_skill("demo"), [Need(kind="write", value=str(path))])
    kept = manager.call("demo.x")

    assert f"`skillpouch trust demo --write {path} --root {skills}`" in lost.notes[0]
    assert (kept.outcome, kept.notes, path.read_text()) == ("ok", (), "new")


@pytest.mark.parametrize(
    "script",
    [
        "print('3 files found')\n",
        "print('No results found')\n",
        "# Uses ~/.lamp/x.\nprint('No results found')\n",
        "from pathlib import Path\nPath.home() / '.torch'\nprint('found it')\n",
        "from pathlib import Path\nPath.home() / '.torch'\nprint('lamp: command not found')\n",
        # What is never proposed: keys, settings of tools, folders of many programs.
        "from pathlib import Path\nPath.home() / '.ssh' / 'id_rsa'\nprint('No key found')\n",
        "PATHS = ['~/.pypirc', '~/.config', '~/.local/share', '~/.aws/x']\nprint('No key found')\n",
    ],
)
@pytest.mark.usefixtures("home")
def test_a_script_that_misses_nothing_of_its_home_has_no_note(
    script: str, tmp_path: Path, write_skill: WriteSkill
) -> None:
    skills = write_skill(files={"scripts/x.py": script}).parent

    assert SkillManager(skills, workspace=tmp_path / "workspace").call("demo.x").notes == ()


SILENT = {
    # It finds nothing in a folder that the user has, and does not say so.
    "from pathlib import Path\nprint(len(list((Path.home() / '.lamp').glob('*'))))\n": "read",
    # It keeps something where it is lost.
    "import os\nfolder = os.path.expanduser('~/.torch')\nos.mkdir(folder)\nprint('Added')\n": (
        "write"
    ),
}


@pytest.mark.parametrize("script", SILENT)
def test_a_script_that_does_not_say_what_it_missed_or_lost_in_its_home_is_told_the_grant(
    script: str, home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    skills = write_skill(files={"scripts/x.py": script}).parent
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False)

    result = manager.call("demo.x")

    path = home / (".lamp" if SILENT[script] == "read" else ".torch")
    assert result.outcome == "ok"
    assert f"`skillpouch trust demo --{SILENT[script]} {path} --root {skills}`" in result.notes[0]
    assert result.left_in_home == (SILENT[script] == "write")


def test_a_failure_that_names_a_file_of_its_own_home_is_told_whose_it_is(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    script = "import sys\nsys.exit('the browser does not exist at /tmp/.browsers/chrome')\n"
    skills = write_skill(files={"scripts/x.py": script}).parent

    content = SkillManager(skills, workspace=tmp_path, cache=False).call("demo.x").content

    assert "note: its HOME is a folder of its own, in which nothing of yours is" in content


BROWSER = """
import os, subprocess
from pathlib import Path
browser = Path.home().joinpath(*".cache browsers one-1.0 browse".split())  # as a package does
if not browser.exists():
    raise SystemExit(f"Executable doesn't exist at {browser}; run: lamp install")
print(subprocess.run([browser], capture_output=True, text=True, check=True).stdout)
"""


def test_a_program_in_a_granted_cache_of_the_home_runs(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill(files={"scripts/x.py": BROWSER})
    cache = Path.home() / ".cache" / "browsers"
    (cache / "one-1.0").mkdir(parents=True)
    (cache / "one-1.0" / "browse").write_text("#!/bin/sh\necho browsing\n")
    (cache / "one-1.0" / "browse").chmod(0o755)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace, cache=False)

    missed = manager.call("demo.x")
    Grants().grant(manager.get_skill("demo"), [Need(kind="read", value=str(cache))])
    given = manager.call("demo.x")

    command = f"skillpouch trust demo --read {cache} --root {home.parent}"
    assert missed.content.endswith(
        "in which there is no ~/.cache/browsers; the user can fill that at home, and grant it:"
        f" `{command}`"
    )
    assert given.content == "browsing\n"


JOINED = """
import os
from pathlib import Path
def base():
    xdg = os.environ.get("LAMP_CACHE")
    return Path(xdg) if xdg else Path.home() / ".cache"
def known():
    return base() / "lamp-cache" / "known"
print(known(), sorted(each.name for each in known().glob("*")))
"""


def test_a_path_of_the_home_that_is_joined_from_parts_is_told_of_where_it_exists(
    home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    skills = write_skill(files={"scripts/x.py": JOINED}).parent
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False)
    without = manager.call("demo.x")
    (home / ".cache/lamp-cache/known").mkdir(parents=True)
    (home / ".cache/lamp-cache/known/hall").touch()
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False)
    (skills / "demo/scripts/x.py").touch()

    lacked = manager.call("demo.x")

    command = f"skillpouch trust demo --read {home}/.cache/lamp-cache --root {skills}"
    shown = "/tmp/.cache/lamp-cache/known []"
    assert without.content == shown
    assert lacked.content.startswith(f"{shown}\nnote: its code uses ~/.cache/lamp-cache")
    assert f"`{command}`" in lacked.content


SHOWS_FILE = "import sys\nprint(open(sys.argv[1]).read())\n"


@pytest.mark.parametrize("way", ["tool", "command"])
def test_a_file_that_the_caller_names_outside_the_workspace_is_told_the_grant(
    way: str, home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    skills = write_skill(files={"scripts/x.py": SHOWS_FILE}).parent
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False, builtins=True)
    picture, key = home / "Pictures/lamp.txt", home / ".ssh/id_lamp"
    for file in (picture, key):
        file.parent.mkdir()
        file.write_text("a lamp")

    def show(name: str) -> str:
        if way == "tool":
            return manager.call("demo.x", {"args": [f"{home}/{name}"]}).content
        line = f"python scripts/x.py ~/{name}"
        return manager.call("run_for_skill", {"skill": "demo", "command": line}).content

    lacked, secret, absent = show("Pictures/lamp.txt"), show(".ssh/id_lamp"), show("nothing.txt")
    needs = [Need(kind="read", value=str(picture)), Need(kind="commands")]
    Grants().grant(manager.get_skill("demo"), needs)

    commands = " --commands" if way == "command" else ""
    command = f"skillpouch trust demo --read {{}}{commands} --root {skills}"
    assert f"`{command.format(picture)}`" in lacked
    assert f"`{command.format(home / 'nothing.txt')}`" in absent  # or it would tell what exists
    assert f"--read {home}" not in secret
    assert show("Pictures/lamp.txt").strip() == "a lamp"


DEEP = """
from pathlib import Path
def find():
    folder = Path.home() / ".config/lamp-browser"
    if not (folder / "Cookies").exists():
        raise FileNotFoundError(f"no cookies under {folder}")
"""


@pytest.mark.parametrize(
    "folder",
    [
        'Path.home() / ".config/lamp-browser"',
        'Path.home().joinpath(".config", {"linux": "lamp-browser"}["linux"])',
    ],
)
def test_a_module_that_misses_a_path_of_the_home_in_words_of_its_own_is_told_the_grant(
    folder: str, home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    text = DEEP.replace('Path.home() / ".config/lamp-browser"', folder)
    files = {"scripts/x.py": "import jar\njar.find()\n", "scripts/jar.py": text}
    skills = write_skill(files=files).parent
    (home / ".config/lamp-browser").mkdir()
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False)

    content = manager.call("demo.x").content

    assert f"`skillpouch trust demo --read {home}/.config/lamp-browser --root {skills}`" in content


SAVES = """
import sys
from pathlib import Path
path = Path(sys.argv[1])
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text("lit")
print("Saved to", path)
"""


def test_a_path_of_the_home_that_a_command_names_is_told_as_one_to_write(
    home: Path, tmp_path: Path, write_skill: WriteSkill
) -> None:
    skills = write_skill(files={"scripts/x.py": SAVES}).parent
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False, builtins=True)
    line = "python scripts/x.py ~/.local/state/lamps/hall.json"

    content = manager.call("run_for_skill", {"skill": "demo", "command": line}).content

    command = f"skillpouch trust demo --write {home}/.local/state/lamps --commands --root {skills}"
    assert f"`{command}`" in content


LAMPCTL = "#!/bin/sh\necho lit by $0 $*\n"
STARTS = {
    "x.sh": "# Go.\ncommand -v lampctl >/dev/null || { echo 'lampctl is missing' >&2; exit 1; }\n"
    "lampctl on\n",
    "y.sh": "# Go.\nlampctl on\n",
    "z.py": "import shutil, subprocess, sys\n"
    "if not shutil.which('lampctl'):\n    sys.exit('Lampctl is not installed')\n"
    "subprocess.run(['lampctl', 'on'], check=True)\n",
}


@pytest.mark.parametrize("place", [".local/bin/lampctl", ".lamps/bin/lampctl", "linked"])
@pytest.mark.parametrize("name", STARTS)
def test_a_program_of_the_user_that_tools_do_not_see_is_told_with_the_grant(
    name: str,
    place: str,
    home: Path,
    tmp_path: Path,
    write_skill: WriteSkill,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = home / ("share/tools/lampctl/bin/lampctl" if place == "linked" else place)
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(LAMPCTL)
    program.chmod(0o755)
    shown, granted = program, program
    if place == "linked":
        shown, granted = home / ".local/bin/lampctl", program.parents[1]
        shown.parent.mkdir(parents=True)
        shown.symlink_to(program)
    monkeypatch.setenv("PATH", f"{shown.parent}:{os.environ['PATH']}")
    skills = write_skill(files={f"scripts/{name}": STARTS[name]}).parent
    manager = SkillManager(skills, workspace=tmp_path / "workspace", cache=False)
    tool = f"demo.{Path(name).stem}"

    lacked = manager.call(tool).content
    Grants().grant(manager.get_skill("demo"), [Need(kind="read", value=str(granted))])
    had = manager.call(tool)

    command = f"skillpouch trust demo --read {granted} --root {skills}"
    assert f"note: lampctl is {shown} on this machine, where tools see nothing" in lacked
    assert f"the user can grant it: `{command}`" in lacked
    assert had.data == f"lit by {program} on\n"
