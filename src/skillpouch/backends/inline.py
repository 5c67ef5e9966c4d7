"""Runs an inline script: the text of a declaration, kept in a file that no tool can write."""

from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from skillpouch.backends.delivery import (
    base_variables,
    delivery_of_declared,
    importable,
    inline_file,
    python_folder,
)
from skillpouch.backends.programs import Program, run_program
from skillpouch.calls import ToolCall
from skillpouch.declarations.backends import INTERPRETERS
from skillpouch.errors import InterpreterMissingError, UnknownInterpreterError
from skillpouch.execution.zygote_client import this_python
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.provision.packages.lookup import environment_in_use
from skillpouch.provision.packages.ready import Environment
from skillpouch.results import ToolResult
from skillpouch.tools import InlineScript, Script
from skillpouch.trust.granted_packages import script_of

# interpreter → the Debian package that has it
_PACKAGES = {
    "bash": "bash",
    "sh": "dash",
    "zsh": "zsh",
    "node": "nodejs",
    "ruby": "ruby",
    "perl": "perl",
}


class InlineBackend:
    """Runs scripts whose text is in a declaration."""

    async def run(self, call: ToolCall) -> ToolResult:
        """Run the text; its standard input is the arguments as JSON, or the caller's own input."""
        inline = call.tool.runs
        assert isinstance(inline, InlineScript)
        _interpreter(inline.interpreter)  # before anything is installed for it
        async with _packages(call) as packages:
            call.watch.lap("find its packages")
            program = _program(call, inline, packages)
            return await run_program(call, program, delivery_of_declared(call))


def _program(call: ToolCall, inline: InlineScript, packages: Environment | None) -> Program:
    interpreter = _interpreter(inline.interpreter)
    if packages is not None and packages.python:
        interpreter = packages.python
    visible = (packages.visible if packages else ()) or homes_of(interpreter)
    if interpreter == this_python():
        visible = (*visible, python_folder())
    file = inline_file(call.tool.place, inline.interpreter, inline.text)
    return Program(
        argv=(interpreter, *inline.interpreter_args, str(file)),
        visible=visible,
        readable=(file.parent,),
        variables=_variables(call, inline, interpreter),
        script=_as_script(inline, file),
    )


def _packages(call: ToolCall) -> AbstractAsyncContextManager[Environment | None]:
    """Return the packages that a Python text was granted, installed if needed."""
    script = script_of(call.tool)
    if script is None:
        return nullcontext()
    return environment_in_use(
        script[0],
        call.tool.home,
        text=script[1],
        on_progress=call.on_progress,
        sandbox=call.sandbox,
        workspace=call.terms.workspace,
        packages=call.access.packages,
        builds=call.access.builds,
        skill=call.tool.skill,
    )


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
        return importable(call.tool.home)
    is_own = interpreter == this_python()
    folder = python_folder() if is_own else Path(interpreter).parent
    path = f"{folder}:{base_variables(call.access.readable)['PATH']}"
    # As for script files: modules in the skill's scripts/ folder can be imported.
    return {"PATH": path, **importable(call.tool.home, scripts=True)}


def _as_script(inline: InlineScript, file: Path) -> Script | None:
    """Return the script that a warm process can serve: Python only."""
    if not inline.interpreter.startswith("python"):
        return None
    return Script(file=str(file), language="python", convention="stdin")
