"""Folders in which the host hands files to the tools of one skill, hidden from all others.

What a killed process left is removed by the next one: its lock is free.
"""

import atexit
import os
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from skillpouch.runtime.removal import lock_folder, remove_left_behind, remove_tree

_PREFIX = "skillpouch-exchange-"


def process_folder() -> Path:
    """Return a folder that only this process has, and no tool sees as a whole."""
    return _base(os.getpid())


@cache
def _base(owner: int) -> Path:
    """Return the folder of one process; a forked child, with another number, gets another."""
    remove_left_behind(_PREFIX)
    base = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    lock_folder(base)  # never closed: it is held until the process ends, however it ends
    atexit.register(_remove, base, owner)
    return base


def _remove(base: Path, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(OSError):
            remove_tree(base)


_folders: dict[tuple[str, Path, int], Path] = {}


def exchange_folder(home: str, workspace: Path) -> Path:
    """Return the folder for the tools of one skill in one workspace."""
    key = (home, workspace, os.getpid())
    found = _folders.get(key)
    if found is None:
        found = _folders.setdefault(key, Path(tempfile.mkdtemp(dir=_base(key[2]))))
    return found


def forget_exchange(*, home: str = "", workspace: Path | None = None) -> None:
    """Remove the folders of a skill, or of a workspace, that nobody uses any more."""
    for key in list(_folders):
        if key[0] == home or key[1] == workspace:
            folder = _folders.pop(key, None)
            if folder is not None and key[2] == os.getpid():
                with suppress(OSError):
                    remove_tree(folder)


# Node decides by the extension what kind of module a file is.
_EXTENSIONS = {"node": ".js", "python": ".py", "python3": ".py", "ruby": ".rb", "perl": ".pl"}


def inline_file(home: str, interpreter: str, text: str) -> Path:
    """Return the file with this text, in the one folder that all inline scripts of a skill share.

    It is looked at for every call: whatever it held before, it holds the text now.
    """
    data = text.encode(errors="replace")
    folder = _folder(home)
    path = folder / f"{sha256(data).hexdigest()[:32]}{_EXTENSIONS.get(interpreter, '.sh')}"
    if not _holds(path, data):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, data)
    return path


def forget_inline(home: str) -> None:
    """Remove the files of a skill that nobody uses any more."""
    with suppress(OSError):
        remove_tree(_folder(home))


def _folder(home: str) -> Path:
    return process_folder() / f"inline-{sha256(os.fsencode(home)).hexdigest()[:16]}"


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _replace(path: Path, data: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    unfinished.write_bytes(data)
    unfinished.chmod(0o400)
    unfinished.rename(path)


def forget_skill(home: str) -> None:
    """Remove what is kept for the skill in a folder, which nobody calls any more."""
    forget_exchange(home=home)
    forget_inline(home)


def forget_workspace(workspace: Path) -> None:
    """Remove what is kept for the calls in a workspace that is no longer used."""
    forget_exchange(workspace=workspace)
