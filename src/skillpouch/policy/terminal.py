"""Asks on the terminal: shows all that will run, and accepts only a typed approval."""

import contextlib
import json
import os
import select
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from skillpouch.needs import Need
from skillpouch.policy.approval import Answer, Approver, Question, Remember, in_thread
from skillpouch.policy.rules import reason_for
from skillpouch.results import FileChange
from skillpouch.text import visible

_LONGEST = 2_000
# What will run is what the question is about: of that, all that somebody can be expected to read.
_LONGEST_RUNS = 20_000
_MOST_CHANGES, _MOST_LINES = 20, 200  # of changed files, and of their diff


def described(question: Question) -> str:
    """Return what an approver has to see, one fact per line."""
    arguments = json.dumps(dict(question.arguments), ensure_ascii=False, default=repr)
    told = {reason_for(need) for need in question.needs}  # already among the lines
    facts = [
        ("tool", question.tool),
        ("skill", f"{question.skill} {question.digest[:12]}".strip()),
        ("runs", question.runs),
        ("arguments", arguments),
        *(("needs", _need(need)) for need in question.needs),
        *(("because", reason) for reason in dict.fromkeys(question.reasons) if reason not in told),
        *(("changes", _change(change)) for change in question.changes[:_MOST_CHANGES]),
    ]
    if len(question.changes) > _MOST_CHANGES:
        facts.append(("changes", f"and {len(question.changes) - _MOST_CHANGES:,} more"))
    lines = [f"  {name:<9}  {_shortened(name, visible(text))}" for name, text in facts]
    return "\n".join([*lines, *_diff_lines(question.diff)])


def _change(change: FileChange) -> str:
    was = f"{change.old_path} → " if change.old_path else ""
    size = f", {change.size_before:,} → {change.size:,} bytes" if change.change == "changed" else ""
    return f"{change.change} {was}{change.path}{size}"


def _diff_lines(diff: str) -> list[str]:
    """Return a diff line by line, with nothing in it that a terminal obeys."""
    lines = [visible(line) for line in diff.splitlines()]
    kept, length = list[str](), 0
    for line in lines:
        length += len(line)
        if len(kept) == _MOST_LINES or length > _LONGEST_RUNS:
            return [*kept, f"  … {len(lines) - len(kept):,} more lines of the diff"]
        kept.append(f"  {line}")
    return kept


def _need(need: Need) -> str:
    asked = f" (asked in {need.asked_in})" if need.asked_in else ""
    return f"{need.kind} {need.value}".strip() + asked


def _shortened(name: str, text: str) -> str:
    longest = _LONGEST_RUNS if name == "runs" else _LONGEST
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … {len(text) - 2 * half:,} characters not shown … {text[-half:]}"


_YES: dict[bytes, Remember] = {
    b"y": "once",
    b"yes": "once",
    b"session": "session",
    b"always": "always",
}
_INTERRUPT = b"\x03"
_LONGEST_LINE = 4096
_STDIN, _STDERR = 0, 2
# One question at a time: two calls that ask at once must not share a line.
_one_at_a_time = threading.Lock()
_NOBODY = Answer(yes=False, cause="no_approver", reason="there is no terminal to ask on")
_LATE = Answer(yes=False, cause="no_answer", reason="nobody answered in time")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terminal:
    reading: int
    writing: int

    def write(self, text: str) -> None:
        os.write(self.writing, text.encode(errors="backslashreplace"))


def terminal_approver(device: str = "/dev/tty") -> Approver:
    """Return an approver that asks on the controlling terminal, and denies without one.

    `yes` or `y` approves this call; `session` and `always` are remembered. Anything else, the
    end of input and Ctrl-C deny it. Input that was typed before the question is discarded.
    """

    async def approve(question: Question) -> Answer:
        # Closing one end wakes the thread that waits at the other end: after the timeout, the
        # question must not read the next line that the user types.
        over, ending = os.pipe()
        try:
            return await in_thread(lambda: _ask(device, question, over))
        finally:
            os.close(ending)

    return approve


def _ask(device: str, question: Question, over: int) -> Answer:
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, over)
        stack.enter_context(_one_at_a_time)
        terminal = stack.enter_context(_terminal(device))
        if terminal is None or not _is_foreground(terminal.reading):
            return _NOBODY
        stack.enter_context(_whole_lines(terminal.reading))
        return _answer(terminal, question, over)


def _answer(terminal: _Terminal, question: Question, over: int) -> Answer:
    # Not select(2), which takes no descriptor above 1023.
    waiting = select.poll()
    waiting.register(over, select.POLLIN)
    if waiting.poll(0):
        return _LATE
    # What has changed is approved once: the next call changes something else.
    can_last = not question.changes
    asked = "run it? yes, session, always or no" if can_last else "let it arrive? yes or no"
    terminal.write(f"{described(question)}\n{asked} [no] ")
    waiting.register(terminal.reading, select.POLLIN)
    if over in [descriptor for descriptor, _ in waiting.poll()]:
        terminal.write("\nno answer in time: no\n")
        return _LATE
    line = os.read(terminal.reading, _LONGEST_LINE)
    # Only a line that ends with Enter counts: `y` and then Ctrl-C or Ctrl-D does not approve.
    if not line.endswith(b"\n"):
        terminal.write("\n")
        line = b""
    remember = _YES.get(line.strip().lower())
    if remember is None or not (can_last or remember == "once"):
        return Answer(yes=False, reason="somebody at the terminal said no")
    return Answer(yes=True, remember=remember)


@contextlib.contextmanager
def _terminal(device: str) -> Iterator[_Terminal | None]:
    try:
        descriptor = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        both = os.isatty(_STDIN) and os.isatty(_STDERR)
        yield _Terminal(reading=_STDIN, writing=_STDERR) if both else None
        return
    try:
        yield _Terminal(reading=descriptor, writing=descriptor)
    finally:
        os.close(descriptor)


def _is_foreground(descriptor: int) -> bool:
    """Tell whether this process may read the terminal.

    The kernel stops a background job that does, with SIGTTIN, setpgid(2).
    """
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # not the controlling terminal of this process, so reading does not stop it
        return True


@contextlib.contextmanager
def _whole_lines(descriptor: int) -> Iterator[None]:
    """Switch to whole lines with echo, let Ctrl-C end a line, and discard pending input.

    Ctrl-C ends the line instead of raising SIGINT, so that it denies the call and nothing else.
    """
    before = termios.tcgetattr(descriptor)
    during = termios.tcgetattr(descriptor)
    during[3] |= termios.ICANON | termios.ECHO
    during[6][termios.VINTR] = bytes([os.fpathconf(descriptor, "PC_VDISABLE")])
    during[6][termios.VEOL] = _INTERRUPT
    termios.tcsetattr(descriptor, termios.TCSAFLUSH, during)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
