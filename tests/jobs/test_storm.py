"""Many callers and many jobs, while callers and hosts are killed."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.job import FINAL, JobLostError, JobState
from skillpouch.jobs.job_runner import user_jobs
from tests.jobs.hosts import children_of, host_pid, is_alive, kill_host, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# Starts jobs, each with a word of its own, and writes down every id that it was given; some
# callers wait for their jobs. What is written in one piece to a file opened with O_APPEND is there
# as a whole, or not at all, open(2).
CALLER = """
import os, sys
from skillpouch import SkillManager
from skillpouch.errors import SkillpouchError
skills, work, given, name, count = sys.argv[1:]
manager = SkillManager(skills, workspace=work, writes="direct")
notes = os.open(given, os.O_WRONLY | os.O_APPEND)
for number in range(int(count)):
    word = f"{name}-{number}"
    job = manager.start("demo.mark", word)
    os.write(notes, f"{job.id} {word}\\n".encode())
    if number % 5 == 0:
        try:
            job.result(600)
        except SkillpouchError:
            pass
"""


# Makes calls that take longer than it waits, so that they become jobs in its own process; ends when
# all of them have. On a busy machine it may see that a call has ended as soon as that it waited.
ADOPTER = """
import asyncio, os, sys
from skillpouch import SkillManager
from skillpouch.jobs.soft_limit import SoftLimit, Wanted, call_or_job
skills, work, given, name, count = sys.argv[1:]
manager = SkillManager(skills, workspace=work, writes="direct", builtins=True)
notes = os.open(given, os.O_WRONLY | os.O_APPEND)
async def call(number):
    word = f"{name}-{number}"
    command = {"command": f"echo {word} >> ran; echo begun; sleep 0.4"}
    limit = SoftLimit(seconds=0.05)
    left = await call_or_job(manager.executor, Wanted(tool="bash", arguments=command), limit)
    os.write(notes, f"{left.job_id or left.content} {word}\\n".encode())
    if left.job_id:
        await manager.job(left.job_id).aresult(600)
async def main():
    some = asyncio.Semaphore(8)
    async def one(number):
        async with some:
            await call(number)
    await asyncio.gather(*map(one, range(int(count))))
asyncio.run(main())
"""


class Callers:
    """Processes that start jobs, until all have been started; a killed one is replaced."""

    def __init__(self, manager: SkillManager, work: Path, given: Path, program: str) -> None:
        self._facts = [str(manager.roots[0]), str(work), str(given)]
        self._program = program
        self._given = given
        self._running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    def start(self, count: int) -> None:
        name = f"c{len(self._running)}"
        words = [sys.executable, "-c", self._program, *self._facts, name, str(count)]
        self._running[name] = subprocess.Popen(words), count

    def kill_one(self, chance: random.Random) -> None:
        """Kill a caller; another starts the jobs that it has not started."""
        alive = [name for name, (each, _) in self._running.items() if each.poll() is None]
        if alive:
            name = chance.choice(alive)
            victim, count = self._running[name]
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            started = sum(word.startswith(f"{name}-") for _, word in lines(self._given))
            self.start(count - started)

    @property
    def are_done(self) -> bool:
        return all(each.poll() is not None for each, _ in self._running.values())


@pytest.mark.promise("job-1")
@pytest.mark.parametrize(
    ("jobs", "callers", "kills"),
    [(90, 3, 6), pytest.param(2_000, 16, 40, marks=pytest.mark.exhaustive)],
)
def test_every_id_that_was_given_away_ends_once_and_runs_at_most_once(
    manager: SkillManager, work: Path, tmp_path: Path, jobs: int, callers: int, kills: int
) -> None:
    given = tmp_path / "given"
    given.touch()
    several = Callers(manager, work, given, CALLER)
    for _ in range(callers):
        several.start(jobs // callers)
    killed = storm(several, given, jobs, kills)
    until(lambda: several.are_done, "the end of the callers", 900)

    states = {word: ended(job_id) for job_id, word in lines(given)}

    ran = Counter((work / "ran").read_text().split())
    assert set(states.values()) <= {"done", "lost"}
    assert len(states) == len(lines(given)) == jobs // callers * callers
    assert [word for word, times in ran.items() if times > 1] == []
    assert {word for word, state in states.items() if state == "done"} <= ran.keys()
    assert list(states.values()).count("done") > jobs // 2
    # Of callers that died before they wrote an id down there may be rows, too: they end as well.
    store = user_jobs()
    alive: list[JobState] = ["queued", "running", "waiting_for_approval"]
    until(lambda: not store.jobs(state=alive), "the end of all jobs", 600)
    assert all(job.state in FINAL for job in store.jobs(limit=10_000))
    killed += [*children_of(host_pid() or 0), kill_host()]
    until(lambda: not any(map(is_alive, killed)), "the end of what the hosts ran")


@pytest.mark.promise("job-1")
@pytest.mark.parametrize(
    ("jobs", "callers", "kills"),
    [(60, 3, 4), pytest.param(2_000, 16, 40, marks=pytest.mark.exhaustive)],
)
def test_calls_that_became_jobs_of_processes_that_are_killed_end_once_and_run_once(
    manager: SkillManager, work: Path, tmp_path: Path, jobs: int, callers: int, kills: int
) -> None:
    given = tmp_path / "given"
    given.touch()
    several = Callers(manager, work, given, ADOPTER)
    for _ in range(callers):
        several.start(jobs // callers)
    chance = random.Random(21)
    for number in range(kills):
        wanted = (number + 1) * jobs // (kills + 1)
        until(partial(is_so_far, several, given, wanted), "the next jobs", 600)
        several.kill_one(chance)
    until(lambda: several.are_done, "the end of the callers", 900)

    left = {word: job_id for job_id, word in lines(given) if job_id != "begun"}
    states = {word: ended(job_id) for word, job_id in left.items()}

    ran = Counter((work / "ran").read_text().split())
    assert set(states.values()) <= {"done", "lost"}
    assert len({word for _, word in lines(given)}) == len(lines(given)) == jobs // callers * callers
    assert [word for word, times in ran.items() if times > 1] == []
    assert {word for word, state in states.items() if state == "done"} <= ran.keys()
    assert list(states.values()).count("done") > jobs // 2
    outputs = {word: user_jobs().job(job_id).output().data for word, job_id in left.items()}
    assert {data for word, data in outputs.items() if states[word] == "done"} == {b"begun\n"}
    assert all(job.state in FINAL for job in user_jobs().jobs(limit=10_000))


def storm(several: Callers, given: Path, jobs: int, kills: int) -> list[int]:
    """Kill hosts and callers by turns, whenever more jobs were started; return what died."""
    chance = random.Random(20)
    killed: list[int] = []
    for number in range(kills):
        wanted = (number + 1) * jobs // (kills + 1) + chance.randrange(5)
        until(partial(is_so_far, several, given, wanted), "the next jobs", 600)
        if number % 2:
            several.kill_one(chance)
        elif host_pid() is not None:
            killed += [*children_of(host_pid() or 0), kill_host()]
    return killed


def is_so_far(several: Callers, given: Path, wanted: int) -> bool:
    return len(lines(given)) >= wanted or several.are_done


def ended(job_id: str) -> str:
    """Wait for a job; read its result if it is done; return its state."""
    job = user_jobs().job(job_id)
    try:
        assert job.result(600).outcome == "ok"
    except JobLostError:
        return "lost"
    return job.state


def lines(given: Path) -> list[tuple[str, str]]:
    found = [line.split() for line in given.read_text().splitlines()]
    return [(job_id, word) for job_id, word in found]


def test_a_killed_process_of_a_job_fails_only_that_job(manager: SkillManager, work: Path) -> None:
    first = manager.start("demo.gated", "a")
    until(lambda: first.output().data, "the run")
    for pid in children_of(host_pid() or 0):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue

    try:
        outcome: str = first.result(60).outcome
    except SkillpouchError as error:
        outcome = error.code

    assert outcome != "ok"
    assert first.state == "failed"
    assert manager.start("demo.mark", "b").result(60).outcome == "ok"
    assert (work / "ran").read_text().split() == ["a", "b"]
