"""Processes that carry a mark as their name: inherited by fork, and by nothing else."""

from pathlib import Path

LONGEST_NAME = 15


def marked(token: str) -> list[str]:
    """Return the command lines of processes with this name that are not waiting to be reaped."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and _is_marked(entry, token):
                found.append((entry / "cmdline").read_text() or entry.name)
        except OSError:
            continue
    return found


def _is_marked(entry: Path, token: str) -> bool:
    if (entry / "comm").read_text().strip() != token[:LONGEST_NAME]:
        return False
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
