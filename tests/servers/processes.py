"""Processes that servers start: found by their command lines and by who started them."""

import os
from contextlib import suppress
from pathlib import Path


def processes_with(words: bytes) -> list[int]:
    """Return the processes that have some words in their command lines, whosever they are."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [int(entry.name)] if words in (entry / "cmdline").read_bytes() else []
    return found


def lineage(pid: int) -> list[int]:
    """Return the processes from this one, or the first of all, to another.

    Of one that has ended meanwhile, perhaps another test's, only those that are left.
    """
    found = [pid]
    with suppress(FileNotFoundError, ProcessLookupError):
        while found[0] not in (0, 1, os.getpid()):
            stat = Path(f"/proc/{found[0]}/stat").read_text()
            found.insert(0, int(stat.rpartition(")")[2].split()[1]))
    return found


def signal_other_thread(pid: int, number: int) -> None:
    """Send a signal to a process so that another thread than its main one takes it.

    kill(2) with the id of a thread signals the process, and the kernel tries that thread first.
    The main thread, asleep in a lock, is then not interrupted.
    """
    threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    os.kill(min(thread for thread in threads if thread != pid), number)
