"""Which program runs a script: by shebang or extension, the real one, and an error without it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.errors import InterpreterMissingError
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]

# What a process of its own says: which programs there are is found once per process.
_CALL = """
import json, sys
from skillpouch import SkillpouchError, SkillManager
manager = SkillManager(sys.argv[1], workspace=sys.argv[2], cache=False)
said = {}
for tool in manager.tools:
    said[tool.id] = about = {"ready": tool.ready, "missing": tool.missing}
    try:
        result = manager.call(tool.id)
        about |= {"content": result.content, "warm": result.warm}
    except SkillpouchError as error:
        about |= {"code": error.code, "message": str(error), "hint": error.hint}
print(json.dumps(said))
"""
WANTED = {
    "sh.sh": ("bash or sh", "bash"),
    "zsh.zsh": ("zsh", "zsh"),
    "node.js": ("node", "nodejs"),
    "ruby.rb": ("ruby", "ruby"),
    "perl.pl": ("perl", "perl"),
}


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(files: dict[str, str]) -> SkillManager:
        (tmp_path / "workspace").mkdir()
        root = write_skill(files=files).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False)

    return make


def call_with(
    path: str,
    root: Path,
    workspace: Path,
    *,
    python: Path | str = sys.executable,
    **environment: str,
) -> dict[str, Any]:
    workspace.mkdir()
    ours = os.pathsep.join(filter(None, sys.path))
    ran = subprocess.run(
        [python, "-c", _CALL, str(root), str(workspace)],
        env={**os.environ, "PATH": path, "PYTHONPATH": ours, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=25,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_a_missing_interpreter_is_a_clear_error_with_the_command_that_installs_it(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    root = write_skill(files={f"scripts/{name}": "exit 0\n" for name in WANTED}).parent

    said = call_with("", root, tmp_path / "workspace")

    for name, (wanted, package) in WANTED.items():
        about = said[f"demo.{name.partition('.')[0]}"]
        assert about["code"] == "interpreter_missing"
        assert about["message"] == f"cannot start {wanted}: it is not installed"
        assert about["hint"] == f"install it: apt install {package}"
        assert not about["ready"]
        assert "not installed" in about["missing"][0]


def test_python_needs_no_path_at_all(write_skill: WriteSkill, tmp_path: Path) -> None:
    root = write_skill(files={"scripts/x.py": "import sys\nprint(sys.executable)\n"}).parent

    about = call_with("", root, tmp_path / "workspace")["demo.x"]

    assert (about["content"], about["ready"]) == (sys.executable, True)


@pytest.mark.skipif(shutil.which("zsh") is not None, reason="zsh is installed here")
def test_a_tool_says_beforehand_what_it_will_fail_for(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.zsh": "echo\n"})

    assert manager.get_tool("x").missing == ("zsh is not installed: apt install zsh",)
    with pytest.raises(InterpreterMissingError):
        manager.call("x")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("#!/bin/bash -eu\necho ${-//[!eu]/}\n", "eu"),
        ("#!/usr/bin/env -S bash -f\necho $-\n", "f"),
        ("#!/bin/sh\necho ${BASH_VERSION:-none}\n", "none"),
        ("#!/usr/bin/env bash\necho ${BASH_VERSION:+bash}\n", "bash"),
        ("echo ${BASH_VERSION:+bash}\n", "bash"),
        ("#!/home/me/bin/bash -e\necho ${BASH_VERSION:+bash}\n", "bash"),
        ("#!/bin/bash -e\r\necho fine\n", "fine"),
    ],
)
def test_a_shebang_chooses_the_shell_and_its_options(
    script: str, expected: str, manager_of: MakeManager
) -> None:
    result = manager_of({"scripts/x.sh": script}).call("x")

    assert result.outcome == "ok", result.content
    assert expected in result.content


@pytest.mark.parametrize(
    ("name", "script", "expected"),
    [
        ("x.py", "#!/usr/bin/env -S python3 -B -O\nimport sys\nprint(sys.flags.optimize)\n", "1"),
        ("x.py", "#!/usr/bin/python3 -O\ndef handler(a):\n    return __debug__\n", "false"),
        ("x.py", "#!/usr/bin/env -S uv run --script\nprint('uv')\n", "uv"),
        ("x.pl", "#!/usr/bin/perl -w\nprint $^W;\n", "1"),
        ("x.rb", "#!/usr/bin/env -S ruby -W2\nputs $VERBOSE\n", "true"),
        (
            "x.js",
            "#!/usr/bin/env -S node --no-warnings\nconsole.log(process.execArgv[0])\n",
            "--no-warnings",
        ),
        ("x.js", "#!/usr/bin/env nodejs\nconsole.log('js')\n", "js"),
    ],
    ids=["python", "handler", "uv", "perl", "ruby", "node", "nodejs"],
)
def test_the_options_of_a_shebang_are_kept_in_every_language(
    name: str, script: str, expected: str, manager_of: MakeManager
) -> None:
    result = manager_of({f"scripts/{name}": script}).call("x")

    assert (result.outcome, result.content) == ("ok", expected), result.stderr


def test_no_executable_bit_is_needed(manager_of: MakeManager, tmp_path: Path) -> None:
    manager = manager_of({"scripts/x.sh": "echo fine\n"})
    (tmp_path / "skills/demo/scripts/x.sh").chmod(0o444)

    assert manager.call("x").content == "fine"


def test_a_shim_is_passed_over_for_the_real_interpreter(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    root = write_skill(files={"scripts/x.rb": "puts 'real'\n"}).parent
    shims = tmp_path / "versions/shims"
    shims.mkdir(parents=True)
    (shims / "ruby").write_text("#!/bin/sh\necho shim\n")
    (shims / "ruby").chmod(0o755)

    about = call_with(f"{shims}:/usr/bin:/bin", root, tmp_path / "workspace")["demo.x"]

    assert about.get("content") == "real", about


def test_an_interpreter_behind_a_link_is_run_by_its_real_path(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    root = write_skill(files={"scripts/x.pl": "print $^X;\n"}).parent
    links = tmp_path / "links"
    links.mkdir()
    (links / "perl").symlink_to("/usr/bin/perl")

    about = call_with(str(links), root, tmp_path / "workspace")["demo.x"]

    assert about["content"] == "/usr/bin/perl"


@pytest.mark.promise("fs-1")
@pytest.mark.parametrize("folder", ["bin", ".local/bin", ""])
def test_an_interpreter_that_lies_in_the_home_does_not_open_the_home(
    folder: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / folder).mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / ".local/share").mkdir(parents=True, exist_ok=True)
    secrets = [home / ".ssh/id", home / ".local/share/keys", tmp_path / "neighbour"]
    for secret in secrets:
        secret.write_text("hunter2")
    shutil.copy("/usr/bin/perl", home / folder / "perl")
    names = ", ".join(f"'{secret}'" for secret in secrets)
    code = f"for ({names}) {{ open(F, $_) and print <F>; }} print 'ran';\n"
    root = write_skill(files={"scripts/x.pl": code}).parent

    about = call_with(str(home / folder), root, tmp_path / "workspace", HOME=str(home))["demo.x"]

    assert about.get("content") == "ran", about


ENCODED = {
    "latin-1": "# -*- coding: latin-1 -*-\n",
    "cp1252": "#!/usr/bin/env python3\n# vim: set fileencoding=cp1252 :\n",
    "utf-8-sig": "",
    "utf-7": "# coding: utf-7\n",
}
GREETS = '"""Grüßt."""\n\n\ndef handler(args):\n    return args.get("name", "Grüße")\n'
# Options that only a new process can have; all others are served by a warm one.
COLD = "#!/usr/bin/env -S python3 -X dev\n"


@pytest.mark.parametrize("encoding", ENCODED)
def test_a_python_script_is_in_the_encoding_that_it_declares(
    manager_of: MakeManager, encoding: str
) -> None:
    said = ENCODED[encoding]
    cold = COLD + said.rpartition("#!/usr/bin/env python3\n")[2]
    manager = manager_of(
        {
            "scripts/warm.py": (said + GREETS).encode(encoding),
            "scripts/cold.py": (cold + GREETS).encode(encoding),
        }
    )

    warm, cold_one = manager.call("demo.warm"), manager.call("demo.cold")

    assert (warm.content, warm.warm) == ("Grüße", True)
    assert (cold_one.content, cold_one.warm) == ("Grüße", False)
    assert [tool.description for tool in manager.tools] == ["Grüßt.", "Grüßt."]
    assert list(manager.get_tool("demo.warm").input_schema["properties"]) == ["name"]


@pytest.mark.parametrize("encoding", ["punycode", "hex", "no-such-encoding", "undefined"])
def test_an_encoding_that_no_program_is_written_in_harms_nobody(
    manager_of: MakeManager, encoding: str
) -> None:
    manager = manager_of({"scripts/x.py": f"# coding: {encoding}\nprint(1)\n"})

    assert [tool.id for tool in manager.tools] == ["demo.x"]


def test_a_python_started_by_a_path_with_dots_runs_scripts(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    root = write_skill(files={"scripts/x.py": "print('ran')\n"}).parent
    (tmp_path / "work").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    program = os.path.relpath(sys.executable, elsewhere)
    code = f"from skillpouch import SkillManager; print(SkillManager({str(root)!r}, workspace="
    code += f"{str(tmp_path / 'work')!r}).call('demo.x').content)"

    ran = subprocess.run(
        [program, "-c", code], cwd=elsewhere, capture_output=True, text=True, check=False
    )

    assert program.startswith("..")
    assert (ran.stdout, ran.stderr) == ("ran\n", "")


def environment_through_a_link(link: Path, folder: Path) -> Path:
    """Make a virtual environment whose Python leads through `link`, as a PATH of links makes it."""
    link.parent.mkdir(parents=True)
    link.symlink_to(Path(sys.executable).resolve())
    subprocess.run([link, "-m", "venv", "--without-pip", folder], check=True, timeout=25)
    return folder / "bin" / "python"


@pytest.mark.parametrize("folder", ["links", "venv/bin/../../links", "linked"])
def test_a_python_that_leads_through_a_link_of_some_folder_runs_scripts(
    write_skill: WriteSkill, tmp_path: Path, folder: str
) -> None:
    script = "import sys\nprint(sys.prefix)\n"
    files = {"scripts/warm.py": script, "scripts/cold.py": COLD + script}
    root = write_skill(files=files).parent
    (tmp_path / "linked").symlink_to(tmp_path / "other")
    link = tmp_path / "other/python3" if folder == "linked" else tmp_path / "links/python3"
    python = environment_through_a_link(link, tmp_path / "venv")
    (tmp_path / "venv/bin/python3").unlink()
    (tmp_path / "venv/bin/python3").symlink_to(tmp_path / folder / "python3")
    python.unlink()
    python.symlink_to("python3")

    said = call_with("", root, tmp_path / "workspace", python=python)

    prefix = str(tmp_path / "venv")
    assert (said["demo.warm"].get("content"), said["demo.warm"].get("warm")) == (prefix, True)
    assert (said["demo.cold"].get("content"), said["demo.cold"].get("warm")) == (prefix, False)


def test_a_python_that_is_itself_a_link_of_some_folder_runs_scripts(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    root = write_skill(files={"scripts/x.py": "import sys\nprint(sys.executable)\n"}).parent
    link = tmp_path / "links/python3"
    environment_through_a_link(link, tmp_path / "venv")

    about = call_with("", root, tmp_path / "workspace", python=link)["demo.x"]

    assert about.get("content") == str(link), about


@pytest.mark.promise("fs-1")
def test_a_link_that_a_tool_moved_shows_nothing_of_where_it_leads(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    work, outside = tmp_path / "workspace", tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("hunter2")
    python = environment_through_a_link(work / "bin/python3", tmp_path / "venv")
    root = write_skill(files={"scripts/move.sh": f"ln -sf {outside}/key bin/python3\n"}).parent
    code = (
        "import sys\nfrom skillpouch import SkillManager\n"
        "assert not SkillManager(sys.argv[1], workspace=sys.argv[2]).call('demo.move').is_error\n"
        "from skillpouch.provision.interpreters import homes_of\n"
        "print(*homes_of(sys.executable), sep='\\n')\n"
    )

    ran = subprocess.run(
        [python, "-c", code, root, work],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=25,
    )

    assert (work / "bin/python3").readlink() == outside / "key", ran.stderr
    assert str(tmp_path / "venv") in ran.stdout.splitlines()
    assert str(outside) not in ran.stdout


PROGRAMS = """import shutil, subprocess, sys
def prefix(program):
    said = subprocess.run([program, "-c", "import sys; print(sys.prefix)"], capture_output=True)
    return said.stdout.decode().strip()
print(shutil.which("pytest"), {prefix("python"), prefix("python3"), prefix(sys.executable)})
"""


def test_no_program_beside_the_python_of_skillpouch_is_found_but_python_itself(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    backend = {"type": "script", "interpreter": "python3", "script": PROGRAMS}
    tool = {"name": "inline", "description": "d", "backend": backend}
    front = f"name: demo\ndescription: d\ntools: {json.dumps([tool])}\n"
    files = {"scripts/warm.py": PROGRAMS, "scripts/cold.py": COLD + PROGRAMS}
    root = write_skill(front=front, files=files).parent
    (tmp_path / "workspace").mkdir()
    manager = SkillManager(root, workspace=tmp_path / "workspace", cache=False, builtins=True)
    command = {"skill": "demo", "command": "python scripts/warm.py"}

    said = [manager.call(tool).stdout for tool in ("demo.warm", "demo.cold", "inline")]
    said.append(manager.call("run_for_skill", command).stdout)

    assert Path(sys.executable).with_name("pytest").exists()
    assert said == [f"None {{{sys.prefix!r}}}\n"] * 4
