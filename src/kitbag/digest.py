"""A skill's digest: one hash over the names, kinds, modes and contents of all its files."""

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from kitbag.errors import SkillUnreadableError

_CHUNK = 1024 * 1024


def digest_of(home: Path, skill_file: str) -> str:
    """Hash a folder; any change of a byte, a name, a mode or a link gives another digest.

    `skill_file` counts by what it says, also when it is a link to somewhere else.
    """
    whole = sha256()
    try:
        for relative, line in sorted(_lines(str(home))):
            # No name and no link can hold a NUL: nothing inside can look like the next line.
            whole.update(os.fsencode(relative) + b"\0" + line + b"\0")
        whole.update(_file_hash(skill_file))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SkillUnreadableError(str(error.filename or home), reason) from None
    return whole.hexdigest()


def _lines(home: str) -> Iterator[tuple[str, bytes]]:
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(f"{home}/{prefix}") as entries:
            for entry in entries:
                relative = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{relative}/")
                    yield relative, b"folder"
                else:
                    yield relative, _line(entry)


def _line(entry: os.DirEntry[str]) -> bytes:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return b"link " + os.fsencode(os.readlink(entry.path))
    if not stat.S_ISREG(mode):
        return b"special %o" % stat.S_IFMT(mode)
    return b"file %o %s" % (stat.S_IMODE(mode), _file_hash(entry.path))


def _file_hash(path: str) -> bytes:
    content = sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.hexdigest().encode()
