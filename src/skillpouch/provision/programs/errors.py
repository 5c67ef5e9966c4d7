"""What can go wrong with a program that has to be fetched: nothing of it ran."""

from skillpouch.errors import CallDeniedError, CommandStartError
from skillpouch.needs import Need
from skillpouch.trust.errors import trust_command
from skillpouch.trust.programs import pin_of


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
