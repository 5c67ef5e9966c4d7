"""Which processes use what lies in a folder: told by locks, which end with their process."""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skillpouch.discovery.text_skills.errors import SkillFolderError

_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.01
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Holder:
    """This process, as others see it: a file that is locked for as long as it lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._descriptor = os.open(folder / self.name, _FLAGS | os.O_EXCL, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Stop being there."""
        (self._folder / self.name).unlink(missing_ok=True)
        os.close(self._descriptor)


def lives(folder: Path, name: str) -> bool:
    """Tell whether a holder still lives; the file of a dead one is removed."""
    path = folder / name
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        path.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep every other process, and thread, from changing a folder for the moment."""
    descriptor = os.open(folder / ".lock", _FLAGS, 0o600)
    try:
        _wait_for(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                reason = f"another process has kept it locked for {_PATIENCE_SECONDS:g} s"
                raise SkillFolderError(folder, reason, hint="end that process") from None
            time.sleep(_PAUSE_SECONDS)
