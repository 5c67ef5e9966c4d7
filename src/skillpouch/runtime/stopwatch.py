"""Where the time of a call went, lap by lap."""

import time

Timings = tuple[tuple[str, float], ...]  # what was done, and the milliseconds it took


class Stopwatch:
    """Runs from the moment it is made; each lap ends where the next begins."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self._laps: list[tuple[str, float]] = []

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        self._laps.append((what, now - self._last))
        self._last = now

    def split(self, what: str, parts: tuple[tuple[str, float], ...]) -> None:
        """End a lap of which some seconds were spent on these parts."""
        self.lap(what)
        whole = self._laps.pop()[1]
        self._laps += [*parts, (what, whole - sum(seconds for _, seconds in parts))]

    @property
    def timings(self) -> Timings:
        return tuple([(what, round(seconds * 1000, 3)) for what, seconds in self._laps])
