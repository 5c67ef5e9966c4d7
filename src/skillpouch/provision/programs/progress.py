"""What people see while a download runs, and what is said when it fails."""

from typing import Protocol, runtime_checkable

from skillpouch.calls import OnProgress
from skillpouch.errors import CallDeniedError, CommandStartError
from skillpouch.needs import Need
from skillpouch.trust.errors import trust_command
from skillpouch.trust.grant import pin_of

_MIB = 1024 * 1024
_STEP_BYTES = 8 * _MIB  # when nobody knows how much there is


@runtime_checkable
class Meter(Protocol):
    """A listener for progress that can also show how far something is, at every piece."""

    def measure(self, name: str, done: int, total: int | None) -> None: ...


class Progress:
    """Tells a listener about one download; one that is a Meter gets numbers in place of lines."""

    def __init__(self, name: str, on_progress: OnProgress | None) -> None:
        self._name = name
        self._tell = on_progress or (lambda _: None)
        listener: object = on_progress
        self._meter = listener if isinstance(listener, Meter) else None
        self._step = -1

    def begin(self, host: str, done: int, total: int | None) -> None:
        """Say what is fetched, and whether some of it is there already."""
        size = f" ({_size(total)})" if total else ""
        verb = "continuing" if done else "fetching"
        self._tell(f"{verb} {self._name} from {host}{size}")

    def at(self, done: int, total: int | None) -> None:
        """Say how far it is; in words only if that is news."""
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


class DownloadError(CommandStartError):
    """A program could not be fetched, or is not what it should be."""

    code = "download"


class HashDiffersError(DownloadError):
    """What a server sent is not what was expected; it was thrown away."""

    code = "hash_differs"

    def __init__(self, url: str, expected: str, found: str, *, hint: str = "") -> None:
        self.expected = expected
        self.found = found
        super().__init__(
            url,
            f"its sha256 is {found}, not {expected}",
            hint=hint or "the file was changed, or the declaration is out of date: ask its author",
        )


class PinDiffersError(HashDiffersError):
    """A program is no longer the one that somebody vouched for."""

    code = "pin_differs"

    def __init__(self, skill: str, url: str, pinned: str, found: str) -> None:
        self.skill = skill
        self.command = trust_command(skill, [Need(kind="program", value=pin_of(url, found))])
        hint = f"if the new one is right, run `{self.command}`"
        super().__init__(url, pinned, found, hint=hint)


class PinNeededError(CallDeniedError):
    """Nobody said which content is right, and nobody was there to be asked."""

    code = "pin_needed"

    def __init__(self, host: str, size_bytes: int, sha256: str) -> None:
        self.host = host
        self.size_bytes = size_bytes
        self.sha256 = sha256
        super().__init__(
            f"a program of {size_bytes:,} bytes from {host} was not run: nobody vouched for it",
            hint=f"if it is the right one, add `sha256: {sha256}` to its backend",
        )
