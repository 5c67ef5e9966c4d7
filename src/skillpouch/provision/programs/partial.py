"""A download that is not finished yet: its bytes, and what makes sure that the rest fits them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Partial:
    """The files of one download in a folder of its own. Only who holds its lock uses it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "unfinished"
        self._about = folder / "about.json"

    def size(self) -> int:
        """Return how many bytes are there."""
        try:
            return self.file.stat().st_size
        except FileNotFoundError:
            return 0

    def range_headers(self, *, hash_is_known: bool) -> dict[str, str]:
        """Return what asks for the rest only; {} when the whole has to come again.

        Without a hash to check the whole against, the server must be able to tell that the file
        is still the same.
        """
        size, validator = self.size(), self._validator()
        if not size or not (validator or hash_is_known):
            return {}
        return {"range": f"bytes={size}-"} | ({"if-range": validator} if validator else {})

    def restart(self, headers: Mapping[str, str]) -> None:
        """Begin from nothing, and note what the server says that identifies the file."""
        self.file.unlink(missing_ok=True)
        etag = headers.get("etag", "")
        strong = etag if etag and not etag.startswith("W/") else ""
        about = {"validator": strong or headers.get("last-modified", "")}
        self._about.write_text(json.dumps(about))

    def discard(self) -> None:
        """Throw everything away."""
        self.file.unlink(missing_ok=True)
        self._about.unlink(missing_ok=True)

    def _validator(self) -> str:
        try:
            about: Any = json.loads(self._about.read_text())
        except (OSError, ValueError):
            return ""
        found = about.get("validator") if isinstance(about, dict) else None
        return found if isinstance(found, str) else ""
