"""Thousands of calls, and a host that is killed: right answers, nothing kept, nothing left."""

import asyncio
import gc
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager
from tests.conftest import WriteSkill
from tests.effort import few_or_many

pytestmark = pytest.mark.slow

SCRIPTS = {
    "scripts/words.sh": 'printf "%s" "$1"\n',
    "scripts/fail.sh": "echo no >&2; exit 7\n",
    "scripts/python.py": "def main(n: int) -> dict:\n    return {'n': n}\n",
    "scripts/node.mjs": "export default (args) => ({ n: args.n });\n",
    "tools.json": '[{"name": "node", "description": "d", "script": "scripts/node.mjs",'
    ' "parameters": {"n": "integer"}}]',
}


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    (tmp_path / "workspace").mkdir()
    root = write_skill(files=SCRIPTS).parent
    return SkillManager(root, workspace=tmp_path / "workspace", cache=False)


async def answers_right(manager: SkillManager, number: int) -> bool:
    if number % 500 == 1:
        return bool((await manager.acall("node", {"n": number})).structured == {"n": number})
    if number % 50 == 2:
        return bool((await manager.acall("python", {"n": number})).structured == {"n": number})
    if number % 10 == 3:
        return (await manager.acall("fail")).exit_code == 7
    result = await manager.acall("words", f"n{number}")
    return (result.outcome, result.stdout) == ("ok", f"n{number}")


async def run_all(manager: SkillManager, total: int) -> list[int]:
    """Return the numbers of the calls that were answered wrongly."""
    pending = iter(range(total))
    wrong: list[int] = []

    async def work() -> None:
        for number in pending:
            wrong.extend([] if await answers_right(manager, number) else [number])

    await asyncio.gather(*(work() for _ in range(64)))
    return wrong


def descendants() -> int:
    """Count all processes below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(status.rpartition(")")[2].split()[1])
    below = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= grown
    return len(below) - 1


def usage() -> tuple[int, int, int]:
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir("/proc/self/fd")), descendants()  # noqa: PTH208


@pytest.mark.timeout(300)
@few_or_many("calls", 1_000, 10_000)
async def test_thousands_of_calls_from_64_tasks_are_all_right_and_leave_nothing(
    manager: SkillManager, calls: int
) -> None:
    assert await run_all(manager, 1_000) == []
    resident, descriptors, processes = usage()

    assert await run_all(manager, calls) == []

    after = usage()
    assert after[0] < resident + 8 * 1024 * 1024
    assert after[1] <= descriptors + 4
    assert after[2] <= processes + 4


HOST = """
import sys
from skillpouch import SkillManager
manager = SkillManager(sys.argv[1], workspace=sys.argv[2], cache=False)
say = lambda *_: print("ready", flush=True)
manager.call("hang", on_output=say)
"""


@pytest.fixture
def carriers() -> Callable[[str], list[int]]:
    """Processes that carry a word in their command line and are not waiting to be reaped."""

    def find(word: str) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    found += [int(entry.name)] if word in (entry / "cmdline").read_text() else []
                except (OSError, UnicodeDecodeError):
                    continue
        return found

    return find


@pytest.mark.promise("proc-8")
async def test_a_host_killed_in_the_middle_of_a_call_leaves_no_child_alive(
    write_skill: WriteSkill, tmp_path: Path, carriers: Callable[[str], list[int]]
) -> None:
    word = secrets.token_hex(8)
    sleep = f"sh -c 'echo; sleep 1000; : {word}'"
    files = {"scripts/hang.sh": f"setsid {sleep} & ({sleep} &) ; {sleep}\n"}
    (tmp_path / "work").mkdir()
    root = write_skill(files=files).parent
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(root), str(tmp_path / "work")], stdout=subprocess.PIPE
    ) as host:
        assert host.stdout is not None
        host.stdout.readline()
        assert carriers(word)
        os.kill(host.pid, signal.SIGKILL)
        host.wait()

    async with asyncio.timeout(100):
        while carriers(word):
            await asyncio.sleep(0.01)


FEW = """
import asyncio, resource, sys
from skillpouch import SkillManager
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
manager = SkillManager(sys.argv[1], workspace=sys.argv[2], cache=False)
async def main():
    calls = (manager.acall("words", str(number)) for number in range(300))
    return await asyncio.gather(*calls, return_exceptions=True)
print([getattr(result, "stdout", result) for result in asyncio.run(main())])
"""


def test_a_process_with_few_descriptors_answers_many_calls_at_once(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    root = write_skill(files=SCRIPTS).parent

    ran = subprocess.run(
        [sys.executable, "-c", FEW, str(root), str(tmp_path / "work")],
        capture_output=True,
        text=True,
        timeout=25,
        check=True,
    )

    assert ran.stdout == f"{[str(number) for number in range(300)]}\n"
