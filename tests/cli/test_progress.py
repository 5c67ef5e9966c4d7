"""What `skillpouch call` shows on a terminal while it fetches a program, and what it asks."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch.manager import SkillManager
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
from tests.backends.conftest import Download, certificate, download
from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

__all__ = ["certificate", "download"]
PATIENCE_SECONDS = 60.0

PROMPT = "run it? yes, session, always or no [no] "


def fetched_tool(write_skill: WriteSkill, download: Download) -> Path:
    """Write a skill whose tool is fetched, and grant its host; return its root."""
    backend = {"type": "binary", "url": download.url}
    entry = {"name": "x", "description": "d", "backend": backend}
    front = f"name: demo\ndescription: d\ntools: {json.dumps([entry])}\n"
    root = write_skill(front=front).parent
    skill = SkillManager(root).get_skill("demo")
    Grants().grant(skill, [Need(kind="host", value=download.host)], by="test")
    return root


# A session of its own: what it runs may ask on /dev/tty, and must not find ours.
ALONE = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "skillpouch", *sys.argv[1:]])
"""


def on_terminal(words: list[str], keys: bytes) -> tuple[int, str]:
    """Run a command on a terminal, type when it asks; return its exit code and all it showed."""
    screen, near = os.openpty()
    command = [sys.executable, "-c", ALONE, *words]
    child = subprocess.Popen(command, stdin=near, stdout=near, stderr=near)
    os.close(near)
    shown, typed = "", False
    while select.select([screen], [], [], PATIENCE_SECONDS)[0]:
        try:
            shown += os.read(screen, 65_536).decode(errors="replace")
        except OSError:  # the other end is gone
            break
        if not typed and "[no] " in shown:
            typed = True
            os.write(screen, keys)
    os.close(screen)
    return child.wait(PATIENCE_SECONDS), shown


@pytest.mark.timeout(120)
def test_a_bar_is_shown_and_the_question_has_the_terminal_to_itself(
    write_skill: WriteSkill, download: Download
) -> None:
    download.body += b"#" * 3_000_000
    root = fetched_tool(write_skill, download)

    code, shown = on_terminal(["call", "demo.x", "--root", str(root)], b"y\n")

    assert code == 0, shown
    assert "3.0/3.0 MB" in shown
    question = shown[shown.index("  tool       demo.x") : shown.index(PROMPT)]
    assert f"sha256 {download.digest}" in question
    assert "\x1b" not in question  # nothing is drawn over it
    after = shown[shown.index(PROMPT) :]
    assert after.startswith(f"{PROMPT}y\r\n")
    assert "[]" in shown


def test_without_a_terminal_there_are_plain_lines_and_the_command_that_says_yes(
    skillpouch: Skillpouch, write_skill: WriteSkill, download: Download
) -> None:
    root = fetched_tool(write_skill, download)

    ran = skillpouch("call", "demo.x", "--root", root)

    size = f"{len(download.body)} bytes"
    command = f"skillpouch trust demo --program '{download.url}#sha256={download.digest}'"
    fetching, fetched, error, hint = ran.err.splitlines()
    assert (fetching, fetched) == (
        f"fetching tool from {download.host} ({size})",
        f"fetched {size} of {size}",
    )
    assert (ran.code, ran.out) == (3, "")
    assert error.startswith(f"error: demo.x may not run: {size} came from {download.host}, and")
    assert hint == f"hint: `{command} --root {root}`"


def test_what_a_tool_reports_is_shown_to_who_watches(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    script = (
        'echo \'{"done": 3, "total": 4, "message": "pages"}\' >> $SKILLPOUCH_PROGRESS\nsleep 0.5\n'
    )
    root = write_skill(files={"scripts/x.sh": script}).parent

    code, shown = on_terminal(["call", "demo.x", "--root", str(root)], b"")
    ran = skillpouch("call", "demo.x", "--root", root)

    assert code == 0, shown
    assert "demo.x  3 of 4: pages" in shown
    assert (ran.code, ran.out, ran.err) == (0, "\n", "")
