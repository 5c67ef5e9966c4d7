"""The question on a terminal: what is shown, and what counts as a yes. Real terminals."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from skillpouch.needs import Need
from skillpouch.policy import Answer, Question, ask, terminal_approver
from skillpouch.policy.terminal import described
from skillpouch.results import FileChange
from skillpouch.text import visible

QUESTION = Question(
    tool="git.push",
    skill="git",
    runs="python3 scripts/push.py --force",
    arguments={"branch": "main"},
    needs=(Need(kind="host", value="example.com", asked_in="metadata"), Need(kind="unconfined")),
    reasons=("rule 'pushes' asks about it",),
    digest="0123456789abcdef",
)
SHOWN = """\
  tool       git.push
  skill      git 0123456789ab
  runs       python3 scripts/push.py --force
  arguments  {"branch": "main"}
  needs      host example.com (asked in metadata)
  needs      unconfined
  because    rule 'pushes' asks about it"""
PROMPT = "run it? yes, session, always or no [no] "
LONG = 100.0
REFUSED = Answer(yes=False, reason="somebody at the terminal said no")
NOBODY = Answer(yes=False, cause="no_approver", reason="there is no terminal to ask on")


class Screen:
    """The far end of a terminal: what a person sees and types."""

    def __init__(self) -> None:
        self.near, slave = os.openpty()
        self.slave = slave
        self.name = os.ttyname(slave)
        self.seen = ""

    async def sees(self, text: str) -> None:
        async with asyncio.timeout(LONG):
            while text not in self.seen:
                self.seen += (await asyncio.to_thread(os.read, self.near, 4096)).decode()

    def type(self, keys: bytes) -> None:
        os.write(self.near, keys)

    def close(self) -> None:
        os.close(self.near)
        os.close(self.slave)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.close()


async def answer_to(screen: Screen, keys: bytes, question: Question = QUESTION) -> Answer:
    asking = asyncio.create_task(ask(terminal_approver(screen.name), question, LONG))
    await screen.sees("[no] ")
    screen.type(keys)
    return await asking


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (b"y\n", Answer(yes=True)),
        (b" YES \n", Answer(yes=True)),
        (b"session\n", Answer(yes=True, remember="session")),
        (b"always\n", Answer(yes=True, remember="always")),
        (b"\n", REFUSED),
        (b"n\n", REFUSED),
        (b"yy\n", REFUSED),
        (b"\xff\n", REFUSED),
        (b"\x04", REFUSED),
        (b"y\x04", REFUSED),
        (b"\x03", REFUSED),
        (b"y\x03", REFUSED),
    ],
)
@pytest.mark.promise("pol-10")
async def test_only_a_typed_yes_is_a_yes(keys: bytes, answer: Answer, screen: Screen) -> None:
    before = termios.tcgetattr(screen.slave)

    assert await answer_to(screen, keys) == answer

    assert termios.tcgetattr(screen.slave) == before


async def test_a_reason_that_a_need_says_already_is_not_told_again(screen: Screen) -> None:
    need = Need(kind="host", value="example.com", asked_in="metadata")
    told = "it needs to reach example.com (asked in metadata), which was not granted"
    reasons = (told, "it can destroy what cannot be restored")
    await answer_to(screen, b"n\n", replace(QUESTION, needs=(need,), reasons=reasons))

    assert screen.seen.count("example.com") == 1
    assert "because    it can destroy" in screen.seen


@pytest.mark.promise("pol-10")
async def test_the_question_shows_exactly_what_will_run(screen: Screen) -> None:
    await answer_to(screen, b"n\n")

    assert screen.seen.replace("\r\n", "\n").startswith(f"{SHOWN}\n{PROMPT}")


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """Take every descriptor that select(2) could wait for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2_000:
        pytest.skip("this user may not open 2,000 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    yield
    for descriptor in many:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open_files")
async def test_a_process_with_many_open_files_can_be_asked(screen: Screen) -> None:
    answered = await answer_to(screen, b"y\n")

    assert answered == Answer(yes=True)


@pytest.mark.promise("pol-10")
async def test_what_was_typed_before_the_question_does_not_count(screen: Screen) -> None:
    screen.type(b"y\ny\n")
    await screen.sees("y\r\ny\r\n")

    assert await answer_to(screen, b"\n") == REFUSED


@pytest.mark.promise("pol-10")
def test_nothing_in_a_question_moves_the_cursor_or_hides() -> None:
    text = "a\x1b[2Kb\rc\nd\te\u202ef\u200bg\u3164h\x9bi\U000e0041j\ud800"
    hostile = replace(QUESTION, runs=text, arguments={"k": text}, reasons=(text,), tool=text)

    shown = described(hostile)

    written = r"a\x1b\x5b\x32\x4bb\rc\nd\te\u202ef\u200bg\u3164h\x9b\x69\U000e0041j\ud800"
    assert shown.splitlines()[0] == f"  tool       {written}"
    assert all(line.isprintable() and line.isascii() for line in shown.split("\n"))


def test_text_that_hides_nothing_is_shown_as_it_is() -> None:
    assert visible("grüße, 世界, 'x' \\n") == "grüße, 世界, 'x' \\n"


def test_a_long_argument_is_cut_and_says_so() -> None:
    line = described(replace(QUESTION, arguments={"text": "x" * 5000})).splitlines()[3]

    assert "… 3,012 characters not shown …" in line
    assert len(line) < 2200


@pytest.mark.promise("pol-10")
def test_what_will_run_is_shown_whole() -> None:
    script = "# fine\n" * 700 + "rm -rf ~\n" + "# fine\n" * 700

    assert "rm -rf ~" in described(replace(QUESTION, runs=script))
    assert "characters not shown" in described(replace(QUESTION, runs=script * 2))


async def test_a_question_whose_time_is_over_does_not_take_the_next_line(screen: Screen) -> None:
    late = await ask(terminal_approver(screen.name), QUESTION, 0.05)
    await screen.sees("no answer in time: no")
    screen.seen = ""

    answer = await answer_to(screen, b"y\n")

    assert (late.yes, late.cause) == (False, "no_answer")
    assert answer == Answer(yes=True)


async def test_questions_are_asked_one_after_the_other(screen: Screen) -> None:
    approver = terminal_approver(screen.name)
    first = asyncio.create_task(ask(approver, QUESTION, LONG))
    await screen.sees("[no] ")
    second = asyncio.create_task(ask(approver, replace(QUESTION, tool="git.pull"), LONG))
    screen.type(b"y\n")
    await screen.sees("git.pull")
    screen.seen = screen.seen.rpartition("git.pull")[2]
    await screen.sees("[no] ")
    screen.type(b"n\n")

    assert [(await first).yes, (await second).yes] == [True, False]


async def test_a_question_whose_time_is_over_before_its_turn_is_never_shown(
    screen: Screen,
) -> None:
    approver = terminal_approver(screen.name)
    first = asyncio.create_task(ask(approver, QUESTION, LONG))
    await screen.sees("[no] ")
    forgotten = await ask(approver, replace(QUESTION, tool="never.shown"), 0.05)
    threads = [thread for thread in threading.enumerate() if thread.name == "skillpouch-approver"]
    screen.type(b"y\n")
    answer = await first
    for thread in threads:
        await asyncio.to_thread(thread.join, LONG)

    assert (answer.yes, forgotten.cause) == (True, "no_answer")
    screen.type(b"the end\n")
    await screen.sees("the end")
    assert "never.shown" not in screen.seen


async def test_without_a_terminal_it_is_a_no() -> None:
    assert await ask(terminal_approver("no/such/device"), QUESTION, LONG) == NOBODY


async def test_standard_input_and_error_do_when_both_are_terminals(screen: Screen) -> None:
    kept = os.dup(0), os.dup(2)
    os.dup2(screen.slave, 0)
    os.dup2(screen.slave, 2)
    try:
        asking = asyncio.create_task(ask(terminal_approver("no/such/device"), QUESTION, LONG))
        await screen.sees("[no] ")
        screen.type(b"y\n")
        answer = await asking
    finally:
        for number, descriptor in zip((0, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)

    assert answer == Answer(yes=True)


_PROGRAM = """
import asyncio, os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)  # a session leader's first terminal controls it
from skillpouch.policy import Question, ask, terminal_approver
question = Question(tool="t.x", skill="t", runs="true")
if sys.argv[2] == "background" and os.fork():
    os.wait()
    os._exit(0)
if sys.argv[2] == "background":
    os.setpgid(0, 0)
answer = asyncio.run(ask(terminal_approver(), question, 20))
print(answer.yes, answer.cause, flush=True)
"""


async def run_on(screen: Screen, where: str, keys: bytes) -> str:
    """Run the approver in a process of its own that the screen controls."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, screen.name, where],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if keys:
            await screen.sees("[no] ")
            screen.type(keys)
        output, _ = await asyncio.to_thread(process.communicate, timeout=LONG)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
    return str(output.decode().strip())


async def test_the_controlling_terminal_is_asked(screen: Screen) -> None:
    assert await run_on(screen, "foreground", b"y\n") == "True answered"


@pytest.mark.promise("pol-10")
async def test_ctrl_c_at_the_question_is_a_no(screen: Screen) -> None:
    assert await run_on(screen, "foreground", b"\x03") == "False answered"


async def test_a_job_in_the_background_is_not_stopped_by_asking(screen: Screen) -> None:
    assert await run_on(screen, "background", b"") == "False no_approver"


def test_what_a_call_changed_is_shown_with_its_diff_and_nothing_that_a_terminal_obeys() -> None:
    changes = tuple(FileChange(path=f"f{n}", change="deleted") for n in range(25))
    renamed = FileChange(path="b", change="renamed", old_path="a")
    rewritten = FileChange(path="c", change="changed", size_before=10, size=2_000)
    diff = "-old\x1b[2J\n+new\n" + "line\n" * 500

    shown = described(
        Question(tool="t", skill="s", runs="r", changes=(renamed, rewritten, *changes), diff=diff)
    )

    assert "  changes    renamed a → b\n" in shown
    assert "  changes    changed c, 10 → 2,000 bytes\n" in shown
    assert "  changes    and 7 more\n" in shown
    assert "  -old\\x1b" in shown
    assert "\n  +new\n" in shown
    assert shown.endswith("  … 302 more lines of the diff")
    assert "\x1b" not in shown
