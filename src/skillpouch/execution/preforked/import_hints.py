"""What the first calls imported besides what could be read from the script: loaded for the next.

A call writes names into memory that it shares with its prefork server alone; they are hints, never
trusted.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import mmap
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SHARED_BYTES = 32 * 1024  # some thousand names; what does not fit is loaded by calls
_CALLS = 3  # that leave hints: the first often differs from those after it
_TRIAL_SECONDS = 5  # what takes longer to load is loaded by the calls that want it


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
        """Remember what is loaded before a child is forked, but for what it will not find."""
        self.known = frozenset(sys.modules) - {hidden}

    def expect(self) -> None:
        """In the prefork server, before a child is forked: have memory for what this one writes."""
        if self.left:
            self._shared = mmap.mmap(-1, _SHARED_BYTES)

    def write(self) -> None:
        """In a child, at its end: leave the names of what it loaded from outside the skill."""
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
        """In the prefork server: load what the last call named, if a trial shows no harm."""
        if self._shared is None:
            return False
        self.left -= 1
        text = self._shared[:].rstrip(b"\0").decode(errors="replace")
        # The next child must not read what this one left.
        self._shared.close()
        self._shared = None
        names = [name for name in text.split("\n") if name]
        return bool(names) and _in_a_child(lambda: load(names)) and load(names)


def _in_a_child(trial: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        # Unhandled, the alarm ends the trial: a module that hangs must not hang the server.
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        _signal.alarm(_TRIAL_SECONDS)
        try:
            os._exit(0 if trial() else 1)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
