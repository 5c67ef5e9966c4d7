import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch.errors import CommandStartError, PathReplacedError
from skillpouch.execution import zygote_pool
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement, Plan
from skillpouch.execution.engine import Engine
from skillpouch.execution.zygote_client import probe
from skillpouch.limits import Limits
from tests.effort import few_or_many
from tests.execution.warm_calls import zygotes
from tests.swaps import ROUNDS, swapped

pytestmark = pytest.mark.slow

Bash = Callable[..., Awaitable[Ended]]
Survivors = Callable[[], list[str]]


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(100):
        while not fact():
            await asyncio.sleep(0.01)


def true_in(workspace: Path) -> Command:
    return Command(argv=("/bin/true",), env={}, cwd=workspace)


async def test_calls_of_one_plan_share_a_zygote_and_other_workspaces_do_not(
    engine: Engine, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for _ in range(3):
            confinement = Confinement(workspace=tmp_path / name)
            ended = await engine.run(true_in(tmp_path / name), confinement)
            assert ended.outcome == "ok"

    assert len(zygotes()) == 2


async def test_no_more_zygotes_live_than_allowed(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    async with Engine(most_zygotes=2) as engine:
        for folder in folders:
            folder.mkdir()
        commands = [engine.run(true_in(f), Confinement(workspace=f)) for f in folders]
        results = await asyncio.gather(*commands)
        await until(lambda: len(zygotes()) <= 2)

    assert [result.outcome for result in results] == ["ok"] * 5
    assert zygotes() == []


async def test_an_idle_engine_keeps_nothing_running(workspace: Path) -> None:
    async with Engine(idle_seconds=0.2) as engine:
        await engine.run(true_in(workspace), Confinement(workspace=workspace))
        assert zygotes() != []

        await until(lambda: zygotes() == [])


async def test_a_killed_zygote_loses_its_calls_and_is_replaced(
    bash: Bash, survivors: Survivors
) -> None:
    started = asyncio.Event()
    task = asyncio.ensure_future(
        bash("setsid sleep 1000 & echo go; sleep 1000", on_output=lambda *_: started.set())
    )
    await started.wait()

    os.kill(zygotes()[0], signal.SIGKILL)
    lost = await task
    after = await bash("echo again")

    assert (lost.outcome, lost.code, lost.stdout.text) == ("killed", "zygote_lost", "go\n")
    assert after.stdout.text == "again\n"
    assert survivors() == []


async def test_a_slot_killed_from_outside_loses_its_call_only_after_its_tree_is_dead(
    bash: Bash, survivors: Survivors
) -> None:
    started = asyncio.Event()
    task = asyncio.ensure_future(
        bash("setsid sleep 1000 & echo go; sleep 1000; :", on_output=lambda *_: started.set())
    )
    await started.wait()
    # The smallest: bash has forked before it becomes setsid.
    program = min(pid for pid in all_pids() if b"echo go" in cmdline(pid))

    os.kill(parent(program), signal.SIGKILL)
    lost = await task

    assert survivors() == []
    assert (lost.outcome, lost.code) == ("killed", "zygote_lost")


def all_pids() -> list[int]:
    """Return this process and all that descend from it: others may run tests beside us."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_a_missing_workspace_is_an_error_that_names_it(
    engine: Engine, tmp_path: Path
) -> None:
    command = Command(argv=("/bin/true",), env={}, cwd=Path("/"))

    with pytest.raises(PathReplacedError, match="missing cannot be given to it: no such file"):
        await engine.run(command, Confinement(workspace=tmp_path / "missing"))


@pytest.mark.promise("call-6")
@pytest.mark.parametrize("where", ["link", "link/deeper", "folder/link"])
async def test_a_granted_path_with_a_link_in_it_is_refused(
    where: str, engine: Engine, workspace: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "deeper").mkdir(parents=True)
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to(outside)
    confinement = Confinement(workspace=workspace, readable=(tmp_path / where,))

    with pytest.raises(PathReplacedError, match="link"):
        await engine.run(true_in(workspace), confinement)


async def test_a_file_that_is_replaced_once_while_a_call_begins_stops_nothing(
    engine: Engine, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, new = tmp_path / "cache", tmp_path / "new"
    cache.write_text("old\n")
    new.write_text("new\n")
    look = zygote_pool._key

    def look_then_replace(plan: Plan) -> zygote_pool.Key:
        seen = look(plan)
        if new.exists():
            new.rename(cache)
        return seen

    monkeypatch.setattr(zygote_pool, "_key", look_then_replace)
    command = Command(argv=("/bin/cat", str(cache)), env={}, cwd=workspace)

    ended = await engine.run(command, Confinement(workspace=workspace, readable=(cache,)))

    assert ended.stdout.text == "new\n"


@pytest.mark.promise("fs-1")
async def test_an_interpreter_is_not_followed_through_a_link_that_a_tool_can_make(
    engine: Engine, workspace: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("hunter2")
    (workspace / "venv").symlink_to(outside)
    command = Command(argv=("/bin/cat", str(outside / "key")), env={}, cwd=workspace)

    confinement = Confinement(workspace=workspace, interpreters=(workspace / "venv",))
    ended = await engine.run(command, confinement)

    assert (ended.outcome, ended.stdout.text) == ("failed", "")


async def test_two_hundred_calls_at_once_each_get_their_own_answer(bash: Bash) -> None:
    calls = [
        bash('read x; echo "$N $x"; exit $((N % 100))', env={"N": str(n)}, stdin=b"%d\n" % -n)
        for n in range(200)
    ]

    results = await asyncio.gather(*calls)

    answers = [(ended.stdout.text, ended.exit_code) for ended in results]
    assert answers == [(f"{n} {-n}\n", n % 100) for n in range(200)]


async def test_calls_with_other_limits_do_not_share_a_slot(bash: Bash) -> None:
    few = await bash("ulimit -n", limits={"open_files": 20})
    many = await bash("ulimit -n", limits={"open_files": 200})
    few_again = await bash("ulimit -n; ulimit -n 30", limits={"open_files": 20})

    assert (few.stdout.text, many.stdout.text) == ("20\n", "200\n")
    assert few_again.stdout.text == "20\n"
    assert few_again.exit_code == 1


async def test_temporary_files_of_one_call_are_not_there_for_the_next(bash: Bash) -> None:
    first = await bash("echo x > ${TMPDIR:-/tmp}/left; mkdir -p ${TMPDIR:-/tmp}/a/b; echo made")
    second = await bash("ls ${TMPDIR:-/tmp}")

    assert first.stdout.text == "made\n"
    assert "left" not in second.stdout.text


async def test_a_skill_inside_the_workspace_stays_read_only(bash: Bash, workspace: Path) -> None:
    skill = workspace / "skills" / "greet"
    skill.mkdir(parents=True)
    (skill / "note").write_text("skill")

    script = "cat skills/greet/note; echo y > mine; echo x > skills/greet/note"
    ended = await bash(script, confinement={"skill": skill})

    assert ended.stdout.text == "skill"
    assert (workspace / "mine").read_text() == "y\n"
    assert (skill / "note").read_text() == "skill"
    assert "Read-only file system" in ended.stderr.text


async def test_a_program_behind_a_symbolic_link_is_found_by_every_name(
    bash: Bash, tmp_path: Path
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "file").write_text("text")
    (tmp_path / "second").symlink_to("real")
    (tmp_path / "link").symlink_to(tmp_path / "second")

    names = " ".join(f"{tmp_path}/{name}/file" for name in ("real", "second", "link"))
    ended = await bash(f"cat {names}", confinement={"interpreters": (tmp_path / "link",)})

    assert ended.stdout.text == "texttexttext"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_forked_child_of_the_host_can_start_its_own_engine(
    bash: Bash, workspace: Path
) -> None:
    await bash("true")

    pid = os.fork()
    if pid == 0:
        os._exit(_run_in_child(workspace))

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (await bash("echo still")).stdout.text == "still\n"


def _run_in_child(workspace: Path) -> int:
    async def run() -> int:
        async with Engine() as engine:
            ended = await engine.run(true_in(workspace), Confinement(workspace=workspace))
            return ended.exit_code if ended.exit_code is not None else 99

    try:
        asyncio.events._set_running_loop(None)
        return asyncio.run(run())
    except BaseException as error:  # noqa: BLE001 - the child must not come back
        sys.stderr.write(repr(error))
        return 98


@pytest.mark.timeout(300)
@few_or_many("calls_each", 20, 126)
async def test_thousands_of_calls_leave_memory_descriptors_and_processes_flat(
    workspace: Path, calls_each: int
) -> None:
    most_running, others = 64, len(all_pids())
    async with Engine(most_running=most_running) as engine:
        confinement = Confinement(workspace=workspace)

        async def calls(task: int, count: int) -> None:
            for number in range(count):
                word = f"{task}-{number}"
                command = Command(
                    argv=("/bin/echo", word), env={}, cwd=workspace, limits=Limits(keep_bytes=64)
                )
                ended = await engine.run(command, confinement)
                assert ended.stdout.text == word + "\n"

        await asyncio.gather(*(calls(task, 30) for task in range(64)))
        before = _resident_kib(), len(list(Path("/proc/self/fd").iterdir())), len(all_pids())
        await asyncio.gather(*(calls(task, calls_each) for task in range(64)))
        after = _resident_kib(), len(list(Path("/proc/self/fd").iterdir())), len(all_pids())

    assert after[0] - before[0] < 4096
    # Idle sandboxes stay, one process and one descriptor each, but never more than calls that ran
    # at once: how many those were depends on how busy the machine is. Two more are the zygote and
    # its child in the new namespaces.
    assert after[1] - before[1] <= max(0, after[2] - before[2]) + 4
    assert after[2] <= others + 2 + most_running


def _resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


async def test_no_program_ignores_or_blocks_a_signal_because_its_host_does(workspace: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup(1)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1,))
    try:
        async with Engine() as engine:
            command = replace(true_in(workspace), argv=("/bin/cat", "/proc/self/status"))
            ended = await engine.run(command, Confinement(workspace=workspace))
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    status = dict(line.split(":\t", 1) for line in ended.stdout.text.splitlines())
    standard = 2**31 - 1  # those beyond it are glibc's own, nptl(7)
    assert [int(status[name], 16) & standard for name in ("SigIgn", "SigBlk")] == [0, 0]


async def test_a_workspace_that_was_made_again_is_the_new_one(bash: Bash, workspace: Path) -> None:
    await bash("echo old > file")
    (workspace / "file").unlink()
    workspace.rename(workspace.with_name("old"))
    workspace.mkdir()

    ended = await bash("ls; echo new > file")

    assert ended.stdout.text == ""
    assert (workspace / "file").read_text() == "new\n"


def test_an_engine_outlives_a_loop_that_was_closed(workspace: Path) -> None:
    engine = Engine()

    async def run() -> str:
        return (await engine.run(true_in(workspace), Confinement(workspace=workspace))).outcome

    async def run_and_close() -> str:
        outcome = await run()
        await engine.close()
        return outcome

    assert asyncio.run(run()) == "ok"
    assert asyncio.run(run_and_close()) == "ok"
    assert zygotes() == []


async def test_an_error_in_the_callback_ends_the_call_and_comes_back(
    bash: Bash, survivors: Survivors
) -> None:
    def fail(_stream: str, _piece: bytes) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await bash("echo x; sleep 1000", on_output=fail)

    assert survivors() == []
    assert (await bash("echo next")).stdout.text == "next\n"


async def test_words_that_no_program_can_be_given_are_refused(
    engine: Engine, workspace: Path
) -> None:
    command = Command(argv=("/bin/echo", "a\0b"), env={}, cwd=workspace)

    with pytest.raises(CommandStartError, match="Invalid argument"):
        await engine.run(command, Confinement(workspace=workspace))


@pytest.mark.timeout(120)
async def test_while_zygotes_are_killed_every_call_is_right_or_said_to_be_lost(
    bash: Bash, survivors: Survivors
) -> None:
    done = asyncio.Event()

    async def calls(task: int) -> list[str]:
        outcomes = []
        for number in range(25):
            ended = await bash(f"echo {task}-{number}")
            right = ended.stdout.text == f"{task}-{number}\n"
            assert right or ended.code == "zygote_lost"
            outcomes.append(ended.code or ended.outcome)
        return outcomes

    async def kill() -> None:
        while not done.is_set():
            await asyncio.sleep(0.05)
            for pid in zygotes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    killer = asyncio.ensure_future(kill())
    outcomes = await asyncio.gather(*(calls(task) for task in range(32)))
    done.set()
    await killer

    said = {outcome for some in outcomes for outcome in some}
    assert said <= {"ok", "zygote_lost"}
    assert survivors() == []


@pytest.mark.parametrize("sandbox", ["on", "off"])
async def test_closing_the_engine_ends_the_calls_that_are_running(
    engine: Engine, bash: Bash, survivors: Survivors, sandbox: str
) -> None:
    started = asyncio.Event()
    script = "(setsid sleep 1000 &); echo go; sleep 1000"
    confined = {"sandbox": sandbox}
    tasks = [
        asyncio.ensure_future(
            bash(script, confinement=confined, on_output=lambda *_: started.set())
        )
        for _ in range(3)
    ]
    await started.wait()

    await engine.close()
    results = await asyncio.gather(*tasks)

    assert {(ended.outcome, ended.code) for ended in results} == {("killed", "zygote_lost")}
    assert survivors() == []
    assert zygotes() == []


async def test_a_cancelled_call_with_long_output_leaves_no_descriptor_open(bash: Bash) -> None:
    await bash("true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        started = asyncio.Event()
        task = asyncio.ensure_future(
            bash("yes", limits={"keep_bytes": 10}, on_output=lambda *_: started.set())  # noqa: B023
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await bash("true")

    # Fewer when something of an earlier test was collected meanwhile.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.mark.timeout(3600)
@pytest.mark.promise("call-6")
@pytest.mark.parametrize("namespaces", [True, False], ids=["mounts", "landlock"])
async def test_a_granted_folder_that_is_swapped_with_a_link_is_never_what_it_leads_to(
    namespaces: bool, workspace: Path, tmp_path: Path
) -> None:
    outside, inputs = tmp_path / "outside", workspace / "inputs"
    for folder, text in ((outside, "hunter2"), (inputs, "harmless")):
        folder.mkdir()
        (folder / "key").write_text(text)
    (workspace / "link").symlink_to(outside)
    machine = replace(await asyncio.to_thread(probe), namespaces=namespaces)
    # What it really led to is tried as well: inside, a name that leads nowhere tells nothing.
    words = f"cat inputs/key link/key {outside}/key"
    command = Command(argv=("/bin/sh", "-c", words), env={}, cwd=workspace)
    confinement = Confinement(workspace=workspace, readable=(inputs,))
    said = set[str]()

    async with Engine(machine=machine) as engine:
        with swapped(inputs, workspace / "link"):
            for _ in range(ROUNDS):
                with contextlib.suppress(PathReplacedError):
                    said.add((await engine.run(command, confinement)).stdout.text)
        ended = await engine.run(command, confinement)

    assert not [text for text in said if "hunter2" in text]
    assert ended.stdout.text == "harmless"
