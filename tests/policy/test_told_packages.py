"""What a failed call is told of packages that its skill names in words, or installs by itself."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.trust.package_names import installed_in
from tests.conftest import WriteSkill


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def content_of(home: Path, workspace: Path) -> str:
    return SkillManager(home.parent, workspace=workspace, cache=False).call("demo.x").content


OTHER_NAME = '''
"""Look at quokkas.

Requires: pip install quokka-sdk-of-nowhere
"""
import sys
try:
    from quokka.client import Client
except ImportError:
    Client = None
if Client is None:
    sys.exit("SAID")
'''


@pytest.mark.parametrize(
    "said",
    [
        "Install with: pip install quokka-sdk-of-nowhere",
        "Run pip install quokka_sdk_of_nowhere to go on",
        "No module named 'quokka'",
    ],
)
def test_a_package_that_the_files_tell_to_install_is_proposed(
    said: str, write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={"scripts/x.py": OTHER_NAME.replace("SAID", said)})

    content = content_of(home, workspace)

    command = f"skillpouch trust demo --package quokka-sdk-of-nowhere --root {home.parent}"
    assert content.splitlines()[-1].endswith(f"; the user can grant it: `{command}`")


def test_a_package_that_only_skill_md_tells_to_install_is_proposed_too(
    write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(
        body="Before: `npm install @quokka/of-nowhere wombat-of-nowhere`.\n",
        files={"scripts/x.sh": "echo 'Error: run npm install wombat-of-nowhere first'\nexit 1\n"},
    )

    content = content_of(home, workspace)

    command = f"skillpouch trust demo --package npm:wombat-of-nowhere --root {home.parent}"
    assert content.endswith(
        f"its files tell to install npm:wombat-of-nowhere; the user can grant it: `{command}`"
    )


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        ("pip install lamp 'bulb>=2'\n", ["lamp"]),
        ("    pip install lamp bulb==2\n", ["lamp", "bulb"]),
        ("Run pip install lamp to go on", ["lamp"]),
        ("`pip3 install -U -r requirements.txt lamp[x]`", ["lamp"]),
        ("uv pip install --target here lamp; npm i -g @x/y-z", ["lamp", "npm:@x/y-z"]),
        ("Without it: `uv tool install lamp`", ["lamp"]),
        ("npm install", []),
        ("pip install -e .", []),
        ("pip install git+https://example.com/x.git", []),
        ("pip install ./lamp", []),
    ],
)
def test_packages_are_read_from_the_words_that_install_them(text: str, packages: list[str]) -> None:
    assert list(installed_in(text)) == packages


def test_what_the_output_tells_to_install_and_no_file_does_is_not_proposed(
    write_skill: WriteSkill, workspace: Path
) -> None:
    (workspace / "page.txt").write_text("Error: pip install evil-of-nowhere")
    script = OTHER_NAME.replace('"SAID"', 'open("page.txt").read()')

    content = content_of(write_skill(files={"scripts/x.py": script}), workspace)

    assert "so none is proposed" in content
    assert "--package" not in content


RUNS_A_MODULE = {
    "x.py": "import subprocess, sys\n"
    "words = [\n    sys.executable,\n    '-m',\n    'MODULE',\n    'go',\n]\n"
    "sys.exit(subprocess.run(words).returncode)\n",
    "x.sh": "# Go.\npython3 -m MODULE go\n",
}


@pytest.mark.parametrize("name", RUNS_A_MODULE)
@pytest.mark.parametrize(
    ("module", "which", "package"),
    [
        ("quokka_of_nowhere", "of a package that no file of it names", "NAME"),
        ("yt_dlp", "of the package yt-dlp", "yt-dlp"),
    ],
)
def test_a_module_that_its_code_runs_is_named_with_the_grant(
    name: str, module: str, which: str, package: str, write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={f"scripts/{name}": RUNS_A_MODULE[name].replace("MODULE", module)})

    content = content_of(home, workspace)

    command = f"skillpouch trust demo --package {package} --root {home.parent}"
    assert content.endswith(
        f"note: it runs the module {module}, {which}; the user can grant it: `{command}`"
    )


@pytest.mark.parametrize(
    ("body", "package"),
    [
        ("If the `quokka` package is not installed, say so.", "quokka"),
        ("It needs the npm package `quokka`.", "npm:quokka"),
        ("Install it: `pip install quokka`", "quokka"),
        ("If `quokka` is not there, run `uv tool install quokka`.", "quokka"),
    ],
)
def test_a_program_of_a_package_that_the_files_name_is_proposed(
    body: str, package: str, write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(body=f"{body}\n", files={"scripts/x.sh": "# Go.\nquokka go\n"})

    content = content_of(home, workspace)

    command = f"skillpouch trust demo --package {package} --root {home.parent}"
    assert "note: quokka is not installed, or tools cannot see it" in content
    assert content.endswith(f"; the user can grant it: `{command}`")


def test_a_program_that_no_file_calls_a_package_is_not_proposed_as_one(
    write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(body="Run quokka.\n", files={"scripts/x.sh": "# Go.\nquokka go\n"})

    assert "--package" not in content_of(home, workspace)


INSTALLS = {
    "x.sh": 'D=$(mktemp -d)\ncd "$D"\nif ! npm install lamp-of-nowhere &>/dev/null; then\n'
    '  echo "visit https://lamp.example.org, or run npm install -g other"\n  exit 1\nfi\n',
    "x.py": "import subprocess, sys\n"
    "if subprocess.run(['npm', 'install', 'lamp-of-nowhere'], capture_output=True).returncode:\n"
    "    sys.exit('Failed to install the lamp. Try: npm install lamp-of-nowhere')\n",
    "x.js": "const { execSync } = require('child_process');\n"
    "try { execSync('npm install lamp-of-nowhere', { stdio: 'ignore' }); }\n"
    "catch { console.error('Failed to install the lamp'); process.exit(1); }\n",
}


@pytest.mark.parametrize("name", INSTALLS)
def test_a_script_that_installs_by_itself_is_told_that_it_had_no_network(
    name: str, write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={f"scripts/{name}": INSTALLS[name]})
    result = SkillManager(home.parent, workspace=workspace, cache=False).call("demo.x")

    content, [host] = result.content, result.looked_up
    trust = "skillpouch trust demo"
    assert (
        "note: its code runs `npm install lamp-of-nowhere`, and it was not granted any network;"
        " the user can grant the packages, or the host of their registry:"
        f" `{trust} --package npm:lamp-of-nowhere --root {home.parent}` or"
        f" `{trust} --host {host} --root {home.parent}`"
    ) in content.splitlines()
    assert "lamp.example.org" not in content.partition("note:")[2]
    assert content.count("--package npm:lamp-of-nowhere") == 1


def test_a_runner_without_a_network_fails_at_once_and_the_note_names_it(
    write_skill: WriteSkill, workspace: Path
) -> None:
    script = (
        "import subprocess\ndef run_cmd(line):\n"
        "    return subprocess.run(line, shell=True, capture_output=True).returncode\n"
        "if run_cmd('npx lamp-of-nowhere --version 2>/dev/null'):\n    raise SystemExit(1)\n"
    )
    home = write_skill(files={"scripts/x.py": script})

    result = SkillManager(home.parent, workspace=workspace, cache=False).call("demo.x")

    [host] = result.looked_up
    assert result.content.endswith(
        "note: its code runs `npx lamp-of-nowhere`, and it was not granted any network; the user"
        f" can grant the host of its registry: `skillpouch trust demo --host {host} --root"
        f" {home.parent}`"
    )


STARTS = """import subprocess, sys
try:
    subprocess.run([PROGRAM, "--version"], check=True)
except FileNotFoundError:
    sys.exit(f"Command not found: {PROGRAM}")
"""


@pytest.mark.parametrize(
    ("program", "body", "is_proposed"),
    [
        ('"pytest"', "Do it.\n", True),
        ('"py" "test"', "Then run `pytest tests/`.\n", True),
        ('"py" "test"', "Do it.\n", False),
        ('"quokka-of-nowhere"', "Then run `quokka-of-nowhere tests/`.\n", False),
    ],
    ids=["code names it", "SKILL.md names it", "only the output", "nobody knows who brings it"],
)
def test_a_program_of_a_package_that_is_installed_beside_skillpouch_is_proposed_as_that(
    program: str, body: str, is_proposed: bool, write_skill: WriteSkill, workspace: Path
) -> None:
    code = f"PROGRAM = {program}\n{STARTS}"
    home = write_skill(body=body, files={"scripts/x.py": code})

    content = content_of(home, workspace)

    command = f"skillpouch trust demo --package pytest --root {home.parent}"
    reason = "note: it starts programs of packages (pytest); the user can grant it"
    assert "Command not found: " in content
    assert content.endswith(f"{reason}: `{command}`") == is_proposed
    assert ("--package" in content) == is_proposed
