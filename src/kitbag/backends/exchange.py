"""A folder that the host and the tools of one skill share, out of reach of all others."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path


def process_folder() -> Path:
    """Return a folder that only this process has, and no tool sees as a whole."""
    return _base(os.getpid())


@cache
def _base(owner: int) -> Path:
    """Return the folder of one process; a forked child, with another number, gets another."""
    base = Path(tempfile.mkdtemp(prefix="kitbag-exchange-")).resolve()
    atexit.register(_remove, base, owner)
    return base


def _remove(base: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(base, ignore_errors=True)


def exchange_folder(home: str, workspace: Path) -> Path:
    """Return the folder for the tools of one skill in one workspace."""
    return _folder(home, workspace, os.getpid())


@cache
def _folder(home: str, workspace: Path, owner: int) -> Path:  # noqa: ARG001 - they tell folders apart
    return Path(tempfile.mkdtemp(dir=_base(owner)))
