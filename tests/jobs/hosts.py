"""What tests do to job hosts: find them, kill them, wait until they are gone."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def jobs_folder() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "skillpouch/jobs"


def host_pid(folder: Path | None = None) -> int | None:
    """Return the process that holds the lock, None if there is none."""
    try:
        pid = int(((folder or jobs_folder()) / "host.lock").read_text() or "0")
    except (OSError, ValueError):
        return None
    return pid if pid and is_alive(pid) else None


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def until(fact: Callable[[], object], what: str = "it", seconds: float = 60) -> None:
    """Wait for a fact, with a bound."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.005)


def kill_host(folder: Path | None = None) -> int:
    """Kill the host, and return its process id when it is gone."""
    pid = host_pid(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "the end of the host")
    return pid


def end_host(folder: Path | None = None) -> None:
    """End whatever host there is."""
    while (pid := host_pid(folder)) is not None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        until(lambda pid=pid: not is_alive(pid), "the end of the host")  # type: ignore[misc]


def children_of(pid: int) -> list[int]:
    """Return every process below one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    found: list[int] = []
    level = {pid}
    while level := {child for child, parent in parents.items() if parent in level}:
        found += level
    return found
