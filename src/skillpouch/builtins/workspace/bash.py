"""`bash`: a command in the workspace, confined, waited for or in the background."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from skillpouch.backends.program_results import result_of
from skillpouch.backends.programs import confinement_of
from skillpouch.builtins.workspace.context import (
    Definition,
    WorkspaceSession,
    number,
    switch,
    text,
)
from skillpouch.builtins.workspace.jobs import Look, Made
from skillpouch.calls import CallLayers, Settled, ToolCall
from skillpouch.environment import base_environment
from skillpouch.errors import (
    CallDeniedError,
    InterpreterMissingError,
    InvalidArgumentsError,
    SkillpouchError,
    ToolFaultError,
)
from skillpouch.execution.command import Command
from skillpouch.execution.engine import run_command
from skillpouch.json_values import json_text
from skillpouch.limits import BASH_SECONDS
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.results import ToolResult
from skillpouch.text import clean
from skillpouch.tools import BuiltIn
from skillpouch.untrusted_files import find_place
from skillpouch.workspace.files import not_found
from skillpouch.workspace.read_only import look_at_run_later, made_to_run_later
from skillpouch.workspace.workspace import look_at

MakeCommand = Callable[[ToolCall, WorkspaceSession], Command]


async def run_in_background(
    call: ToolCall, session: WorkspaceSession, make: MakeCommand
) -> ToolResult:
    """Start a job, look at one, or end one."""
    given = call.arguments
    if "job" not in given:
        return await _start_job(call, session, make(call, session))
    if given.get("kill", False):
        return _result(call, await session.jobs.end(given["job"]))
    wait = min(given.get("timeout", 0) / 1000, call.limits.timeout_seconds)
    return _result(call, await session.jobs.look(given["job"], wait))


async def _start_job(call: ToolCall, session: WorkspaceSession, command: Command) -> ToolResult:
    seconds = min(session.jobs.seconds, call.limits.timeout_seconds)
    limits = replace(command.limits, timeout_seconds=seconds)
    # It outlives the call, and so does its layer; but not the session, whose end ends its jobs.
    runs = call.tool.runs
    assert isinstance(runs, BuiltIn)
    alone = replace(call.tool, caller=None, runs=replace(runs, session=None))
    own = replace(call, tool=alone, layers=CallLayers())
    command = replace(command, limits=limits, background=True, layers=own.layers)
    confinement = confinement_of(call, homes_of(command.argv[0]))
    job = await session.jobs.start(
        call.arguments["command"],
        lambda take: run_command(command, confinement, take),
        _made_since_now(call) if call.writes == "direct" else tuple,
        partial(_settle_job, own),
    )
    return ToolResult(
        tool=call.tool.id,
        outcome="ok",
        content=f"started {job}; look at it with job={job!r}, end it with kill",
        structured={"job": job, "running": True},
        exit_code=0,
        stdout=json_text({"job": job, "running": True}),
    )


async def _settle_job(call: ToolCall, may_ask: bool) -> Settled:
    if not call.settle or not call.layers:
        return Settled()
    try:
        return await call.settle(call, may_ask)
    except SkillpouchError as error:  # its workspace may be gone, with the session
        return Settled(state="refused", call_id=call.id, why=(str(error),))


def _made_since_now(call: ToolCall) -> Made:
    workspace, granted = call.terms.workspace, call.access.writable
    seen = look_at_run_later(workspace)

    def made() -> tuple[str, ...]:
        nonlocal seen
        found = made_to_run_later(workspace, seen, (), granted)
        seen = look_at_run_later(workspace)
        return found

    return made


def _result(call: ToolCall, look: Look) -> ToolResult:
    state = "running" if look.is_running else _ended(look)
    outcome: Literal["ok", "failed"] = "ok"
    if not look.is_running and look.outcome not in ("ok", "cancelled"):
        outcome = "failed"
    text = call.redactor.text(look.text)
    result = ToolResult(
        tool=call.tool.id,
        outcome=outcome,
        content=clean("\n".join(filter(None, (text.removesuffix("\n"), f"[{look.id}: {state}]")))),
        structured={"job": look.id, "running": look.is_running, "exit_code": look.exit_code},
        exit_code=look.exit_code if not look.is_running else 0,
        stdout=text,
    ).with_run_later(look.run_later)
    settled = look.settled
    if settled is None or not settled.state:
        return result
    # Imported here: most commands change nothing in the background.
    from skillpouch.policy.settling import notes_about

    result = replace(
        result, changes=settled.changes, conflicts=settled.conflicts, call_id=settled.call_id
    )
    return result.with_notes(notes_about(settled)).with_run_later(settled.run_later)


def _ended(look: Look) -> str:
    if look.outcome == "cancelled":
        return "ended as asked"
    if look.exit_code is None:
        return look.outcome
    return f"ended with exit code {look.exit_code}"


DEFINITION = Definition(
    name="bash",
    description=(
        "Run a bash command in the workspace, confined: no network, no other files, an empty "
        "standard input. `cd` lasts until the next call, variables do not. With `background` it "
        "returns a job at once; `job` looks at that job, and with `kill` ends it."
    ),
    parameters={
        "command": text("what to run"),
        "timeout": number(
            "milliseconds until it is ended; of a `job`: how long to wait for its end",
            maximum=3_600_000,
        ),
        "cwd": text("the folder for this command only"),
        "background": switch("go on running it, and return its job"),
        "job": text("the id of a job to look at, instead of running a command"),
        "kill": switch("end the job"),
        "max_output": number("bytes of output to keep, from head and tail", minimum=1000),
    },
    effects=("read", "write", "execute"),
    timeout_seconds=BASH_SECONDS,
)

_LONGEST = 100_000  # bytes; the kernel takes 128 KiB for one argument (MAX_ARG_STRLEN, execve(2))
# By eval, so that bash's error messages name the command and nothing of ours.
_RUN = 'skillpouch=$1; shift; eval "$skillpouch"'
# A command reports its folder at its end; its own EXIT trap may prevent that.
_RUN_AND_REPORT = f"trap '{{ pwd -P >&3; }} 2>/dev/null' EXIT; {_RUN}"


async def run(call: ToolCall, session: WorkspaceSession) -> ToolResult:
    """Run a command, or look at one that runs in the background."""
    given = call.arguments
    if ("command" in given) == ("job" in given):
        raise InvalidArgumentsError(call.tool.id, ["give either `command` or `job`"])
    call = with_limits(call)
    if "job" in given or given.get("background", False):
        return await run_in_background(call, session, _start)
    command, note = _command(call, session)
    confinement = confinement_of(call, homes_of(command.argv[0]))
    before = look_at(call.terms.workspace) if call.writes == "direct" else None
    call.watch.lap("prepare")
    ended = await run_command(command, confinement, call.on_output)
    call.watch.split("run", ended.laps)
    if "cwd" not in given:
        note += _move(call, session, ended.answer)
    result = result_of(call, replace(ended, answer=b""), before=before)
    return replace(result, content="\n".join(filter(None, (result.content, note))))


def with_limits(call: ToolCall) -> ToolCall:
    """Return the call with the limits in its arguments, which can only be lower."""
    given, limits = call.arguments, call.limits
    seconds = limits.timeout_seconds
    if "timeout" in given and "job" not in given:
        seconds = max(0.001, min(seconds, given["timeout"] / 1000))
    keep = min(limits.keep_bytes, given.get("max_output", limits.keep_bytes))
    return replace(call, limits=replace(limits, timeout_seconds=seconds, keep_bytes=keep))


def _start(call: ToolCall, session: WorkspaceSession) -> Command:
    """Return the command of a background job, without the report of its folder."""
    command, _ = _command(call, session)
    *words, _, name, line = command.argv
    return replace(command, argv=(*words, _RUN, name, line), answers=False)


def check_line(line: str) -> str:
    """Return a command; raise ToolFaultError if no process can be given it."""
    if len(line.encode()) > _LONGEST or "\0" in line:
        hint = "write it to a file and run that"
        raise ToolFaultError("invalid_argument", f"more than {_LONGEST:,} bytes, or NUL", hint=hint)
    return line


def _command(call: ToolCall, session: WorkspaceSession) -> tuple[Command, str]:
    line = check_line(call.arguments["command"])
    folder, note = _folder(call, session)
    command = Command(
        argv=(bash_of(call), "--noprofile", "--norc", "-c", _RUN_AND_REPORT, "bash", line),
        env={**base_environment(), "SKILLPOUCH_WORKDIR": str(call.terms.workspace)},
        cwd=folder,
        stdin=call.stdin or b"",
        limits=call.limits,
        answers=True,
        new_filter=call.redactor.stream if call.access.secrets else None,
        unfinished=call.unfinished,
        layers=call.layers,
    )
    return command, note


def bash_of(call: ToolCall) -> str:
    """Return the path of bash; raise if there is none that can be trusted."""
    program = find_program("bash")
    if not program:
        raise InterpreterMissingError(["bash"], "bash")
    if call.terms.workspace in Path(program).parents:
        raise CallDeniedError(f"{program} is not run: it is inside the workspace")
    return program


def _folder(call: ToolCall, session: WorkspaceSession) -> tuple[Path, str]:
    """Return the folder to run in: `cwd`, else the last command's folder if it still exists."""
    workspace = call.terms.workspace
    if "cwd" in call.arguments:
        return workspace / real_folder(workspace, call.arguments["cwd"]), ""
    last = session.folder(workspace)
    try:
        return workspace / real_folder(workspace, last), ""
    except (ToolFaultError, CallDeniedError):
        session.move_to(workspace, ".")
        return workspace, f"note: {last!r} is gone, so it ran in the workspace itself"


def real_folder(workspace: Path, path: str) -> str:
    """Return a folder of the workspace as a path inside it, without links."""
    with find_place(workspace, path) as place:
        if place.missing:
            raise not_found(place, path)
        if place.name:
            raise ToolFaultError("invalid_argument", f"{path!r} is not a folder")
        return place.relative


def _suppressed(work: Callable[[], None], *errors: type[Exception]) -> Callable[[], None]:
    """Return a function that does the work, and gives up without a word on these errors."""

    def attempt() -> None:
        with suppress(*errors):
            work()

    return attempt


def _move(call: ToolCall, session: WorkspaceSession, answer: bytes) -> str:
    """Remember the folder in which a command ended, if it is inside the workspace."""
    reported = answer.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if not reported.startswith("/"):
        return ""
    workspace = call.terms.workspace

    def move() -> None:
        session.move_to(workspace, real_folder(workspace, reported))

    try:
        move()
    except (ToolFaultError, CallDeniedError):
        if call.writes != "direct" and reported.startswith(f"{workspace}/"):
            # Perhaps a folder that the command made, and that is still in its layer. The next
            # command looks whether it is there.
            call.when_applied.append(_suppressed(move, ToolFaultError, CallDeniedError))
            inside = reported[len(str(workspace)) + 1 :]
            call.when_staged.append(partial(session.move_to, workspace, inside))
            return ""
        return "note: it ended outside the workspace; the next command begins where this one did"
    return ""
