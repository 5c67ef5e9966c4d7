"""Which content somebody vouched for: asked once for each address of a skill, then kept."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from kitbag.downloads.wanted import Wanted
from kitbag.environment import state_directory
from kitbag.trust.private_folder import PrivateFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class PinQuestion:
    """What somebody has to say yes to: this content, from this host, for this skill."""

    skill: str
    url: str
    host: str
    size_bytes: int
    sha256: str

    @property
    def text(self) -> str:
        """The question in one line."""
        return (
            f"run a program of {self.size_bytes:,} bytes from {self.host} for {self.skill}? "
            f"sha256 {self.sha256}"
        )


Vouch = Callable[[PinQuestion], Awaitable[bool]]


class Pins:
    """Kept in the user's state directory, where no skill and no project can write."""

    def __init__(self, folder: Path | None = None) -> None:
        base = folder or state_directory()
        self._folder = PrivateFolder(base / "pins") if base else None

    def find(self, home: str, wanted: Wanted) -> str | None:
        """Return the sha256 that was vouched for, None when nobody has."""
        if self._folder is None or not self._folder.exists():
            return None
        data = self._folder.read(_name(home, wanted))
        try:
            record = json.loads(data) if data else None
        except ValueError:
            return None  # torn or foreign: ask again
        found = record.get("sha256") if isinstance(record, dict) else None
        return found if isinstance(found, str) and len(found) == 64 else None  # noqa: PLR2004

    def keep(self, home: str, wanted: Wanted, question: PinQuestion) -> None:
        """Remember a yes."""
        if self._folder is None:
            return  # no place to remember it: it will be asked again
        record = {"url": wanted.url, "sha256": question.sha256, "skill": question.skill}
        with self._folder.locked():
            self._folder.write(_name(home, wanted), json.dumps(record).encode() + b"\n")


def _name(home: str, wanted: Wanted) -> str:
    return (
        f"{sha256(f'{home} {wanted.url}'.encode(errors='surrogateescape')).hexdigest()[:40]}.json"
    )
