"""Programs of Skillpouch's own that outlive the process that starts them."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def start_detached(module: str, words: Sequence[str], log: int) -> int:
    """Start a module of ours as a process of its own; return a pipe that is closed when it serves.

    It has a session of its own, no terminal and no descriptor of this process but `log`, for its
    errors. It must call `detach` first. Raises OSError.
    """
    reading, writing = os.pipe()
    # Not the Python of `own_python`: it needs the packages that are installed beside Skillpouch.
    # -P: nothing is imported from the current folder.
    command = [sys.executable, "-P", "-X", "utf8", "-m", module, str(writing), *words]
    try:
        process = subprocess.Popen(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(writing,),
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": _path_with_us()},
        )
        process.wait()  # until it has detached itself, which takes some milliseconds
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


def _path_with_us() -> str:
    """Return the PYTHONPATH with which this same Skillpouch is imported."""
    ours = str(Path(__file__).parent.parent.parent)
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (ours, given)))


def detach() -> None:
    """Go on in a child, so that nobody has to wait for this process; the parent ends here."""
    with contextlib.suppress(OSError):
        os.chdir("/")
    if os.fork():
        os._exit(0)
