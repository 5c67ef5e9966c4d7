"""What a worker is asked to run and what it answers, without types of any engine."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple


class ScriptRequest(NamedTuple):
    """One script and all that it may use.

    `commands` are answered by whoever gave the order; `stubs` are commands that only say why
    they do not work. `folders` are put read-only where their names say, file by file.
    """

    script: str
    commands: tuple[str, ...] = ()
    stubs: dict[str, str] = {}
    env: dict[str, str] = {}
    limits: dict[str, int] = {}
    folders: dict[str, dict[str, bytes]] = {}
    state: bytes | None = None
    keeps_state: bool = False

    def packed(self) -> dict[str, Any]:
        folders = {place: packed_files(files) for place, files in self.folders.items()}
        return {**self._asdict(), "folders": folders, "state": packed_bytes(self.state)}

    @staticmethod
    def unpacked(fields: dict[str, Any]) -> ScriptRequest:
        folders = {place: unpacked_files(files) for place, files in fields["folders"].items()}
        return ScriptRequest(
            **{**fields, "folders": folders, "state": unpacked_bytes(fields["state"])}
        )


class Done(NamedTuple):
    """How a script ended. `error` is what the engine itself stopped it for."""

    exit_code: int
    error: str | None = None
    truncated: bool = False
    state: bytes | None = None
    files: dict[str, bytes] = {}  # what the script left in /out
    files_left_out: int = 0
    peak_bytes: int = 0

    def packed(self) -> dict[str, Any]:
        state = packed_bytes(self.state)
        return {**self._asdict(), "state": state, "files": packed_files(self.files)}

    @staticmethod
    def unpacked(fields: dict[str, Any]) -> Done:
        state = unpacked_bytes(fields["state"])
        return Done(**{**fields, "state": state, "files": unpacked_files(fields["files"])})


class CommandRequest(NamedTuple):
    """A command of a script that waits for its answer."""

    name: str
    words: tuple[str, ...]
    stdin: str | None


class CommandReply(NamedTuple):
    """What a command gave; `new` are commands that the script can call from now on."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    new: tuple[str, ...] = ()


OnCommand = Callable[[CommandRequest], Coroutine[Any, Any, CommandReply]]
OnText = Callable[[str, str], None]  # what was printed: standard output, standard error


def packed_bytes(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def unpacked_bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def packed_files(files: dict[str, bytes]) -> dict[str, str]:
    return {path: b64encode(data).decode() for path, data in files.items()}


def unpacked_files(files: dict[str, str]) -> dict[str, bytes]:
    return {path: b64decode(text, validate=True) for path, text in files.items()}
