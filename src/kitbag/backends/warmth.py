"""Whether a Python script may be forked from a process that is already running: a pure decision."""

from collections.abc import Mapping
from pathlib import Path

from kitbag.execution.command import Nursery
from kitbag.tools import Script

# Read once, when an interpreter or its C library starts; PYTHONPATH is taken up by each call.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENBLAS_", "OMP_", "MKL_")
_TAKEN_UP = ("PYTHONPATH",)
# Options that only set a flag; anything else may make Python do something other than run a file.
_PLAIN_OPTIONS = ("-u", "-O", "-OO", "-B", "-E", "-I", "-P", "-s", "-S", "-b", "-bb")


def nursery_for(
    script: Script,
    *,
    program: tuple[str, ...],
    runner: str,
    env: Mapping[str, str],
    shared_env: Mapping[str, str],
    cwd: Path,
) -> Nursery | None:
    """Return the process that can fork this script, None when it must start afresh.

    `env` is what the call will see, `shared_env` what every call of the skill sees.
    """
    if script.language != "python" or not set(program[1:]) <= set(_PLAIN_OPTIONS):
        return None
    if any(env.get(name) != shared_env.get(name) for name in env if _is_read_at_start(name)):
        return None
    own = env.get("PYTHONPATH") or env.get("KITBAG_SCRIPTS", "")
    folders = dict.fromkeys((script.file.rpartition("/")[0], own))
    return Nursery(
        program=program,
        script=script.file,
        runner=runner,
        folders=tuple(folder for folder in folders if folder),
        env=tuple(shared_env.items()),
        cwd=cwd,
    )


def _is_read_at_start(name: str) -> bool:
    return name.startswith(_READ_AT_START) and name not in _TAKEN_UP
