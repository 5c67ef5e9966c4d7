"""Whole trees as values, to compare what is there before and after."""

import os
import stat
import time
from pathlib import Path
from typing import NamedTuple

from skillpouch.workspace.workspace import file_clock_ns


class Node(NamedTuple):
    kind: str
    mode: int
    owner: tuple[int, int]
    content: bytes
    mtime_ns: int
    attributes: tuple[tuple[str, bytes], ...]
    names: tuple[str, ...]  # of the same file, in the same tree


def wait_for_tick() -> None:
    """Wait until a file that is changed from now on has a later time than this moment."""
    # The times of files come from a clock that stands still for up to ten milliseconds.
    now = time.time_ns()
    while file_clock_ns() <= now:
        pass


def tree_of(root: Path, *, times: bool = True) -> dict[str, Node]:
    """Return every entry below a folder, and the folder itself as `.`."""
    found: dict[str, os.stat_result] = {".": os.lstat(root)}
    for folder, inner, files in os.walk(root):
        for name in (*inner, *files):
            path = f"{folder}/{name}"
            found[os.path.relpath(path, root)] = os.lstat(path)
    groups: dict[int, list[str]] = {}
    for path, status in found.items():
        groups.setdefault(status.st_ino, []).append(path)
    return {
        path: _node(root, path, status, tuple(sorted(groups[status.st_ino])), times=times)
        for path, status in sorted(found.items())
    }


def _node(
    root: Path, path: str, status: os.stat_result, names: tuple[str, ...], *, times: bool
) -> Node:
    where = f"{root}/{path}"
    content = b""
    if stat.S_ISREG(status.st_mode):
        content = Path(where).read_bytes()
    elif stat.S_ISLNK(status.st_mode):
        content = os.fsencode(Path(where).readlink())
    listed = os.listxattr(where, follow_symlinks=False)
    return Node(
        kind={stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}.get(
            stat.S_IFMT(status.st_mode), "special"
        ),
        mode=stat.S_IMODE(status.st_mode),
        owner=(status.st_uid, status.st_gid),
        content=content,
        mtime_ns=status.st_mtime_ns if times else 0,
        attributes=tuple(
            sorted((each, os.getxattr(where, each, follow_symlinks=False)) for each in listed)
        ),
        names=names if not stat.S_ISDIR(status.st_mode) else (),
    )


def differences(one: dict[str, Node], other: dict[str, Node]) -> list[str]:
    """Return what differs between two trees, a line each; empty if they are the same."""
    lines = []
    for path in sorted(one.keys() | other.keys()):
        if path not in one or path not in other:
            lines.append(f"{path}: only in the {'second' if path not in one else 'first'}")
            continue
        for field, left, right in zip(Node._fields, one[path], other[path], strict=True):
            if left != right:
                lines.append(f"{path}: {field} {left!r} != {right!r}")
    return lines
