"""Code that was compiled once and holds as long as its file does."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType


class Compiled:
    """Files compiled ahead of the calls that run them."""

    def __init__(self) -> None:
        self._code: dict[str, tuple[tuple[int, ...], CodeType]] = {}

    def add(self, file: str) -> None:
        """Compile a file; raises what Python would raise for it."""
        self._code[file] = (_identity(file), compile_file(file))

    def put(self, file: str, code: CodeType) -> None:
        """Take code for what a file says."""
        self._code[file] = (_identity(file), code)

    def drop(self, file: str) -> None:
        del self._code[file]

    def get(self, file: str) -> CodeType | None:
        """Return the code of a file that has not changed since."""
        identity, code = self._code.get(file, (None, None))
        return code if identity == _identity(file) else None


def compile_file(file: str) -> CodeType:
    with open(file, "rb") as source:
        return compile(source.read(), file, "exec", 0, True)


def _identity(file: str) -> tuple[int, ...]:
    found = os.stat(file)
    return found.st_ino, found.st_size, found.st_ctime_ns  # which changes with all the others
