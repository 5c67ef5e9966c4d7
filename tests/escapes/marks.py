"""Processes that carry a mark as their name: inherited by fork, and by nothing else."""

from pathlib import Path

LONGEST_NAME = 15


_LEAVING = 0x4  # PF_EXITING of include/linux/sched.h


def marked(token: str) -> list[str]:
    """Return the command lines of processes with this name that are not waiting to be reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and _is_marked(entry, token):
                found.append((entry / "cmdline").read_text(errors="surrogateescape") or entry.name)
        except OSError:
            continue
    return found


def _is_marked(entry: Path, token: str) -> bool:
    if (entry / "comm").read_text().strip() != token[:LONGEST_NAME]:
        return False
    state, *others = (entry / "stat").read_text().rpartition(")")[2].split()
    # proc_pid_stat(5): its flags are six fields behind the state. One that is leaving (do_exit in
    # the kernel) runs no instruction of its own any more, and is dead a moment later.
    return state not in ("Z", "X") and not int(others[5]) & _LEAVING
