"""What all built-in workspace tools share: definitions, answers, sessions, confinement."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from skillpouch.backends.delivery import process_folder
from skillpouch.builtins.workspace.jobs import Jobs
from skillpouch.calls import Terms, ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.limits import USUAL_SECONDS
from skillpouch.results import Attachment, ChangedFile
from skillpouch.runtime.memoize import BoundedCache, Shared
from skillpouch.text import clean
from skillpouch.tools import BuiltIn, Effect, Tool
from skillpouch.workspace.files import Stamp, WorkspaceFiles, Written, stamp_of
from skillpouch.workspace.read_only import kept_folders, run_later


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ("read",)
    timeout_seconds: float = USUAL_SECONDS

    def tool(self, session: object) -> Tool:
        """Return the tool for one session."""
        return Tool(
            id=self.name,
            name=self.name,
            skill="",
            description=self.description,
            input_schema={
                "type": "object",
                "properties": {name: dict(facts) for name, facts in self.parameters.items()},
                "required": list(self.required),
                "additionalProperties": False,
            },
            runs=BuiltIn(name=self.name, session=session),
            effects=self.effects,
            timeout_ms=round(self.timeout_seconds * 1000),
            declared_in="skillpouch",
            read_by="skillpouch",
        )


def text(description: str, **facts: Any) -> dict[str, Any]:
    """Describe a parameter that is text."""
    return {"type": "string", "description": description, **facts}


def number(description: str, *, minimum: int = 0, **facts: Any) -> dict[str, Any]:
    """Describe a parameter that is a whole number."""
    return {"type": "integer", "minimum": minimum, "description": description, **facts}


def switch(description: str) -> dict[str, Any]:
    """Describe a parameter that is on or off, and off by default."""
    return {"type": "boolean", "default": False, "description": description}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """`data` is the text for a pipe; without it, a pipe gets `structured` as JSON."""

    text: str
    structured: Any = None
    data: str | None = None
    attachments: tuple[Attachment, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    truncated: bool = False


_MOST_SEEN = 4096


class WorkspaceSession(Shared):
    """The memory of one conversation: its current folder, the files it has read, its jobs.

    At most `most_jobs` run in the background, each for `job_seconds`; they end with `close`, with
    the session itself, and with the process.
    """

    def __init__(self, *, most_jobs: int = 8, job_seconds: float = 3600.0) -> None:
        self._folders: dict[Path, str] = {}
        self._seen: BoundedCache[tuple[Path, str], Stamp] = BoundedCache(_MOST_SEEN)
        self.jobs = Jobs(most=most_jobs, seconds=job_seconds)

    def folder(self, workspace: Path) -> str:
        """Return the current folder of the shell, relative to the workspace."""
        return self._folders.get(workspace, ".")

    def move_to(self, workspace: Path, folder: str) -> None:
        self._folders[workspace] = folder

    def saw(self, workspace: Path, path: str, stamp: Stamp) -> None:
        """Remember the state of a file that the caller has now seen."""
        self._seen[workspace, path] = stamp

    def seen(self, workspace: Path, path: str) -> Stamp | None:
        """Return the state of a file when it was last read or written here, or None."""
        return self._seen.get((workspace, path))

    def close(self) -> None:
        """End what runs in the background."""
        self.jobs.close()


def files_of(call: ToolCall) -> WorkspaceFiles:
    """Return the files that a call may open; skills and our own Python are read-only."""
    return _files_of(call.terms, call.access.writable)


def files_to_write(call: ToolCall) -> WorkspaceFiles:
    """Return the files that a call may open; what it writes goes to a layer, unless directly."""
    if call.writes == "direct":
        return files_of(call)
    return files_of(call).into(process_folder(), call.layers)


def remember_written(call: ToolCall, session: "WorkspaceSession", written: Written) -> None:
    """Remember the state of a file that a call has written, once it has reached the workspace."""
    workspace, path = call.terms.workspace, written.path
    if call.writes == "direct":
        session.saw(workspace, path, written.stamp)
        return
    waits = _without_inode(written.stamp)
    call.when_staged.append(lambda: session.saw(workspace, path, waits))

    def look() -> None:
        with suppress(OSError):
            session.saw(workspace, path, stamp_of((workspace / path).lstat()))

    call.when_applied.append(look)


def stamp_seen(call: ToolCall, stamp: Stamp) -> Stamp:
    """Return the stamp of a file by which a later call knows it."""
    return _without_inode(stamp) if call.stack else stamp


def _without_inode(stamp: Stamp) -> Stamp:
    """Return the stamp of a file that waits: its device, and perhaps its inode, will be others."""
    return 0, 0, stamp[2], stamp[3]


@lru_cache(maxsize=256)
def _files_of(terms: Terms, writable: tuple[Path, ...]) -> WorkspaceFiles:
    kept = (*kept_folders(terms), *terms.read_only, *terms.reserved, *run_later(terms, writable))
    return WorkspaceFiles(terms.workspace, kept)


_MOST_ENTRIES = 500_000

Value = TypeVar("Value")


class Patience:
    """Ends a walk that takes too long, with a hint what to do."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    def over(self, values: Iterable[Value]) -> Iterator[Value]:
        hint = "name a smaller folder"
        for count, value in enumerate(values):
            if count == _MOST_ENTRIES:
                raise ToolFaultError("too_much", f"more than {_MOST_ENTRIES:,} entries", hint=hint)
            if not count % 64 and time.monotonic() > self._deadline:
                raise ToolFaultError("timeout", f"not done after {self._seconds:g} s", hint=hint)
            yield value


@lru_cache(maxsize=4096)
def shown_path(path: str) -> str:
    """Return a path in one line, without invisible characters."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return clean(text).replace("\n", "\\n")
