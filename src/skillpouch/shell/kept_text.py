"""Output as far as it may go: kept from its beginning, counted to its end."""


class KeptText:
    """Keeps `most_bytes` of a text that comes in pieces, cut between characters."""

    def __init__(self, most_bytes: int) -> None:
        self._room = most_bytes
        self._pieces: list[str] = []
        self.total_bytes = 0
        self.truncated = False

    def add(self, piece: str) -> None:
        if not piece:
            return
        size = byte_count(piece)
        self.total_bytes += size
        if size <= self._room:
            self._pieces.append(piece)
            self._room -= size
        elif not self.truncated:
            data = piece.encode("utf-8", "replace")
            self._pieces.append(data[: self._room].decode("utf-8", "ignore"))
            self._room = 0
            self.truncated = True

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def byte_count(text: str) -> int:
    """Return how many bytes a text takes; of one in plain ASCII nothing is copied for that."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
