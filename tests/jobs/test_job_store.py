import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skillpouch.errors import (
    CallDeniedError,
    InvalidArgumentsError,
    SkillpouchError,
    TimeLimitError,
)
from skillpouch.jobs.job import (
    AlreadyAnsweredError,
    JobCancelledError,
    JobFailedError,
    JobLostError,
    JobQueueFullError,
    JobStoreError,
    JobTimeoutError,
    NewJob,
    NoSuchJobError,
    NoSuchQuestionError,
    QuestionExpiredError,
    new_job_id,
)
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import (
    error_from_json,
    error_to_json,
    question_from_json,
    question_to_json,
    result_from_json,
    result_to_json,
)
from skillpouch.jobs.output_file import HEAD_BYTES, TAIL_BYTES, OutputWriter, read_output
from skillpouch.needs import Need
from skillpouch.policy.approval import Answer, Question
from skillpouch.results import (
    Attachment,
    ChangedFile,
    Conflict,
    FileChange,
    HttpAnswer,
    Progress,
    ToolResult,
)

QUESTION = Question(tool="demo.say", skill="demo", runs="python say.py", reasons=("because",))


def added(store: JobStore, tool: str = "demo.say", **facts: object) -> str:
    job = NewJob(id=new_job_id(), tool=tool, setup="{}", setup_hash="s", call="{}", **facts)  # type: ignore[arg-type]
    store.add(job)
    return job.id


def test_a_job_is_queued_then_runs_then_is_done() -> None:
    store = JobStore()
    job = store.job(added(store))
    process = store.this_process()
    states = [job.state]

    assert store.claim(job.id, process)
    states.append(job.state)
    result = ToolResult(tool="demo.say", outcome="ok", content="hi")
    assert store.finish(job.id, process, "done", result=result_to_json(result))

    assert [*states, job.state] == ["queued", "running", "done"]
    assert job.result() == result
    assert job.created_at <= (job.started_at or job.created_at) <= (job.ended_at or job.created_at)


def test_only_one_of_many_takes_a_job() -> None:
    store = JobStore()
    job = added(store)
    process = store.this_process()

    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda _: store.claim(job, process), range(32)))

    assert taken.count(True) == 1


def test_what_has_ended_never_changes_again() -> None:
    store = JobStore()
    job = added(store)
    process = store.this_process()
    store.claim(job, process)
    store.finish(job, process, "failed")

    changed = [
        store.claim(job, process),
        store.finish(job, process, "done"),
        store.questions.resume(job, process),
        store.questions.ask(job, process, QUESTION, seconds=1, after_run=False) is not None,
        store.cancel(job) != "failed",
    ]

    assert changed == [False] * 5


def test_a_second_request_with_the_same_id_adds_nothing() -> None:
    store = JobStore()
    job = NewJob(id=new_job_id(), tool="demo.say", setup="{}", setup_hash="s", call="{}")

    store.add(job)
    store.add(job)

    assert [each.id for each in store.jobs()] == [job.id]


def test_a_full_queue_tells_when_to_come_back() -> None:
    store = JobStore()
    for _ in range(3):
        added(store)

    with pytest.raises(JobQueueFullError, match="3 jobs wait already") as raised:
        store.add(NewJob(id=new_job_id(), tool="demo.say"), most_queued=3)

    assert raised.value.retry_after > 0
    assert len(store.jobs()) == 3


def test_the_oldest_job_is_next_but_not_of_a_full_session_or_tool() -> None:
    store = JobStore()
    first = added(store, session="a")
    second = added(store, "demo.other", session="b")
    third = added(store, session="b")

    found = store.next_queued(9)
    not_of_a = store.next_queued(9, sessions=["a"])
    not_other = store.next_queued(1, sessions=["a"], tools=["demo.other"])

    assert [row.id for row in found] == [first, second, third]
    assert [row.id for row in not_of_a] == [second, third]
    assert [row.id for row in not_other] == [third]


def test_jobs_are_listed_by_state_session_and_owner() -> None:
    store = JobStore()
    one, two = added(store, session="a", owner="ada"), added(store, owner="bob")
    store.cancel(two)

    assert [job.id for job in store.jobs()] == [two, one]
    assert [job.id for job in store.jobs(state="cancelled")] == [two]
    assert [job.id for job in store.jobs(state=("queued", "cancelled"), limit=1)] == [two]
    assert [job.id for job in store.jobs(session="a")] == [one]
    assert [job.id for job in store.jobs(owner="ada")] == [one]


def test_looking_for_jobs_makes_no_file(tmp_path: Path) -> None:
    store = JobStore(tmp_path / "jobs")

    assert store.jobs() == []
    with pytest.raises(NoSuchJobError):
        store.job("j0")
    with pytest.raises(NoSuchQuestionError):
        store.questions.get("q0")
    assert store.questions.pending() == []
    assert not (tmp_path / "jobs").exists()


@pytest.mark.promise("job-2")
def test_only_the_user_can_open_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir(mode=0o755)
    store = JobStore(folder)
    writer = OutputWriter(store.output_path(added(store)))

    writer.write(b"x")

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*.sqlite3")}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == {"jobs.sqlite3": 0o600}
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder / "output").iterdir()] == [0o600]


def test_a_queued_job_is_cancelled_at_once() -> None:
    store = JobStore()
    job = store.job(added(store))

    assert store.cancel(job.id) == "cancelled"
    with pytest.raises(JobCancelledError):
        store.result(job.id)


def test_a_running_job_is_marked_until_its_process_ends_it() -> None:
    store = JobStore()
    job, process = added(store), store.this_process()
    store.claim(job, process)

    assert store.cancel(job) == "running"
    assert store.get(job).cancelling


def test_a_result_that_is_not_there_yet_is_a_timeout() -> None:
    store = JobStore()
    job = added(store)

    with pytest.raises(JobTimeoutError, match="is queued"):
        store.result(job)


def test_progress_is_the_last_report() -> None:
    store = JobStore()
    job = store.job(added(store))
    store.claim(job.id, store.this_process())

    store.report(job.id, Progress(done=1, total=4, message="one"))
    store.report(job.id, Progress(done=2, total=None))

    assert job.progress == Progress(done=2)


RUNS = """
import sys
from pathlib import Path
from skillpouch.jobs.job_store import JobStore
store = JobStore(Path(sys.argv[1]))
for job in sys.argv[2:]:
    assert store.claim(job, store.this_process())
print("claimed", flush=True)
sys.stdin.read()
"""


def killed_with(store: JobStore, *jobs: str) -> None:
    """Have another process take jobs, and kill it."""
    words = [sys.executable, "-c", RUNS, str(store.directory), *jobs]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"claimed\n"
        process.send_signal(signal.SIGKILL)


def test_a_job_whose_process_was_killed_is_lost_for_whoever_looks() -> None:
    store = JobStore()
    job = store.job(added(store))
    killed_with(store, job.id)

    assert job.state == "lost"
    with pytest.raises(JobLostError):
        job.result()
    assert job.ended_at is not None


def test_only_a_job_with_retries_left_is_queued_again() -> None:
    store = JobStore()
    once, again, wanted = added(store), added(store, retries=1), added(store, retries=1)
    killed_with(store, once, again, wanted)
    with store.together() as connection:
        connection.execute("UPDATE jobs SET cancelling = 1 WHERE id = ?", (wanted,))

    first = [store.get(job).state for job in (once, again, wanted)]
    killed_with(store, again)

    assert first == ["lost", "queued", "cancelled"]
    assert store.get(again).state == "lost"


def test_a_question_makes_its_job_wait_and_the_answer_lets_it_go_on() -> None:
    store = JobStore()
    job, process = store.job(added(store)), store.this_process()
    store.claim(job.id, process)

    kept = store.questions.ask(job.id, process, QUESTION, seconds=60, after_run=False)

    assert kept is not None
    assert (job.state, job.question) == ("waiting_for_approval", kept)
    assert [each.id for each in store.questions.pending()] == [kept.id]
    told = store.questions.answer(kept.id, Answer(yes=True), by="ada")
    assert (told.state, told.answered_by, told.answer) == ("approved", "ada", Answer(yes=True))
    assert store.questions.resume(job.id, process)
    assert (job.state, job.question) == ("running", None)


def test_the_first_answer_counts() -> None:
    store = JobStore()
    job, process = added(store), store.this_process()
    store.claim(job, process)
    kept = store.questions.ask(job, process, QUESTION, seconds=60, after_run=False)
    assert kept is not None

    def answer(number: int) -> bool:
        try:
            store.questions.answer(kept.id, Answer(yes=number % 2 == 0), by=str(number))
        except AlreadyAnsweredError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        counted = [number for number, did in enumerate(threads.map(answer, range(16))) if did]

    assert [store.questions.get(kept.id).answered_by] == list(map(str, counted))


def test_a_late_answer_counts_for_nothing() -> None:
    store = JobStore()
    job, process = added(store), store.this_process()
    store.claim(job, process)
    kept = store.questions.ask(job, process, QUESTION, seconds=-1, after_run=False)
    assert kept is not None

    with pytest.raises(QuestionExpiredError, match="is expired"):
        store.questions.answer(kept.id, Answer(yes=True), by="ada")


ASKS = """
import sys
from pathlib import Path
from skillpouch.jobs.job_store import JobStore
from skillpouch.policy.approval import Question
store, me = JobStore(Path(sys.argv[1])), None
question = Question(tool="demo.say", skill="demo", runs="python say.py")
for job, after in zip(sys.argv[2::2], sys.argv[3::2]):
    assert store.claim(job, store.this_process())
    asked = store.questions.ask(
        job, store.this_process(), question, seconds=None, after_run=after == "after")
    assert asked
print("asked", flush=True)
sys.stdin.read()
"""


def test_a_restart_loses_no_question_that_was_asked_before_the_run() -> None:
    store = JobStore()
    before, after, told = added(store), added(store), added(store)
    words = [before, "before", after, "after", told, "before"]
    command = [sys.executable, "-c", ASKS, str(store.directory), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"asked\n"
        asked = store.questions.pending_of(told)
        assert asked is not None
        store.questions.answer(asked.id, Answer(yes=True), by="ada")  # nobody saw it in time
        process.send_signal(signal.SIGKILL)

    states = [store.get(job).state for job in (before, after, told)]
    question = store.questions.pending_of(before)
    assert question is not None
    store.questions.answer(question.id, Answer(yes=True), by="ada")

    assert states == ["waiting_for_approval", "lost", "queued"]
    assert store.get(before).state == "queued"
    assert store.questions.pending() == []


def test_old_results_are_removed_with_their_output() -> None:
    store = JobStore()
    old, young, runs = added(store), added(store), added(store)
    process = store.this_process()
    for job in (old, young):
        store.claim(job, process)
        writer = OutputWriter(store.output_path(job))
        writer.write(b"text")
        writer.close()
        store.finish(job, process, "done", result="{}")
    week = 7 * 86_400
    with store.together() as connection:
        long_ago = time.time_ns() - int(1.1 * week * 1e9)
        connection.execute("UPDATE jobs SET ended_ns = ? WHERE id = ?", (long_ago, old))

    removed = store.prune(seconds=week)

    assert removed == 1
    assert {job.id for job in store.jobs()} == {young, runs}
    assert [path.name for path in store.output_path(old).parent.iterdir()] == [young]


def test_the_oldest_results_go_when_all_are_too_large() -> None:
    store = JobStore()
    process = store.this_process()
    jobs = [added(store) for _ in range(4)]
    for job in jobs:
        store.claim(job, process)
        store.finish(job, process, "done", result="x" * 10_000)

    removed = store.prune(seconds=3600, most_bytes=25_000)

    assert removed == 2
    assert [job.id for job in store.jobs()] == [jobs[3], jobs[2]]


def test_a_clock_that_jumps_back_ends_no_job_before_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = JobStore()
    job, process = store.job(added(store)), store.this_process()
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 10**15)

    store.claim(job.id, process)
    store.finish(job.id, process, "done", result="{}")
    later = added(store)

    assert job.created_at == job.started_at == job.ended_at
    assert [each.id for each in store.jobs()] == [later, job.id]


def test_a_damaged_file_is_explained() -> None:
    store = JobStore()
    added(store)
    store.close()
    assert store.directory is not None
    (store.directory / "jobs.sqlite3").write_bytes(b"no database" * 1000)
    for suffix in ("-wal", "-shm"):
        Path(f"{store.directory}/jobs.sqlite3{suffix}").unlink(missing_ok=True)

    with pytest.raises(JobStoreError, match=r"jobs\.sqlite3 cannot be used") as raised:
        added(store)

    assert "move it away" in raised.value.hint


def test_a_file_that_was_moved_away_is_begun_anew() -> None:
    store = JobStore()
    added(store)
    assert store.directory is not None
    for suffix in ("", "-wal", "-shm"):
        path = Path(f"{store.directory}/jobs.sqlite3{suffix}")
        path.rename(f"{path}.old")

    job = added(store)

    assert [each.id for each in JobStore().jobs()] == [job]


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    folder = tmp_path / "jobs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)

    with pytest.raises(JobStoreError, match="it belongs to another user"):
        added(JobStore(folder))


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "jobs").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(JobStoreError):
        added(JobStore(tmp_path / "jobs"))


def test_changes_together_are_made_together_or_not_at_all() -> None:
    store = JobStore()
    job = added(store)

    with pytest.raises(RuntimeError), store.together():  # noqa: PT012 - one block
        store.cancel(job)
        raise RuntimeError

    assert store.get(job).state == "queued"


def test_a_store_goes_on_after_a_fork() -> None:
    store = JobStore()
    job = added(store)
    child = os.fork()
    if not child:
        os._exit(0 if store.get(job).state == "queued" and added(store) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(store.jobs()) == 2


def test_a_result_is_read_as_it_was_written() -> None:
    result = ToolResult(
        tool="demo.say",
        outcome="failed",
        script="scripts/say.py",
        content="caf\ud800é",
        structured={"a": [1, 2.5, None, True]},
        exit_code=3,
        saved=(Path("/tmp/x"),),
        files=(ChangedFile(path="a", type="text/plain", size=1),),
        attachments=(Attachment(name="i", type="image/png", data=b"\x00\xff"),),
        timings=(("find", 1.5),),
        http=HttpAnswer(status=200, url="https://a.example", headers={"x": "y"}),
        changes=(FileChange(path="a", change="created", size=3),),
        conflicts=(Conflict(path="b", reason="changed"),),
        protections={"fs": "landlock"},
        notes=("note",),
        ended_as=("ok", 0),
        job_id="j1",
    )

    assert result_from_json(result_to_json(result)) == result


@pytest.mark.parametrize(
    "error",
    [
        CallDeniedError(tool="a.b", reasons=("no",), hints=("Policy.trusting()",)),
        InvalidArgumentsError("a.b", ["x is missing"]),
        TimeLimitError("a.b", 60, 30, how="ask"),
        JobQueueFullError(3, 1.5),
        JobStoreError(Path("/x"), "no"),
    ],
)
def test_an_error_is_raised_again_as_it_was(error: SkillpouchError) -> None:
    read = error_from_json(error_to_json(error))

    assert type(read) is type(error)
    assert (str(read), vars(read)) == (str(error), vars(error))
    assert read.advice == error.advice


def test_an_error_of_another_package_keeps_its_code() -> None:
    class TheirError(CallDeniedError):
        code = "theirs"

    read = error_from_json(error_to_json(TheirError("not now", hint="later")))

    assert type(read) is JobFailedError
    assert (read.code, str(read), read.hint) == ("theirs", "not now", "later")


def test_a_question_is_read_as_it_was_written() -> None:
    question = Question(
        tool="demo.say",
        skill="demo",
        runs="python x",
        arguments={"a": [1]},
        needs=(Need(kind="host", value="a.example", asked_in="SKILL.md"),),
        reasons=("why",),
        digest="d",
        changes=(FileChange(path="a", change="deleted"),),
        diff="-a",
    )

    assert question_from_json(question_to_json(question)) == question


def test_output_is_read_from_any_offset(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path / "out")
    writer.write(b"hello ")
    first = read_output(tmp_path / "out", 0, 4)
    writer.write(b"world")
    rest = read_output(tmp_path / "out", first.next_offset)

    assert (first.data, first.next_offset) == (b"hell", 4)
    assert (rest.data, rest.offset, rest.next_offset, rest.left_out) == (b"o world", 4, 11, 0)
    assert read_output(tmp_path / "out", 11).data == b""
    assert read_output(tmp_path / "none", 5).next_offset == 5


def test_of_much_output_head_and_tail_are_kept_and_the_rest_is_counted(tmp_path: Path) -> None:
    written = b"".join(b"%07d\n" % number for number in range(3 * HEAD_BYTES // 8 + 99))
    writer = OutputWriter(tmp_path / "out")
    for at in range(0, len(written), 50_000):
        writer.write(written[at : at + 50_000])

    found, left_out, offset = b"", 0, 0
    while (part := read_output(tmp_path / "out", offset, 100_000)).next_offset > offset:
        found, left_out, offset = found + part.data, left_out + part.left_out, part.next_offset

    assert found == written[:HEAD_BYTES] + written[-TAIL_BYTES:]
    assert left_out == len(written) - HEAD_BYTES - TAIL_BYTES
    assert (tmp_path / "out").stat().st_size <= HEAD_BYTES + TAIL_BYTES + 16
