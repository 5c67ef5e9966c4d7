"""Output as far as it may go: kept from its beginning, counted to its end."""


class KeptText:
    """Keeps `most_bytes` of a text that comes in pieces, cut between characters."""

    def __init__(self, most_bytes: int) -> None:
        self._room = most_bytes
        self._pieces: list[str] = []
        self.total_bytes = 0
        self.truncated = False

    def add(self, piece: str) -> None:
        data = piece.encode("utf-8", "replace")
        self.total_bytes += len(data)
        if len(data) <= self._room:
            self._pieces.append(piece)
            self._room -= len(data)
        elif not self.truncated:
            self._pieces.append(data[: self._room].decode("utf-8", "ignore"))
            self._room = 0
            self.truncated = True

    @property
    def text(self) -> str:
        return "".join(self._pieces)
