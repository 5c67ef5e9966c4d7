"""The text of an inline script, in a file that its interpreter reads and no tool writes."""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from skillpouch.backends.exchange import process_folder
from skillpouch.runtime.removal import remove_tree

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
