"""How long it takes to find what a skill was granted, as grants and files grow in number.

The store is one small file per skill. Beside it stands what an SQLite table would cost: each with
its connection kept open, and with a connection per question, which is what a process that forks
and uses threads would need. Minimum and median in microseconds.
"""

import argparse
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from skillpouch import SkillManager
from skillpouch.discovery.digest import snapshot_of
from skillpouch.needs import Need
from skillpouch.trust.grant import Grant, missing, write_grant
from skillpouch.trust.grants import Grants, _file_of

NEEDS = [
    Need(kind="secret", value="API_KEY"),
    Need(kind="host", value="api.example.com"),
    Need(kind="read", value="/srv/data/today"),
]


def measure(action: Callable[[int], object], rounds: int) -> str:
    times = []
    for turn in range(rounds):
        start = time.perf_counter()
        action(turn)
        times.append((time.perf_counter() - start) * 1e6)
    return f"{min(times):8.1f} {statistics.median(times):8.1f}"


def write_skill(root: Path, files: int) -> Path:
    home = root / "skill"
    (home / "scripts").mkdir(parents=True)
    (home / "SKILL.md").write_text("---\nname: skill\ndescription: One.\n---\n")
    for number in range(files - 1):
        folder = home / "scripts" / f"part{number // 25}"
        folder.mkdir(exist_ok=True)
        (folder / f"step{number}.py").write_text(f"print({number})\n" * 40)
    return home


def fill(state: Path, count: int, like: Grant) -> None:
    """Write grants of other skills; not through `grant`, which waits for the disk each time."""
    folder = state / "grants"
    for number in range(count):
        home = f"{like.home}-{number}"
        (folder / _file_of(f"skill{number}", home)).write_bytes(
            write_grant(replace(like, skill=f"skill{number}", home=home))
        )
        (folder / _file_of(f"skill{number}", home)).chmod(0o600)


def fill_sqlite(path: Path, count: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE grants (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        rows = (
            (f"{number}", json.dumps({"hosts": ["api.example.com"]})) for number in range(count)
        )
        connection.executemany("INSERT INTO grants VALUES (?, ?)", rows)


def with_grants(count: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        home = write_skill(root / "skills", 3)
        skill = SkillManager(home.parent, cache=False).get_skill("skill")
        grants = Grants(root / "state")
        given = [*NEEDS[:2], Need(kind="read", value="/srv/data")]
        fill(root / "state", count - 1, grants.grant(skill, given))
        fill_sqlite(root / "grants.sqlite3", count)
        time.sleep(0.1)  # what is younger than the clock's tick is read again
        real = os.path.realpath(home)
        grant = grants.find("skill", home)
        assert missing(NEEDS, grant) == ()
        others = [(f"skill{number}", f"{real}-{number}") for number in range(count - 1)]
        query = "SELECT value FROM grants WHERE key = ?"
        with closing(sqlite3.connect(root / "grants.sqlite3")) as kept:
            rows = {
                "record, one skill": lambda _: grants.last("skill", home),
                "record, another each time": lambda turn: grants.last(*others[turn % len(others)]),
                "no record": lambda _: grants.last("none", home),
                "record and digest of 3 files": lambda _: grants.find("skill", home),
                "what is missing of 3 needs": lambda _: missing(NEEDS, grant),
                "SQLite, kept open": lambda turn: json.loads(
                    kept.execute(query, (str(turn % count),)).fetchone()[0]
                ),
                "SQLite, opened": lambda turn: _opened(root, query, turn % count),
            }
            for label, action in rows.items():
                for turn in range(count if "each time" in label else 1):
                    action(turn)  # warm: everything was asked for before
                print(f"{count:>7,} grants  {label:<32}{measure(action, rounds)}")
        start = time.perf_counter()
        found = len(Grants(root / "state").list())
        print(
            f"{count:>7,} grants  list all {found:,}: {(time.perf_counter() - start) * 1e3:.0f} ms"
        )


def _opened(root: Path, query: str, key: int) -> object:
    with closing(sqlite3.connect(root / "grants.sqlite3")) as connection:
        return json.loads(connection.execute(query, (str(key),)).fetchone()[0])


def with_files(files: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = write_skill(Path(name), files)
        time.sleep(0.1)
        start = time.perf_counter()
        snapshot_of(home)
        first = (time.perf_counter() - start) * 1e6
        again = measure(lambda _: snapshot_of(home), rounds)
        print(f"{files:>7,} files   digest, unchanged{'':<16}{again}   (first {first:,.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    rounds = parser.parse_args().rounds
    print(f"{'':<51}{'min':>5} {'median':>8} µs, Python {sys.version.split()[0]}")
    for count in (10, 100, 1_000, 10_000):
        with_grants(count, rounds)
    for files in (3, 10, 100, 1_000):
        with_files(files, max(20, rounds // 10))


if __name__ == "__main__":
    main()
