"""Runs by path, confined: tries what a program may and may not do, and prints the results."""

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def _text(path: Path) -> Any:
    try:
        return path.read_text()
    except OSError:
        return None


def _write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        path.write_text(text)


def _is_reached(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


def _has_temporary() -> bool:
    try:
        with tempfile.TemporaryFile() as file:
            return file.write(b"x") == 1
    except OSError:
        return False


def _is_seen(process: str) -> bool:
    """Tell whether the environment of a process outside, which has a marker, can be read."""
    with contextlib.suppress(OSError):
        return b"skillpouch-contract-" in Path(f"/proc/{process}/environ").read_bytes()
    return False


def _fork(most: int) -> int:
    """Return how many processes can be forked before it fails, at most `most`."""
    made = []
    try:
        for _ in range(most):
            child = os.fork()  # noqa: TID251 - it runs alone, to try that
            if not child:
                time.sleep(1000)
                os._exit(0)
            made.append(child)
    except OSError:
        pass
    for child in made:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(made)


def _is_filtered() -> bool:
    lines = (_text(Path("/proc/self/status")) or "").splitlines()
    return any(line.split() == ["Seccomp:", "2"] for line in lines)


def main() -> None:
    """Try everything in turn; with `waits`, wait outside until the parent closes the socket."""
    if sys.argv[2:] == ["waits"]:
        socket.socket(fileno=int(sys.argv[1])).recv(1)
        return
    skill, elsewhere = Path(sys.argv[1]), Path(sys.argv[2])
    port, process, most = sys.argv[3:]
    _write(Path("made.txt"), "made")
    _write(skill / "escaped.txt", "escaped")
    _write(elsewhere / "escaped.txt", "escaped")
    report = {
        "folder": str(Path.cwd()),
        "skill": _text(skill / "file.txt"),
        "elsewhere": _text(elsewhere / "file.txt"),
        "temporary": _has_temporary(),
        "environment": dict(os.environ),  # noqa: TID251 - what it was given
        "connected": _is_reached(int(port)),
        "seen": _is_seen(process),
        "filtered": _is_filtered(),
        "forked": _fork(int(most)),
    }
    with contextlib.suppress(OSError):
        os.kill(int(process), signal.SIGKILL)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()
