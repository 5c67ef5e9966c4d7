"""What is left when the host is killed, and what a fork does."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import CallEnd, Started
from skillpouch.runtime.owners import ProcessIdentity, state_of, this_process
from tests.journal.conftest import ReadAll

pytestmark = pytest.mark.slow

# Prints the name of each call when its result may be given away; eight threads at once.
HOST = """
import os, sys, threading
from pathlib import Path
from skillpouch.journal.journal import Journal
from skillpouch.journal.records import CallEnd, Started
journal = Journal(Path(sys.argv[1]), required=True)
def work(thread):
    for number in range(250):
        name = f"{sys.argv[2]}.{thread}.{number}"
        call = journal.started(Started(tool=name, arguments={"n": number}))
        journal.ended(call, CallEnd(outcome="ok", content=name * 50))
        os.write(1, f"{name}\\n".encode())
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.write(1, b"all\\n")
"""


@pytest.mark.timeout(120)
@pytest.mark.promise("jour-2")
def test_no_call_that_was_answered_is_lost_or_doubled_by_kill_9(directory: Path) -> None:
    moments = random.Random(7)
    returned: list[str] = []
    cut_short = 0
    for round_number in range(12):
        output = _run_and_kill(directory, round_number, lines=moments.randrange(1, 2000))
        returned += [line for line in output.split("\n")[:-1] if line != "all"]
        cut_short += "all" not in output

    with JournalReader(directory) as reader:
        entries = list(reader.after(Query()))
    found = [entry.tool for entry in entries]
    whole = {entry.tool for entry in entries if entry.outcome == "ok"}
    assert cut_short > 3, "the children were too fast to be killed"
    assert len(found) == len(set(found))
    assert set(returned) <= whole
    assert {entry.outcome for entry in entries} <= {"ok", "interrupted"}
    assert all(entry.content == entry.tool * 50 for entry in entries if entry.outcome == "ok")


def _run_and_kill(directory: Path, number: int, lines: int) -> str:
    """Run 2,000 calls, kill when so many have been answered, and return all that was."""
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(directory), str(number)], stdout=subprocess.PIPE
    )
    assert host.stdout is not None
    seen = [host.stdout.readline() for _ in range(lines)]
    host.kill()
    rest = host.stdout.read()
    host.wait()
    host.stdout.close()
    return (b"".join(seen) + rest).decode()


STARTS = """
import sys
from pathlib import Path
from skillpouch.journal.journal import Journal
from skillpouch.journal.records import Started
journal = Journal(Path(sys.argv[1]))
print(journal.started(Started(tool="slow")), flush=True)
sys.stdin.read()
"""


@pytest.mark.promise("jour-3")
def test_a_call_of_a_living_process_runs_and_of_a_dead_one_was_interrupted(
    directory: Path, read_all: ReadAll
) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", STARTS, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert host.stdout is not None
    assert host.stdin is not None
    host.stdout.readline()

    while_alive = [entry.outcome for entry in read_all()]
    host.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, host.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped yet
    as_zombie = [entry.outcome for entry in read_all()]
    host.wait()

    assert (while_alive, as_zombie) == (["running"], ["interrupted"])
    assert [entry.outcome for entry in read_all()] == ["interrupted"]
    host.stdout.close()
    host.stdin.close()


def test_a_process_id_that_is_used_again_is_another_process() -> None:
    me = this_process()
    now = time.time_ns()

    assert state_of(me, now) == "running"
    assert state_of(me._replace(began="1"), now) == "interrupted"
    assert state_of(me._replace(boot="another"), now) == "interrupted"


def test_a_process_elsewhere_is_not_judged_for_a_day() -> None:
    other = ProcessIdentity(1, "1", "boot", "pid:[1]", "another machine")
    now = time.time_ns()

    assert state_of(other, now) == "elsewhere"
    assert state_of(other, now - 25 * 3600 * 10**9) == "interrupted"


def test_without_proc_a_process_is_asked_for_by_its_id() -> None:
    me = this_process()._replace(began="")
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    assert state_of(me, time.time_ns()) == "running"
    assert state_of(me._replace(pid=child.pid), time.time_ns()) == "interrupted"


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_call_leaves_two_sound_journals(
    journal: Journal, read_all: ReadAll, said: list[str]
) -> None:
    number = journal.started(Started(tool="parent"))
    child = os.fork()
    if child == 0:
        journal.ended(number, CallEnd(outcome="failed", content="not its call"))
        for each in range(50):
            call = journal.started(Started(tool=f"child.{each}"))
            journal.ended(call, CallEnd(outcome="ok"))
        os._exit(0)
    for each in range(50):
        call = journal.started(Started(tool=f"parent.{each}"))
        journal.ended(call, CallEnd(outcome="ok"))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    journal.ended(number, CallEnd(outcome="ok", content="mine"))

    entries = read_all()
    names = {f"{who}.{each}" for who in ("parent", "child") for each in range(50)}
    assert (code, said) == (0, [])
    assert {entry.tool for entry in entries} == names | {"parent"}
    assert len(entries) == 101
    assert entries[0].content == "mine"
    owners = {entry.pid for entry in entries}
    assert owners == {os.getpid(), child}
