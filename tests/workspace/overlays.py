"""Real overlays for tests, mounted by a helper process in a mount namespace of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Reads one line per order: folders and operations. Mounts, does them in the overlay, unmounts.
_HELPER = r"""
import ctypes, json, os, shutil, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
NEWUSER, NEWNS, PRIVATE, DETACH = 0x10000000, 0x20000, 0x44000, 2
user = sys.argv[1] == "user"
uid, gid = os.getuid(), os.getgid()
if libc.unshare(NEWNS | (NEWUSER if user else 0)):
    sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
if user:
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
    open("/proc/self/gid_map", "w").write(f"0 {gid} 1")
if libc.mount(None, b"/", None, PRIVATE, None):
    sys.exit("mount: " + os.strerror(ctypes.get_errno()))

def do(root, name, *words):
    at = [f"{root}/{word}" if isinstance(word, str) else word for word in words]
    if name in ("write", "append", "open") and os.path.exists(at[0]):
        if stat.S_ISFIFO(os.stat(at[0]).st_mode):
            raise OSError(6, "nobody reads it")  # opening it would wait for a reader
    if name == "write":
        with open(at[0], "wb") as file: file.write(words[1].encode())
    elif name == "append":
        with open(at[0], "ab") as file: file.write(words[1].encode())
    elif name == "open":
        with open(at[0], "r+b"): pass
    elif name == "truncate": os.truncate(at[0], words[1])
    elif name == "delete": os.unlink(at[0])
    elif name == "rename": os.rename(at[0], at[1])
    elif name == "move":
        # An overlay has it copied: a file with several names becomes several files, a pipe none.
        for folder, _, names in os.walk(at[0]):
            for found in [os.lstat(f"{folder}/{name}") for name in names]:
                if found.st_nlink > 1 or stat.S_ISFIFO(found.st_mode):
                    raise OSError(18, "it has a file that cannot be copied")
        shutil.move(at[0], at[1])
    elif name == "swap":
        aside = at[0] + ".swap"
        os.rename(at[0], aside); os.rename(at[1], at[0]); os.rename(aside, at[1])
    elif name == "chmod": os.chmod(at[0], words[1])
    elif name == "symlink": os.symlink(words[1], at[0])
    elif name == "link": os.link(at[0], at[1], follow_symlinks=False)
    elif name == "mkdir": os.mkdir(at[0])
    elif name == "rmdir": os.rmdir(at[0])
    elif name == "rmtree": shutil.rmtree(at[0])
    elif name == "fifo": os.mkfifo(at[0])
    elif name == "xattr": os.setxattr(at[0], words[1], words[2].encode(), follow_symlinks=False)
    elif name == "utime": os.utime(at[0], ns=(words[1], words[1]), follow_symlinks=False)
    else: raise ValueError(name)

def run(root, operations):
    said = []
    for each in operations:
        try: do(root, *each)
        except (OSError, shutil.Error) as error: said.append(getattr(error, "errno", 0) or 0)
        else: said.append(0)
    return said

print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    root = order["at"]
    if order["lower"]:
        folders = ",".join(f"{name}dir={order[name]}" for name in ("lower", "upper", "work"))
        options = f"{folders},userxattr,index=off,metacopy=off,volatile"
        if libc.mount(b"overlay", root.encode(), b"overlay", 0, options.encode()):
            print(json.dumps("mount: " + os.strerror(ctypes.get_errno())), flush=True)
            continue
    said = run(root, order["operations"])
    if order["lower"]:
        libc.umount2(root.encode(), 0)
    print(json.dumps(said), flush=True)
"""

Operation = tuple[Any, ...]


class OverlayHelper:
    """Does file operations in an overlay, or directly."""

    def __init__(self, way: str) -> None:
        self.way = way
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _HELPER, way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            assert self._process.stderr is not None
            said = self._process.stderr.read()
            self.close()
            pytest.skip(f"no overlay here: {said.strip()}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def directly(self, root: Path, operations: list[Operation]) -> list[int]:
        """Do operations in a folder; return the error number of each, 0 if it worked."""
        return self._order({"at": str(root), "lower": "", "operations": operations})

    def layer(self, workspace: Path, scratch: Path, operations: list[Operation]) -> Path:
        """Do operations in an overlay over a workspace; return the upper folder."""
        for name in ("upper", "work", "merged"):
            (scratch / name).mkdir(parents=True)
        status = workspace.stat()
        (scratch / "upper").chmod(status.st_mode & 0o7777)
        os.utime(scratch / "upper", ns=(status.st_atime_ns, status.st_mtime_ns))
        folders = {name: str(scratch / name) for name in ("upper", "work")}
        at = str(scratch / "merged")
        order = {"at": at, "lower": str(workspace), "operations": operations, **folders}
        self.said = self._order(order)
        return scratch / "upper"

    def _order(self, order: dict[str, Any]) -> list[int]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        if isinstance(answer, str):
            pytest.skip(f"no overlay here: {answer}")
        found: list[int] = answer
        return found


@contextmanager
def overlay_helper(way: str) -> Iterator[OverlayHelper]:
    if way == "root" and os.geteuid():
        pytest.skip("needs root")
    helper = OverlayHelper(way)
    try:
        yield helper
    finally:
        helper.close()
