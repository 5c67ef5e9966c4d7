"""Keeps what calls changed, so that it can be applied, undone or discarded later."""

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from skillpouch.environment import another_place, state_directory
from skillpouch.errors import SkillpouchError
from skillpouch.runtime.removal import remove_tree
from skillpouch.untrusted_files import open_plain
from skillpouch.workspace.call_folder import (
    ACTIVE,
    ChangesError,
    ChangeStateError,
    KeptFacts,
    KeptState,
    SpareFolder,
    UnknownCallError,
    boot_id,
    lock_call,
    lock_marked,
    read_facts,
    read_file,
    remove_spares,
    write_file,
)
from skillpouch.workspace.changes import CallChanges, ChangeOutcome
from skillpouch.workspace.file_state import open_tree
from skillpouch.workspace.kept_call import KeptCall, KeptUndo

__all__ = [
    "CallChanges",
    "ChangeOutcome",
    "ChangeRetention",
    "ChangeStateError",
    "ChangeStore",
    "ChangesError",
    "KeptCall",
    "KeptState",
    "KeptUndo",
    "StoreFullError",
    "UnknownCallError",
]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_USAGE, _PRUNED, _REMOVED, _ASKED = ".usage", ".pruned", ".removed-", ".asked-"
_DAY_NS = 24 * 3600 * 10**9
_MARGIN = 64 * 1024 * 1024  # free space that a call may need for what it changes
_OVERHEAD = 16 * 1024  # the files and folders of a call, besides its content
_ENOUGH = 0.9  # prune to this share of the limit, so that the next call does not start again


def _question(key: str) -> str:
    return _ASKED + hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:40]


# Folders in which this process has repaired what others left; by process, for a fork.
_recovered: set[tuple[int, str]] = set()


class StoreFullError(SkillpouchError):
    """There is no room to keep what a call would change; nothing was run."""

    code: ClassVar[str] = "changes_full"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRetention:
    """How long and how much is kept; the oldest calls are removed first.

    What is staged or refused is removed with age only.
    """

    days: float = 30
    megabytes: float = 1024


class ChangeStore:
    """The kept calls of a user, in `changes` of the state directory or in another folder."""

    def __init__(
        self, directory: Path | None = None, *, retention: ChangeRetention | None = None
    ) -> None:
        if directory is None:
            state = state_directory()
            if state is None:
                raise ChangesError("there is no home directory", hint="set XDG_STATE_HOME")
            directory = state / "changes"
        self.directory = directory
        self._retention = retention or ChangeRetention()
        self._ready = False
        self._spares: list[SpareFolder] = []

    def begin(
        self,
        call_id: str,
        workspace: Path,
        *,
        tool: str,
        session: str = "",
        started_ns: int,
        base: Iterable[str] = (),
    ) -> KeptCall:
        """Make the folder of a call. Raises FileExistsError if there is one of this id.

        `base` are the calls that wait and whose layers it saw, the last first.
        """
        root = open_plain(str(workspace))
        try:
            status = os.fstat(root)
            facts = KeptFacts(
                id=call_id,
                tool=tool,
                session=session,
                workspace=str(workspace),
                device=status.st_dev,
                inode=status.st_ino,
                boot=boot_id(),
                started_ns=started_ns,
                base=list(base),
            )
            return self._make(facts, root)
        except BaseException:
            os.close(root)
            raise

    def begin_undo(self, of: KeptFacts, as_id: str, only: list[str] | None) -> KeptCall:
        """Make the folder of an undo."""
        now = time.time_ns()
        return self._make(
            replace(
                of,
                id=as_id or f"undo-{of.id[:60]}-{now:x}",
                tool="skillpouch.undo",
                state="running",
                started_ns=now,
                reverses=of.id,
                only=only,
                bytes=0,
            )
        )

    def _make(self, facts: KeptFacts, workspace: int | None = None) -> KeptCall:
        if _ID.match(facts.id) is None:
            raise ChangesError(f"{facts.id!r} is no id of a call")
        self._prepare()
        try:
            return self._make_folder(facts, workspace)
        except FileExistsError:
            raise
        except OSError as error:
            raise self._cannot(error) from error

    def _make_folder(self, facts: KeptFacts, workspace: int | None) -> KeptCall:
        folder = self.directory / facts.id
        if folder.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
        spare = self._spare()
        spare.become(folder, facts)
        kept = self._kept(folder, facts)
        kept.hold(spare.lock, spare.opened, workspace)
        return kept

    def _spare(self) -> SpareFolder:
        with suppress(IndexError):
            spare = self._spares.pop()
            if spare.is_usable:
                return spare
        return SpareFolder(self.directory)

    def prepare(self) -> None:
        """Make the folder of the next call, so that it has to do less when it begins."""
        with suppress(OSError, ChangesError):
            self._prepare()
            if not self._spares:
                self._spares.append(SpareFolder(self.directory))

    def get(self, call_id: str) -> KeptCall:
        """Return a kept call; raise UnknownCallError."""
        self._recover_once()
        folder = self.directory / call_id
        facts = read_facts(folder) if _ID.match(call_id) else None
        if facts is None:
            raise UnknownCallError(call_id)
        return self._kept(folder, facts)

    def keep_question(self, key: str, facts: Mapping[str, Any]) -> None:
        """Keep what somebody is asked about the changes of a call, whoever reads the answer."""
        self._prepare()
        with open_tree(str(self.directory / ACTIVE)) as folder:
            write_file(folder.root, _question(key), json.dumps(facts).encode())

    def question(self, key: str) -> Mapping[str, Any] | None:
        """Return what somebody was asked under this key, and nobody has settled since."""
        try:
            with open_tree(str(self.directory / ACTIVE)) as folder:
                data = read_file(folder.root, _question(key))
            found: Mapping[str, Any] | None = None if data is None else json.loads(data)
        except (OSError, ValueError):
            return None
        return found

    def drop_question(self, key: str) -> None:
        """Forget a question: it was answered."""
        (self.directory / ACTIVE / _question(key)).unlink(missing_ok=True)

    def known(self, ids: Iterable[str]) -> list[KeptCall]:
        """Return those of some calls that are kept."""
        found = list[KeptCall]()
        for each in ids:
            with suppress(UnknownCallError):
                found.append(self.get(each))
        return found

    def calls(self, workspace: Path | None = None, session: str | None = None) -> list[KeptCall]:
        """Return the kept calls, the newest first."""
        self._recover_once()
        found = [
            kept
            for kept in self._all()
            if workspace in (None, kept.workspace) and session in (None, kept.session)
        ]
        return sorted(found, key=lambda kept: kept.started_ns, reverse=True)

    def last(self, workspace: Path) -> KeptCall | None:
        """Return the newest call that can be undone in a workspace, no undo."""
        calls = self.calls(workspace)
        return next((each for each in calls if each.state == "applied" and not each.reverses), None)

    def recover(self) -> None:
        """Finish or take back what a process had begun when it died, per call."""
        with suppress(FileNotFoundError):
            names = [each for each in os.listdir(self.directory / ACTIVE) if each[0] != "."]
            # First the calls, then the undos of them: those depend on how the calls ended.
            found = [(self._facts(name), name) for name in sorted(names)]
            for _, name in sorted(found, key=lambda pair: bool(pair[0] and pair[0].reverses)):
                self._recover_call(name)
            for each in self.directory.glob(f"{_REMOVED}*"):
                with suppress(OSError):
                    remove_tree(each)
            remove_spares(self.directory)

    def _facts(self, name: str) -> KeptFacts | None:
        with suppress(OSError, ValueError, TypeError):
            return read_facts(self.directory / name)
        return None

    def _recover_call(self, name: str) -> None:
        folder = self.directory / name
        marker = self.directory / ACTIVE / name
        lock = lock_marked(marker)
        if lock is None:
            return
        try:
            facts = self._facts(name)
            if facts is None:  # it died before the first file was written
                remove_tree(folder)
                marker.unlink(missing_ok=True)
                return
            # Its workspace is not there, or a file of it is damaged: others must not suffer.
            with suppress(OSError, ChangesError, UnknownCallError, ValueError, LookupError):
                self._kept(folder, facts).recover()
        finally:
            os.close(lock)

    def prune(self, retention: ChangeRetention | None = None) -> int:
        """Remove what is too old or too much; return how many calls were removed."""
        keep = retention or self._retention
        self._prepare()
        oldest = time.time_ns() - int(keep.days * _DAY_NS)
        calls = sorted(self._all(), key=lambda kept: kept.started_ns)
        old = [each for each in calls if each.started_ns < oldest]
        removed = [each for each in old if self._remove(each)]
        for question in (self.directory / ACTIVE).glob(f"{_ASKED}*"):
            if question.stat().st_mtime_ns < oldest:
                question.unlink(missing_ok=True)
        limit = keep.megabytes * 1e6
        left = [each for each in calls if each not in removed]
        total = sum(each.bytes + _OVERHEAD for each in left)
        for each in left:
            if total <= limit * (_ENOUGH if total > limit or removed else 1):
                break
            if each.state in ("applied", "undone", "discarded") and self._remove(each):
                total -= each.bytes + _OVERHEAD
                removed.append(each)
        (self.directory / _USAGE).write_text(f"{total}\n")
        (self.directory / _PRUNED).touch()
        return len(removed)

    def _remove(self, kept: KeptCall) -> bool:
        folder = self.directory / kept.id
        lock = lock_call(folder, wait=False)
        if lock is None:
            return False
        try:
            aside = self.directory / f"{_REMOVED}{kept.id}-{time.time_ns():x}"
            folder.rename(aside)  # at once: no process finds half of it
            with suppress(OSError):
                remove_tree(aside)
            (self.directory / ACTIVE / kept.id).unlink(missing_ok=True)
        except OSError:
            return False
        finally:
            os.close(lock)
        return True

    def check_room(self) -> None:
        """Raise StoreFullError if what the next call changes could not be kept."""
        try:
            self._prepare()
            if self._is_due() or self._used() > self._retention.megabytes * 1e6:
                self.prune()
            found = os.statvfs(self.directory)
        except ChangesError as error:
            raise StoreFullError(str(error), hint=error.hint) from error
        except OSError as error:
            cannot = self._cannot(error)
            raise StoreFullError(str(cannot), hint=cannot.hint) from error
        if found.f_bavail * found.f_frsize < _MARGIN:
            raise StoreFullError(
                f"{self.directory} is on a disk that is nearly full: what the call changes could"
                " not be kept",
                hint='free some space, or run it with `writes = "direct"`',
            )
        if found.f_flag & os.ST_RDONLY:
            raise StoreFullError(
                f"{self.directory} is read-only: what the call changes could not be kept",
                hint=another_place("XDG_STATE_HOME"),
            )
        if self._used() > self._retention.megabytes * 1e6:
            raise StoreFullError(
                f"{self.directory} holds {self._retention.megabytes:g} MB of changes that wait",
                hint="`skillpouch apply` or `skillpouch discard` some of them",
            )

    def note_use(self, count: int) -> None:
        """Count bytes that were kept or removed, without reading all calls."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(f"{self.directory}/{_USAGE}", flags, 0o600)
        try:
            os.write(descriptor, b"%d\n" % count)
        finally:
            os.close(descriptor)

    def _used(self) -> int:
        with suppress(FileNotFoundError, ValueError):
            return sum(map(int, (self.directory / _USAGE).read_bytes().split()))
        return 0

    def _is_due(self) -> bool:
        try:
            last = (self.directory / _PRUNED).stat().st_mtime_ns
        except FileNotFoundError:
            return True
        return not time.time_ns() - _DAY_NS < last

    def _kept(self, folder: Path, facts: KeptFacts) -> KeptCall:
        return KeptCall(folder, self, facts)

    def _all(self) -> Iterator[KeptCall]:
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return
        for name in names:
            facts = self._facts(name) if not name.startswith(".") else None
            if facts is not None:
                yield self._kept(self.directory / name, facts)

    def _prepare(self) -> None:
        if self._ready and self.directory.is_dir():
            return
        try:
            (self.directory / ACTIVE).mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.chmod(0o700)
        except OSError as error:
            raise self._cannot(error) from error
        self._ready = True
        self._recover_once()

    def _recover_once(self) -> None:
        key = os.getpid(), str(self.directory)
        if key not in _recovered:
            _recovered.add(key)
            self.recover()

    def _cannot(self, error: OSError) -> ChangesError:
        found = ChangesError.of(f"{self.directory} cannot be written", error)
        found.hint = found.hint or another_place("XDG_STATE_HOME")
        return found
