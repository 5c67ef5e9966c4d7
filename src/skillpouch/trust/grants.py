"""Grants: the user's own record of what each skill may have, in a folder that only they write."""

import fcntl
import json
import logging
import os
import platform
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from skillpouch.discovery.digest import FolderSnapshot, snapshot_of
from skillpouch.discovery.index import is_settled
from skillpouch.environment import another_place, state_directory
from skillpouch.needs import Need
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.skills import Skill
from skillpouch.trust.errors import GrantStoreError, SkillChangedError
from skillpouch.trust.grant import Grant, read_grant, write_grant
from skillpouch.trust.grantable import grantable
from skillpouch.untrusted_files import Stamp, stamp_of

_MOST_BYTES = 16 * 1024 * 1024
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.01


class PrivateFolder:
    """Small files below one folder, each replaced as a whole.

    A folder or file is refused if another user owns it, may write it, or could replace the folder.
    Root does not count as another user.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._believed: tuple[int, ...] = ()

    def exists(self) -> bool:
        """Tell whether the folder exists; raise GrantStoreError if it is not private."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._refusal(error) from None
        facts = (status.st_dev, status.st_ino, status.st_uid, status.st_mode)
        if facts != self._believed:
            self._check(status)
            self._believed = facts
        return True

    def stamp(self, name: str) -> Stamp:
        """Return the stamp of a file, which changes with it; "" if it does not exist."""
        try:
            return stamp_of(os.lstat(f"{self.path}/{name}"))
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._refusal(error) from None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist."""
        path = f"{self.path}/{name}"
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(error) from None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise GrantStoreError(path, "it is not a regular file", hint="remove it")
            _require_private(path, status)
            return file.read(_MOST_BYTES)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return sorted(os.listdir(self.path)) if self.exists() else []

    def write(self, name: str, data: bytes) -> None:
        """Replace a file atomically, also if the machine crashes.

        To be called only inside `locked`.
        """
        # A fixed name: only the holder of the lock writes it, so an existing one is from a crash.
        temporary = f"{self.path}/.new"
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, f"{self.path}/{name}")
            self._sync()
        except OSError as error:
            raise self._refusal(error) from None

    def remove(self, name: str) -> bool:
        """Remove a file, and sync the folder; tell whether the file existed."""
        try:
            os.unlink(f"{self.path}/{name}")
            self._sync()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._refusal(error) from None
        return True

    def set_aside(self, name: str) -> str:
        """Rename a damaged file so that a person can look at it; return its new path."""
        aside = f"{self.path}/{name}.damaged-{time.time_ns()}"
        try:
            os.rename(f"{self.path}/{name}", aside)
        except OSError:
            return f"{self.path}/{name}"  # it stays where it is, and is ignored
        return aside

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if it is missing, and hold a lock on it against other writers."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self.exists()
            descriptor = os.open(f"{self.path}/.lock", flags, 0o600)
        except OSError as error:
            raise self._refusal(error) from None
        try:
            self._wait_for(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    reason = f"another process has kept it locked for {_PATIENCE_SECONDS:g} s"
                    raise GrantStoreError(str(self.path), reason) from None
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def _sync(self) -> None:
        # fsync(2) of a file does not write its entry in the folder to the disk.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _check(self, status: os.stat_result) -> None:
        real = os.path.realpath(self.path)
        if not stat.S_ISDIR(status.st_mode):
            raise GrantStoreError(real, "it is not a folder", hint="move it out of the way")
        _require_private(real, status)
        _require_private(os.path.dirname(real), os.stat(os.path.dirname(real)))
        for above in Path(real).parents:
            there = above.stat()
            if there.st_uid not in (0, os.geteuid()):
                raise GrantStoreError(real, f"{above} belongs to {_owner(there)}")
            if there.st_mode & stat.S_IWOTH and not there.st_mode & stat.S_ISVTX:
                hint = f"chmod o-w {above}"
                raise GrantStoreError(real, f"everybody may write {above}", hint=hint)

    def _refusal(self, error: OSError) -> GrantStoreError:
        reason = (error.strerror or str(error)).lower()
        path = str(error.filename or self.path)
        return GrantStoreError(path, reason, hint=another_place("XDG_STATE_HOME"))


def _require_private(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        hint = "remove it, or set XDG_STATE_HOME to a folder of yours"
        raise GrantStoreError(path, f"it belongs to {_owner(status)}", hint=hint)
    if status.st_mode & _OTHERS_WRITE:
        hint = f"read it first, then: chmod go-w {path}"
        raise GrantStoreError(path, "others may write it", hint=hint)


def _owner(status: os.stat_result) -> str:
    return user_name(status.st_uid)


def user_name(identity: int | None = None) -> str:
    """Return the name of a user, by default the one of this process."""
    import pwd

    number = os.geteuid() if identity is None else identity
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


CONSENT_FILE = "unconfined.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Who consented to run tools unconfined, and when.

    It is valid only on the `machine` where it was given: several machines may share a home.
    """

    when: str
    by: str
    machine: str = field(default_factory=platform.node)


def write_consent(consent: Consent) -> bytes:
    """Return the text of the file that stores a consent."""
    return json.dumps(asdict(consent)).encode()


def read_consent(data: bytes | None) -> Consent | None:
    """Return the consent in a text, if it is valid and was given on this machine."""
    try:
        value = json.loads(data or b"null")
        consent = Consent(**value) if isinstance(value, dict) else None
    except (ValueError, TypeError, RecursionError):
        return None
    if consent is None or not all(isinstance(each, str) for each in astuple(consent)):
        return None
    return consent if consent.machine == platform.node() else None


_log = logging.getLogger(__name__)
_FILE = re.compile(r"[0-9a-f]{64}\.json\Z")
_MOST_KNOWN = 16_384


class Grants:
    """What was granted to skills, stored only below the user's state directory.

    A grant is for a skill's name, the real path of its folder and the digest of all its files. It
    does not hold for a copy elsewhere, another skill of the same name, or changed files. Only the
    last grant of a skill is kept; a file is read again only if it has changed.
    """

    def __init__(self, directory: Path | None = None) -> None:
        state = directory or state_directory()
        self._folder = None if state is None else PrivateFolder(state / "grants")
        self._known: BoundedCache[str, tuple[Stamp, Grant | None]] = BoundedCache(_MOST_KNOWN)
        self._reals: BoundedCache[tuple[str, int, int], str] = BoundedCache(_MOST_KNOWN)

    @property
    def directory(self) -> Path | None:
        """The directory that another `Grants` takes to find the same grants."""
        return None if self._folder is None else self._folder.path.parent

    def for_skill(self, skill: Skill) -> Grant | None:
        """Return the grant of a skill, if the skill has not changed since."""
        return self.find(skill.name, skill.home)

    def find(self, name: str, home: str | Path) -> Grant | None:
        """Return the grant of the skill of this name in this folder, if no file has changed.

        If there is a record, every file of the folder is read, every time.
        """
        last = self.last(name, home)
        if last is None or snapshot_of(home, reread=True).digest != last.digest:
            return None
        return last

    def last(self, name: str, home: str | Path) -> Grant | None:
        """Return the last grant of a skill, even if the skill changed since: only to be shown."""
        if self._folder is None or not self._folder.exists():
            return None
        return self._record(_file_of(name, self._real(str(home))))

    def grant(
        self,
        skill: Skill,
        needs: Iterable[Need],
        *,
        by: str = "",
        tools: Iterable[str] = (),
        seen: FolderSnapshot | None = None,
    ) -> Grant:
        """Grant needs to a skill, in addition to earlier grants for the same content.

        `seen` is the content that was reviewed: if the skill has changed since, SkillChangedError
        is raised. `tools` are ids of tools that an approver allowed to run from now on.
        """
        allowed = [grantable(need, str(skill.home)) for need in needs]
        seen = seen or snapshot_of(skill.home)
        folder = self._writable()
        home = os.path.realpath(skill.home)
        name = _file_of(skill.name, home)
        with folder.locked():
            if snapshot_of(skill.home).digest != seen.digest:
                raise SkillChangedError(skill.name)
            last = self._record(name)
            if last is None or last.digest != seen.digest:
                last = Grant(skill=skill.name, home=home, digest=seen.digest)
            made = replace(
                last.with_needs(allowed, tools),
                when=_now(),
                by=by or user_name(),
                manifest=seen.manifest,
            )
            folder.write(name, write_grant(made))
        return made

    def revoke(self, skill: Skill) -> bool:
        """Revoke all grants of a skill, whatever its content; tell whether there were any."""
        return self.forget(skill.name, os.path.realpath(skill.home))

    def forget(self, name: str, home: str) -> bool:
        """Do what `revoke` does, by name and folder, for a skill that may no longer exist."""
        if self._folder is None or not self._folder.exists():
            return False
        # Imported here: most programs revoke nothing.
        from skillpouch.execution.own_folder import forget_own_folders

        with self._folder.locked():
            was_there = self._folder.remove(_file_of(name, home))
            forget_own_folders(name, home)
            return was_there

    def list(self) -> list[Grant]:
        """Return all grants, sorted by name and folder; also of skills that changed or are gone."""
        names = [] if self._folder is None else self._folder.names()
        found = [self._record(name) for name in names if _FILE.match(name)]
        return sorted((each for each in found if each), key=lambda each: (each.skill, each.home))

    def consent(self) -> Consent | None:
        """Return the consent to run unconfined if this machine has no sandbox, None without one."""
        if self._folder is None or not self._folder.exists():
            return None
        return read_consent(self._folder.read(CONSENT_FILE))

    def give_consent(self, *, by: str = "") -> Consent:
        """Record that tools may run unconfined on this machine if it has no sandbox."""
        folder = self._writable()
        consent = Consent(when=_now(), by=by or user_name())
        with folder.locked():
            folder.write(CONSENT_FILE, write_consent(consent))
        return consent

    def withdraw_consent(self) -> bool:
        """Withdraw the consent to run unconfined; tell whether there was one."""
        if self._folder is None or not self._folder.exists():
            return False
        with self._folder.locked():
            return self._folder.remove(CONSENT_FILE)

    def _writable(self) -> PrivateFolder:
        if self._folder is None:
            reason = "there is no home to keep them in"
            raise GrantStoreError("no folder", reason, hint="set HOME or XDG_STATE_HOME")
        return self._folder

    def _real(self, home: str) -> str:
        """Return the path without links; cached until the path leads to another folder."""
        try:
            status = os.stat(home)
        except OSError:
            return os.path.realpath(home)
        folder = (home, status.st_dev, status.st_ino)
        known = self._reals.get(folder)
        if known is None:
            known = self._reals[folder] = os.path.realpath(home)
        return known

    def _record(self, name: str) -> Grant | None:
        assert self._folder is not None
        stamp = self._folder.stamp(name)
        if not stamp:
            return None
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return known[1]
        found = self._read(name)
        if is_settled(stamp):
            self._known[name] = (stamp, found)
        return found

    def _read(self, name: str) -> Grant | None:
        assert self._folder is not None
        data = self._folder.read(name)
        if data is None:
            return None
        try:
            return _read_own(data, name)
        except ValueError as error:
            aside = self._folder.set_aside(name)
            _log.warning("a damaged grant is ignored: %s; it was moved to %s", error, aside)
            return None


def _read_own(data: bytes, name: str) -> Grant:
    grant = read_grant(data)
    if _file_of(grant.skill, grant.home) != name:
        raise ValueError("it belongs to another skill")
    return grant


@lru_cache(maxsize=_MOST_KNOWN)
def _file_of(name: str, home: str) -> str:
    # A path cannot contain a NUL, so two different pairs never make the same identity.
    identity = f"{home}\0{name}".encode("utf-8", "surrogatepass")
    return f"{sha256(identity).hexdigest()}.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
