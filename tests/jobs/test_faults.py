"""Whatever happens to the host, its folder or its disk: every job ends, none runs twice."""

import ctypes
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.jobs.job import JobHostError, JobLostError, JobStoreError
from skillpouch.jobs.job_runner import user_jobs
from tests.jobs.hosts import end_host, host_pid, jobs_folder, until
from tests.jobs.test_jobs import ran

pytestmark = pytest.mark.slow

# Kills the job host before or after one of its commits, once: a second host lives.
KILLS = """
import os, signal, sqlite3, sys
connect, seen = sqlite3.connect, [0]
class Connection(sqlite3.Connection):
    def execute(self, query, *values):
        if query != "COMMIT":
            return super().execute(query, *values)
        seen[0] += 1
        if seen[0] == {number} and {before}:
            kill()
        done = super().execute(query, *values)
        if seen[0] == {number}:
            kill()
        return done
def kill():
    try:
        os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
def connected(path, *words, **named):
    if str(path).endswith("jobs.sqlite3"):
        named["factory"] = Connection
    return connect(path, *words, **named)
if "skillpouch.servers.job_host" in sys.orig_argv:
    sqlite3.connect = connected
"""


@pytest.mark.promise("job-1")
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(1, 7))
def test_a_host_killed_at_any_commit_runs_nothing_twice(
    manager: SkillManager,
    work: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    before: bool,
) -> None:
    marker = tmp_path / "killed"
    (tmp_path / "site").mkdir()
    text = KILLS.format(number=number, before=before, marker=str(marker))
    (tmp_path / "site/sitecustomize.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))

    job = manager.start("demo.mark", "a")
    try:
        outcome: str = job.result(60).outcome
    except JobLostError:
        outcome = "lost"

    assert marker.exists() or number > 5
    assert ran(work) in (["a"], []) if outcome == "lost" else ran(work) == ["a"]
    assert job.state == ("done" if outcome == "ok" else "lost")
    assert manager.start("demo.mark", "b").result(60).outcome == "ok"
    assert ran(work).count("b") == 1


def test_no_path_of_a_folder_is_too_long(
    manager: SkillManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long-" * 30) / ("longer-" * 30)
    monkeypatch.setenv("XDG_STATE_HOME", str(long))

    try:
        assert manager.start("demo.hello").result(60).content == "hello"
    finally:
        end_host()


@pytest.mark.promise("job-2")
@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_what_lies_in_the_place_of_the_socket_is_refused_by_name(
    manager: SkillManager, tmp_path: Path, what: str
) -> None:
    jobs_folder().mkdir(parents=True, mode=0o700)
    planted = jobs_folder() / "host.sock"
    if what == "file":
        planted.touch()
    elif what == "link":
        planted.symlink_to(tmp_path / "elsewhere")
    else:
        planted.mkdir()

    with pytest.raises(JobHostError, match=r"host\.sock: it is not a socket that belongs to you"):
        manager.start("demo.hello")


@pytest.mark.promise("job-2")
def test_a_folder_or_socket_of_another_user_is_refused_by_name(manager: SkillManager) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    folder = jobs_folder()
    folder.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(str(folder / "host.sock"))
        os.chown(folder / "host.sock", 54321, 54321)
        with pytest.raises(JobHostError, match="it is not a socket that belongs to you"):
            manager.start("demo.hello")
    os.chown(folder, 54321, 54321)

    with pytest.raises((JobHostError, JobStoreError), match="it belongs to another user"):
        manager.start("demo.hello")


LISTENS = """
import os, socket, sys
line = socket.socket(fileno=int(sys.argv[1]))
os.setgroups([]); os.setgid(54321); os.setuid(54321)
line.listen()
print("listens", flush=True)
line.accept()[0].recv(1)
"""


@pytest.mark.promise("job-2")
def test_a_process_of_another_user_behind_the_socket_is_refused(manager: SkillManager) -> None:
    if os.geteuid():
        pytest.skip("only root can become another user")
    jobs_folder().mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(jobs_folder() / "host.sock"))
        words = [sys.executable, "-c", LISTENS, str(line.fileno())]
        with subprocess.Popen(words, pass_fds=(line.fileno(),), stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"listens\n"
            with pytest.raises(JobHostError, match="a process of user 54321 is there"):
                manager.start("demo.hello")
            process.kill()


def test_a_damaged_store_is_explained_to_who_starts_a_job(manager: SkillManager) -> None:
    manager.start("demo.hello").result(60)
    end_host()
    user_jobs().close()
    for path in jobs_folder().glob("jobs.sqlite3*"):
        path.unlink()
    (jobs_folder() / "jobs.sqlite3").write_bytes(b"no database" * 1000)

    with pytest.raises(JobStoreError) as raised:
        manager.start("demo.hello")

    assert "move it away" in raised.value.hint


def test_a_store_that_is_locked_for_a_while_delays_a_job(manager: SkillManager) -> None:
    manager.start("demo.hello").result(60)
    other = sqlite3.connect(jobs_folder() / "jobs.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    program = (
        "import sys; from skillpouch import SkillManager\n"
        "manager = SkillManager(sys.argv[1], workspace=sys.argv[2])\n"
        "print('starts', flush=True)\n"
        "print(manager.start('demo.hello').result(60).content)"
    )
    words = [sys.executable, "-c", program, str(manager.roots[0]), str(manager.executor.workspace)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as caller:
        assert caller.stdout
        assert caller.stdout.readline() == b"starts\n"

        other.execute("COMMIT")
        other.close()

        assert caller.stdout.readline() == b"hello\n"


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of two megabytes, as root."""
    if os.geteuid():
        pytest.skip("needs root")
    folder.mkdir(parents=True, mode=0o700)
    libc = ctypes.CDLL(None, use_errno=True)
    options = b"size=2m,mode=0700"
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options):
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        end_host()
        user_jobs().close()
        libc.umount2(os.fsencode(folder), 2)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def start_until_full(manager: SkillManager) -> None:
    for _ in range(200):  # the log of the database may have some room
        manager.start("demo.mark", "b")


def test_a_full_disk_refuses_new_jobs_and_loses_no_result(
    manager: SkillManager, work: Path
) -> None:
    with small_disk(jobs_folder()):
        first = manager.start("demo.gated", "a")
        until(lambda: ran(work), "the run")
        filler = jobs_folder() / "filler"
        fill(filler)

        with pytest.raises(JobStoreError, match="full"):
            start_until_full(manager)
        (work / "go-a").touch()
        filler.unlink()

        assert first.result(60).outcome == "ok"
        assert manager.start("demo.mark", "c").result(60).outcome == "ok"
        assert ran(work).count("c") == 1


def test_a_host_outlives_the_terminal_of_its_caller(manager: SkillManager) -> None:
    assert manager.start("demo.hello").result(60).content == "hello"
    pid = host_pid()
    assert pid is not None

    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(pid, number)

    assert manager.start("demo.hello").result(60).content == "hello"
    assert host_pid() == pid
    assert os.getsid(pid) != os.getsid(0)
    streams = [Path(f"/proc/{pid}/fd/{number}").readlink() for number in (0, 1)]
    assert streams == [Path("/dev/null")] * 2
