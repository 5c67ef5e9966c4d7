"""Loads for later calls the modules that the first calls imported by themselves.

A call writes their names into memory that it shares with its prefork server alone; the names are
hints and not trusted.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import mmap
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SHARED_BYTES = 32 * 1024  # some thousand names; modules that do not fit are loaded by each call
_CALLS = 3  # calls that leave hints: the first often differs from the later ones
_TRIAL_SECONDS = 5  # modules that take longer to load are loaded by the calls themselves


class ImportHints:
    """Tells a prefork server which modules its children had to load themselves."""

    def __init__(self) -> None:
        self._shared: mmap.mmap | None = None
        self.left = _CALLS
        self.known = frozenset[str]()

    @property
    def are_over(self) -> bool:
        return not self.left

    def begin(self, hidden: str) -> None:
        """Remember what is loaded before a child is forked, except the module hidden from it."""
        self.known = frozenset(sys.modules) - {hidden}

    def expect(self) -> None:
        """In the prefork server, before a fork: make the memory that the child writes to."""
        if self.left:
            self._shared = mmap.mmap(-1, _SHARED_BYTES)

    def write(self) -> None:
        """In a child, at its end: write the names of modules it loaded from outside the skill."""
        if self._shared is None:
            return
        names = [name for name, module in list(sys.modules.items()) if self._is_new(name, module)]
        text = "\n".join(names).encode()[:_SHARED_BYTES]
        self._shared[: len(text)] = text

    def _is_new(self, name: str, module: object) -> bool:
        file = getattr(module, "__file__", None)
        return (
            name not in self.known
            and isinstance(file, str)
            and file.startswith((sys.base_prefix + os.sep, sys.prefix + os.sep))
        )

    def learn(self, load: Callable[[list[str]], bool]) -> bool:
        """In the prefork server: load the modules that the last call named, if a trial succeeds."""
        if self._shared is None:
            return False
        self.left -= 1
        text = self._shared[:].rstrip(b"\0").decode(errors="replace")
        # Closed, so that the next child cannot read what this one wrote.
        self._shared.close()
        self._shared = None
        names = [name for name in text.split("\n") if name]
        return bool(names) and _in_a_child(lambda: load(names)) and load(names)


def _in_a_child(trial: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        # SIGALRM without a handler ends the process: a module that hangs must not block the server.
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        _signal.alarm(_TRIAL_SECONDS)
        try:
            os._exit(0 if trial() else 1)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
