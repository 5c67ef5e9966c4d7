"""Runs one script from its first command to its response."""

import asyncio
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from skillpouch.policy.approval import is_asked_here
from skillpouch.results import milliseconds
from skillpouch.runtime.timers import PausableTimer
from skillpouch.shell.call_log import CallLog, OnStatus, ScriptEvent, Watchers
from skillpouch.shell.engine import Cancellation, Crash, EngineCrashedError, ScriptJob, ShellEngine
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.own_commands import STUBS, JobCommand, ResultBox, discovered, help_for
from skillpouch.shell.pmap import run_pmap
from skillpouch.shell.responses import Artifact, ToolResponse
from skillpouch.shell.status import Facts, KeptText, ScriptVerdict, Stopped, verdict
from skillpouch.shell.tool_command import ToolCalls
from skillpouch.shell.toolbox import Toolbox, ToolDef
from skillpouch.shell.usage import OWN_COMMANDS
from skillpouch.shell.worker.protocol import CommandReply, CommandRequest, Done, ScriptRequest

if TYPE_CHECKING:
    from skillpouch.calls import OnStep

# The host reads hostile scripts with these patterns, so none may look at a character twice. An
# unclosed quote matches to the end: otherwise every quote after it would be tried again.
_QUOTED = re.compile(
    r"""'[^']*+(?:'|\Z)|"(?>(?:\\.|[^"\\])*)(?:"|\\?\Z)|(?<!\S)#[^\n]*+""", re.DOTALL
)
_COPROC = re.compile(r"(?:^|[;&|({]|\b(?:do|then|else)\b)[ \t]*+coproc\s", re.MULTILINE)
_COMMAND_ENDS = re.compile(r"[|;&\n]")
_XARGS = re.compile(r"\bxargs\b")
_AT_ONCE = re.compile(r"\s(?:-P|--max-procs)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a script would do, as far as its text tells. Nothing was run.

    `tools` are the tools it names, in order; `writes` are files it redirects into. An `opaque`
    script builds commands while it runs: what it will call is known only then. `error` is there
    when it is not bash. `notes` say what will not work as it is written.
    """

    commands: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    opaque: bool = False
    error: str = ""
    notes: tuple[str, ...] = ()


def preview_of(script: str, found: Mapping[str, Any], tools: Mapping[str, ToolDef]) -> Preview:
    """Return the preview of a script that an engine has read."""
    notes = (*filter(None, (refusal_of(script),)), *notes_on(script))
    if found.get("error"):
        return Preview(error=str(found["error"]), opaque=True, notes=notes)
    names = [str(name) for name in found["command_names"] if name]
    called = tuple(dict.fromkeys(name for name in names if name in tools))
    effects = dict.fromkeys(effect for name in called for effect in tools[name].effects)
    redirects = [each for each in found["redirects"] if each["is_write"]]
    return Preview(
        commands=tuple(dict.fromkeys(names)),
        tools=called,
        effects=tuple(effects),
        writes=tuple(str(each["path"]) for each in redirects),
        opaque=bool(found["is_opaque"]),
        notes=notes,
    )


def refusal_of(script: str) -> str:
    """Return why a script is not begun: what would only hang."""
    if "coproc" in script and _COPROC.search(_QUOTED.sub("''", script)):
        return "coproc is disabled: use `&` and `wait`, or `pmap -j N TOOL {}`"
    return ""


def notes_on(script: str) -> tuple[str, ...]:
    """Return what does not do here what its author may expect."""
    if "xargs" in script and any(map(_runs_at_once, _COMMAND_ENDS.split(script))):
        return ("xargs -P runs one at a time here; `pmap -j N TOOL {}` runs N",)
    return ()


def _runs_at_once(command: str) -> bool:
    found = _XARGS.search(command)
    return found is not None and _AT_ONCE.search(command, found.end()) is not None


_log = logging.getLogger(__name__)

_NEVER_WAIT = frozenset(("help", "discover", "result"))
_DOTTED = re.compile(r"(?<![\w./:$-])[^\W\d][\w:-]*(?:\.[\w:-]+)+(?![\w./])")
_MOST_DOTTED = 256
_MOST_PRINTED_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What one run has of its own."""

    state: bytes | None = None
    keep_state: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    dry_run: bool = False
    on_status: OnStatus | None = None
    cancellation: Cancellation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSettings:
    """What all runs of one tool have in common."""

    name: str
    about: str
    toolbox: Toolbox
    engine: ShellEngine
    limits: ExecutionLimits
    env: Mapping[str, str] = field(default_factory=dict)
    on_status: OnStatus | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """All that scripts can call."""
        return (*self.toolbox.definitions, *OWN_COMMANDS)


class ScriptRun:
    """Runs one script; made for each anew, so that any number can run at once."""

    def __init__(
        self, settings: ScriptSettings, options: RunOptions, on_step: "OnStep | None" = None
    ) -> None:
        self._settings = settings
        self._options = options
        self._watchers = Watchers(settings.on_status, options.on_status)
        self._is_watched = bool(self._watchers)
        self._call_log = CallLog(settings.limits, self._watchers)
        self._calling = ToolCalls(
            settings.toolbox,
            self._call_log,
            settings.limits,
            dry_run=options.dry_run,
            on_step=on_step,
        )
        self._jobs = JobCommand(settings.toolbox, self._calling, options.dry_run, on_step)
        self._result = ResultBox()
        self._stdout = KeptText(settings.limits.output_bytes)
        self._stderr = KeptText(settings.limits.output_bytes)
        self._hearing = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._stopped: Stopped = ""
        self._open = self._open_at_once = 0
        self._known: set[str] = set()  # the commands that its shell has
        self._last_offered: object = None

    async def run(self, script: str, timeout_seconds: float) -> tuple[ToolResponse, bytes | None]:
        """Return the response, and the state that the script left if it was to be kept."""
        self._started = time.monotonic()
        if self._is_watched:
            self._watchers.tell(ScriptEvent(kind="started"))
        refusal = refusal_of(script)
        ending = Done(2) if refusal else await self._hold(script, timeout_seconds)
        found = self._verdict(script, ending, timeout_seconds)
        if refusal:
            found = ScriptVerdict(status="syntax", exit_code=2, notes=(refusal,))
        done = ending if isinstance(ending, Done) else Done(found.exit_code)
        if self._is_watched:
            self._watchers.tell(ScriptEvent(kind="ended", status=found.status))
        return self._response(script, done, found), done.state

    async def _hold(self, script: str, timeout_seconds: float) -> Done | Crash | None:
        """Run the script until it ends, or somebody or something ends it: then None."""
        order = await self._order(script)
        toolbox = self._settings.toolbox
        job = ScriptJob(
            order=order,
            on_command=self._answer,
            on_text=self._hear,
            immediate=_NEVER_WAIT if is_asked_here() else toolbox.immediate | _NEVER_WAIT,
        )
        clock = PausableTimer(timeout_seconds, lambda: self._stop("timed_out"))
        with ExitStack() as stack:
            stack.enter_context(clock.heard())
            self._running = asyncio.ensure_future(self._settings.engine.run(job))
            if self._options.cancellation is not None:
                ended = self._options.cancellation.heard(lambda: self._stop("cancelled"))
                stack.enter_context(ended)
            try:
                return await self._running
            except EngineCrashedError as error:
                return error.crash
            except asyncio.CancelledError:
                if not self._stopped:
                    self._running.cancel()
                    raise
                return None

    def _stop(self, why: Stopped) -> None:
        if not self._stopped and not self._running.done():
            self._stopped = why
            self._running.cancel()

    async def _order(self, script: str) -> ScriptRequest:
        toolbox, options = self._settings.toolbox, self._options
        folders = await toolbox.folders_for(script)
        self._last_offered = toolbox.definitions
        commands = self._settings.commands
        if toolbox.changes:
            commands += tuple(_words_that_may_come(script, commands))
            self._known.update(commands)
        if options.files:
            folders = {**folders, "/in": dict(options.files)}
        return ScriptRequest(
            script=script,
            commands=commands,
            stubs=STUBS,
            env=dict(self._settings.env),
            limits=self._settings.limits.for_engine(),
            folders=folders,
            state=options.state,
            keeps_state=options.keep_state,
        )

    def _hear(self, stdout: str, stderr: str) -> None:
        with self._hearing:
            self._stdout.add(stdout)
            self._stderr.add(stderr)
        if self._is_watched:
            self._watchers.tell(ScriptEvent(kind="output", stdout=stdout, stderr=stderr))
        if self._stdout.total_bytes + self._stderr.total_bytes > _MOST_PRINTED_BYTES:
            self._loop.call_soon_threadsafe(self._stop, "output")

    async def _answer(self, command: CommandRequest) -> CommandReply:
        self._open += 1
        self._open_at_once = max(self._open_at_once, self._open)
        try:
            name, words, stdin = command
            if name in OWN_COMMANDS:
                answer = await self._own(name, words, stdin)
            else:
                answer = await self._calling.call(name, words, stdin)
            return self._with_new(answer) if self._settings.toolbox.changes else answer
        except Exception:  # noqa: BLE001 - it is logged, and the script goes on
            # A command without an answer would wait until the time is up.
            _log.exception("the command %s of a script failed", command.name)
            return CommandReply("", f"{command.name}: internal error\n", 1)
        finally:
            self._open -= 1

    def _with_new(self, answer: CommandReply) -> CommandReply:
        """Tell the shell of commands that have come since it was last told."""
        offered = self._settings.toolbox.definitions
        if offered is self._last_offered:
            return answer
        self._last_offered = offered
        new = tuple(name for name in offered if name not in self._known)
        self._known.update(new)
        return answer._replace(new=new)

    async def _own(self, name: str, words: tuple[str, ...], stdin: str | None) -> CommandReply:
        """Answer a command that every script has."""
        tools = self._settings.toolbox.definitions
        match name:
            case "result":
                return self._result.set(words, stdin)
            case "help":
                return help_for(words, self._settings.name, tools, self._settings.about)
            case "discover":
                return discovered(words, tools)
            case "job":
                return await self._jobs.run(words, stdin)
            case _:
                return await run_pmap(words, stdin, self._calling, tuple(tools))

    def _verdict(
        self, script: str, ending: Done | Crash | None, timeout_seconds: float
    ) -> ScriptVerdict:
        after = f"{timeout_seconds:g} s"
        if self._stopped == "output":
            after = f"{_MOST_PRINTED_BYTES:,} bytes"
        return verdict(
            Facts(
                ending=ending,
                stopped=self._stopped,
                stopped_after=after,
                script=script,
                stderr=self._stderr.text,
                open_at_once=self._open_at_once,
                refusals=tuple(self._call_log.refusals),
                was_denied=self._call_log.was_denied,
            )
        )

    def _response(self, script: str, done: Done, found: ScriptVerdict) -> ToolResponse:
        notes = (*found.notes, *(f"note: {note}" for note in notes_on(script)))
        stderr = self._stderr.text
        if notes:
            stderr = _line(stderr) + "".join(f"{note}\n" for note in notes)
        return ToolResponse(
            stdout=self._stdout.text,
            stderr=stderr,
            exit_code=found.exit_code,
            status=found.status,
            result=self._result.value,
            calls=self._call_log.calls,
            artifacts=tuple(Artifact(path=p, data=d) for p, d in sorted(done.files.items())),
            artifacts_left_out=done.files_left_out,
            truncated=done.truncated or self._stdout.truncated or self._stderr.truncated,
            duration_ms=milliseconds(time.monotonic() - self._started),
            notes=notes,
            protections=dict(self._settings.engine.protections),
        )


def _words_that_may_come(script: str, commands: Sequence[str]) -> Iterator[str]:
    """Yield words like `skill.tool` that are no commands yet, and may be when they are reached.

    A shell asks for a command that it was told of; of another it says that there is none.
    """
    known = set(commands)
    for word in dict.fromkeys(islice(_DOTTED.findall(script), _MOST_DOTTED)):
        if word not in known:
            yield word


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
