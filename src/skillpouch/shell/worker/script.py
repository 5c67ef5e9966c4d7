"""Runs scripts inside a worker, one shell each, and keeps cleared shells for the same tool."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from bashkit import Bash, BuiltinContext, BuiltinResult, ExecResult, ExecutionProfile, FileSystem

from skillpouch.shell.worker.protocol import (
    CommandReply,
    CommandRequest,
    Done,
    OnCommand,
    OnText,
    ScriptRequest,
)
from skillpouch.shell.worker.reading import FEW_COMMANDS, named, never_waits, says_all

if TYPE_CHECKING:
    _Pairs = tuple[tuple[str, Any], ...]
    Kind = tuple[tuple[str, ...], tuple[str, ...], _Pairs, _Pairs, frozenset[str]]
    from collections.abc import Callable


_NEVER_SECONDS = 86_400.0  # time is kept by whoever gave the order, and stops while people think


class PooledShell:
    """A shell for one script after another: making one takes four times as long as clearing it."""

    def __init__(
        self,
        order: ScriptRequest,
        commands: tuple[str, ...],
        now: frozenset[str],
        kind: Kind | None,
    ) -> None:
        self.kind = kind
        self.running_script: RunningScript | None = None
        self.cleared_at = 0.0
        self._stubs = order.stubs
        builtins: dict[str, Any] = dict.fromkeys(order.stubs, self._refuse)
        for name in commands:
            builtins[name] = self._now if name in now else self._forward
        settings: dict[str, Any] = {
            "custom_builtins": builtins,
            "env": order.env,
            "profile": ExecutionProfile.Interactive,
            "timeout_seconds": _NEVER_SECONDS,
            **order.limits,
        }
        if order.state is None:
            self.bash = Bash(**settings)
        else:
            self.bash = Bash.from_snapshot(order.state, **settings)

    def add(self, commands: tuple[str, ...], *, now: bool) -> None:
        """Let the running script call more commands; the shell is then not used for another one."""
        self.kind = None
        for name in commands:
            do = self._now if now else self._forward
            self.bash.add_builtin(name, do)  # type: ignore[attr-defined]  # not in its stub file

    async def _forward(self, context: BuiltinContext) -> BuiltinResult:
        return (
            CANCELLED if self.running_script is None else await self.running_script.forward(context)
        )

    def _now(self, context: BuiltinContext) -> BuiltinResult:
        return CANCELLED if self.running_script is None else self.running_script.now(context)

    def _refuse(self, context: BuiltinContext) -> BuiltinResult:
        return BuiltinResult("", f"{context.name}: {self._stubs[context.name]}\n", 126)


CANCELLED = BuiltinResult("", "cancelled\n", 130)
_cleared: list[PooledShell] = []  # shells that wait for the next script of their kind
_MOST_CLEARED = 4
_NEW_SECONDS = 0.05
_looking = threading.Lock()


def shell_for(order: ScriptRequest, now: frozenset[str]) -> PooledShell:
    """Return a shell for a script; commands in `now` are answered without waiting."""
    commands = tuple(named(order))
    kind = _kind_of(order, commands, now)
    found = None if kind is None else _take_cleared(kind)
    if found is None:
        return PooledShell(order, commands, now, kind)
    if time.monotonic() - found.cleared_at > _NEW_SECONDS:
        found.bash.reset()  # again: $SECONDS has counted since it was cleared
    return found


def _take_cleared(kind: Kind) -> PooledShell | None:
    with _looking:
        for shell in _cleared:
            if shell.kind == kind:
                _cleared.remove(shell)
                return shell
    return None


def is_used_again(order: ScriptRequest) -> bool:
    """Tell whether the shell of a script can be cleared for another."""
    return _kind_of(order, tuple(named(order)), frozenset()) is not None


def _kind_of(order: ScriptRequest, commands: tuple[str, ...], now: frozenset[str]) -> Kind | None:
    """Return what two scripts must share to use one shell; None for one that needs a new shell."""
    if order.state is not None or order.folders or len(commands) > FEW_COMMANDS:
        return None
    env, limits = (tuple(sorted(each.items())) for each in (order.env, order.limits))
    return commands, tuple(order.stubs), env, limits, now.intersection(commands)


def clear_away(shell: PooledShell) -> bool:
    """Remove all that a script left in a shell and keep it; False when it is not kept."""
    if shell.kind is None or len(_cleared) >= _MOST_CLEARED:
        return False
    shell.bash.reset()
    shell.cleared_at = time.monotonic()
    with _looking:
        _cleared.append(shell)
    return True


class Immediate(NamedTuple):
    """Commands that never wait: they are answered on the thread of the engine."""

    names: frozenset[str]
    answer: Callable[[CommandRequest], CommandReply]
    in_thread: Callable[[Callable[[], None]], None]


_OUT = "/out"
_MOST_FILES, _MOST_BYTES = 200, 8 * 1024 * 1024
_MOST_STATE_BYTES = 16 * 1024 * 1024


async def run_script(
    order: ScriptRequest, on_command: OnCommand, on_text: OnText, immediate: Immediate | None = None
) -> Done:
    """Run a script to its end. Cancelling this ends it, and no command of it is begun any more."""
    script = RunningScript(order, on_command, immediate, asyncio.get_running_loop())
    return await script.run(on_text)


class RunningScript:
    """One script in one shell, from mounting its files to collecting what it left in /out."""

    def __init__(
        self,
        order: ScriptRequest,
        on_command: OnCommand,
        immediate: Immediate | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._order = order
        self._on_command = on_command
        self._immediate = immediate
        self._loop = loop
        self._over = False
        self._is_alone = False  # whether it has a thread of its own, without the loop
        self._is_whole = False  # whether it ended by itself
        self._shell = shell_for(order, immediate.names if immediate else frozenset())
        self._shell.running_script = self
        self._bash = self._shell.bash
        self._files = self._bash.fs()
        for place, files in order.folders.items():
            self._bash.mount(place, _folder(files), read_only=True)
        if not self._files.exists(_OUT):
            self._files.mkdir(_OUT)
        self._before = _tree(self._files)[0] if order.state is not None else {}

    async def run(self, on_text: OnText) -> Done:
        try:
            ran = await self._execute(on_text)
        except BaseException:
            # Both ways: a task that is cancelled alone leaves its script running.
            self._over = True
            self._bash.cancel()
            self._loop.call_soon(self.leave)
            raise
        done = self._done(ran)
        self._is_whole = never_waits(self._order)
        self._loop.call_soon(self.leave)
        return done

    def leave(self) -> None:
        """Clear the shell for the next script, unless something of this one may still run in it.

        Then drop it: a shell and its script refer to each other through the engine, where Python's
        garbage collector does not look.
        """
        shell, self._shell.running_script = self._shell, None
        del self._shell, self._bash, self._files
        if not (self._is_whole and clear_away(shell)):
            del shell.bash

    def _done(self, ran: ExecResult) -> Done:
        self._over = True
        found, left_out = _tree(self._files)
        state = self._bash.snapshot() if self._order.keeps_state else None
        return Done(
            exit_code=ran.exit_code & 255,
            error=ran.error,
            truncated=ran.stdout_truncated or ran.stderr_truncated,
            state=state if state is not None and len(state) <= _MOST_STATE_BYTES else None,
            files={path: data for path, data in found.items() if self._before.get(path) != data},
            files_left_out=left_out,
            peak_bytes=_peak_bytes(),
        )

    async def _execute(self, on_text: OnText) -> ExecResult:
        script, immediate = self._order.script, self._immediate
        if immediate is None or not is_mentioned_only(immediate.names, self._order):
            return await self._bash.execute(script, on_text)
        # Nothing in it waits for this loop. On one thread a script of one command takes a third
        # less time, one of ten a tenth less (bench/scripted.py).
        self._is_alone = True
        ended: asyncio.Future[ExecResult] = self._loop.create_future()
        bash = self._bash  # this may be cancelled, and have left, before the thread begins

        def run() -> None:
            ran: ExecResult | BaseException
            try:
                ran = bash.execute_sync(script, on_text)
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                ran = error
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                self._loop.call_soon_threadsafe(_settle, ended, ran)

        immediate.in_thread(run)
        return await ended

    async def forward(self, context: BuiltinContext) -> BuiltinResult:
        if self._over:
            return CANCELLED
        answer = self._on_command(CommandRequest(context.name, tuple(context.argv), context.stdin))
        if asyncio.get_running_loop() is self._loop:
            return self._given(await answer)
        there = asyncio.run_coroutine_threadsafe(answer, self._loop)
        return self._given(await asyncio.wrap_future(there))

    def now(self, context: BuiltinContext) -> BuiltinResult:
        if self._over or self._immediate is None:
            return CANCELLED
        command = CommandRequest(context.name, tuple(context.argv), context.stdin)
        return self._given(self._immediate.answer(command))

    def _given(self, answer: CommandReply) -> BuiltinResult:
        stdout, stderr, exit_code, new = answer
        if new and not self._over:
            self._shell.add(new, now=self._is_alone)
        return BuiltinResult(stdout, stderr, exit_code)


def is_mentioned_only(names: frozenset[str], order: ScriptRequest) -> bool:
    """Tell whether a script names no other commands, and nothing that waits by itself."""
    return says_all(order) and not any(
        name in order.script for name in order.commands if name not in names
    )


def is_serial(order: ScriptRequest) -> bool:
    """Tell whether a script may run without a loop, in a shell that is used again.

    Each new shell would leave a thread behind for a while.
    """
    return says_all(order) and is_used_again(order)


def _settle(ended: asyncio.Future[ExecResult], ran: ExecResult | BaseException) -> None:
    if ended.done():
        return
    if isinstance(ran, BaseException):
        ended.set_exception(ran)
    else:
        ended.set_result(ran)


def _folder(files: dict[str, bytes]) -> FileSystem:
    folder = FileSystem()
    for entry in folder.read_dir("/"):  # a new one is not empty
        folder.remove(f"/{entry['name']}", recursive=True)
    made: set[str] = set()
    for path, data in files.items():
        above = path.rpartition("/")[0]
        if above and above not in made:
            folder.mkdir(f"/{above}", recursive=True)
            made.add(above)
        folder.write_file(f"/{path}", data)
    return folder


def _tree(files: FileSystem) -> tuple[dict[str, bytes], int]:
    """Return the files below /out, up to a limit, and how many were left out."""
    found: dict[str, bytes] = {}
    bytes_left, left_out = _MOST_BYTES, 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        for entry in _entries(files, f"{_OUT}/{below}"):
            path, kind = f"{below}{entry['name']}", entry["metadata"]["file_type"]
            if kind == "directory":
                waiting.append(f"{path}/")
            elif kind == "file":
                size = entry["metadata"]["size"]
                if len(found) >= _MOST_FILES or size > bytes_left:
                    left_out += 1
                    continue
                bytes_left -= size
                found[path] = files.read_file(f"{_OUT}/{path}")
    return found, left_out


def _entries(files: FileSystem, folder: str) -> list[dict[str, Any]]:
    try:
        return sorted(files.read_dir(folder), key=lambda entry: str(entry["name"]))
    except Exception:  # noqa: BLE001 - the engine's own; the script removed it, or made it a file
        return []


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
