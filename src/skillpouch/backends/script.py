"""Runs a script of a skill: makes its command, and reads its answer."""

import os
import stat
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from skillpouch.backends.delivery import (
    Delivery,
    argument_file,
    base_variables,
    delivery_of,
    exchange_folder,
    given_variables,
    importable,
    progress_pipe,
    python_folder,
    python_variables,
    reported_by,
    skill_variables,
)
from skillpouch.backends.program_results import result_of
from skillpouch.backends.programs import (
    RUNNERS,
    confinement_of,
    own_folder_of,
    refuse_planted,
    warm_process_for,
)
from skillpouch.calls import ToolCall
from skillpouch.errors import UnsafeScriptError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import OwnFolder
from skillpouch.execution.engine import run_command
from skillpouch.provision.interpreters import homes_of, interpreter_for
from skillpouch.provision.packages.lookup import (
    environment_in_use,
    environments_in_use,
    environments_of_both,
)
from skillpouch.provision.packages.ready import Environment
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.tools import Script
from skillpouch.untrusted_files import CannotReadError, require_inside
from skillpouch.workspace.workspace import look_at

_ANSWER = "3"  # the descriptor after the standard streams
# Made once, because they are the same for every call.
_CALL_PYTHON, _CALL_NODE = (str(RUNNERS / name) for name in ("call_python.py", "call_node.mjs"))


class ScriptBackend:
    """Runs scripts of skills."""

    async def run(self, call: ToolCall) -> ToolResult:
        """Run a script by its convention and return its result."""
        script = call.tool.runs
        assert isinstance(script, Script)
        _refuse_unsafe(call, script)
        delivery = delivery_of(call, script)
        async with _packages(call, script) as packages, own_folder_of(call) as own:
            call.watch.lap("find its packages")
            found = (packages,) if isinstance(packages, Environment) else packages or ()
            return await _run(call, script, delivery, found, own)


async def _run(
    call: ToolCall,
    script: Script,
    delivery: Delivery,
    packages: Sequence[Environment],
    own: OwnFolder | None,
) -> ToolResult:
    program = _program(call, script, packages)
    folder = exchange_folder(call.tool.place, call.terms.workspace)
    with argument_file(folder, delivery) as file, progress_pipe(call, folder) as pipe:
        found = _environment(call, script, delivery, file) | reported_by(pipe)
        shared = _shared(script, packages, call.access.readable) | skill_variables(call)
        shared |= importable(call.tool.home)
        command = _command(call, script, program, delivery, shared, found)
        before = look_at(call.terms.workspace) if call.writes == "direct" else None
        programs = tuple(path for each in packages for path in each.visible)
        if script.language == "shell" or not any(_runs_it(each, script) for each in packages):
            programs += homes_of(program[0])
        if script.language == "python" and not any(each.python for each in packages):
            programs += (python_folder(),)
        confinement = confinement_of(call, programs, folder, own=own)
        call.watch.lap("prepare")
        ended = await run_command(command, confinement, call.on_output)
        call.watch.split("run", ended.laps)
        result = result_of(call, ended, before=before)
    call.watch.lap("read the answer")
    return result


def _packages(
    call: ToolCall, script: Script
) -> AbstractAsyncContextManager[Environment | tuple[Environment, ...] | None]:
    """Return the packages that the script was granted, installed if needed."""
    options: dict[str, Any] = {
        "on_progress": call.on_progress,
        "sandbox": call.sandbox,
        "workspace": call.terms.workspace,
        "packages": call.access.packages,
        "builds": call.access.builds,
        "skill": call.tool.skill,
    }
    if script.language == "shell":
        return environments_in_use(call.tool.home, **options)
    has_npm = any(each.startswith("npm:") for each in call.access.packages)
    if script.language == "python" and has_npm:
        return environments_of_both(script, call.tool.home, **options)
    return environment_in_use(script, call.tool.home, **options)


def _runs_it(environment: Environment, script: Script) -> bool:
    """Tell whether an environment has the interpreter of a script."""
    return script.language != "python" or bool(environment.python)


def _program(call: ToolCall, script: Script, packages: Sequence[Environment]) -> tuple[str, ...]:
    program = interpreter_for(script)
    if script.language == "python" and packages and packages[0].python:
        return (packages[0].python, *program[1:])
    refuse_planted(program[0], call.terms.workspace)
    if script.language == "typescript" and packages and packages[0].typescript:
        return (*program, f"--import={packages[0].typescript.as_uri()}")
    return program


def _command(
    call: ToolCall,
    script: Script,
    program: tuple[str, ...],
    delivery: Delivery,
    shared: dict[str, str],
    found: dict[str, str],
) -> Command:
    runner = _runner(script)
    env = {**shared, **found, **call.access.variables}
    cwd = Path(call.tool.home) if call.tool.cwd == "skill" else call.terms.workspace
    return Command(
        argv=(*program, *runner, script.file, *delivery.words),
        env=env,
        cwd=cwd,
        stdin=delivery.stdin,
        limits=call.limits,
        answers=bool(runner),
        new_filter=call.redactor.stream if call.access.secrets else None,
        unfinished=call.unfinished,
        layers=call.layers,
        warm=warm_process_for(
            script,
            program=program,
            runner=runner[0] if runner else "",
            env=env,
            shared_env=shared,
            cwd=cwd,
        ),
    )


# Path → device and inode of a file that was checked to be inside its skill, so that links are not
# followed again for every call. A file that replaces it has another inode and is checked.
_MOST_INSIDE = 16_384
_inside: BoundedCache[str, tuple[int, int]] = BoundedCache(_MOST_INSIDE)


def _refuse_unsafe(call: ToolCall, script: Script) -> None:
    """Check the file again: since it was read, it may have been replaced."""
    try:
        status = os.stat(script.file)
        identity = (status.st_dev, status.st_ino)
        if _inside.get(script.file) != identity:
            status = require_inside(script.file, call.tool.home)
            # Of the file that was checked, not of the earlier stat.
            identity = (status.st_dev, status.st_ino)
            _inside[script.file] = identity
    except (CannotReadError, OSError) as error:
        raise UnsafeScriptError(script.file, CannotReadError.of(error).reason) from None
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeScriptError(script.file, "it is not a regular file")
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise UnsafeScriptError(script.file, "it is setuid or setgid")


def _runner(script: Script) -> tuple[str, ...]:
    if script.convention not in ("handler", "main"):
        return ()
    if script.language == "python":
        return (_CALL_PYTHON, script.convention)
    return (_CALL_NODE,)


def _shared(
    script: Script, packages: Sequence[Environment], granted: tuple[Path, ...] = ()
) -> dict[str, str]:
    """Return the variables that are the same for every call of a script."""
    found = base_variables(granted)
    is_own = script.language == "python" and not any(each.python for each in packages)
    programs = [str(python_folder())] if is_own else []
    for each in packages:
        found |= each.variables
        programs += [str(each.programs)] if each.programs else []
    if programs:
        found["PATH"] = ":".join((*programs, found["PATH"]))
    if script.language == "python":
        found |= python_variables()
    return found


def _environment(
    call: ToolCall, script: Script, delivery: Delivery, file: Path | None
) -> dict[str, str]:
    scripts = f"{call.tool.home}/scripts"
    found = given_variables(call, delivery, file)
    if script.convention in ("handler", "main"):
        source = "stdin" if call.stdin is None else "file" if file else "variable"
        found |= {"SKILLPOUCH_ARGUMENTS": source, "SKILLPOUCH_ANSWER": _ANSWER}
        if script.file.rpartition("/")[0] != scripts:
            found["SKILLPOUCH_SCRIPTS"] = scripts
    elif script.language == "python":
        found |= importable(call.tool.home, scripts=True)
    return found
