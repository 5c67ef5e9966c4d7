"""Running a program that is no file of `scripts/`: confined, bounded, its output read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skillpouch.backends.answers import result_of
from skillpouch.backends.argument_file import argument_file
from skillpouch.backends.call_variables import call_variables
from skillpouch.backends.confining import Reach, confinement_of, refuse_planted
from skillpouch.backends.conventions import Delivery
from skillpouch.backends.exchange import exchange_folder
from skillpouch.backends.python_variables import python_variables
from skillpouch.backends.warmth import warm_process_for
from skillpouch.calls import ToolCall
from skillpouch.environment import base_environment
from skillpouch.execution.command import Command, Nursery, Prestarted
from skillpouch.execution.shared import run_command
from skillpouch.results import ToolResult
from skillpouch.tools import Script
from skillpouch.workspace.workspace import look_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What runs, and what it must see besides its skill and the workspace.

    `visible` may be run, `readable` only read; `script` is set when a warm process may serve it.
    """

    argv: tuple[str, ...]
    visible: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    script: Script | None = None


async def run_program(call: ToolCall, program: Program, delivery: Delivery) -> ToolResult:
    """Run a program and return what it printed."""
    refuse_planted(program.argv[0], call.terms.workspace)
    folder = exchange_folder(call.tool.place, call.terms.workspace)
    reach = Reach.of(call, *program.readable)
    with argument_file(folder, delivery) as file:
        command = _command(call, program, delivery, call_variables(call, delivery, file))
        before = look_at(call.terms.workspace)
        confinement = confinement_of(call.tool.home, program.visible, call.terms, folder, reach)
        call.watch.lap("prepare")
        ended = await run_command(command, confinement, call.on_output)
        call.watch.split("run", ended.laps)
        result = result_of(call, ended, before=before)
    call.watch.lap("read the answer")
    return result


def _command(
    call: ToolCall, program: Program, delivery: Delivery, about_call: Mapping[str, str]
) -> Command:
    shared = base_environment() | (python_variables() if program.script else {})
    env = {**shared, **program.variables, **about_call, **call.given.secrets}
    is_at_home = call.tool.cwd == "skill" and call.tool.home
    cwd = Path(call.tool.home) if is_at_home else call.terms.workspace
    return Command(
        argv=(*program.argv, *delivery.words),
        env=env,
        cwd=cwd,
        stdin=delivery.stdin,
        limits=call.limits,
        new_filter=call.redactor.stream if call.given.secrets else None,
        unfinished=call.unfinished,
        warm=_warm(program, env, shared, cwd),
    )


def _warm(
    program: Program, env: Mapping[str, str], shared: Mapping[str, str], cwd: Path
) -> Nursery | Prestarted | None:
    if program.script is None:
        return None
    return warm_process_for(
        program.script,
        program=program.argv[:-1],
        runner="",
        env=env,
        shared_env=shared,
        cwd=cwd,
    )
