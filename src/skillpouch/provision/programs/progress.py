"""Progress and errors of a download, as people see them."""

from typing import Protocol, runtime_checkable

from skillpouch.calls import OnProgress

_MIB = 1024 * 1024
_STEP_BYTES = 8 * _MIB  # between lines, when the total size is unknown


@runtime_checkable
class Meter(Protocol):
    """A listener for progress that can also show how far something is, at every piece."""

    def measure(self, name: str, done: int, total: int | None) -> None: ...


class DownloadProgress:
    """Reports one download to a listener; a Meter gets numbers in place of lines."""

    def __init__(self, name: str, on_progress: OnProgress | None) -> None:
        self._name = name
        self._tell = on_progress or (lambda _: None)
        listener: object = on_progress
        self._meter = listener if isinstance(listener, Meter) else None
        self._step = -1

    def begin(self, host: str, done: int, total: int | None) -> None:
        """Report what is fetched, and whether it is resumed."""
        size = f" ({_size(total)})" if total else ""
        verb = "continuing" if done else "fetching"
        self._tell(f"{verb} {self._name} from {host}{size}")

    def at(self, done: int, total: int | None) -> None:
        """Report how far it is; as a line only after a step forward."""
        if self._meter is not None:
            self._meter.measure(self._name, done, total)
            return
        step = done * 10 // total if total else done // _STEP_BYTES
        if step > self._step:
            self._step = step
            of = f" of {_size(total)}" if total else ""
            self._tell(f"fetched {_size(done)}{of}")


def _size(count: int) -> str:
    return f"{count / _MIB:.1f} MiB" if count >= _MIB else f"{count:,} bytes"
