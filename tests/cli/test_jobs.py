import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillpouch.jobs.job import KeptQuestion, NewJob, new_job_id
from skillpouch.jobs.job_store import JobStore
from skillpouch.policy.approval import Answer, Question
from tests.cli.conftest import Ran, Skillpouch
from tests.jobs.hosts import end_host, host_pid, kill_host, until

pytestmark = pytest.mark.slow
SCRIPTS = {
    "hello.py": '"""Say hello."""\nprint("hello")\n',
    "fail.sh": "#!/bin/bash\n# Fail.\necho oh >&2\nexit 3\n",
    "mark.sh": '#!/bin/bash\n# Append a word.\necho "$1" >> ran\n',
    "gated.sh": '#!/bin/bash\n# Wait for a file.\nprintf "begun\\033[31m\\n"\n'
    "for _ in $(seq 6000); do [ -e go ] && echo ended && exit 0; sleep 0.01; done; exit 1\n",
}
POLICY = """
writes = "direct"
[[rules]]
verdict = "ask"
tools = ["demo.mark"]
reason = "look first"
"""


@pytest.fixture(autouse=True)
def no_host_left(own_directories: None) -> Iterator[None]:  # noqa: ARG001 - it sets the folders
    """End the job host that a test started, with everything that it runs."""
    yield
    end_host()


@pytest.fixture(autouse=True)
def demo(tmp_path: Path) -> None:
    """The skill `demo`, and a policy that asks about one of its tools."""
    scripts = tmp_path / "skills/demo/scripts"
    scripts.mkdir(parents=True)
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(text)
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\nDo it.\n")
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "skillpouch"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "policy.toml").write_text(POLICY)


def started(skillpouch: Skillpouch, *words: str) -> str:
    ran = skillpouch("call", "--background", *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def asked(job_id: str) -> KeptQuestion:
    """Wait until a job asks, and return what."""
    store = JobStore()
    until(lambda: store.questions.pending_of(job_id), "a question")
    kept = store.questions.pending_of(job_id)
    assert kept is not None
    return kept


def test_a_call_in_the_background_prints_its_id_and_goes_on(skillpouch: Skillpouch) -> None:
    ran = skillpouch("call", "--background", "demo.hello")
    job_id = ran.out.strip()

    waited = skillpouch("jobs", "wait", job_id[:10])

    assert (ran.code, ran.out) == (0, f"{job_id}\n")
    assert re.fullmatch(r"j[0-9a-f]{32}", job_id)
    assert f"skillpouch jobs wait {job_id}" in ran.err
    assert (waited.code, waited.out) == (0, "hello\n")


def test_json_has_the_id_and_the_state(skillpouch: Skillpouch) -> None:
    found = skillpouch("call", "--background", "demo.hello", "--json").json
    waited = skillpouch("jobs", "wait", found["id"], "--json")
    listed = skillpouch("jobs", "--json").json["jobs"]

    assert set(found) == {"id", "state"}
    assert (waited.code, waited.json["outcome"], waited.json["job"]) == (0, "ok", found["id"])
    (job,) = listed
    assert (job["id"], job["tool"], job["state"]) == (found["id"], "demo.hello", "done")
    assert job["queued_at"] <= job["started_at"] <= job["ended_at"]


def test_the_exit_codes_of_waiting_are_those_of_call(skillpouch: Skillpouch) -> None:
    failed = started(skillpouch, "demo.fail")
    gated = started(skillpouch, "demo.gated")
    asking = started(skillpouch, "demo.mark", "one")
    denied = skillpouch("deny", asked(asking).id[:12], "--reason", "not today")

    ran = skillpouch("jobs", "wait", failed)
    assert (ran.code, "oh" in ran.err) == (1, True)
    ran = skillpouch("jobs", "wait", gated, "--timeout", "0.1")
    assert (ran.code, "is running after 0.1 s" in ran.err) == (124, True)
    assert skillpouch("jobs", "cancel", gated).out == "cancelled\n"
    ran = skillpouch("jobs", "wait", gated)
    assert (ran.code, "was cancelled" in ran.err) == (1, True)
    assert (denied.code, denied.out) == (0, f"denied: demo.mark, job {asking}\n")
    ran = skillpouch("jobs", "wait", asking, "--json")
    assert (ran.code, ran.json["outcome"]) == (3, "denied")
    assert "not today" in ran.json["content"]
    ran = skillpouch("jobs", "wait", "j00")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: no job 'j00'")


def test_a_job_whose_host_was_killed_is_lost_with_its_output(skillpouch: Skillpouch) -> None:
    job_id = started(skillpouch, "demo.gated")
    until(lambda: JobStore().output(job_id).data, "output")
    kill_host()

    waited, output = skillpouch("jobs", "wait", job_id), skillpouch("jobs", "output", job_id)

    assert (waited.code, "is lost" in waited.err) == (1, True)
    assert output.out == "begun\x1b[31m\n"
    shown = skillpouch("jobs", "output", job_id, "--json").json
    assert (shown["text"], shown["is_final"]) == ("begun\n", True)


def test_output_can_be_followed_to_the_end(skillpouch: Skillpouch, tmp_path: Path) -> None:
    job_id = started(skillpouch, "demo.gated")
    words = [sys.executable, "-m", "skillpouch", "jobs", "output", "-f", job_id]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=tmp_path) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        (tmp_path / "go").touch()
        rest = following.stdout.read()

    assert (first, rest, following.returncode) == (b"begun\x1b[31m\n", b"ended\n", 0)


def test_jobs_are_listed_by_state_and_shown_whole(skillpouch: Skillpouch) -> None:
    done, asking = started(skillpouch, "demo.hello"), started(skillpouch, "demo.mark", "one")
    skillpouch("jobs", "wait", done)
    kept = asked(asking)

    waiting = skillpouch("jobs", "--state", "waiting_for_approval").out.split("\t")
    ended = skillpouch("jobs", "--state", "done", "--state", "lost", "--json").json["jobs"]
    shown = skillpouch("jobs", "show", asking[:8])
    none = skillpouch("jobs", "--state", "lost")

    assert (waiting[0], waiting[2], waiting[3]) == (asking, "demo.mark", "waiting_for_approval")
    assert kept.id in waiting[5]
    assert [each["id"] for each in ended] == [done]
    assert kept.id in shown.out
    assert skillpouch("jobs", "show", asking, "--json").json["output_bytes"] == 0
    assert skillpouch("jobs", "show", done, "--json").json["output_bytes"] == len("hello\n")
    assert f"skillpouch approvals show {asking}" in shown.err
    assert (none.code, none.out, none.err) == (0, "", "there are no such jobs\n")


def test_watching_tells_each_state_once(skillpouch: Skillpouch, tmp_path: Path) -> None:
    job_id = started(skillpouch, "demo.gated")
    words = [sys.executable, "-m", "skillpouch", "jobs", "--watch", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=tmp_path) as watching:
        assert watching.stdout is not None
        states = [json.loads(watching.stdout.readline())["state"]]
        (tmp_path / "go").touch()
        while states[-1] != "done":
            states.append(json.loads(watching.stdout.readline())["state"])
        watching.terminate()

    assert states in (["running", "done"], ["queued", "running", "done"])
    assert JobStore().get(job_id).state == "done"


def test_what_has_ended_is_pruned_and_not_cancelled(skillpouch: Skillpouch) -> None:
    job_id = started(skillpouch, "demo.hello")
    skillpouch("jobs", "wait", job_id)

    cancelled = skillpouch("jobs", "cancel", job_id)
    kept, removed = skillpouch("jobs", "prune"), skillpouch("jobs", "prune", "--days", "0")

    assert (cancelled.code, cancelled.out) == (1, "done\n")
    assert (kept.out, removed.out) == ("0 jobs removed\n", "1 job removed\n")
    assert skillpouch("jobs", "show", job_id).code == 2


def test_approvals_list_what_waits_and_show_all_of_it(skillpouch: Skillpouch) -> None:
    job_id = started(skillpouch, "demo.mark", "one\u202etwo\x1b[2J")
    kept = asked(job_id)

    row = skillpouch("approvals").out.rstrip("\n").split("\t")
    (found,) = skillpouch("approvals", "--json").json["approvals"]
    shown = skillpouch("approvals", "show", kept.id[:9])

    assert (row[0], row[2], row[4]) == (kept.id, "demo.mark", "pending")
    assert "look first" in row[3]
    wanted = ("id", "tool", "skill", "runs", "needs", "reasons", "digest", "asked_at", "expires_at")
    assert set(wanted) <= set(found)
    assert (found["id"], found["job"]) == (kept.id, job_id)
    assert found["digest"] == kept.question.digest
    assert kept.question.digest in shown.out
    assert "scripts/mark.sh" in shown.out
    assert "look first" in shown.out
    assert "\u202e" not in shown.out
    assert "\x1b" not in shown.out
    assert "u+202e" in shown.out.lower() or "\\u202e" in shown.out
    assert f"skillpouch approve {kept.id}" in shown.err


def test_an_approval_starts_a_host_and_the_call_runs_once(
    skillpouch: Skillpouch, tmp_path: Path
) -> None:
    job_id = started(skillpouch, "demo.mark", "one")
    kept = asked(job_id)
    kill_host()

    approved = skillpouch("approve", kept.id[:10], "--json")
    again = skillpouch("approve", kept.id)
    waited = skillpouch("jobs", "wait", job_id)

    assert (approved.code, approved.json["state"]) == (0, "approved")
    assert approved.json["answered_by"].startswith("user ")
    assert (again.code, "is already approved, by user " in again.err) == (2, True)
    assert "hint: the first answer counts" in again.err
    assert waited.code == 0
    assert (tmp_path / "ran").read_text() == "one\n"


def test_an_approval_for_always_is_remembered(skillpouch: Skillpouch, tmp_path: Path) -> None:
    job_id = started(skillpouch, "demo.mark", "one")
    asked(job_id)

    approved = skillpouch("approve", job_id, "--remember", "always")  # by the id of its job
    skillpouch("jobs", "wait", job_id)
    ran = skillpouch("call", "demo.mark", "two")

    assert (approved.code, ran.code) == (0, 0)
    assert (tmp_path / "ran").read_text() == "one\ntwo\n"


def kept_question(store: JobStore, **facts: object) -> KeptQuestion:
    job, process = new_job_id(), store.this_process()
    store.add(NewJob(id=job, tool="demo.say", setup="{}", setup_hash="s", call="{}"))
    store.claim(job, process)
    question = Question(tool="demo.say", skill="demo", runs="python say.py")
    facts = {"seconds": 60, "after_run": False, **facts}
    kept = store.questions.ask(job, process, question, **facts)  # type: ignore[arg-type]
    assert kept is not None
    return kept


def refusal(ran: Ran) -> tuple[int, str]:
    return ran.code, re.sub(r"q[0-9a-f]{32}", "ID", ran.err)


def test_an_answer_that_cannot_count_says_why_and_what_to_do(skillpouch: Skillpouch) -> None:
    store = JobStore()
    late, theirs, over = (
        kept_question(store, seconds=0),
        kept_question(store, who=("webhook",)),
        kept_question(store),
    )
    store.questions.outdate(over.id)

    assert refusal(skillpouch("approve", "qx")) == (
        2,
        "error: no question 'qx'\nhint: `skillpouch approvals` lists open ones\n",
    )
    code, said = refusal(skillpouch("approve", late.id))
    assert (code, said.splitlines()) == (
        2,
        [
            "error: question ID is expired: an answer to it counts for nothing",
            "hint: start the call again, which asks again",
        ],
    )
    assert refusal(skillpouch("deny", over.id))[0] == 2
    code, said = refusal(skillpouch("approve", theirs.id))
    assert (code, "only by webhook" in said, "`answered_by` of `[approvals]`" in said) == (
        3,
        True,
        True,
    )


def test_a_beginning_that_several_ids_have_is_ambiguous(skillpouch: Skillpouch) -> None:
    store = JobStore()
    for number in range(3):
        store.add(NewJob(id=f"jab{number}" + "0" * 29, tool="demo.say"))

    ran, one = skillpouch("jobs", "show", "jab"), skillpouch("jobs", "show", "jab1", "--json")

    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: more than one id begins with 'jab'")
    assert one.json["id"] == "jab1" + "0" * 29
    assert skillpouch("jobs", "show", "j").code == 2


def test_answered_questions_are_listed_if_asked_for(skillpouch: Skillpouch) -> None:
    store = JobStore()
    kept = kept_question(store)
    store.questions.answer(kept.id, Answer(yes=False, reason="no"), by="user ada")

    none, found = skillpouch("approvals"), skillpouch("approvals", "--all", "--json")

    assert (none.out, none.err) == ("", "no question waits for an answer\n")
    (question,) = found.json["approvals"]
    assert (question["state"], question["answered_by"], question["reason"]) == (
        "denied",
        "user ada",
        "no",
    )


def test_looking_at_jobs_makes_no_file_and_starts_no_host(skillpouch: Skillpouch) -> None:
    assert skillpouch("jobs").code == 0
    assert skillpouch("approvals", "--json").json == {"approvals": []}

    assert not JobStore().exists
    assert host_pid() is None


def test_each_command_loads_only_what_it_uses(tmp_path: Path) -> None:
    for words in (["jobs"], ["approvals"]):
        command = [sys.executable, "-X", "importtime", "-m", "skillpouch", *words]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
        loaded = set(re.findall(r"\| +(skillpouch[\w.]*)$", ran.stderr.decode(), re.MULTILINE))

        for name in (
            "executor",
            "backends",
            "servers",
            "net.http",
            "jobs.webhook",
            "execution.engine",
        ):
            assert not {each for each in loaded if each.startswith(f"skillpouch.{name}")}, words
