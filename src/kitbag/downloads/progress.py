"""Lines for people while a download runs: at its start, then at each tenth of it."""

from kitbag.calls import OnProgress

_MIB = 1024 * 1024
_STEP_BYTES = 8 * _MIB  # when nobody knows how much there is


class Progress:
    def __init__(self, name: str, on_progress: OnProgress | None) -> None:
        self._name = name
        self._tell = on_progress or (lambda _: None)
        self._step = -1

    def begin(self, host: str, done: int, total: int | None) -> None:
        """Say what is fetched, and whether some of it is there already."""
        size = f" ({_size(total)})" if total else ""
        verb = "continuing" if done else "fetching"
        self._tell(f"{verb} {self._name} from {host}{size}")

    def at(self, done: int, total: int | None) -> None:
        """Say how far it is, if that is news."""
        step = done * 10 // total if total else done // _STEP_BYTES
        if step > self._step:
            self._step = step
            of = f" of {_size(total)}" if total else ""
            self._tell(f"fetched {_size(done)}{of}")


def _size(count: int) -> str:
    return f"{count / _MIB:.1f} MiB" if count >= _MIB else f"{count:,} bytes"
