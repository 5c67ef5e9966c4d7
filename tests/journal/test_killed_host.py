"""Real calls of a real skill in a host that is killed at any moment: what the journal has then."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skillpouch.environment import state_directory
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import Entry
from tests.conftest import WriteSkill
from tests.effort import few_or_many

pytestmark = pytest.mark.slow

# Eight calls at a time, each named by its argument and printed when its result is there.
HOST = """
import asyncio, os, sys
from skillpouch import SkillManager
manager = SkillManager(sys.argv[1], workspace=sys.argv[2])
async def work(worker):
    for number in range(int(sys.argv[4])):
        name = f"{sys.argv[3]}.{worker}.{number}"
        result = await manager.acall("demo.echo", {"word": name})
        assert result.content == name, result
        os.write(1, f"{name}\\n".encode())
async def main():
    await asyncio.gather(*(work(worker) for worker in range(8)))
asyncio.run(main())
os.write(1, b"all\\n")
"""
ECHO = "def main(word: str) -> str:\n    return word\n"
CALLS = 200  # of each host


@pytest.mark.timeout(300)
@few_or_many("rounds", 4, 10)
@pytest.mark.promise("jour-2")
@pytest.mark.promise("jour-3")
def test_every_call_whose_result_was_returned_is_on_record_once_and_finished(
    write_skill: WriteSkill, tmp_path: Path, rounds: int
) -> None:
    root = write_skill(files={"scripts/echo.py": ECHO}).parent
    (tmp_path / "workspace").mkdir()
    words = [sys.executable, "-c", HOST, str(root), str(tmp_path / "workspace")]
    moments = random.Random(11)
    returned: list[str] = []
    for number in range(rounds):
        said = _run_and_kill([*words, str(number), str(CALLS // 8)], moments.randrange(CALLS))
        returned += [line for line in said if line != "all"]

    entries = _entries()
    counted = Counter(entry.arguments["word"] for entry in entries)
    finished = {entry.arguments["word"]: entry for entry in entries if entry.outcome == "ok"}
    assert len(returned) > rounds
    assert [name for name, times in counted.items() if times > 1] == []
    assert set(returned) <= finished.keys()
    assert {entry.outcome for entry in entries} <= {"ok", "interrupted"}
    assert all(entry.content == name for name, entry in finished.items())


@pytest.mark.timeout(120)
@pytest.mark.promise("jour-1")
def test_hosts_at_the_same_time_share_one_journal(write_skill: WriteSkill, tmp_path: Path) -> None:
    root = write_skill(files={"scripts/echo.py": ECHO}).parent
    (tmp_path / "workspace").mkdir()
    words = [sys.executable, "-c", HOST, str(root), str(tmp_path / "workspace")]
    hosts = [
        subprocess.Popen(
            [*words, str(number), "10"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(3)
    ]

    said = [host.communicate()[0].decode().splitlines() for host in hosts]

    returned = {line for lines in said for line in lines if line != "all"}
    entries = _entries()
    assert len(returned) == 3 * 8 * 10
    assert sorted(entry.arguments["word"] for entry in entries) == sorted(returned)
    assert len({entry.id for entry in entries}) == len(entries)


def _entries() -> list[Entry]:
    with JournalReader(state_directory()) as reader:
        return list(reader.after(Query()))


def _run_and_kill(words: list[str], lines: int) -> list[str]:
    """Kill the host when so many of its calls were answered; return all that were."""
    host = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert host.stdout is not None
    found = []
    for _ in range(lines + 1):
        line = host.stdout.readline()
        if not line:
            break
        found.append(line)
    os.kill(host.pid, signal.SIGKILL)
    rest, _ = host.communicate()
    whole = b"".join(found) + rest
    return whole.decode().split("\n")[:-1]
