"""Packages that a script declares, through the front doors: installed once, then served warm."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, ToolResult
from skillpouch.declarations.packages.declared_files import InstallError
from skillpouch.execution.zygote_client import node_runs_typescript
from skillpouch.needs import Need
from skillpouch.provision.interpreters import find_program
from skillpouch.provision.packages import lookup
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill
from tests.provision.packages.registry import Registry

WHEEL = "/files/tinylib-1.0-py3-none-any.whl"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def needing(requirement: str) -> str:
    return (
        f'# /// script\n# dependencies = ["{requirement}"]\n# ///\n'
        '"""Say which version is there."""\nimport sys\n\nimport tinylib\n\n\n'
        "def handler(args):\n    return [tinylib.VERSION, sys.prefix != sys.base_prefix]\n"
    )


@pytest.fixture
def versions(registry: Registry) -> Registry:
    registry.add_wheel("tinylib", "1.0")
    registry.add_wheel("tinylib", "2.0")
    return registry


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def test_a_script_that_declares_packages_is_served_warm_by_its_own_python(
    versions: Registry, installer: str, write_skill: WriteSkill, workspace: Path
) -> None:
    root = write_skill(files={"scripts/which.py": needing("tinylib==1.0")}).parent
    lines: list[str] = []
    manager = SkillManager(
        root, policy=Policy.trusting(), workspace=workspace, on_progress=lines.append
    )

    first, second = manager.call("which"), manager.call("which")

    assert installer
    assert (first.structured, second.structured) == (["1.0", True], ["1.0", True])
    assert (first.warm, second.warm, second.cold_because) == (True, True, "")
    assert lines[0].startswith("installing tinylib==1.0 for demo")
    assert re.fullmatch(r"installed tinylib==1.0 for demo in \d+(\.\d+)? s", lines[-1])
    assert {path for path in versions.asked if path.endswith(".whl")} == {WHEEL}


@pytest.mark.usefixtures("with_uv")
def test_a_python_of_an_environment_that_the_script_makes_has_the_packages_too(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    script = (
        '# /// script\n# dependencies = ["tinylib==1.0"]\n# ///\n'
        "import subprocess, venv\n"
        "venv.create('/tmp/own', with_pip=False)\n"
        "code = 'import tinylib, sys; print(tinylib.VERSION, sys.prefix)'\n"
        "subprocess.run(['/tmp/own/bin/python', '-c', code], check=True)\n"
    )
    root = write_skill(files={"scripts/which.py": script}).parent
    manager = SkillManager(root, policy=Policy.trusting(), workspace=workspace)

    result = manager.call("which")

    assert versions.asked
    assert (result.stdout, result.stderr) == ("1.0 /tmp/own\n", "")


@pytest.mark.usefixtures("with_uv")
def test_two_skills_with_two_versions_of_a_package_each_get_theirs(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    write_skill("one", files={"scripts/which.py": needing("tinylib==1.0")})
    root = write_skill("two", files={"scripts/which.py": needing("tinylib==2.0")}).parent
    manager = SkillManager(root, policy=Policy.trusting(), workspace=workspace)

    results = [manager.call(f"{skill}.which") for skill in ("one", "two") * 3]

    assert [each.structured[0] for each in results] == ["1.0", "2.0"] * 3
    assert all(each.warm for each in results)
    assert versions.asked


@pytest.mark.usefixtures("with_uv")
def test_two_scripts_of_one_skill_do_not_share_what_one_declares(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    alone = (
        "def handler(args):\n    import importlib.util as u\n    return u.find_spec('tinylib')\n"
    )
    files = {"scripts/which.py": needing("tinylib"), "scripts/alone.py": alone}
    manager = SkillManager(
        write_skill(files=files).parent, policy=Policy.trusting(), workspace=workspace
    )

    assert manager.call("which").structured == ["2.0", True]
    assert manager.call("alone").structured is None
    assert manager.call("which").structured == ["2.0", True]
    assert versions.asked


@pytest.mark.usefixtures("with_uv")
def test_what_cannot_be_installed_raises_and_nothing_runs(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    text = needing("nowhere-to-be-found").replace("import tinylib", "open('ran', 'w')")
    manager = SkillManager(
        write_skill(files={"scripts/which.py": text}).parent,
        policy=Policy.trusting(),
        workspace=workspace,
    )

    with pytest.raises(InstallError) as caught:
        manager.call("which")

    assert (caught.value.code, versions.asked != []) == ("install_failed", True)
    assert "nowhere-to-be-found" in str(caught.value)
    assert caught.value.hint
    assert list(workspace.iterdir()) == []


def skillpouch(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "skillpouch", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("with_uv")
def test_the_command_says_what_it_installs_and_then_answers(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    root = write_skill(files={"scripts/which.py": needing("tinylib<2")}).parent
    skillpouch("trust", "demo", "--yes", "--root", str(root), cwd=workspace)

    first = skillpouch("call", "which", "--root", str(root), cwd=workspace)
    second = skillpouch("call", "which", "--root", str(root), cwd=workspace)

    assert (first.returncode, first.stdout) == (0, '["1.0", true]\n')
    assert first.stderr.startswith("installing tinylib<2 for demo")
    assert (second.returncode, second.stdout, second.stderr) == (0, '["1.0", true]\n', "")
    assert versions.asked


@pytest.mark.usefixtures("with_uv")
def test_a_failed_install_exits_with_4_and_names_the_next_step(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    root = write_skill(files={"scripts/which.py": needing("tinylib==9")}).parent
    skillpouch("trust", "demo", "--yes", "--root", str(root), cwd=workspace)

    ran = skillpouch("call", "which", "--root", str(root), cwd=workspace)

    assert (ran.returncode, ran.stdout) == (4, "")
    assert re.search(r"^error: .*tinylib==9", ran.stderr, re.MULTILINE)
    assert re.search(r"^hint: ", ran.stderr, re.MULTILINE)
    assert "Traceback" not in ran.stderr
    assert versions.asked


NODE = "import { version } from 'tinylib';\n\n/** Say it. */\nexport default () => version;\n"


@pytest.mark.usefixtures("without_uv")
def test_a_handler_of_node_with_packages_is_served_by_a_node_that_waits(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    code = {"index.mjs": "export const version = '3.0';\n"}
    registry.add_npm("tinylib", "3.0.0", code, type="module", exports="./index.mjs")
    files = {
        "scripts/which.mjs": NODE,
        "package.json": '{"dependencies": {"tinylib": "^3.0.0"}}',
    }
    manager = SkillManager(
        write_skill(files=files).parent, policy=Policy.trusting(), workspace=workspace
    )

    results = [manager.call("which") for _ in range(3)]

    assert [(each.structured, each.warm) for each in results] == [("3.0", True)] * 3


@pytest.mark.usefixtures("with_uv")
def test_a_trust_whose_install_fails_grants_nothing(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    root = write_skill(files={"scripts/which.py": "import tinylib\nprint(1)\n"}).parent

    words = ("trust", "demo", "--package", "tinylib", "--root", str(root))
    ran = skillpouch(*words, "--yes", cwd=workspace)

    assert (ran.returncode, registry.asked != []) == (4, True)
    assert skillpouch("trust", "--list", cwd=workspace).stdout == ""


@pytest.mark.usefixtures("with_uv")
def test_a_trust_that_is_interrupted_while_it_installs_grants_nothing(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    root = write_skill(files={"scripts/which.py": "import tinylib\nprint(1)\n"}).parent
    versions.open.clear()  # it takes requests and answers none
    words = ["trust", "demo", "--package", "tinylib", "--root", str(root), "--yes"]
    command = [sys.executable, "-m", "skillpouch", *words]

    with subprocess.Popen(command, cwd=workspace, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "installing tinylib" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    versions.open.set()

    assert process.returncode != 0
    assert skillpouch("trust", "--list", cwd=workspace).stdout == ""


@pytest.mark.usefixtures("without_uv")
def test_uv_beside_the_running_python_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "uv").write_text("")
    monkeypatch.setattr(lookup, "_PROGRAMS", tmp_path)
    before = lookup.find_uv()

    (tmp_path / "uv").chmod(0o700)

    assert (before, lookup.find_uv()) == ("", str(tmp_path / "uv"))


@pytest.mark.usefixtures("versions", "without_uv")
def test_packages_are_installed_and_found_in_a_cache_that_lies_behind_a_link(
    write_skill: WriteSkill, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "large-disk")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = write_skill(files={"scripts/which.py": needing("tinylib==1.0")}).parent
    manager = SkillManager(root, policy=Policy.trusting(), workspace=workspace)

    assert manager.call("which").structured == ["1.0", True]


def test_packages_are_installed_where_python_leads_through_a_link(
    versions: Registry, installer: str, write_skill: WriteSkill, workspace: Path, tmp_path: Path
) -> None:
    root = write_skill(files={"scripts/which.py": needing("tinylib==1.0")}).parent
    link = tmp_path / "links/python3"
    link.parent.mkdir()
    link.symlink_to(Path(sys.executable).resolve())
    subprocess.run([link, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    code = (
        "import sys\nfrom skillpouch import Policy, SkillManager\n"
        "root, work = sys.argv[1:]\n"
        "manager = SkillManager(root, policy=Policy.trusting(), workspace=work)\n"
        "print(manager.call('which').structured)\n"
    )

    ran = subprocess.run(
        [tmp_path / "venv/bin/python", "-c", code, root, workspace],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.stdout, ran.returncode) == ("['1.0', True]\n", 0), f"{installer}: {ran.stderr}"
    assert WHEEL in versions.asked


@pytest.mark.usefixtures("with_uv")
def test_a_command_for_a_skill_has_the_packages_that_the_skill_was_granted(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    files = {"scripts/which.py": "import tinylib\nprint(tinylib.VERSION)\n"}
    home = write_skill("one", files=files)
    write_skill("two", files=files)
    manager = SkillManager(home.parent, policy=Policy(), workspace=workspace, builtins=True)
    granted = [Need(kind="packages", value="tinylib==1.0")]
    Grants().grant(manager.get_skill("one"), granted)

    def run(skill: str, command: str) -> ToolResult:
        return manager.call("run_for_skill", {"skill": skill, "command": command})

    for command in ("python scripts/which.py", "uv run scripts/which.py", "./scripts/which.py"):
        assert run("one", command).stdout == "1.0\n"
    assert run("one", "pip install tinylib && echo there").stdout.endswith("there\n")
    assert run("two", "python scripts/which.py").outcome == "failed"
    assert versions.asked


@pytest.mark.usefixtures("with_uv")
def test_a_shell_script_has_the_packages_that_its_skill_was_granted(
    versions: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    part = "import tinylib\nprint(tinylib.VERSION)\n"
    shell = 'python3 "$(dirname "$0")/part.py" && python -c "import tinylib; print(tinylib)"\n'
    home = write_skill(files={"scripts/part.py": part, "scripts/all.sh": shell})
    manager = SkillManager(home.parent, policy=Policy(), workspace=workspace)
    lacking = manager.call("demo.all")
    Grants().grant(manager.get_skill("demo"), [Need(kind="packages", value="tinylib==1.0")])

    ran = manager.call("demo.all")

    assert lacking.outcome == "failed"
    assert ran.stdout.startswith("1.0\n<module 'tinylib'"), ran.content
    Grants().grant(manager.get_skill("demo"), [Need(kind="packages", value="tinylib==9.9")])
    with pytest.raises(InstallError, match=r"9\.9"):
        manager.call("demo.all")
    assert versions.asked


@pytest.mark.usefixtures("without_uv")
def test_a_command_for_a_skill_runs_the_programs_of_npm_that_it_was_granted(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    for name in ("tinytool", "tsx"):
        code = {
            "cli.js": f"#!/usr/bin/env node\nconsole.log('{name}', ...process.argv.slice(2));\n"
        }
        registry.add_npm(name, "1.0.0", code, bin={name: "./cli.js"})
    home = write_skill(files={"scripts/go.ts": "const x: number = 1;\n"})
    manager = SkillManager(home.parent, policy=Policy(), workspace=workspace, builtins=True)
    granted = [Need(kind="packages", value=f"npm:{name}@1.0.0") for name in ("tinytool", "tsx")]
    Grants().grant(manager.get_skill("demo"), granted)

    ran = manager.call(
        "run_for_skill",
        {"skill": "demo", "command": "npx -y tinytool@1 a 'b c'; npx tsx scripts/go.ts d"},
    )

    assert ran.stdout == f"tinytool a b c\ntsx {home}/scripts/go.ts d\n"


LOADER = {
    "dist/loader.mjs": "import { register } from 'node:module';\n"
    "register('./hooks.mjs', import.meta.url);\n",
    "dist/hooks.mjs": "import { readFileSync } from 'node:fs';\n"
    "export async function load(url, context, next) {\n"
    "  if (!url.endsWith('.ts')) return next(url, context);\n"
    "  const source = String(readFileSync(new URL(url))).replaceAll(': number', '');\n"
    "  const both = `${source}\\nconsole.log('tsx');`;\n"
    "  return { format: 'module', source: both, shortCircuit: true };\n"
    "}\n",
}
TYPED = {
    "scripts/main.ts": "const two: number = 2;\nconsole.log(process.argv.length, two);\n",
    "scripts/handler.ts": "export default ({ n }): number => { const m: number = n; return m; };\n",
}


@pytest.mark.usefixtures("without_uv")
def test_a_granted_package_of_npm_is_installed_beside_those_that_are_declared(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    for name in ("declared-one", "granted-one"):
        registry.add_npm(name, "1.0.0", {"index.js": f"module.exports = '{name}';\n"})
    code = "console.log(require('declared-one'), require('granted-one'));\n"
    package = '{"dependencies": {"declared-one": "^1.0.0"}}'
    home = write_skill(files={"scripts/x.js": code, "package.json": package})
    manager = SkillManager(home.parent, policy=Policy(), workspace=workspace)
    granted = [Need(kind="packages", value=name) for name in ("npm:declared-one@^1.0.0",)]
    Grants().grant(manager.get_skill("demo"), granted)
    lacking = manager.call("demo.x")
    Grants().grant(manager.get_skill("demo"), [Need(kind="packages", value="npm:granted-one")])

    ran = manager.call("demo.x")

    assert lacking.outcome == "failed"
    assert ran.stdout == "declared-one granted-one\n", ran.content


def test_a_granted_tsx_runs_scripts_in_typescript(
    registry: Registry, write_skill: WriteSkill, workspace: Path
) -> None:
    registry.add_npm("tsx", "4.0.0", LOADER, type="module")
    home = write_skill(files=TYPED)
    manager = SkillManager(home.parent, workspace=workspace)
    Grants().grant(manager.get_skill("demo"), [Need(kind="packages", value="npm:tsx")])

    main, handler = manager.call("demo.main"), manager.call("demo.handler", {"n": 3})

    assert (main.outcome, main.stdout, main.stderr) == ("ok", "2 2\ntsx\n", "")
    assert (handler.outcome, handler.structured, handler.stdout) == ("ok", 3, "tsx\n")


@pytest.mark.skipif(node_runs_typescript(find_program("node")), reason="this Node needs no tsx")
@pytest.mark.parametrize("is_module", [False, True])
def test_a_node_that_runs_no_typescript_is_told_the_package_that_does(
    is_module: bool, write_skill: WriteSkill, workspace: Path
) -> None:
    more = {"package.json": '{"type": "module"}'} if is_module else {}
    home = write_skill(files={**TYPED, **more})

    content = SkillManager(home.parent, workspace=workspace).call("demo.main").content

    command = f"skillpouch trust demo --package npm:tsx --root {home.parent}"
    assert content.splitlines()[-2:] == [
        "note: this Node does not run TypeScript; node 22.18 or newer does",
        f"note: the package tsx runs it on this Node; the user can grant it: `{command}`",
    ]


@pytest.mark.skipif(node_runs_typescript(find_program("node")), reason="this Node needs no tsx")
@pytest.mark.parametrize("is_module", [False, True])
def test_tsx_is_not_proposed_for_what_it_refuses(
    is_module: bool, write_skill: WriteSkill, workspace: Path
) -> None:
    more = {"package.json": '{"type": "module"}'} if is_module else {}
    text = "const lamps: number = 1;\nasync function main() {}\nawait main();\n"
    home = write_skill(files={"scripts/main.ts": text, **more})

    content = SkillManager(home.parent, workspace=workspace).call("demo.main").content

    assert "note: this Node does not run TypeScript; node 22.18 or newer does" in content
    assert ("npm:tsx" in content) == is_module
