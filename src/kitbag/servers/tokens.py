"""Bearer tokens: read from a file, read again when it changes, compared in constant time."""

import hmac
import os
import stat
from hashlib import sha256
from pathlib import Path

from kitbag.servers.errors import TokenFileError

_SHORTEST = 16
_MOST_BYTES = 64 * 1024
_OTHERS = stat.S_IRWXO


class Tokens:
    """The tokens of a file, one per line; `#` begins a comment.

    A token that is taken out of the file no longer lets anybody in. A file that was good when
    the server started and no longer is lets nobody in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = (0, 0, 0)
        self._digests = self._read()

    def accepts(self, authorization: str) -> bool:
        """Tell whether an `Authorization` header, or the same in metadata, carries one of them."""
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer":
            return False
        offered = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        # All of them, whichever fits: how long it takes tells nothing.
        return sum(hmac.compare_digest(offered, known) for known in self._current()) > 0

    def _current(self) -> list[bytes]:
        try:
            if self._stamp_now() != self._stamp:
                self._digests = self._read()
        except (OSError, TokenFileError):
            return []
        return self._digests

    def _stamp_now(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self) -> list[bytes]:
        try:
            status = self._path.stat()
            self._stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            text = self._path.read_bytes()[:_MOST_BYTES].decode()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise TokenFileError(str(self._path), reason.lower()) from None
        if status.st_mode & _OTHERS or status.st_uid not in (0, os.geteuid()):
            raise TokenFileError(str(self._path), "other users can read it, or it is another's")
        tokens = [line.strip() for line in text.splitlines()]
        tokens = [token for token in tokens if token and not token.startswith("#")]
        if not tokens:
            raise TokenFileError(str(self._path), "it holds no token")
        if any(len(token) < _SHORTEST for token in tokens):
            raise TokenFileError(str(self._path), f"a token is shorter than {_SHORTEST} characters")
        return [sha256(token.encode()).digest() for token in tokens]
