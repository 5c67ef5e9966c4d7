"""A damaged, foreign, locked or unwritable index costs time, never an answer."""

import gc
import json
import marshal
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from skillpouch import SkillManager
from skillpouch.discovery.index import is_settled
from skillpouch.environment import cache_directory
from skillpouch.untrusted_files import stamp_of

pytestmark = pytest.mark.slow

Damage = Callable[[Path], object]

PRINTS_ANSWERS = """
import json, sys
from skillpouch import SkillManager
manager = SkillManager(sys.argv[1])
tools = [tool.id for tool in manager.tools]
print(json.dumps([[skill.name for skill in manager.list_skills()], tools]))
"""
EXPECTED = [["alpha", "beta"], ["alpha.run", "beta.run"]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two skills that no test changes, old enough to be remembered."""
    root = tmp_path_factory.mktemp("skills")
    for name in ("alpha", "beta"):
        (root / name / "scripts").mkdir(parents=True)
        (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: It.\n---\nDo.\n")
        (root / name / "scripts/run.py").write_text("print(1)\n")
    stamps = [stamp_of(path.lstat()) for path in (root, *root.rglob("*"))]
    deadline = time.monotonic() + 10
    while not all(map(is_settled, stamps)) and time.monotonic() < deadline:
        time.sleep(0.005)
    return root


def answers(root: Path) -> list[list[str]]:
    manager = SkillManager(root)
    tools = [tool.id for tool in manager.tools]
    return [[skill.name for skill in manager.list_skills()], tools]


def index_file() -> Path:
    directory = cache_directory()
    assert directory is not None
    return directory / "index.sqlite3"


def fill(root: Path) -> Path:
    assert answers(root) == EXPECTED
    gc.collect()  # at rest: damage to a file that is mapped is a fault of the machine
    assert index_file().stat().st_size > 0
    return index_file()


def overwrite_middle(file: Path) -> None:
    with file.open("r+b") as open_file:
        open_file.seek(4096)
        open_file.write(os.urandom(60_000))


def other_shape(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TABLE entries")
        connection.execute("CREATE TABLE entries (something TEXT, other BLOB)")


def no_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TABLE entries")


def a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "occupied").touch()


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(os.urandom(20_000)),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000),
        lambda file: os.truncate(file, file.stat().st_size // 2),
        overwrite_middle,
        lambda file: file.with_name("index.sqlite3-wal").write_bytes(os.urandom(20_000)),
        lambda file: file.with_name("index.sqlite3-shm").write_bytes(os.urandom(20_000)),
        other_shape,
        no_table,
        a_directory,
        a_pipe,
    ],
)
def test_a_damaged_index_changes_no_answer(root: Path, damage: Damage) -> None:
    damage(fill(root))

    assert [answers(root) for _ in range(3)] == [EXPECTED] * 3


def test_a_damaged_index_is_made_anew(root: Path) -> None:
    file = fill(root)
    for path in file.parent.glob("index.sqlite3*"):
        path.write_bytes(os.urandom(5_000))

    for _ in range(3):
        answers(root)

    assert file.read_bytes()[:6] == b"SQLite"


@pytest.mark.parametrize(
    "value",
    [
        *(None, 7, "text", b"bytes", [], {}, (), [1, 2], {"folders": 7}, {"files": 7}),
        *({"folders": {}, "files": []}, {"folders": {"/": []}}, {"folders": {"/": [1, 2, 3]}}),
        *({"folders": [], "files": {}}, {"folders": None, "files": None}),
        {"skill": "alpha", "stamps": {}, "tools": 7, "problems": []},
        {"skill": "alpha", "stamps": 7, "tools": [], "problems": []},
        {"skill": "alpha", "stamps": {}, "tools": [{"kind": "magic"}], "problems": []},
        {"skill": "alpha", "stamps": {}, "tools": [{}], "problems": [{}]},
    ],
)
def test_values_of_the_wrong_shape_change_no_answer(root: Path, value: Any) -> None:
    overwrite_values(fill(root), marshal.dumps(value))

    assert answers(root) == EXPECTED


@pytest.mark.parametrize("raw", [b"", b"\xff", b"(" * 50, b"{}", "text", 7, None])
def test_values_that_their_checksum_does_not_fit_change_no_answer(root: Path, raw: Any) -> None:
    with closing(sqlite3.connect(fill(root))) as connection, connection:
        connection.execute("UPDATE entries SET value = ?", (raw,))

    assert answers(root) == EXPECTED


def test_records_of_skills_that_are_cut_short_change_no_answer(root: Path) -> None:
    file = fill(root)
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT key, value FROM entries").fetchall()
    [kept] = [marshal.loads(value) for key, value in rows if key.startswith(b"root:")]
    kept["files"] = {path: record[:2] for path, record in kept["files"].items()}

    overwrite_values(file, marshal.dumps(kept))

    assert answers(root) == EXPECTED


def overwrite_values(file: Path, raw: bytes) -> None:
    """Put the same bytes under every key, with a checksum that fits."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE entries SET value = ?, checksum = ?", (raw, crc32(raw)))


def test_an_index_of_another_version_is_not_believed(root: Path) -> None:
    file = fill(root)
    overwrite_values(file, marshal.dumps({"folders": {}, "files": {}}))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA user_version=12345")

    assert answers(root) == EXPECTED
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() != (12345,)


def test_an_index_that_somebody_holds_is_not_waited_for(root: Path) -> None:
    with closing(sqlite3.connect(fill(root), isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")

        assert answers(root) == EXPECTED


@pytest.mark.parametrize("cache", ["/dev/null", "/proc/nowhere", "relative", "", "/dev/full/x"])
def test_a_cache_directory_that_cannot_be_made_is_done_without(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)

    assert answers(root) == EXPECTED
    assert not (tmp_path / "relative").exists()


AS_STRANGER = """
import json, os, sys
from skillpouch import SkillManager
SkillManager(sys.argv[1], cache=False).tools
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
manager = SkillManager(sys.argv[1])
print(json.dumps([tool.id for tool in manager.tools]))
"""


@pytest.mark.parametrize("environment", [{}, {"HOME": "/root"}, {"HOME": "/nowhere"}])
def test_a_user_without_a_home_gets_the_same_answers(environment: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "alpha/scripts").mkdir(parents=True)
        (Path(name) / "alpha/SKILL.md").write_text("---\nname: alpha\ndescription: It.\n---\n")
        (Path(name) / "alpha/scripts/run.py").write_text("print(1)\n")
        Path(name).chmod(0o755)

        done = subprocess.run(
            [sys.executable, "-c", AS_STRANGER, name],
            capture_output=True,
            check=False,
            env=environment,
            text=True,
        )

        assert (done.stderr, done.stdout.strip()) == ("", '["alpha.run"]')


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_manager_that_is_gone_leaves_no_file_open(root: Path) -> None:
    answers(root)

    held = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]

    assert [link for link in map(os.path.realpath, held) if str(cache_directory()) in link] == []


def test_many_processes_at_once_give_the_same_answers(root: Path) -> None:
    command = [sys.executable, "-c", PRINTS_ANSWERS, str(root)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    outputs = [process.communicate()[0] for process in running]

    assert [json.loads(output) for output in outputs] == [EXPECTED] * 4


def test_a_manager_can_be_used_after_a_fork(root: Path) -> None:
    code = PRINTS_ANSWERS + (
        "import os\n"
        "child = os.fork()\n"
        "manager.discover()\n"
        "tools = [tool.id for tool in manager.tools]\n"
        "if child == 0:\n"
        "    os._exit(0 if len(tools) == 2 else 1)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "manager.discover()\n"
        "print(json.dumps([code, tools, [tool.id for tool in manager.tools]]))\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, str(root)],
        capture_output=True,
        check=False,
        text=True,
    )

    assert done.stderr == ""
    assert json.loads(done.stdout.splitlines()[-1]) == [0, EXPECTED[1], EXPECTED[1]]
    assert answers(root) == EXPECTED


def test_one_manager_may_be_used_from_many_threads(root: Path) -> None:
    manager = SkillManager(root)
    seen: list[list[str]] = []

    def use() -> None:
        for _ in range(5):
            manager.discover()
            seen.append([tool.id for tool in manager.tools])

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [EXPECTED[1]] * 40
