"""The folder of a kept call: its facts, its plan, the step it is at, and its lock."""

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import finalize

from skillpouch.errors import SkillpouchError
from skillpouch.runtime.removal import remove_tree
from skillpouch.workspace.change_plan import ChangePlan
from skillpouch.workspace.file_state import PATH_ONLY, FolderTree, exchange, move, open_tree

KeptState = Literal["running", "staged", "applied", "undone", "discarded", "refused"]
# Of the first, the last whole line counts. The second has the plan in its first line, and what the
# last pass over it left in its last one. So most writes append a line, which is cheap.
FACTS, PLAN, PROGRESS = "call.json", "plan.json", "progress"
_NEW = ".new"  # at the end of the name of a file that is being written
_SPARE = ".spare-"
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
ACTIVE = ".active"  # the folder with another name of the facts of each call that is worked on


class UnknownCallError(SkillpouchError):
    """No changes are kept of a call of this id."""

    code: ClassVar[str] = "no_such_change"

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(
            f"no changes are kept of a call {call_id!r}",
            hint="they may have been removed with age; `skillpouch journal` lists the calls",
        )


class ChangeStateError(SkillpouchError):
    """A kept call is not in a state in which this can be done."""

    code: ClassVar[str] = "change_state"

    def __init__(self, call_id: str, state: str, wanted: str) -> None:
        self.call_id = call_id
        self.state = state
        waits = f"`skillpouch apply {call_id}` brings it there, `skillpouch discard {call_id}` not"
        told = {
            "running": ("is still running", "wait until it has ended"),
            "applied": ("is applied already", f"`skillpouch undo {call_id}` takes it back"),
            "undone": ("is undone already", f"`skillpouch apply {call_id}` applies it again"),
            "discarded": ("was discarded: nothing of it is kept", "call the tool again"),
            "staged": ("is staged: nothing of it has reached the workspace", waits),
            "refused": ("was refused: nothing of it has reached the workspace", waits),
        }
        said, hint = told.get(state, (f"is {state}", ""))
        super().__init__(f"call {call_id} cannot be {wanted}: it {said}", hint=hint)


class ChangesError(SkillpouchError):
    """Changes that cannot be applied, undone or kept; the workspace is as it was before."""

    code: ClassVar[str] = "change_store"

    @classmethod
    def of(cls, what: str, error: OSError) -> "ChangesError":
        hints = {
            errno.ENOSPC: "free some space, or `skillpouch discard` what is kept of other calls",
            errno.EDQUOT: "your quota is used up: free some space, then try again",
            errno.EROFS: "the file system is read-only: mount it for writing, then try again",
        }
        reason = (error.strerror or str(error)).lower()
        return cls(f"{what}: {reason}", hint=hints.get(error.errno or 0, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFacts:
    """What is known of a kept call besides its changes."""

    id: str
    tool: str
    session: str
    workspace: str
    device: int
    inode: int
    boot: str
    started_ns: int
    state: KeptState = "running"
    reverses: str = ""  # the call that this one undid
    only: list[str] | None = None  # the paths that it undid; None for all
    settled_ns: int = 0  # when the workspace was last changed by this call
    bytes: int = 0
    base: list[str] = field(default_factory=list)  # calls that waited, and whose layers it saw
    begun: bool = False  # its layer may be incomplete: some of it was applied, or tried to be


_FACTS = tuple(each.name for each in fields(KeptFacts))
_values_of = attrgetter(*_FACTS)


def facts_as_json(facts: KeptFacts) -> bytes:
    """Return the facts of a call as text."""
    return json.dumps(dict(zip(_FACTS, _values_of(facts), strict=True))).encode()


def require_same_folder(workspace: FolderTree, facts: KeptFacts) -> None:
    """Raise ChangesError if an open folder is not the one in which a call ran."""
    status = os.fstat(workspace.root)
    device = status.st_dev if facts.boot == boot_id() else facts.device
    if (device, status.st_ino) != (facts.device, facts.inode):
        raise ChangesError(
            f"{facts.workspace} is not the folder in which call {facts.id} ran",
            hint="put the folder back in its place, then try again",
        )


@cache
def boot_id() -> str:
    """Return an id that is another after each start of the machine: numbers of devices may be."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


@dataclass(slots=True, kw_only=True)
class Run:
    """One pass over a plan, written into it before the first step."""

    forward: bool
    numbers: list[int]  # of the swaps, in the order of their turn
    touches: list[int]
    dirty: list[int] = field(default_factory=list)  # folders whose times are somebody else's
    stage: str = "swap"  # "in": copying into the workspace; "out": copying what it displaced
    hold: str = ""  # the folder in the workspace that stands for slots on another file system
    times: list[int] = field(default_factory=list)  # of the workspace, before that folder was made
    began_ns: int = field(default_factory=time.time_ns)  # tells it from other passes

    def facts(self) -> dict[str, Any]:
        """Return the run as it is written into the plan."""
        return {name: getattr(self, name) for name in self.__slots__}


def write_file(folder: int, name: str, data: bytes, *, sync: bool = False) -> None:
    """Replace a file of an open folder at once."""
    temporary = f"{name}{_NEW}"
    descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=folder)
    try:
        if os.fstat(descriptor).st_size:  # it was left by a crash
            # Only then: ext4 writes a file that was truncated to the disk when it is closed.
            os.ftruncate(descriptor, 0)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    try:
        move((folder, temporary), (folder, name))
    except FileExistsError:
        # Renaming over a file makes ext4 write the new one to the disk first, which takes
        # milliseconds (auto_da_alloc, ext4(5)); exchanging the two does not.
        if exchange((folder, temporary), (folder, name)):
            os.unlink(temporary, dir_fd=folder)
        else:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def append_line(folder: int, name: str, data: bytes) -> None:
    """Add a line to a file of an open folder; one that is incomplete does no harm."""
    descriptor = os.open(name, _WRITE | os.O_APPEND, 0o600, dir_fd=folder)
    try:
        _append(descriptor, data)
    finally:
        os.close(descriptor)


def _append(descriptor: int, data: bytes) -> None:
    view = memoryview(b"\n" + data)
    while view:
        view = view[os.write(descriptor, view) :]


def last_line(data: bytes) -> Any:
    """Return the value of the last line that is complete; None if there is none."""
    for line in reversed(data.split(b"\n")):
        with suppress(ValueError):
            return json.loads(line)
    return None


def read_file(folder: int, name: str) -> bytes | None:
    """Return the bytes of a file of an open folder; None if it is not there."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        return file.read()


class StepLog:
    """The steps of a pass that are done, or cannot be: of those whose slots do not show it."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._file = -1

    def add(self, number: int, *, done: bool) -> None:
        """Note a step at once."""
        if self._file < 0:
            self._file = os.open(PROGRESS, _WRITE | os.O_APPEND, 0o600, dir_fd=self._folder)
        os.write(self._file, b"%d%c" % (number, b"+" if done else b"-"))

    def read(self) -> Iterator[tuple[int, bool]]:
        """Yield the steps that were noted, and whether they are done."""
        for found in re.finditer(rb"(\d+)([+-])", read_file(self._folder, PROGRESS) or b""):
            yield int(found[1]), found[2] == b"+"

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def remove(self) -> None:
        """Forget all of them."""
        with suppress(FileNotFoundError):
            os.unlink(PROGRESS, dir_fd=self._folder)


def read_facts(folder: Path) -> KeptFacts | None:
    """Return what is known of a kept call; None if it was never begun."""
    try:
        found = last_line((folder / FACTS).read_bytes())
    except FileNotFoundError:
        return None
    return None if found is None else KeptFacts(**found)


def lock_call(folder: Path, *, wait: bool = True) -> int | None:
    """Lock a kept call for this process; None if it is gone, or locked by another."""
    return _lock_file(f"{folder}/{FACTS}", 0, wait=wait)


def lock_marked(marker: Path) -> int | None:
    """Lock a call by its marker, which is the same file; None if somebody is at work with it."""
    return _lock_file(str(marker), 0, wait=False)


class SpareFolder:
    """The folder of a call before it has a name: ext4 looks long for a place for what is new.

    So most are made ahead. One is locked like that of a call: when it is not, its process is gone.
    """

    def __init__(self, store: Path) -> None:
        self._process = os.getpid()
        self.path = f"{store}/{_SPARE}{os.urandom(8).hex()}"
        lock = None
        while lock is None:  # while it was empty, another process may have removed it
            os.mkdir(self.path, 0o700)
            lock = _lock_file(f"{self.path}/{FACTS}", os.O_CREAT, wait=True)
        self.lock, self.opened = lock, os.open(self.path, PATH_ONLY | os.O_DIRECTORY)
        self._remove = finalize(self, _remove_spare, self._process, self.path, lock, self.opened)
        os.mkdir("upper", 0o700, dir_fd=self.opened)
        os.close(os.open(f"{PLAN}{_NEW}", _WRITE, 0o600, dir_fd=self.opened))

    @property
    def is_usable(self) -> bool:
        """Whether it is there, and was not made by the process that this one was forked from."""
        return self._process == os.getpid() and os.path.exists(self.path)

    def become(self, folder: Path, facts: KeptFacts) -> None:
        """Give it the name of a call, marked as active; FileExistsError if there is one.

        The facts of a call, its lock and its marker are one file: the marker is removed with every
        call, and making a new file would take longer.
        """
        marker = f"{folder.parent}/{ACTIVE}/{folder.name}"
        os.link(f"{self.path}/{FACTS}", marker)
        try:
            _append(self.lock, facts_as_json(facts))
            os.rename(self.path, folder)
        except OSError as error:
            os.unlink(marker)
            if error.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), folder) from None
            raise
        self._remove.detach()


def _remove_spare(process: int, path: str, *opened: int) -> None:
    if process == os.getpid():
        with suppress(OSError):
            remove_tree(path)
    for descriptor in opened:
        os.close(descriptor)


def remove_spares(store: Path) -> None:
    """Remove the folders that processes had made ahead which are gone."""
    for folder in store.glob(f"{_SPARE}*"):
        lock = lock_call(folder, wait=False)
        with suppress(OSError):
            if lock is None:
                folder.rmdir()  # if it is empty: its process was killed before it had a lock
            else:
                remove_tree(folder)
        if lock is not None:
            os.close(lock)


def _lock_file(path: str, flags: int, *, wait: bool) -> int | None:
    """Lock a file that may be removed by whoever has the lock."""
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.fstat(lock).st_ino == os.stat(path).st_ino:
                return lock
        except FileNotFoundError:
            pass  # it is gone: look again
        except BlockingIOError:
            os.close(lock)
            return None
        os.close(lock)


@contextmanager
def lock_workspace(store: Path, workspace: FolderTree) -> Iterator[None]:
    """Let no other process apply or undo anything in the same workspace meanwhile."""
    status = os.fstat(workspace.root)
    name = f"{store}/{ACTIVE}/.workspace-{status.st_dev:x}-{status.st_ino:x}"
    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class CallFolder:
    """The folder of one kept call: its facts, its plan and its lock."""

    def __init__(self, folder: Path, store: Any, facts: KeptFacts) -> None:
        self._folder = folder
        self._marker = f"{folder.parent}/{ACTIVE}/{facts.id}"
        self._store = store
        self._facts = facts
        self._known_plan: ChangePlan | None = None
        self._held = -1  # the lock, while the call is running
        self._trees: tuple[FolderTree, FolderTree] | None = None  # that folder, and the workspace
        self._resources = ExitStack()
        # Layers that go back to their sandboxes: their numbers, places, and who is told of it.
        self._lent: dict[int, tuple[Path, Callable[[bool], None]]] = {}

    @property
    def id(self) -> str:
        return self._facts.id

    @property
    def tool(self) -> str:
        return self._facts.tool

    @property
    def session(self) -> str:
        return self._facts.session

    @property
    def workspace(self) -> Path:
        return Path(self._facts.workspace)

    @property
    def started_ns(self) -> int:
        return self._facts.started_ns

    @property
    def facts(self) -> KeptFacts:
        return self._facts

    @property
    def state(self) -> KeptState:
        return self._facts.state

    @property
    def reverses(self) -> str:
        """The id of the call that this one undid, if it is an undo."""
        return self._facts.reverses

    @property
    def bytes(self) -> int:
        """How much room its content takes."""
        return self._facts.bytes

    @property
    def _is_adopted(self) -> bool:
        return self.state == "running" and self._known_plan is not None

    def _require(self, wanted: str, *states: KeptState) -> None:
        if self.state not in states:
            raise ChangeStateError(self.id, self.state, wanted)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._held >= 0:  # this process began it
            yield
            return
        lock = lock_call(self._folder)
        if lock is None:
            raise UnknownCallError(self.id)
        try:
            facts = read_facts(self._folder)
            if facts is None:
                raise UnknownCallError(self.id)
            if facts != self._facts:
                self._facts, self._known_plan = facts, None
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _opened(self) -> Iterator[tuple[FolderTree, FolderTree]]:
        if self._trees is not None:
            for tree in self._trees:
                tree.forget()  # somebody may have renamed folders since
            yield self._trees
            return
        with open_tree(str(self._folder)) as call, open_tree(self._facts.workspace) as workspace:
            require_same_folder(workspace, self._facts)
            yield call, workspace

    def hold(self, lock: int, own: int, workspace: int | None) -> None:
        """Keep the lock and the open folders of a call that begins, until it is settled.

        The descriptors are this call's from now on; there is no workspace for an undo.
        """
        self._held = lock
        self._resources.callback(os.close, own)
        if workspace is not None:
            self._trees = FolderTree(own), FolderTree(workspace)
            for tree in self._trees:
                self._resources.callback(tree.close)
            self._resources.callback(os.close, workspace)

    def _release(self) -> None:
        self._trees = None
        self._resources.close()
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def __del__(self) -> None:
        self._release()

    def _mark(self) -> None:
        """Tell `recover` of other processes to look at this call."""
        with suppress(FileExistsError):
            os.link(f"{self._folder}/{FACTS}", self._marker)

    def _unmark(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._marker)

    def _write(self, facts: KeptFacts, call: FolderTree | None = None) -> None:
        self._facts = facts
        call = call or (self._trees[0] if self._trees else None)
        with nullcontext(call) if call else open_tree(str(self._folder)) as opened:
            append_line(opened.root, FACTS, facts_as_json(facts))

    def _settle(self, state: KeptState, **more: Any) -> None:
        self._write(self._with_state(state, **more))
        self._unmark()

    def _with_state(self, state: KeptState, **more: Any) -> KeptFacts:
        return replace(self._facts, state=state, settled_ns=time.time_ns(), **more)

    def _plan(self) -> ChangePlan:
        if self._known_plan is None:
            with open_tree(str(self._folder)) as call:
                plan, _, steps = (read_file(call.root, PLAN) or b"").partition(b"\n")
            self._known_plan = ChangePlan.from_json(plan) if plan else ChangePlan()
            self._known_plan.end_run(last_line(steps))
        return self._known_plan
