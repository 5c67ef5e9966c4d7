"""Bearer tokens, read from a file for each request and compared in constant time."""

import hmac
import os
import stat
from hashlib import sha256
from pathlib import Path

from skillpouch.servers.faults import TokenFileError

_SHORTEST = 16
_MOST_BYTES = 64 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Tokens:
    """The tokens of a file, one per line; `#` begins a comment.

    A token that is taken out of the file no longer lets anybody in. A file that was good when
    the server started and no longer is lets nobody in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = b""
        self._digests: list[bytes] = []
        self._read()

    def accepts(self, authorization: str) -> bool:
        """Tell whether an `Authorization` header, or the same in metadata, carries one of them."""
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer":
            return False
        offered = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        # All of them, whichever fits: how long it takes tells nothing.
        return sum(hmac.compare_digest(offered, known) for known in self._current()) > 0

    @staticmethod
    def owner(authorization: str) -> str:
        """Return a name for who carries a token: what they start is reached with it only.

        The token cannot be guessed from the name: it is long, and the name is a part of a hash.
        """
        token = authorization.strip().partition(" ")[2].strip()
        digest = sha256(b"skillpouch owner\0" + token.encode("utf-8", "surrogateescape"))
        return f"token-{digest.hexdigest()[:24]}"

    def _current(self) -> list[bytes]:
        try:
            return self._read()
        except TokenFileError:
            return []

    def _read(self) -> list[bytes]:
        # Each time, because times, size and inode of a file can stay as they are when its content
        # changes. It is small: opening and reading it takes some twenty microseconds.
        content = self._safe_content()
        if content != self._content:
            self._digests = self._digests_of(content)
            self._content = content
        return self._digests

    def _safe_content(self) -> bytes:
        """Check the permissions of the file and read it, through one descriptor."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise self._wrong((error.strerror or "it cannot be read").lower()) from None
        if status.st_mode & _OTHERS or status.st_uid not in (0, os.geteuid()):
            raise self._wrong("its group or other users can read it, or it belongs to another user")
        if len(content) > _MOST_BYTES:
            raise self._wrong(f"it is larger than {_MOST_BYTES:,} bytes")
        return content

    def _digests_of(self, content: bytes) -> list[bytes]:
        try:
            tokens = [line.strip() for line in content.decode().splitlines()]
        except ValueError:
            raise self._wrong("it is not text") from None
        tokens = [token for token in tokens if token and not token.startswith("#")]
        if not tokens:
            raise self._wrong("it holds no token")
        if any(len(token) < _SHORTEST for token in tokens):
            raise self._wrong(f"a token is shorter than {_SHORTEST} characters")
        return [sha256(token.encode()).digest() for token in tokens]

    def _wrong(self, reason: str) -> TokenFileError:
        return TokenFileError(str(self._path), reason)
