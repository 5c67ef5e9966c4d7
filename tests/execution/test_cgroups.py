"""A cgroup around each sandbox: where one may be made, what it says, and that it holds."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch.errors import SandboxFailedError
from skillpouch.execution.cgroups import (
    Cgroups,
    bounds,
    find_parent,
    own_folder,
    sweep,
    tells_of_kill,
)
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement, plan
from skillpouch.execution.engine import Engine
from skillpouch.execution.machine import Machine, read_report
from skillpouch.execution.zygote_client import probe
from skillpouch.limits import Limits
from tests.execution.conftest import Bash

MIB = 1 << 20
PYTHON = os.path.realpath(sys.executable)
HOME = (Path(sys.base_prefix).resolve(),)
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
LIMITS = {"memory_bytes": 1024 * MIB, "processes": 128}

needs_delegation = pytest.mark.skipif(
    not find_parent(),
    reason="no cgroup v2 with memory and pids is delegated to this user (systemd-run --user "
    "--scope gives one)",
)


@pytest.mark.parametrize(
    ("cgroup", "mounts", "folder"),
    [
        ("0::/app.slice/run-1.scope\n", UNIFIED, "/sys/fs/cgroup/app.slice/run-1.scope"),
        ("4:memory:/a\n0::/b/c\n", UNIFIED, "/sys/fs/cgroup/b/c"),
        # A machine of version 1 may have version 2 too, with everybody in its root.
        ("4:memory:/a\n0::/\n", UNIFIED, ""),
        ("4:memory:/a\n", UNIFIED, ""),
        ("0::/a/b\n", "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", ""),
        # Mounted from its middle on: what is above is not in sight.
        ("0::/a/b\n", UNIFIED.replace(" / ", " /a ", 1), "/sys/fs/cgroup/b"),
        ("0::/a\n", UNIFIED.replace(" / ", " /a ", 1), ""),
        ("0::/ab/c\n", UNIFIED.replace(" / ", " /a ", 1), ""),
        ("0::/../a\n", UNIFIED, ""),
        ("0::/a/b\n", UNIFIED.replace("/sys/fs/cgroup", "/a\\040place"), "/a place/a/b"),
    ],
)
def test_the_cgroup_of_a_process_is_found_by_its_mount(
    cgroup: str, mounts: str, folder: str
) -> None:
    assert own_folder(cgroup, mounts) == folder


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """A process whose cgroup lies in a folder that passes memory and pids on."""
    (tmp_path / "tree/app/own").mkdir(parents=True)
    (tmp_path / "tree/app/cgroup.procs").touch()
    (tmp_path / "tree/app/cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "cgroup").write_text("0::/app/own\n")
    (tmp_path / "mountinfo").write_text(UNIFIED.replace("/sys/fs/cgroup", f"{tmp_path}/tree"))
    return tmp_path


def test_cgroups_are_made_around_the_hosts_own(process: Path) -> None:
    assert find_parent(process) == f"{process}/tree/app"


@pytest.mark.parametrize("passed_on", ["", "memory\n", "cpu pids\n"])
def test_a_folder_that_passes_too_little_on_is_left_alone(process: Path, passed_on: str) -> None:
    (process / "tree/app/cgroup.subtree_control").write_text(passed_on)

    assert find_parent(process) == ""


def test_a_mount_whose_name_is_not_text_is_no_obstacle(process: Path) -> None:
    mounts = process / "mountinfo"
    mounts.write_bytes(b"40 20 0:5 / /mnt/\xff rw - ext4 /dev/x rw\n" + mounts.read_bytes())

    assert find_parent(process) == f"{process}/tree/app"


def test_without_cgroups_none_is_made(tmp_path: Path) -> None:
    assert find_parent(tmp_path) == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else_is_left_alone(process: Path) -> None:
    (process / "tree/app/cgroup.procs").chmod(0o444)

    assert find_parent(process) == ""


@pytest.mark.promise("limit-3")
def test_a_call_may_use_its_memory_and_its_temporary_folders() -> None:
    assert bounds(LIMITS, 256 * MIB) == {
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "memory.max": str(1536 * MIB),
        "pids.max": "130",
    }
    assert bounds({"memory_bytes": None, "processes": 1}, 256 * MIB)["memory.max"] == "max"


def test_only_its_own_limit_makes_a_kill_one_for_memory() -> None:
    assert tells_of_kill("low 0\nhigh 0\nmax 31\noom 1\noom_kill 2\noom_group_kill 1\n")
    assert not tells_of_kill("low 0\nhigh 0\nmax 31\noom 0\noom_kill 0\n")
    assert not tells_of_kill("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n")  # of the machine's


def test_a_cgroup_is_believed_only_when_it_was_seen_to_hold() -> None:
    assert read_report("cgroup 1", root=False, cgroup="/c").cgroup == "/c"
    assert read_report("memory 1", root=False, cgroup="/c").cgroup == ""
    refused = read_report("cgroup 0 accepted, but it denies nothing", root=False, cgroup="/c")
    assert (refused.cgroup, refused.reasons[-1][0]) == ("", "cgroup")


def test_protections_name_the_cgroup_of_confined_tools_only() -> None:
    machine = Machine(landlock=7, seccomp=True, memory=True, adoption=True, cgroup="/c")
    confined = Confinement(workspace=Path("/workspace"))

    found = dict(plan(confined, machine).protections)
    unconfined = dict(plan(replace(confined, sandbox="off"), machine).protections)

    assert (found["memory"], found["processes"]) == ("rlimit_data+cgroup2", "cgroup2")
    assert (unconfined["memory"], unconfined["processes"]) == ("rlimit_data", "none")


def test_what_a_killed_host_left_is_removed_and_what_a_living_one_has_is_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "skillpouch-1-dead/1").mkdir(parents=True)
    (tmp_path / "skillpouch-2-used/1/process").mkdir(parents=True)  # not empty: rmdir(2) refuses
    (tmp_path / "app.scope").mkdir()
    program = "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); "
    program += "fcntl.flock(fd, fcntl.LOCK_SH); print(flush=True); input()"
    (tmp_path / "skillpouch-3-alive/1").mkdir(parents=True)
    words = [sys.executable, "-c", program, str(tmp_path / "skillpouch-3-alive")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        host.stdout.readline()

        sweep(str(tmp_path))

        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*"))
        assert (left, (tmp_path / "app.scope").exists()) == (
            ["skillpouch-2-used/1", "skillpouch-3-alive/1"],
            True,
        )
        host.communicate(b"\n")


async def test_where_a_cgroup_can_no_longer_be_made_nothing_runs(
    tmp_path: Path, workspace: Path
) -> None:
    machine = replace(await asyncio.to_thread(probe), cgroup=str(tmp_path / "gone"))
    command = Command(argv=("/bin/true",), env={}, cwd=workspace)

    async with Engine(machine=machine) as engine:
        with pytest.raises(SandboxFailedError, match="no cgroup could be made"):
            await engine.run(command, Confinement(workspace=workspace))


# What follows needs a kernel's own cgroups.

FILL = "import sys; kept = [bytearray(b'x') * (1 << 20) for _ in range(int(sys.argv[1]))]"


@pytest.fixture
async def parent() -> AsyncIterator[Path]:
    """The folder of cgroups, in which a test leaves none of its own."""
    folder = Path(find_parent())
    yield folder
    assert list(folder.glob(f"skillpouch-{os.getpid()}-*")) == []


@pytest.fixture
async def engine(parent: Path) -> AsyncIterator[Engine]:  # noqa: ARG001 - looked at after it
    async with Engine(grace_seconds=0.2) as engine:
        yield engine


@needs_delegation
def test_the_probe_proves_the_cgroup() -> None:
    assert probe().cgroup == find_parent()


@needs_delegation
@pytest.mark.promise("limit-3")
async def test_processes_that_together_use_too_much_are_killed_together(bash: Bash) -> None:
    each = f"{PYTHON} -c \"{FILL}; print('had', flush=True); input()\" 40"
    script = f"for _ in 1 2 3 4; do sleep 60 | {each} & done; wait; echo survived"

    ended = await bash(
        script,
        limits={"memory_bytes": 64 * MIB, "timeout_seconds": 30},
        confinement={"interpreters": HOME, "temporary_bytes": 8 * MIB},
    )

    assert (ended.outcome, ended.code, ended.exit_code) == ("killed", "memory_limit", None)
    assert "survived" not in ended.stdout.text
    assert ended.protections["memory"] == "rlimit_data+cgroup2"


@needs_delegation
@pytest.mark.promise("limit-3")
async def test_memory_that_is_no_processs_own_counts(bash: Bash, workspace: Path) -> None:
    program = workspace / "share.py"
    program.write_text(
        "import mmap\n"
        "kept = [mmap.mmap(-1, 4 << 20) for _ in range(40)]\n"
        "for each in kept:\n"
        "    each.write(bytes(4 << 20))\n"
    )

    ended = await bash(
        f"{PYTHON} share.py; echo survived",
        limits={"memory_bytes": 64 * MIB},
        confinement={"interpreters": HOME, "temporary_bytes": 8 * MIB},
    )

    assert (ended.outcome, ended.code) == ("killed", "memory_limit")


@needs_delegation
async def test_a_call_that_is_killed_for_its_memory_takes_no_other_with_it(
    engine: Engine, workspace: Path
) -> None:
    confinement = Confinement(workspace=workspace, interpreters=HOME, temporary_bytes=8 * MIB)
    limits = Limits(memory_bytes=None, timeout_seconds=30)
    few = replace(limits, memory_bytes=64 * MIB)
    waiting = Command(
        argv=("/bin/bash", "-c", "read -r word < go; echo $word"),
        env={"PATH": "/usr/bin:/bin"},
        cwd=workspace,
        limits=limits,
    )
    go = workspace / "go"
    os.mkfifo(go)
    fork = "import os; os.fork(); os.fork(); "
    greedy = replace(waiting, argv=(PYTHON, "-c", fork + FILL, "40"), limits=few)
    neighbour = asyncio.create_task(engine.run(waiting, confinement))

    killed = [await engine.run(greedy, confinement) for _ in range(2)]
    go.write_text("done\n")
    spared = await neighbour
    after = await engine.run(replace(greedy, argv=("/bin/true",)), confinement)

    assert [each.code for each in killed] == ["memory_limit"] * 2
    assert (spared.outcome, spared.stdout.text, after.outcome) == ("ok", "done\n", "ok")


@needs_delegation
@pytest.mark.promise("limit-4")
async def test_a_cgroup_counts_processes_where_nothing_else_does(
    parent: Path, workspace: Path
) -> None:
    # As where a runtime blocks namespaces: there only this counts.
    known = await asyncio.to_thread(probe)
    bare = Machine(
        landlock=known.landlock,
        seccomp=known.seccomp,
        memory=True,
        adoption=True,
        root=known.root,
        cgroup=str(parent),
    )
    command = Command(
        argv=("/bin/bash", "-c", "for _ in {1..64}; do sleep 5 & done; jobs | wc -l"),
        env={"PATH": "/usr/bin:/bin"},
        cwd=workspace,
        limits=Limits(processes=16, timeout_seconds=20),
    )
    if bare.landlock < 3:
        pytest.skip("without namespaces and without Landlock nothing runs confined")

    async with Engine(machine=bare) as engine:
        ended = await engine.run(command, Confinement(workspace=workspace))

    assert "Resource temporarily unavailable" in ended.stderr.text


@needs_delegation
async def test_tools_have_no_way_into_the_tree_of_cgroups(bash: Bash, parent: Path) -> None:
    script = f"ls -l /proc/self/fd; echo 0 > {parent}/cgroup.procs; cat /proc/self/cgroup"

    ended = await bash(script)

    assert "cgroup" not in ended.stdout.text.partition("0::")[0]
    assert "No such file" in ended.stderr.text or "denied" in ended.stderr.text
    assert "/skillpouch-" in ended.stdout.text


@needs_delegation
def test_folders_of_cgroups_are_swept_when_their_host_was_killed(parent: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from skillpouch.execution.cgroups import Cgroups, bounds\n"
        "made = Cgroups(sys.argv[1])\n"
        "made.new(bounds({'memory_bytes': 1 << 20, 'processes': 1}, 0))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    mine = Cgroups(str(parent))
    mine.new(bounds(LIMITS, 0)).close_theirs()
    host = subprocess.run([sys.executable, "-c", program, str(parent)], check=False)
    assert host.returncode < 0

    sweep(str(parent))

    left = {path.name.split("-")[1] for path in parent.glob("skillpouch-*")}
    mine.remove()
    assert left == {str(os.getpid())}
