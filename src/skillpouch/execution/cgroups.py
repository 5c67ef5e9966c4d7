"""Bounds the memory and the processes of a whole sandbox, where a cgroup v2 is delegated.

The machine's own setup is not changed: cgroups are made only in a folder that this user can already
write, and that already delegates its controllers (cgroups(7), "Cgroups delegation").
"""

import asyncio
import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_CONTROLLERS = frozenset({"memory", "pids"})
_PREFIX = "skillpouch-"
_OWN_PROCESSES = 2  # per sandbox: its first process, and its prefork server
_TEMPORARY_FOLDERS = 2  # /tmp and /dev/shm, both in memory
_TRIES = 3  # to make a folder: the `sweep` of another host may remove it before it is locked
_FIRST_PAUSE, _LAST_PAUSE = 0.001, 1.0  # between checks whether a cgroup is empty, in seconds
_ESCAPED = re.compile(r"\\([0-7]{3})")  # such as a blank in a path, proc_pid_mountinfo(5)


_SMALL: Mapping[str, int | None] = {"memory_bytes": 16 << 20, "processes": 4}


class CgroupError(OSError):
    """Cgroups worked when they were tried, but can no longer be made."""


def find_parent(process: Path = Path("/proc/self")) -> str:
    """Return the folder in which cgroups can be made, the parent of the host's own; "" if none.

    The host's own cgroup cannot be used: a cgroup with processes cannot delegate controllers
    (cgroups(7), "no internal processes").
    """
    try:
        # Names in them may be any bytes.
        cgroup = (process / "cgroup").read_text(errors="surrogateescape")
        mounts = (process / "mountinfo").read_text(errors="surrogateescape")
        own = own_folder(cgroup, mounts)
        parent = Path(own).parent
        return str(parent) if own and _is_delegated(parent) else ""
    except OSError:
        return ""


def own_folder(cgroup: str, mounts: str) -> str:
    """Return the folder of a process's cgroup v2, "" if the parent folder is not visible."""
    path = next((line[3:] for line in cgroup.splitlines() if line.startswith("0::/")), "")
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            root, place = (_unescape(word) for word in before.split(" ")[3:5])
            above = root.rstrip("/") + "/"
            inside = path.removeprefix(above)
            if inside and path.startswith(above) and ".." not in inside.split("/"):
                return f"{place.rstrip('/')}/{inside}"
    return ""


def _unescape(word: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), word)


def _is_delegated(folder: Path) -> bool:
    passed_on = set((folder / "cgroup.subtree_control").read_text().split())
    # To move a process, one must be able to write `cgroup.procs` of the common ancestor of its old
    # and its new cgroup, cgroups(7).
    writable = os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
    return writable and passed_on >= _CONTROLLERS


def bounds(limits: Mapping[str, int | None], temporary_bytes: int) -> dict[str, str]:
    """Return the files of a sandbox's cgroup; `temporary_bytes` is 0 without private folders.

    All its processes together may use the limit of one process, plus both temporary folders.
    """
    memory, processes = limits["memory_bytes"], limits["processes"]
    most = None if memory is None else memory + _TEMPORARY_FOLDERS * temporary_bytes
    return {
        # Kill all processes: a call that lost only one would go on with wrong results.
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "memory.max": "max" if most is None else str(most),
        "pids.max": "max" if processes is None else str(processes + _OWN_PROCESSES),
    }


class Cgroup:
    """The cgroup of one sandbox; `procs` is the open file by which its processes enter it."""

    def __init__(self, folder: str, procs: int) -> None:
        self._folder = folder
        self._procs = procs
        self._was_out_of_memory = False
        self._then: list[Callable[[], None]] = []
        self.is_removed = False

    def theirs(self) -> tuple[int, ...]:
        return (self._procs,)

    def close_theirs(self) -> None:
        os.close(self._procs)

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has killed its processes because it exceeded its own limit."""
        if not self._was_out_of_memory and not self.is_removed:
            with contextlib.suppress(OSError):
                self._was_out_of_memory = tells_of_kill(_read(self._folder, "memory.events"))
        return self._was_out_of_memory

    def when_removed(self, then: Callable[[], None]) -> None:
        if self.is_removed:
            then()
        else:
            self._then.append(then)

    def remove_later(self, loop: asyncio.AbstractEventLoop, pause: float = _FIRST_PAUSE) -> None:
        """Remove it when no process is alive in it; if that takes longer, its zygote removes it."""
        if not self.close() and pause < _LAST_PAUSE:
            loop.call_later(pause, self.remove_later, loop, 2 * pause)

    def close(self) -> bool:
        """Remove it if it is empty, which the kernel checks; return whether it is gone."""
        if not self.is_removed:
            self._was_out_of_memory = self.out_of_memory  # read before the file is gone
            self.is_removed = _remove_folder(self._folder)
            if self.is_removed:
                for then in self._then:
                    then()
        return self.is_removed


def tells_of_kill(events: str) -> bool:
    """Tell from `memory.events` whether a cgroup exceeded its own limit and was killed.

    `oom_kill` alone is not enough: the whole machine may have been out of memory.
    """
    counts = dict(line.split() for line in events.splitlines())
    return counts.get("oom", "0") != "0" and counts.get("oom_kill", "0") != "0"


class Cgroups:
    """The cgroups of one zygote, in their own folder, which is made with the first of them."""

    def __init__(self, parent: str) -> None:
        self._parent = parent
        self._folder = ""
        self._lock = -1
        self._made = 0
        self._alive: set[Cgroup] = set()

    def new(self, contents: Mapping[str, str]) -> Cgroup:
        """Make a cgroup with these file contents; raise CgroupError when that fails."""
        try:
            if not self._folder:
                self._open()
            self._made += 1
            cgroup = _make(f"{self._folder}/{self._made}", contents)
        except OSError as error:
            raise CgroupError(error.errno, f"no cgroup could be made: {error}") from error
        self._alive.add(cgroup)
        cgroup.when_removed(lambda: self._alive.discard(cgroup))
        return cgroup

    def _open(self) -> None:
        folder = ""
        for left in reversed(range(_TRIES)):
            folder = f"{self._parent}/{_PREFIX}{os.getpid()}-{os.urandom(8).hex()}"
            Path(folder).mkdir(0o700)
            try:
                self._lock = _locked(folder, fcntl.LOCK_SH)
                break
            except OSError:
                if not left:
                    raise
        _write(folder, "cgroup.subtree_control", " ".join(f"+{name}" for name in _CONTROLLERS))
        self._folder = folder

    def remove(self) -> bool:
        """Remove all empty cgroups, then the folder; return whether the folder is gone."""
        for cgroup in list(self._alive):
            cgroup.close()
        if self._folder and not _remove_folder(self._folder):
            return False
        self._folder = ""
        self.abandon()
        return True

    def abandon(self) -> None:
        """Release the lock only: the next host removes what is left."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _make(folder: str, contents: Mapping[str, str]) -> Cgroup:
    Path(folder).mkdir(0o700)
    try:
        for name, text in contents.items():
            # Kernels without swap have no file to limit it.
            if name != "memory.swap.max" or Path(folder, name).exists():
                _write(folder, name, text)
        procs = os.open(f"{folder}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        _remove_folder(folder)
        raise
    return Cgroup(folder, procs)


@contextlib.contextmanager
def trial(parent: str) -> Iterator[tuple[int, ...]]:
    """Make a small cgroup for a trial; yield its `cgroup.procs`, () if it cannot be made.

    Leftovers of killed hosts are removed first.
    """
    cgroups = Cgroups(parent)
    with contextlib.ExitStack() as stack:
        stack.callback(cgroups.remove)
        try:
            sweep(parent)
            cgroup = cgroups.new(bounds(_SMALL, 0))
        except OSError:
            yield ()
            return
        stack.callback(cgroup.close_theirs)
        yield cgroup.theirs()


def sweep(parent: str) -> None:
    """Remove what killed hosts left behind; living hosts hold a lock."""
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        if folder.is_dir():
            # The folder is locked by its host, was removed meanwhile, or belongs to another user.
            with contextlib.suppress(OSError):
                _sweep_one(str(folder))


def _sweep_one(folder: str) -> None:
    lock = _locked(folder, fcntl.LOCK_EX)
    try:
        for entry in list(Path(folder).iterdir()):
            if entry.is_dir():
                _remove_folder(str(entry))
        _remove_folder(folder)
    finally:
        os.close(lock)


def _locked(folder: str, kind: int) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _remove_folder(folder: str) -> bool:
    """Remove a cgroup; the kernel refuses while a process lives in it (EBUSY)."""
    try:
        Path(folder).rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(folder: str, name: str) -> str:
    return Path(folder, name).read_text()


def _write(folder: str, name: str, text: str) -> None:
    # Without O_CREAT, and in one write, because the kernel parses each write as a whole value.
    fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
