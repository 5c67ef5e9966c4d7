"""The Python that runs zygotes: the one this process runs on, its real file and not a shim."""

import sys
from pathlib import Path

_PROGRAM = Path(__file__).with_name("zygote") / "main.py"


def own_python() -> str:
    """Return the executable that Kitbag's own programs run on."""
    # Not the virtual environment's: its .pth files are other people's code.
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return str(Path(base).resolve())


def zygote_command(mode: str) -> tuple[str, list[str]]:
    """Return the executable and the words that start the zygote program in `mode`."""
    executable = own_python()
    return executable, [executable, "-I", "-S", "-X", "utf8", str(_PROGRAM), mode]
