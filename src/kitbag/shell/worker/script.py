"""Runs one script in a fresh shell: the only file that knows the engine, bashkit."""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

from bashkit import Bash, BashError, BuiltinContext, BuiltinResult, ExecutionProfile, FileSystem

from kitbag.shell.worker.order import Command, Done, OnCommand, OnText, Order

_NEVER_SECONDS = 86_400.0  # time is kept by whoever gave the order, and stops while people think
_OUT = "/out"
_MOST_FILES, _MOST_BYTES = 200, 8 * 1024 * 1024
_MOST_STATE_BYTES = 16 * 1024 * 1024


async def run_script(order: Order, on_command: OnCommand, on_text: OnText) -> Done:
    """Run a script to its end. Cancelling this ends it, and no command of it is begun any more."""
    shell = _Shell(order, on_command)
    return await shell.run(on_text)


def analyze_script(text: str) -> dict[str, Any]:
    """Return what a script would run, without running it; `error` when it is no bash."""
    try:
        return {"error": None, **Bash().analyze(text).to_dict()}
    except BashError as error:
        return {"error": str(error)}


class _Shell:
    def __init__(self, order: Order, on_command: OnCommand) -> None:
        self._order = order
        self._on_command = on_command
        self._over = False
        self._bash = self._new()
        self._files = self._bash.fs()
        for place, files in order.folders.items():
            self._bash.mount(place, _folder(files), read_only=True)
        if not self._files.exists(_OUT):
            self._files.mkdir(_OUT)
        self._before = _tree(self._files)[0] if order.state is not None else {}

    async def run(self, on_text: OnText) -> Done:
        try:
            ran = await self._bash.execute(self._order.script, on_text)
        except asyncio.CancelledError:
            # Both ways: a task that is cancelled alone leaves its script running.
            self._over = True
            self._bash.cancel()
            raise
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

    def _new(self) -> Bash:
        order = self._order
        builtins: dict[str, Any] = dict.fromkeys(order.stubs, self._refuse)
        builtins |= dict.fromkeys(order.commands, self._forward)
        settings: dict[str, Any] = {
            "custom_builtins": builtins,
            "env": order.env,
            "profile": ExecutionProfile.Interactive,
            "timeout_seconds": _NEVER_SECONDS,
            **order.limits,
        }
        if order.state is None:
            return Bash(**settings)
        return Bash.from_snapshot(order.state, **settings)

    async def _forward(self, context: BuiltinContext) -> BuiltinResult:
        if self._over:
            return BuiltinResult("", "cancelled\n", 130)
        command = Command(context.name, tuple(context.argv), context.stdin)
        return BuiltinResult(*await self._on_command(command))

    async def _refuse(self, context: BuiltinContext) -> BuiltinResult:
        return BuiltinResult("", f"{context.name}: {self._order.stubs[context.name]}\n", 126)


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
    """Return the files below /out, as far as there is room, and how many there was none for."""
    found: dict[str, bytes] = {}
    room, left_out = _MOST_BYTES, 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        for entry in _entries(files, f"{_OUT}/{below}"):
            path, kind = f"{below}{entry['name']}", entry["metadata"]["file_type"]
            if kind == "directory":
                waiting.append(f"{path}/")
            elif kind == "file":
                size = entry["metadata"]["size"]
                if len(found) >= _MOST_FILES or size > room:
                    left_out += 1
                    continue
                room -= size
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
