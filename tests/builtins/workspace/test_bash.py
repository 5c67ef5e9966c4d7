import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Limits, Policy
from skillpouch.builtins.workspace.context import WorkspaceSession
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.errors import InvalidArgumentsError
from skillpouch.executor import ToolExecutor
from skillpouch.policy import LimitRule
from skillpouch.policy.limit_rules import limits_of
from skillpouch.policy.project import Project
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow


def test_a_command_runs_confined_in_the_workspace(use: Use, workspace: Path) -> None:
    result = use("bash", command="pwd; echo oops >&2; touch made; exit 3")

    assert result.stdout == f"{workspace}\n"
    assert (result.stderr, result.exit_code, result.outcome) == ("oops\n", 3, "failed")
    assert [file.path for file in result.files] == ["made"]
    assert result.protections["fs"] != "none"


@pytest.mark.promise("tool-3")
def test_a_command_sees_neither_other_files_nor_the_hosts_variables(
    use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("hunter2")
    monkeypatch.setenv("SECRET", "hunter2")

    result = use("bash", command=f"cat {tmp_path}/secret; echo $SECRET; echo x > {tmp_path}/new")

    assert "hunter2" not in result.content
    assert not (tmp_path / "new").exists()


def test_where_a_command_ends_is_where_the_next_begins(use: Use, workspace: Path) -> None:
    (workspace / "a" / "b").mkdir(parents=True)

    assert use("bash", command="cd a && false").exit_code == 1
    assert use("bash", command="cd b; X=1; export X").outcome == "ok"
    assert use("bash", command='pwd; echo "[$X]"').stdout == f"{workspace}/a/b\n[]\n"
    assert use("bash", command="pwd", cwd="a").stdout == f"{workspace}/a\n"
    assert use("bash", command="pwd").stdout == f"{workspace}/a/b\n"


def test_sessions_do_not_share_where_they_are(use: Use, workspace: Path) -> None:
    (workspace / "a").mkdir()
    use("bash", command="cd a")
    other = ToolExecutor(built_in_tools(), workspace=workspace, journal=False)

    assert other.execute_sync("bash", {"command": "pwd"}).stdout == f"{workspace}\n"


def test_a_command_that_ends_outside_begins_again_inside(use: Use, workspace: Path) -> None:
    assert "ended outside the workspace" in use("bash", command="cd /usr").content
    assert use("bash", command="pwd").stdout == f"{workspace}\n"


def test_a_folder_that_is_gone_is_said(use: Use, workspace: Path) -> None:
    (workspace / "a").mkdir()
    use("bash", command="cd a")
    (workspace / "a").rmdir()

    result = use("bash", command="pwd")

    assert result.content == f"{workspace}\nnote: 'a' is gone, so it ran in the workspace itself"


@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("trap 'echo bye' EXIT; echo hi", "hi\nbye\n"),
        ("cat", ""),
        ('echo "$#" "$1"', "0 \n"),
        ("cat <<'END'\n$x `y`\nEND", "$x `y`\n"),
        ("exec echo gone", "gone\n"),
        ("# nothing\necho after", "after\n"),
        ("exec 3>&-; echo closed", "closed\n"),
        ("echo /etc >&3; echo said", "said\n"),
        ("echo $LINENO", "1\n"),
        ("false; echo $?", "1\n"),
    ],
)
def test_a_command_means_what_it_means_to_bash(command: str, stdout: str, use: Use) -> None:
    result = use("bash", command=command)

    assert (result.outcome, result.stdout, result.stderr) == ("ok", stdout, "")


def test_standard_input_is_empty_unless_the_host_gives_one(workspace: Path) -> None:
    executor = ToolExecutor(built_in_tools(), workspace=workspace, journal=False)

    assert executor.execute_sync("bash", {"command": "cat"}).stdout == ""
    assert executor.execute_sync("bash", {"command": "cat"}, stdin="given").stdout == "given"


def test_a_mistake_is_shown_without_anything_of_ours(use: Use) -> None:
    result = use("bash", command="echo )")

    assert result.exit_code == 2
    assert result.stderr == (
        "bash: eval: line 1: syntax error near unexpected token `)'\nbash: eval: line 1: `echo )'\n"
    )


def test_a_timeout_keeps_what_was_printed(use: Use) -> None:
    result = use("bash", command="echo partial; sleep 60", timeout=500)

    assert (result.outcome, result.exit_code, result.code) == ("timed_out", 124, "timeout")
    assert result.content.startswith("partial")


def test_long_output_is_cut_between_characters(use: Use) -> None:
    result = use("bash", command="printf 'é%.0s' {1..5000}", max_output=1001)

    assert result.truncated
    assert "�" not in result.content
    assert "bytes left out" in result.content


@pytest.mark.parametrize("arguments", [{}, {"command": "true", "job": "job-1"}])
def test_either_a_command_or_a_job(arguments: dict[str, str], use: Use) -> None:
    with pytest.raises(InvalidArgumentsError, match="either `command` or `job`"):
        use("bash", **arguments)


@pytest.mark.parametrize("command", ["x" * 100_001, "echo a\0b"])
def test_a_command_that_the_system_would_not_take_is_an_answer(command: str, use: Use) -> None:
    assert use("bash", command=command).code == "invalid_argument"


@pytest.mark.usefixtures("writes_directly")
def test_a_job_is_started_looked_at_and_ends(use: Use, workspace: Path) -> None:
    os.mkfifo(workspace / "go")
    started = use("bash", command="echo one; read x < go; echo two; exit 4", background=True)
    job = started.structured["job"]
    seen = ""
    while "one" not in seen:
        seen += use("bash", job=job, timeout=50).stdout
    assert use("bash", job=job).structured == {"job": job, "running": True, "exit_code": None}

    (workspace / "go").write_text("x\n")
    ended = use("bash", job=job, timeout=20_000)

    assert ended.structured == {"job": job, "running": False, "exit_code": 4}
    assert ended.content == f"two\n[{job}: ended with exit code 4]"
    assert (ended.outcome, ended.exit_code) == ("failed", 4)


@pytest.mark.usefixtures("writes_directly")
def test_a_job_can_be_ended_with_all_it_started(use: Use, workspace: Path) -> None:
    command = "(while :; do date +%s%N > beat; sleep 0.05; done) & wait"
    job = use("bash", command=command, background=True).structured["job"]
    while not (workspace / "beat").exists():
        time.sleep(0.01)

    ended = use("bash", job=job, kill=True)

    last = (workspace / "beat").read_text()
    assert ended.structured == {"job": job, "running": False, "exit_code": None}
    assert "ended as asked" in ended.content
    time.sleep(0.3)
    assert (workspace / "beat").read_text() == last


def test_there_are_only_so_many_jobs(workspace: Path) -> None:
    session = WorkspaceSession(most_jobs=2)
    executor = ToolExecutor(built_in_tools(session), workspace=workspace, journal=False)
    sleep = {"command": "sleep 60", "background": True}
    for _ in range(2):
        executor.execute_sync("bash", sleep)

    refused = executor.execute_sync("bash", sleep)
    session.close()

    assert refused.code == "conflict"
    assert "end one of them: job-1, job-2" in refused.content
    for job in ("job-1", "job-2"):
        ended = executor.execute_sync("bash", {"job": job, "timeout": 20_000})
        assert not ended.structured["running"]


def test_a_job_is_ended_in_time(workspace: Path) -> None:
    tools = built_in_tools(WorkspaceSession(job_seconds=0.2))
    executor = ToolExecutor(tools, workspace=workspace, journal=False)
    executor.execute_sync("bash", {"command": "sleep 60", "background": True})

    ended = executor.execute_sync("bash", {"job": "job-1", "timeout": 20_000})

    assert ended.structured == {"job": "job-1", "running": False, "exit_code": 124}


def test_what_a_job_prints_is_bounded(use: Use) -> None:
    command = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"
    job = use("bash", command=command, background=True).structured["job"]
    seen = ""
    running = True
    while running:
        result = use("bash", job=job, timeout=200)
        assert len(result.stdout) < 101_000
        seen, running = result.stdout or seen, result.structured["running"]

    assert seen.endswith("end\n")


def test_an_unknown_job_is_an_answer(use: Use) -> None:
    result = use("bash", job="job-9")

    assert (result.code, result.content.splitlines()[-1]) == ("not_found", "hint: there are: none")


def test_a_job_outlives_the_loop_that_started_it(workspace: Path) -> None:
    executor = ToolExecutor(built_in_tools(), workspace=workspace, journal=False)
    command = {"command": "sleep 0.3; echo done", "background": True}
    asyncio.run(executor.execute("bash", command))

    result = asyncio.run(executor.execute("bash", {"job": "job-1", "timeout": 20_000}))

    assert result.stdout == "done\n"


_HOST = """
import gc, os, sys, time
from skillpouch.executor import ToolExecutor
from skillpouch.builtins.workspace.running import built_in_tools
executor = ToolExecutor(built_in_tools(), workspace=sys.argv[1])
command = "while :; do date +%s%N > beat; sleep 0.05; done"
executor.execute_sync("bash", {"command": command, "background": True})
while not os.path.exists("beat"):
    time.sleep(0.01)
print("started", flush=True)
if sys.argv[2] == "killed":
    time.sleep(60)
if sys.argv[2] == "forgotten":
    del executor
    gc.collect()
    time.sleep(60)
"""


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.promise("tool-4")
@pytest.mark.parametrize("end", ["killed", "exit", "forgotten"])
def test_no_job_outlives_its_host_or_its_session(end: str, workspace: Path) -> None:
    words = [sys.executable, "-c", _HOST, str(workspace), end]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=workspace) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"started\n"
        if end == "killed":
            host.kill()
        if end != "forgotten":
            host.wait()

        beats = [""]
        while (beat := (workspace / "beat").read_text()) != beats[-1]:
            beats.append(beat)
            assert len(beats) < 50, "it is still running"
            time.sleep(0.3)
        host.kill()


_SECOND = LimitRule(values={"timeout_seconds": 1}, tools=["bash"])
_PROJECT = Project(limits=(LimitRule(values={"timeout_seconds": 1}),))


@pytest.mark.promise("background-1")
@pytest.mark.parametrize(
    ("limits", "policy", "timeout", "arguments"),
    [
        (Limits(timeout_seconds=1), Policy(), None, {}),
        (None, Policy(limits=[_SECOND]), None, {}),
        (None, Policy().tightened_by(_PROJECT), None, {}),
        (None, Policy(), 1, {}),
        (None, Policy(), None, {"timeout": 1000}),
    ],
    ids=["executor", "policy", "project", "caller", "argument"],
)
def test_a_job_obeys_every_time_limit(
    limits: Limits | None,
    policy: Policy,
    timeout: float | None,
    arguments: dict[str, Any],
    workspace: Path,
) -> None:
    executor = ToolExecutor(
        built_in_tools(), workspace=workspace, limits=limits, policy=policy, journal=False
    )
    job = {"command": "sleep 60; touch late", "background": True}
    executor.execute_sync("bash", job | arguments, timeout=timeout)

    # A look waits no longer than a call may: some of the limits are for it, too.
    looks = (executor.execute_sync("bash", {"job": "job-1", "timeout": 1000}) for _ in range(20))
    ended = next(look.structured for look in looks if not look.structured["running"])
    assert ended == {"job": "job-1", "running": False, "exit_code": 124}


def test_a_job_may_run_longer_than_a_call() -> None:
    tool = next(each for each in built_in_tools() if each.id == "bash")
    job = {"command": "true", "background": True}

    assert limits_of(tool, None, None, (), {"command": "true"}).timeout_seconds == 120
    assert limits_of(tool, None, None, (), job | {"background": False}).timeout_seconds == 120
    assert limits_of(tool, None, None, (), job).timeout_seconds > 3600
    assert limits_of(tool, None, None, [_SECOND], job).timeout_seconds == 1
