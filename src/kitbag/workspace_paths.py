"""Where a path inside the workspace really leads: walked by descriptors, so that no race misleads.

Each component is looked at and opened relative to the folder before it, never following a link;
a link is read and its target walked in the same way. What was checked is what is then used.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kitbag.errors import CallDeniedError, KitbagError, nearest

FaultKind = Literal[
    "not_found", "invalid_argument", "conflict", "timeout", "denied", "unsupported", "too_much"
]

_MOST_LINKS = 40  # as the kernel has it
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)  # enough to walk on; needs no right to list


class OutsideWorkspaceError(CallDeniedError):
    """A path that leads out of the workspace: by `..`, by a link, or because it starts outside."""

    code = "outside_workspace"

    def __init__(self, path: str, workspace: Path) -> None:
        self.path = path
        super().__init__(
            f"{path!r} is outside the workspace {workspace}",
            hint="name a path relative to the workspace, or choose another one: --workspace DIR",
        )


class ToolFaultError(KitbagError):
    """Why a tool could not do what it was asked; `kind` is for programs, the rest for a model."""

    code = "workspace_fault"

    def __init__(self, kind: FaultKind, message: str, *, hint: str = "") -> None:
        self.kind = kind
        super().__init__(message, hint=hint)


@dataclass(slots=True, kw_only=True)
class Place:
    """Where a path leads: a folder that is held open, and what is in it under `name`.

    Of a folder itself `name` is "". `missing` are the components that are not there yet.
    """

    folder: int
    above: tuple[str, ...]
    name: str = ""
    status: os.stat_result | None = None
    missing: tuple[str, ...] = ()

    @property
    def relative(self) -> str:
        """The real path, relative to the workspace: no links, no `..`."""
        return "/".join((*self.above, self.name, *self.missing)).strip("/") or "."


@contextmanager
def find_place(root: Path, path: str) -> Iterator[Place]:
    """Walk to where `path` leads below `root`, and hold the folder open."""
    walk = _Walk(root, path)
    try:
        yield walk.run()
    except OSError as error:
        raise fault_of(error, path) from None
    finally:
        walk.close()


class _Walk:
    def __init__(self, root: Path, path: str) -> None:
        self._root = root
        self._path = path
        self._todo = deque(self._parts(path))
        self._names: list[str] = []
        self._folders: list[int] = []
        self._links = 0

    def run(self) -> Place:
        self._folders = [os.open(self._root, _FOLDER | _PATH_ONLY)]
        while self._todo:
            name = self._todo.popleft()
            if name == "..":
                self._go_up()
                continue
            place = self._step(name)
            if place is not None:
                return place
        return self._place("", os.fstat(self._folders[-1]))

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)
        self._folders.clear()

    def _step(self, name: str) -> Place | None:
        """Enter a folder or follow a link; return the place when the way ends here."""
        folder = self._folders[-1]
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return self._not_there(name)
        if stat.S_ISLNK(status.st_mode):
            self._follow(os.readlink(name, dir_fd=folder))
        elif stat.S_ISDIR(status.st_mode):
            self._folders.append(os.open(name, _FOLDER | _PATH_ONLY, dir_fd=folder))
            self._names.append(name)
        elif self._todo:
            raise ToolFaultError("not_found", f"{self._path!r}: {name!r} is a file, not a folder")
        else:
            return self._place(name, status)
        return None

    def _not_there(self, name: str) -> Place:
        missing = (name, *self._todo)
        if ".." in missing:
            raise ToolFaultError("not_found", f"{self._path!r}: there is no {name!r} to go up from")
        return Place(folder=self._folders[-1], above=tuple(self._names), missing=missing)

    def _go_up(self) -> None:
        if not self._names:
            raise OutsideWorkspaceError(self._path, self._root)
        os.close(self._folders.pop())
        self._names.pop()

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise ToolFaultError(
                "invalid_argument", f"{self._path!r}: too many links, perhaps in a circle"
            )
        if os.path.isabs(target):
            parts = self._parts(target)
            while self._names:
                self._go_up()
        else:
            parts = _components(target)
        self._todo.extendleft(reversed(parts))

    def _parts(self, path: str) -> list[str]:
        """Return the components from the root on."""
        if "\0" in path:
            raise ToolFaultError("invalid_argument", "a path cannot hold a NUL character")
        if not os.path.isabs(path):
            if os.path.normpath(path).split("/")[0] == "..":
                raise OutsideWorkspaceError(path, self._root)
            return _components(path)
        if path != str(self._root) and not path.startswith(f"{self._root}/"):
            raise OutsideWorkspaceError(self._path, self._root)
        return _components(path[len(str(self._root)) :])

    def _place(self, name: str, status: os.stat_result) -> Place:
        return Place(folder=self._folders[-1], above=tuple(self._names), name=name, status=status)


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def not_found(place: Place, path: str) -> ToolFaultError:
    """Say that nothing is there, and which name was probably meant."""
    missing = place.missing[0] if place.missing else place.name
    meant = nearest(missing, names_in(place.folder))
    where = "/".join(place.above)
    paths = [repr(f"{where}/{name}" if where else name) for name in meant]
    hint = f"did you mean {' or '.join(paths)}?" if paths else "`ls` shows what is there"
    return ToolFaultError("not_found", f"no such file or folder: {path!r}", hint=hint)


def names_in(folder: int) -> list[str]:
    """Return the names in a folder that is held open; none when it may not be listed."""
    with suppress(OSError):
        readable = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=folder)
        try:
            return sorted(os.listdir(readable))
        finally:
            os.close(readable)
    return []


def fault_of(error: OSError, path: str) -> ToolFaultError:
    """Make what the operating system says a fault that names the path."""
    said = (error.strerror or str(error)).lower()
    match error:
        case FileNotFoundError():
            return ToolFaultError("not_found", f"{path!r}: {said}")
        case PermissionError():
            return ToolFaultError("denied", f"{path!r}: {said}")
        case FileExistsError() | NotADirectoryError() | IsADirectoryError():
            return ToolFaultError("conflict", f"{path!r}: {said}")
        case _:
            return ToolFaultError("unsupported", f"{path!r}: {said}")
