"""A call with a key is one job, however often and by whichever process it is started."""

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch import SkillManager
from tests.jobs.hosts import jobs_folder, kill_host, until

pytestmark = pytest.mark.slow

ELSEWHERE = """
import sys
from skillpouch import SkillManager
root, work, word = sys.argv[1:]
manager = SkillManager(root, workspace=work, writes="direct")
print(manager.start("demo.gated", {"args": [word]}, owner="ada", key="step 1").id)
"""
# Starts a function that the policy asks about, or that waits for ever, and waits with it.
FUNCTIONS = """
import sys, threading
from skillpouch import Policy, ToolExecutor, tool
from skillpouch.policy import Rule

@tool
def publish(text: str) -> str:
    "Publish a text."
    open(sys.argv[2], "a").write(text)
    if sys.argv[1] == "wait":
        threading.Event().wait()
    return "published"

rules = [Rule(verdict="ask", tools=["publish"])] if sys.argv[1] == "ask" else []
executor = ToolExecutor([publish], policy=Policy(rules=rules), workspace=sys.argv[3])
job = executor.start("publish", {"text": "x"}, key="step 1")
print(job.id, flush=True)
if sys.argv[1] != "show":
    threading.Event().wait()
print(job.result(60).content)
"""


def ran(work: Path) -> list[str]:
    return (work / "ran").read_text().split()


@pytest.mark.promise("leave-5")
def test_a_call_that_two_processes_start_with_one_key_is_one_job(
    manager: SkillManager, work: Path
) -> None:
    words = [sys.executable, "-c", ELSEWHERE, str(manager.roots[0]), str(work), "a"]

    there = subprocess.run(words, capture_output=True, check=True, text=True).stdout.strip()
    here = manager.start("demo.gated", {"args": ["a"]}, owner="ada", key="step 1")
    (work / "go-a").touch()

    assert here.id == there
    assert here.result(60).outcome == "ok"
    assert manager.start("demo.gated", {"args": ["a"]}, owner="ada", key="step 1").state == "done"
    assert ran(work) == ["a"]


def test_another_key_owner_or_argument_is_another_job(manager: SkillManager, work: Path) -> None:
    for word in "ab":
        (work / f"go-{word}").touch()
    started = [
        manager.start("demo.gated", {"args": [word]}, owner=owner, key=key)
        for word, owner, key in [
            ("a", "ada", "1"),
            ("a", "ada", "2"),
            ("a", "eve", "1"),
            ("b", "ada", "1"),
            ("a", "ada", ""),
            ("a", "ada", ""),
        ]
    ]

    assert len({job.id for job in started}) == 6
    assert all(re.fullmatch("j[0-9a-f]{32}", job.id) for job in started)
    for job in started:
        job.result(60)


@pytest.mark.promise("leave-2")
def test_ids_of_calls_with_a_key_are_made_with_a_secret_of_the_user(
    manager: SkillManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = manager.start("demo.hello", key="step 1")
    here.result(60)
    secret = jobs_folder() / "ids.key"
    mode, size = stat.S_IMODE(secret.stat().st_mode), secret.stat().st_size

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    elsewhere = manager.start("demo.hello", key="step 1")
    elsewhere.result(60)

    assert (mode, size) == (0o600, 32)
    assert elsewhere.id != here.id


@pytest.mark.promise("leave-5")
def test_a_call_with_a_key_whose_host_died_is_lost_and_never_run_again(
    manager: SkillManager, work: Path
) -> None:
    job = manager.start("demo.gated", {"args": ["a"]}, key="step 1")
    until((work / "ran").exists)
    kill_host()

    again = manager.start("demo.gated", {"args": ["a"]}, key="step 1")

    assert (again.id, again.state, ran(work)) == (job.id, "lost", ["a"])


@pytest.mark.promise("leave-5")
@pytest.mark.parametrize(("what", "is_same"), [("ask", False), ("wait", True)])
def test_what_ran_in_a_process_that_died_begins_anew_only_if_it_had_not_begun(
    manager: SkillManager, tmp_path: Path, what: str, is_same: bool
) -> None:
    marks = tmp_path / "marks"
    words = [sys.executable, "-c", FUNCTIONS, what, str(marks), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        waits = "waiting_for_approval"
        until(lambda: manager.job(first).state == waits if what == "ask" else marks.exists())
        os.kill(process.pid, signal.SIGKILL)
    words[3] = "show"

    second = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (second.stdout.split()[0] == first) is is_same
    assert marks.read_text() == "x"
    assert ("job_lost" in second.stderr or "is lost" in second.stderr) is is_same
