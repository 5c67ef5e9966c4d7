"""Whether a process that is already running may serve a script: a pure decision."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from skillpouch.execution.command import Nursery, Prestarted
from skillpouch.tools import Script

# Read once, when an interpreter or its C library starts; PYTHONPATH is taken up by each call.
_READ_AT_START = (
    *("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENBLAS_", "OMP_", "MKL_"),
    *("NODE_", "UV_", "SSL_", "OPENSSL_", "ICU_"),
)
_TAKEN_UP = ("PYTHONPATH",)
# Options that only set a flag; anything else may make Python do something other than run a file.
_PLAIN_OPTIONS = ("-u", "-O", "-OO", "-B", "-E", "-I", "-P", "-s", "-S", "-b", "-bb")


def warm_process_for(
    script: Script,
    *,
    program: tuple[str, ...],
    runner: str,
    env: Mapping[str, str],
    shared_env: Mapping[str, str],
    cwd: Path,
) -> Nursery | Prestarted | None:
    """Return the process that can serve this script, None when it must start afresh.

    `env` is what the call will see, `shared_env` what every call of the skill sees.
    """
    differ = (name for name, value in env.items() if value != shared_env.get(name))
    if any(map(_is_read_at_start, differ)):
        return None
    shared = tuple(shared_env.items())
    if script.language == "python" and set(program[1:]) <= set(_PLAIN_OPTIONS):
        return Nursery(
            program=program,
            script=script.file,
            runner=runner,
            folders=_own_folders(script, env),
            env=(*shared, *_USUALLY),
            cwd=cwd,
        )
    is_node = script.language in ("javascript", "typescript")
    if is_node and runner and _is_text((*env.values(), str(cwd))):
        return Prestarted(argv=(*program, runner, _WAIT), env=shared, cwd=cwd)
    return None


# What nearly every call sets, so that an environment need not grow for it.
_USUALLY = (("TOOL_ARGS", "{}"),)
_WAIT = "--wait"  # instead of a script: it comes with the call


def _own_folders(script: Script, env: Mapping[str, str]) -> tuple[str, ...]:
    importable = env.get("PYTHONPATH") or env.get("SKILLPOUCH_SCRIPTS", "")
    folders = dict.fromkeys((script.file.rpartition("/")[0], importable))
    return tuple(folder for folder in folders if folder)


def _is_text(words: Iterable[str]) -> bool:
    """Tell whether words can be sent as JSON: paths may hold bytes that are no text."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_read_at_start(name: str) -> bool:
    return name.startswith(_READ_AT_START) and name not in _TAKEN_UP
