"""The Python that runs zygotes: the one this process runs on, its real file and not a shim."""

import subprocess
import sys
from functools import cache
from pathlib import Path

from skillpouch.environment import base_environment

_PROGRAM = Path(__file__).with_name("zygote") / "main.py"


@cache
def this_python() -> str:
    """Return the executable that this process was started as, by a path without `..`.

    A sandbox does not have every folder that such a path leads through. The file itself stays a
    link: that is how a virtual environment is found.
    """
    path = Path(sys.executable)
    return str(path.parent.resolve() / path.name) if ".." in path.parts else sys.executable


def own_python() -> str:
    """Return the executable that Skillpouch's own programs run on."""
    # Not the virtual environment's: its .pth files are other people's code.
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return str(Path(base).resolve())


def zygote_command(mode: str) -> tuple[str, list[str]]:
    """Return the executable and the words that start the zygote program in `mode`."""
    executable = own_python()
    return executable, [executable, "-I", "-S", "-X", "utf8", str(_PROGRAM), mode]


@cache
def node_runs_typescript(node: str) -> bool:
    """Ask a Node whether it runs TypeScript as it is; it is given nothing of any skill."""
    words = [node, "-p", "process.features.typescript || ''"]
    try:
        ran = subprocess.run(
            words, env=base_environment(), capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(ran.stdout.strip())
