"""What a call touches is made ready for the next: real forks, counted page faults."""

import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch import SkillManager

pytestmark = pytest.mark.slow

# In a process of its own: it forks, and what it counts is the whole process.
PRELUDE = """
import os, resource
from skillpouch.execution.preforked.prefault import Pages

blocks = [bytearray(os.urandom(4096)) for _ in range(600)]
pages = Pages()

def work():
    for block in blocks:
        block[0] ^= 1

def faults_of(prepare):
    reads, writes = os.pipe()
    if os.fork() == 0:
        prepare()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        work()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        os.write(writes, b"%d" % (after - before))
        pages.note()
        os._exit(0)
    os.wait()
    return int(os.read(reads, 100))
"""


def run(code: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, check=True
    )
    return [int(word) for word in done.stdout.split()]


def test_what_one_child_touched_is_ready_in_the_next() -> None:
    first, second = run(
        "pages.want()\n"
        "first = faults_of(lambda: None)\n"
        "pages.learn()\n"
        "print(first, faults_of(pages.make_ready))\n"
    )

    assert first >= 600
    assert second < first / 4


def test_nothing_is_noted_that_nobody_wants() -> None:
    (known,) = run("faults_of(lambda: None)\npages.learn()\nprint(int(pages.known))")

    assert known == 0


@pytest.mark.parametrize("note", [b"x y z", b"1 2", b"-5 99 23", b"4096 4096 4", b"\xff" * 4000])
def test_a_note_that_is_nonsense_harms_nobody(note: bytes) -> None:
    known, faults = run(
        "pages.want()\n"
        f"pages._shared[:{len(note)}] = {note!r}\n"
        "pages.learn()\n"
        "print(int(pages.known), faults_of(pages.make_ready))\n"
    )

    assert known == 0
    assert faults >= 600


def test_more_memory_than_a_call_should_touch_is_not_made_ready() -> None:
    (known,) = run(
        "pages.want()\n"
        "note = b'4096 1000000000000 23'\n"
        "pages._shared[:len(note)] = note\n"
        "pages.learn()\n"
        "print(int(pages.known))\n"
    )

    assert known == 0


def test_calls_before_and_after_say_the_same(tmp_path: Path) -> None:
    scripts = tmp_path / "skills/s/scripts"
    scripts.mkdir(parents=True)
    (tmp_path / "w").mkdir()
    (scripts.parent / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    (scripts / "count.py").write_text(
        "import atexit\nCALLS = []\n"
        "def handler(args):\n"
        "    CALLS.append(args['n'])\n"
        "    atexit.register(print, 'bye', args['n'])\n"
        "    return CALLS\n"
    )
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path / "w")

    results = [manager.call("s.count", {"n": n}) for n in range(12)]

    assert [(r.structured, r.stdout) for r in results] == [([n], f"bye {n}\n") for n in range(12)]
    assert results[-1].warm
