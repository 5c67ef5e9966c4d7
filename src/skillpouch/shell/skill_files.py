"""The folders of skills as files that a script can read: copied, never mounted.

To open a folder of the host to a shell would open whatever a link in it comes to point at.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator

from skillpouch.skills import Skill

PLACE = "/skills"
_MOST_FILES, _MOST_BYTES = 2_000, 8 * 1024 * 1024
_MOST_DEPTH = 12
_NAMED = re.compile(r"/skills/([^\s/'\";|&()<>*?$`{}\[\]\\]+)(?=[\s/'\";|&()<>]|$)")
_ALL = re.compile(
    r"/skills(?![\w/-])|/skills/?(?=[\s*?$`{\[\\'\";|&()<>]|$)|/skills/[^\s/]*[*?$`{\[]"
)


def wanted(script: str, skills: Iterable[Skill]) -> list[Skill]:
    """Return the skills whose files a script may read, told by its text."""
    if PLACE not in script:
        return []
    if _ALL.search(script):
        return list(skills)
    names = set(_NAMED.findall(script))
    return [skill for skill in skills if skill.name in names]


def files_of(skills: Iterable[Skill]) -> dict[str, bytes]:
    """Return the files of skills by `name/path`, as far as there is room for them."""
    found: dict[str, bytes] = {}
    room = _MOST_BYTES
    for skill in skills:
        for path, data in _files_below(str(skill.home)):
            if len(found) >= _MOST_FILES or len(data) > room:
                break
            room -= len(data)
            found[f"{skill.name}/{path}"] = data
    return found


def _files_below(home: str) -> Iterator[tuple[str, bytes]]:
    waiting = [("", os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))]
    try:
        while waiting:
            yield from _files_in(*waiting[-1], waiting)
    finally:  # also when the reader has had enough
        for _, folder in waiting:
            os.close(folder)


def _files_in(
    below: str, folder: int, waiting: list[tuple[str, int]]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the folder that waited last, and let those inside wait in its place."""
    names = sorted(os.listdir(folder))
    for name in names:
        path = f"{below}{name}"
        entry = _opened(name, folder)
        if isinstance(entry, int) and path.count("/") < _MOST_DEPTH:
            waiting.insert(0, (f"{path}/", entry))
        elif isinstance(entry, int):
            os.close(entry)
        elif entry is not None:
            yield path, entry
    waiting.pop()
    os.close(folder)


def _opened(name: str, folder: int) -> int | bytes | None:
    """Return a folder's descriptor, a file's bytes, or nothing of what is neither."""
    # Not through a link, and without waiting: a FIFO must not hold anybody up.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    mode = os.fstat(fd)
    if stat.S_ISDIR(mode.st_mode):
        return fd
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(mode.st_mode) or mode.st_size > _MOST_BYTES:
            return None
        return file.read(_MOST_BYTES)
