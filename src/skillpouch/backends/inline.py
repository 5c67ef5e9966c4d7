"""Running an inline script: text of a declaration, in a file that no tool writes."""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from skillpouch.backends.delivery import delivery_of_declared
from skillpouch.backends.exchange_folder import forget_exchange, process_folder
from skillpouch.backends.programs import Program, run_program
from skillpouch.calls import ToolCall
from skillpouch.declarations.backends import INTERPRETERS
from skillpouch.environment import base_environment
from skillpouch.errors import InterpreterMissingError, UnknownInterpreterError
from skillpouch.execution.zygote_client import this_python
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.provision.packages.lookup import environment_for
from skillpouch.provision.packages.ready import Environment
from skillpouch.results import ToolResult
from skillpouch.runtime.removal import remove_tree
from skillpouch.tools import InlineScript, Script
from skillpouch.trust.granted_packages import script_of

# Node decides by the extension what kind of module a file is.
_EXTENSIONS = {"node": ".js", "python": ".py", "python3": ".py", "ruby": ".rb", "perl": ".pl"}


def inline_file(home: str, interpreter: str, text: str) -> Path:
    """Return the file with this text, in the one folder that all inline scripts of a skill share.

    It is looked at for every call: whatever it held before, it holds the text now.
    """
    data = text.encode(errors="replace")
    folder = _folder(home)
    path = folder / f"{sha256(data).hexdigest()[:32]}{_EXTENSIONS.get(interpreter, '.sh')}"
    if not _holds(path, data):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, data)
    return path


def forget_inline(home: str) -> None:
    """Remove the files of a skill that nobody uses any more."""
    with suppress(OSError):
        remove_tree(_folder(home))


def _folder(home: str) -> Path:
    return process_folder() / f"inline-{sha256(os.fsencode(home)).hexdigest()[:16]}"


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _replace(path: Path, data: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    unfinished.write_bytes(data)
    unfinished.chmod(0o400)
    unfinished.rename(path)


# interpreter → the Debian package that has it
_PACKAGES = {
    "bash": "bash",
    "sh": "dash",
    "zsh": "zsh",
    "node": "nodejs",
    "ruby": "ruby",
    "perl": "perl",
}


async def run_inline(call: ToolCall, inline: InlineScript) -> ToolResult:
    """Run the text; its standard input is the arguments as JSON, or what the caller gives."""
    interpreter = _interpreter(inline.interpreter)
    packages = await _packages(call)
    if packages is not None and packages.python:
        interpreter = packages.python
    file = inline_file(call.tool.place, inline.interpreter, inline.text)
    program = Program(
        argv=(interpreter, *inline.interpreter_args, str(file)),
        visible=(packages.visible if packages else ()) or homes_of(interpreter),
        readable=(file.parent,),
        variables=_variables(call, inline, interpreter),
        script=_as_script(inline, file),
    )
    return await run_program(call, program, delivery_of_declared(call))


async def _packages(call: ToolCall) -> Environment | None:
    """Return the packages that were given to a Python text, installed if need be."""
    script = script_of(call.tool)
    if script is None:
        return None
    found = await environment_for(
        script[0],
        call.tool.home,
        text=script[1],
        on_progress=call.on_progress,
        sandbox="off" if call.is_unconfined else "on",
        workspace=call.terms.workspace,
        packages=call.given.packages,
    )
    call.watch.lap("find its packages")
    return found


def _interpreter(name: str) -> str:
    if name not in INTERPRETERS:
        raise UnknownInterpreterError(name, INTERPRETERS)
    if name.startswith("python"):
        return this_python()
    found = find_program(name)
    if not found:
        raise InterpreterMissingError((name,), _PACKAGES[name])
    return found


def _variables(call: ToolCall, inline: InlineScript, interpreter: str) -> dict[str, str]:
    if not inline.interpreter.startswith("python"):
        return {}
    path = f"{Path(interpreter).parent}:{base_environment()['PATH']}"
    # As scripts have it: what the skill keeps in scripts/ can be imported.
    importable = {"PYTHONPATH": f"{call.tool.home}/scripts"} if call.tool.home else {}
    return {"PATH": path, **importable}


def _as_script(inline: InlineScript, file: Path) -> Script | None:
    """Return the script that a warm process can serve: Python only."""
    if not inline.interpreter.startswith("python"):
        return None
    return Script(file=str(file), language="python", convention="stdin")


def forget_skill(home: str) -> None:
    """Remove what is kept for the skill in a folder, which nobody calls any more."""
    forget_exchange(home=home)
    forget_inline(home)


def forget_workspace(workspace: Path) -> None:
    """Remove what is kept for the calls in a workspace that is no longer used."""
    forget_exchange(workspace=workspace)
