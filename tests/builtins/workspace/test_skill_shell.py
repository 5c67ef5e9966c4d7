"""run_for_skill: commands as instructions write them, and nothing beyond the skill they are for."""

import os
import shlex
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Controls, Policy, SessionManager, SkillManager, ToolExecutor, ToolResult
from skillpouch.builtins.workspace.skill_shell import with_folder
from skillpouch.environment import state_directory
from skillpouch.errors import (
    CallDeniedError,
    InvalidArgumentsError,
    SkillNotFoundError,
    ToolRestrictionError,
)
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.needs import Need
from skillpouch.policy import Answer, Condition, Rule
from skillpouch.policy.command_test import CommandTest
from skillpouch.provision.interpreters import find_program
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill
from tests.escapes import attacks

pytestmark = pytest.mark.slow

SHOW = """import sys
from pathlib import Path
for name in sys.argv[1:]:
    print(Path(name).read_text() if Path(name).is_file() else name, end=" ")
"""
FILES = {
    "scripts/show.py": SHOW,
    "scripts/go.sh": "#!/usr/bin/env bash\necho went $*\n",
    "scripts/go.mjs": "console.log('went', ...process.argv.slice(2))\n",
    "scripts/helper.py": "WORD = 'helped'\n",
    "scripts/lacks.py": "import yamllib_nobody_has\n",
    "assets/page.txt": "page",
    "references/api.md": "api",
}
Run = Callable[..., ToolResult]
REMOVES = Condition(argument="command", test=CommandTest("rm *"))


@pytest.fixture(scope="module")
def homes_of_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("shell")
    for name, files in (("pages", FILES), ("other", {"scripts/secret.py": "print('other')\n"})):
        home = base / "skills" / name
        (home / "scripts").mkdir(parents=True)
        (home / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n"
        )
        for path, text in files.items():
            (home / path).parent.mkdir(exist_ok=True)
            (home / path).write_text(text)
    (base / "work").mkdir()
    (base / "work" / "in.txt").write_text("mine")
    return base


@pytest.fixture(scope="module")
def run(homes_of_module: Path) -> Run:
    manager = SkillManager(
        homes_of_module / "skills",
        workspace=homes_of_module / "work",
        builtins=True,
        journal=False,
        cache=False,
        policy=Policy(),
    )

    def call(command: str, **arguments: Any) -> ToolResult:
        return manager.call("run_for_skill", {"skill": "pages", "command": command, **arguments})

    return call


@pytest.mark.parametrize(
    "command",
    [
        "python scripts/show.py in.txt assets/page.txt",
        "python3 -u ./scripts/show.py in.txt assets/page.txt",
        "python show.py in.txt assets/page.txt",
        "uv run scripts/show.py in.txt assets/page.txt",
        "uv run --with tinylib --script scripts/show.py in.txt assets/page.txt",
        "uv run python scripts/show.py in.txt assets/page.txt",
        "python -m scripts.show in.txt $SKILL_BASE_DIR/assets/page.txt",
        "python $SKILL_DIR/scripts/show.py in.txt ${CLAUDE_SKILL_DIR}/assets/page.txt",
        "python ${CLAUDE_PLUGIN_ROOT}/scripts/show.py in.txt $MY_SKILL_PATH/assets/page.txt",
        'python "{baseDir}/scripts/show.py" in.txt {baseDir}/assets/page.txt',
        "python <path-to-skill>/scripts/show.py in.txt <path-to-skill>/assets/page.txt",
        "cd ~/.claude/skills; python pages/scripts/show.py in.txt pages/assets/page.txt",
        "python ~/.claude/skills/pages/scripts/show.py in.txt assets/page.txt",
        "python .claude/skills/pages/scripts/show.py in.txt skills/pages/assets/page.txt",
        'python "$AGENT_HOME/skills/pages/scripts/show.py" in.txt assets/page.txt',
        'python "${AGENT_HOME:-$HOME/.agent}/skills/pages/scripts/show.py" in.txt assets/page.txt',
        "python /path/to/pages/scripts/show.py in.txt assets/page.txt",
        "python3 .lamp/skill/scripts/show.py in.txt .lamp/skill/assets/page.txt",
        "python3 ~/.lamp/skill/scripts/show.py in.txt ~/.lamp/skill/assets/page.txt",
        "python3 lamp-skill/v2/scripts/show.py in.txt assets/page.txt",
        ".lamp/skill/scripts/show.py in.txt $SKILL_DIR/assets/page.txt",
        "scripts/show.py in.txt $SKILL_DIR/assets/page.txt",
        "./scripts/show.py in.txt $SKILL_DIR/assets/page.txt",
        "$SKILL_DIR/scripts/show.py in.txt $SKILL_DIR/assets/page.txt",
        "~/.claude/skills/pages/scripts/show.py in.txt $SKILL_DIR/assets/page.txt",
        "skills/pages/scripts/show.py in.txt $SKILL_DIR/assets/page.txt",
        "show.py in.txt $SKILL_DIR/assets/page.txt",
        "cd $SKILL_DIR && python scripts/show.py in.txt assets/page.txt",
        "cd skills/pages && python scripts/show.py in.txt assets/page.txt",
        "cd scripts; python show.py in.txt ../assets/page.txt",
        "X=1 timeout 60 python scripts/show.py in.txt assets/page.txt | cat",
        "for f in in.txt; do python scripts/show.py $f assets/page.txt; done",
        "bash -c 'python scripts/show.py in.txt assets/page.txt'",
    ],
)
def test_a_script_of_the_skill_runs_on_files_of_the_workspace(run: Run, command: str) -> None:
    assert run(command).stdout == "mine page "


@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p .lamp; python3 .lamp/skill/scripts/show.py in.txt; rmdir .lamp",
        "python3 scripts/show.py new/assets/page.txt; python3 scripts/show.py new/page.txt",
        "python3 ./x/../../scripts/show.py in.txt",
        "python3 /lamp/skill/scripts/show.py in.txt",
    ],
)
def test_a_path_that_may_be_meant_otherwise_is_not_one_of_the_skill(run: Run, command: str) -> None:
    assert "mine" not in run(command).stdout
    assert "page " not in run(command).stdout


@pytest.mark.parametrize(
    "command",
    ["bash scripts/go.sh a b", "sh -e scripts/go.sh a b", "./scripts/go.sh a b", "go.sh a b"],
)
def test_a_shell_script_needs_no_executable_bit(run: Run, command: str) -> None:
    assert run(command).stdout == "went a b\n"


@pytest.mark.promise("shell-3")
def test_no_file_of_the_skill_takes_the_place_of_a_command(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    names = ("ls", "echo", "cd", "test", "command", "python", "skillpouch_refuse", "unknown")
    files = dict.fromkeys(names, "#!/bin/bash\nprintf taken")
    home = write_skill("pages", files={**files, "plain": "printf taken"})
    manager = SkillManager(home.parent, workspace=tmp_path, builtins=True)

    def run(command: str) -> str:
        return manager.call("run_for_skill", {"skill": "pages", "command": command}).stdout

    line = "cd . && test -d . && command echo ls; ls -d .; python -c 'print(1)'"
    assert run(line) == "ls\n.\n1\n"
    assert run("./ls; unknown; (skillpouch_refuse a b)") == "takentaken"
    assert run("plain; echo $?") == "126\n"  # nothing says how to run it


@pytest.mark.skipif(not find_program("node"), reason="node is not installed")
def test_a_script_for_node_is_found(run: Run) -> None:
    assert run("node scripts/go.mjs a; ./scripts/go.mjs b").stdout == "went a\nwent b\n"


PACKAGES = "import sys; print(sys.prefix)"


@pytest.mark.parametrize(
    "environment",
    [
        ".venv/bin/python",
        "venv/bin/python3",
        "./.venv/bin/python",
        "skills/pages/.venv/bin/python",
        ".agents/skills/pages/env/bin/python3.11",
        "~/.agents/skills/pages/.venv/bin/python",
        '"$SKILL_DIR/.venv/bin/python"',
        "<path-to-skill>/.venv/bin/python",
        "{baseDir}/.venv/Scripts/python.exe",
        "PY=skills/pages/.venv/bin/python; $PY",
        "cd skills/pages; .venv/bin/python",
        "source .venv/bin/activate && python",
        ". skills/pages/venv/bin/activate; python3",
    ],
)
def test_the_python_of_an_environment_that_was_never_made_is_that_of_the_skill(
    run: Run, environment: str
) -> None:
    assert run(f"{environment} scripts/show.py in.txt assets/page.txt").stdout == "mine page "
    usual = run(f"python -c '{PACKAGES}'").stdout
    assert run(f"{environment} -c '{PACKAGES}'").stdout == usual


@pytest.mark.parametrize(
    "environment", ["/opt/nowhere/.venv/bin/python", "../.venv/bin/python", ".venv/bin/lamp"]
)
def test_the_python_of_an_environment_elsewhere_is_not_that_of_the_skill(
    run: Run, environment: str
) -> None:
    result = run(f"{environment} scripts/show.py in.txt")

    assert (result.exit_code, "No such file or directory" in result.stderr) == (127, True)


def test_an_environment_of_the_workspace_is_used_as_it_is(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    manager = manager_of(write_skill("pages", files=FILES), tmp_path / "work")
    program = tmp_path / "work" / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    program.with_name("activate").write_text("NAME=activated\n")

    line = ".venv/bin/python x.py; source .venv/bin/activate; echo $NAME"
    result = manager.call("run_for_skill", {"skill": "pages", "command": line})

    assert result.stdout == "mine\nactivated\n"


def test_modules_of_the_skill_are_importable_and_hide_nothing(run: Run) -> None:
    assert run("python -c 'from scripts.helper import WORD; print(WORD)'").stdout == "helped\n"


@pytest.mark.promise("shell-4")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat references/api.md", "api"),
        ("cat ./references/api.md pages/assets/page.txt", "apipage"),
        ("head -c 2 assets/page.txt", "pa"),
        ("cat references/*.md", "api"),
        ("cat in.txt references/api.md | tr a-z A-Z", "MINEAPI"),
        ("grep -rl api references/ | wc -l", "1\n"),
        ("grep -h -A 1 api references/api.md", "api\n"),
        ("sed -n 's/a/b/p' references/api.md", "bpi"),
        ("cp assets/page.txt copied.txt && cat copied.txt && rm copied.txt", "page"),
        ("echo references/api.md | grep references/api.md", "references/api.md\n"),
        ("cd scripts && cat ../assets/page.txt", "page"),
        ("(cd assets && cat page.txt)", "page"),
    ],
)
def test_a_program_that_reads_finds_files_of_the_skill(
    run: Run, homes_of_module: Path, command: str, output: str
) -> None:
    before = set((homes_of_module / "work").iterdir())

    ran = run(command)

    assert (ran.outcome, ran.stdout) == ("ok", output)
    assert set((homes_of_module / "work").iterdir()) == before


@pytest.mark.promise("shell-4")
@pytest.mark.parametrize(
    "command",
    [
        "echo new > references/api.md",
        "cp in.txt assets/page.txt",
        "sed -i s/a/b/ references/api.md",
        "cat api.md",  # a bare name is the workspace's
        "touch references/api.md",
        "xargs cat <<< references/api.md",
    ],
)
def test_a_path_of_the_skill_is_its_own_only_for_reading(
    run: Run, homes_of_module: Path, command: str
) -> None:
    before = set((homes_of_module / "work").iterdir())

    ran = run(command)

    assert ran.outcome == "failed"
    assert set((homes_of_module / "work").iterdir()) == before
    assert (homes_of_module / "skills/pages/references/api.md").read_text() == "api"


def test_a_file_of_the_workspace_comes_before_one_of_the_skill(
    run: Run, homes_of_module: Path
) -> None:
    own = homes_of_module / "work" / "scripts"
    own.mkdir()
    (own / "show.py").write_text("print('own')\n")
    (own / "show.py").chmod(0o755)
    try:
        assert run("python scripts/show.py").stdout == "own\n"
        assert run("cat scripts/show.py").stdout == "print('own')\n"
    finally:
        (own / "show.py").unlink()
        own.rmdir()


def test_words_arrive_as_they_were_written(run: Run) -> None:
    line = r"""python -c 'import sys; print(sys.argv[1:])' 'a b' '' '$x' "it's" '*' 'é' $'1\n\n2'"""

    assert run(line).stdout == r"""['a b', '', '$x', "it's", '*', 'é', '1\n\n2']""" + "\n"
    spaced = run("python scripts/show.py 'a  b' '' $'x\\n'")
    assert spaced.stdout == "a  b  x\n "


@pytest.mark.parametrize(
    ("command", "grants"),
    [
        ("npx -y some-tool@2 build", "npm:some-tool"),
        ("npx @scope/tool@1.2 x", "npm:@scope/tool"),
        ("uvx some-tool", "some-tool"),
        ("uv run some-tool", "some-tool"),
        ("uv pip install some-tool", "some-tool"),
        ("pip install -q 'some-tool>=2'", "some-tool"),
        ("pip3 install some-tool", "some-tool"),
    ],
)
def test_nothing_is_fetched_and_the_grant_is_named(run: Run, command: str, grants: str) -> None:
    result = run(command)

    assert result.outcome == "failed"
    assert "nothing is fetched here" in result.stderr
    assert f"`skillpouch trust pages --package {grants} " in result.content


@pytest.mark.promise("shell-4")
def test_finding_files_writes_nothing_into_the_workspace(run: Run, homes_of_module: Path) -> None:
    before = sorted((homes_of_module / "work").rglob("*"))

    result = run("./scripts/go.sh; python scripts/show.py; cd scripts; ls; show.py; npx x")

    assert result.files == ()
    assert sorted((homes_of_module / "work").rglob("*")) == before
    assert run("echo x > out.txt; rm out.txt").outcome == "ok"


@pytest.mark.promise("shell-1")
@pytest.mark.parametrize(
    "attempt",
    [
        "cat {base}/skills/other/scripts/secret.py",
        "ls {base}/skills/other",
        "python {base}/skills/other/scripts/secret.py",
        "cat $SKILL_BASE_DIR/../other/SKILL.md",
        "cd $SKILL_BASE_DIR/.. && ls other",
        "echo x > $SKILL_BASE_DIR/SKILL.md",
        "touch $SKILL_BASE_DIR/scripts/new.py",
        "rm $SKILL_BASE_DIR/assets/page.txt",
        "ln -s / $SKILL_BASE_DIR/root",
        "echo x > $(type -P python)",
        "rm $(type -P npx)",
        "cat {base}/hidden.txt",
        "python -c 'import socket; socket.create_connection((\"1.1.1.1\", 80), 2)'",
        "echo $HIDDEN | grep hunter2",
    ],
)
def test_a_command_gets_no_more_than_bash_and_the_skill(
    run: Run, homes_of_module: Path, monkeypatch: pytest.MonkeyPatch, attempt: str
) -> None:
    (homes_of_module / "hidden.txt").write_text("hunter2")
    monkeypatch.setenv("HIDDEN", "hunter2")

    result = run(attempt.replace("{base}", str(homes_of_module)))

    assert result.outcome == "failed"
    assert "hunter2" not in result.content
    assert run("cat $SKILL_BASE_DIR/assets/page.txt").stdout == "page"


ATTEMPTS = {**attacks.FILES, **attacks.NETWORK, **attacks.PROCESSES, **attacks.PRIVILEGES}


@pytest.mark.promise("shell-1")
@pytest.mark.escape
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ATTEMPTS)
def test_no_attempt_to_get_out_succeeds_from_a_command(
    write_skill: WriteSkill, tmp_path: Path, name: str
) -> None:
    home, outside = write_skill("pages"), tmp_path / "outside"
    (outside / "other-skill").mkdir(parents=True)
    (outside / "secret").write_text("hunter2")
    (outside / "other-skill" / "SKILL.md").write_text("other")
    manager = manager_of(home, tmp_path / "work")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        subprocess.Popen(["/bin/sleep", "600"]) as sibling,
    ):
        udp.bind(("127.0.0.1", 0))
        told = {
            "OUTSIDE": outside,
            "WORKSPACE": tmp_path / "work",
            "SKILL": home,
            "HOST": os.getpid(),
            "HOST_GROUP": os.getpgrp(),
            "SIBLING": sibling.pid,
            "TCP": tcp.getsockname()[1],
            "UDP": udp.getsockname()[1],
        }
        variables = " ".join(f"{key}={value}" for key, value in told.items())
        command = f"{variables} exec python -c {shlex.quote(attacks.program(name))}"
        try:
            result = manager.call("run_for_skill", {"skill": "pages", "command": command})
            assert sibling.poll() is None
        finally:
            sibling.kill()

    assert result.stdout.startswith("denied")


@pytest.mark.promise("shell-1")
@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../skills/other",
        "/etc",
        "pages/../other",
        "pages/",
        "pages\0",
        "Pages ",
        "*",
    ],
)
def test_only_the_exact_name_of_a_skill_is_one(run: Run, name: str) -> None:
    with pytest.raises((SkillNotFoundError, InvalidArgumentsError)):
        run("echo ran", skill=name)


def manager_of(home: Path, workspace: Path, **facts: Any) -> SkillManager:
    workspace.mkdir(exist_ok=True)
    facts = {"policy": Policy(), "journal": False, "cache": False, **facts}
    return SkillManager(home.parent, workspace=workspace, builtins=True, **facts)


@pytest.mark.promise("shell-2")
def test_secrets_hosts_and_paths_are_given_only_by_a_grant_that_names_commands(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("granted")
    home = write_skill("pages", files=FILES)
    given = {"TOKEN": "hunter2hunter2"}
    manager = manager_of(home, tmp_path / "work", secrets=lambda _session, name: given.get(name))
    skill = manager.get_skill("pages")
    command = f'echo "[${{TOKEN:+set}}] [$PLAIN] [${{HTTPS_PROXY:+proxy}}]"; cat {tmp_path}/data/x'

    def said() -> str:
        return manager.call("run_for_skill", {"skill": "pages", "command": command}).stdout

    needs = [
        Need(kind="secret", value="TOKEN"),
        Need(kind="setting", value="PLAIN=yes"),
        Need(kind="host", value="api.example.com"),
        Need(kind="read", value=str(tmp_path / "data")),
        Need(kind="unconfined"),
    ]
    Grants().grant(skill, needs)
    assert said() == "[] [yes] []\n"

    Grants().grant(skill, [Need(kind="commands")])
    assert said() == "[set] [yes] [proxy]\ngranted"
    confined = manager.call("run_for_skill", {"skill": "pages", "command": "echo $TOKEN"})
    assert "hunter2" not in confined.stdout
    assert confined.protections["fs"] != "none"

    (home / "assets" / "page.txt").write_text("changed")
    assert said() == "[] [] []\n"


def test_what_was_not_granted_is_named_with_the_command_that_grants_it(run: Run) -> None:
    package = run("python scripts/lacks.py")
    host = run("python -c 'import urllib.request as u; u.urlopen(\"https://api.example.com\")'")

    assert "`skillpouch trust pages --package yamllib_nobody_has" in package.content
    assert "`skillpouch trust pages --host api.example.com --commands " in host.content


@pytest.mark.promise("shell-3")
@pytest.mark.parametrize(
    "command", ["rm in.txt", "bash -c 'rm in.txt'", "true; rm <path-to-skill>/x", "$X in.txt"]
)
def test_rules_that_refuse_commands_of_bash_refuse_these(
    write_skill: WriteSkill, tmp_path: Path, command: str
) -> None:
    rule = Rule(verdict="deny", tools=["bash"], when=[REMOVES])
    manager = manager_of(
        write_skill("pages", files=FILES), tmp_path / "work", policy=Policy(rules=[rule])
    )

    with pytest.raises(CallDeniedError):
        manager.call("run_for_skill", {"skill": "pages", "command": command})
    ran = manager.call("run_for_skill", {"skill": "pages", "command": "python scripts/show.py a"})

    assert ran.stdout == "a "


def test_a_skill_whose_allowed_tools_leave_out_bash_has_no_commands(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    front = "name: pages\ndescription: d\nallowed-tools: Read\n"
    manager = manager_of(write_skill("pages", front=front), tmp_path / "work")

    with pytest.raises(ToolRestrictionError):
        manager.call("run_for_skill", {"skill": "pages", "command": "echo ran"})


@pytest.mark.promise("shell-2")
def test_an_approval_of_a_command_becomes_no_grant(write_skill: WriteSkill, tmp_path: Path) -> None:
    home = write_skill("pages", files=FILES)
    asked: list[tuple[str, str]] = []

    def approve(question: Any) -> Answer:
        asked.append((question.arguments["command"], question.runs))
        return Answer(yes=True, remember="always")

    rule = Rule(verdict="ask", tools=["bash"])
    manager = manager_of(home, tmp_path / "work", policy=Policy(rules=[rule]), approver=approve)

    manager.call("run_for_skill", {"skill": "pages", "command": "echo {baseDir}"})

    runs = (
        "Skillpouch's own run_for_skill, in the workspace; it runs a file of the workspace before "
        "the skill's file of the same path"
    )
    assert asked == [(f"echo {home}", runs)]
    assert Grants().last("pages", str(home)) is None


def test_limits_and_arguments_are_those_of_bash(run: Run, homes_of_module: Path) -> None:
    (homes_of_module / "work" / "sub").mkdir()
    try:
        assert run("pwd", cwd="sub").stdout == f"{homes_of_module}/work/sub\n"
        assert run("cd sub").outcome == "ok"
        assert run("pwd").stdout == f"{homes_of_module}/work\n"
    finally:
        (homes_of_module / "work" / "sub").rmdir()
    assert run("sleep 60", timeout=100).outcome == "timed_out"
    assert run("head -c 5000 /dev/zero | tr '\\0' x", max_output=1000).truncated
    with pytest.raises(CallDeniedError):
        run("pwd", cwd="..")


async def test_every_entry_point_has_it_and_records_the_skill(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("pages", files=FILES)
    manager = manager_of(home, tmp_path / "work", journal=True)
    command = {"skill": "pages", "command": "./scripts/go.sh x"}

    by_manager = await manager.acall("run_for_skill", command)
    executor = ToolExecutor(manager.source, controls=Controls(workspace=tmp_path / "work"))
    by_executor = await executor.execute("run_for_skill", command)
    sessions = SessionManager(SkillManager(home.parent), builtins=True)
    session = await sessions.create_session()
    by_session = await sessions.execute(session, "run_for_skill", command)
    await sessions.destroy_session(session)

    assert [each.stdout for each in (by_manager, by_executor, by_session)] == ["went x\n"] * 3
    with JournalReader(state_directory()) as reader:
        records = list(reader.newest(Query(), limit=9))
    assert {(each.tool, each.skill) for each in records} == {("run_for_skill", "pages")}


def test_without_skills_it_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    manager = SkillManager(tmp_path / "skills", builtins=True)

    assert "run_for_skill" not in [tool.id for tool in manager.tools]
    assert "run_for_skill" not in [tool.id for tool in ToolExecutor(builtins=True).tools]


def test_a_skill_given_as_text_has_no_folder_to_run_in(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    manager = manager_of(write_skill("pages", files=FILES), tmp_path / "work")
    text = "---\nname: pages\ndescription: d\ntools:\n- name: x\n  description: d\n"
    text += "  backend: {type: script, interpreter: bash, script: echo x}\n---\n"
    manager.executor.register_skill_tools(text)

    with pytest.raises(SkillNotFoundError, match="pages"):
        manager.call("run_for_skill", {"skill": "pages", "command": "echo ran"})


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python {baseDir}/x", "python /skills/pdf/x"),
        ("python <skill>/scripts/x", "python /skills/pdf/scripts/x"),
        ("python SKILL_PATH/scripts/x", "python /skills/pdf/scripts/x"),
        ("sort <skill >out; echo SKILL_PATH", "sort <skill >out; echo SKILL_PATH"),
        ("cat DATA/x /SKILL_PATH/x", "cat DATA/x /SKILL_PATH/x"),
        ("python {{ skill_dir }}/x <skill-path>/y", "python /skills/pdf/x /skills/pdf/y"),
        (
            "echo ${SKILL_DIR} {a,b} {skill} <input> $X",
            "echo ${SKILL_DIR} {a,b} {skill} <input> $X",
        ),
    ],
)
def test_only_what_stands_for_the_folder_is_replaced(command: str, found: str) -> None:
    assert with_folder(command, "/skills/pdf") == found


def test_a_folder_that_needs_quotes_stays_a_variable() -> None:
    assert with_folder("cat {baseDir}/x", "/my skills/$(date)") == "cat ${SKILL_BASE_DIR}/x"


def test_an_agent_that_activates_a_skill_is_told_how_to_run_its_commands(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("pages", files=FILES)
    told = '<skill_commands skill="pages">'

    assert (
        told
        in manager_of(home, tmp_path / "work").call("activate_skill", {"name": "pages"}).content
    )
    without = SkillManager(home.parent, journal=False)
    assert told not in without.call("activate_skill", {"name": "pages"}).content


def test_while_skills_are_watched_a_command_sees_the_copy_that_is_served(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("pages", files=FILES)
    manager = manager_of(home, tmp_path / "work")
    command = {"skill": "pages", "command": "cat {baseDir}/assets/page.txt; ./scripts/go.sh x"}

    with manager.watch(polling=True):
        result = manager.call("run_for_skill", command)
        place = manager.call("run_for_skill", command | {"command": "echo $SKILL_BASE_DIR"})

    assert result.stdout == "pagewent x\n"
    assert place.stdout.strip() not in ("", str(home))


LOOKS = """python3 - <<'EOF'
import pathlib
places = [".lamp/skills/pages/assets/page.txt", ".claude/skills/pages/assets/page.txt"]
found = [pathlib.Path.home() / each for each in places]
print(*(each.read_text() for each in found if each.exists()))
EOF"""


def test_a_program_in_a_command_finds_the_skill_in_its_home_where_others_install_it(
    run: Run,
) -> None:
    assert run(LOOKS).content == "page page"
