"""Grants: the user's record of what each skill may have, and the consent to run unconfined."""

import json
import logging
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.discovery.digest import Snapshot, snapshot_of
from skillpouch.discovery.index import is_settled
from skillpouch.environment import state_directory
from skillpouch.needs import Need
from skillpouch.skills import Skill
from skillpouch.trust.errors import GrantStoreError, SkillChangedError
from skillpouch.trust.grant import Grant, read_grant, write_grant
from skillpouch.trust.grantable import grantable
from skillpouch.trust.private_folder import PrivateFolder, user_name

if TYPE_CHECKING:
    from skillpouch.untrusted_files import Stamp


CONSENT_FILE = "unconfined.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Who said so and when. It counts on the machine where it was said: homes are shared."""

    when: str
    by: str
    machine: str = field(default_factory=platform.node)


def write_consent(consent: Consent) -> bytes:
    """Return the text that is kept."""
    return json.dumps(asdict(consent)).encode()


def read_consent(data: bytes | None) -> Consent | None:
    """Return the consent in a text, if it is one and was given on this machine."""
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
    """What was granted to skills, below the user's state directory and nowhere else.

    A grant belongs to a skill's name, the real path of its folder and the digest of all its
    files: a copy elsewhere, another skill of the same name, a changed byte have none. One record
    per skill is kept, the last one; a file is read again only when it changed.
    """

    def __init__(self, directory: Path | None = None) -> None:
        state = directory or state_directory()
        self._folder = None if state is None else PrivateFolder(state / "grants")
        self._known: dict[str, tuple[Stamp, Grant | None]] = {}
        self._reals: dict[tuple[str, int, int], str] = {}

    def for_skill(self, skill: Skill) -> Grant | None:
        """Return what a skill was granted, if it still is what it was then."""
        return self.find(skill.name, skill.home)

    def find(self, name: str, home: str | Path) -> Grant | None:
        """Return what the skill of this name in this folder was granted, if nothing changed.

        Every file of the folder is looked at, every time, but only when there is a record.
        """
        last = self.last(name, home)
        if last is None or snapshot_of(home, reread=True).digest != last.digest:
            return None
        return last

    def last(self, name: str, home: str | Path) -> Grant | None:
        """Return what the skill was granted last, also when it changed since: to show only."""
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
        seen: Snapshot | None = None,
    ) -> Grant:
        """Grant needs to a skill, beside what the same content was granted before.

        `seen` is what whoever granted it was looking at: the grant is for that, and raises
        SkillChangedError when the skill is no longer it. `tools` are ids that an approver lets
        run from now on.
        """
        allowed = [grantable(need) for need in needs]
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
        """Take everything back from a skill, whatever its content; tell whether it had anything."""
        return self.forget(skill.name, os.path.realpath(skill.home))

    def forget(self, name: str, home: str) -> bool:
        """Do what `revoke` does for a skill that may be gone, by the name and folder on record."""
        if self._folder is None or not self._folder.exists():
            return False
        with self._folder.locked():
            return self._folder.remove(_file_of(name, home))

    def list(self) -> list[Grant]:
        """Return every record, by name and folder, of skills that changed or are gone, too."""
        names = [] if self._folder is None else self._folder.names()
        found = [self._record(name) for name in names if _FILE.match(name)]
        return sorted((each for each in found if each), key=lambda each: (each.skill, each.home))

    def consent(self) -> Consent | None:
        """Return the consent to run unconfined where this machine cannot confine, if any."""
        if self._folder is None or not self._folder.exists():
            return None
        return read_consent(self._folder.read(CONSENT_FILE))

    def give_consent(self, *, by: str = "") -> Consent:
        """Record that tools may run unconfined on this machine, where it cannot confine them."""
        folder = self._writable()
        consent = Consent(when=_now(), by=by or user_name())
        with folder.locked():
            folder.write(CONSENT_FILE, write_consent(consent))
        return consent

    def withdraw_consent(self) -> bool:
        """Take that consent back; tell whether there was one."""
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
        """Return the path without links: looked up once for each folder that the path leads to."""
        try:
            status = os.stat(home)
        except OSError:
            return os.path.realpath(home)
        folder = (home, status.st_dev, status.st_ino)
        known = self._reals.get(folder)
        if known is None:
            if len(self._reals) >= _MOST_KNOWN:
                self._reals.clear()
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
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
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
    # No path holds a NUL: no name can make one skill look like another.
    identity = f"{home}\0{name}".encode("utf-8", "surrogatepass")
    return f"{sha256(identity).hexdigest()}.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
