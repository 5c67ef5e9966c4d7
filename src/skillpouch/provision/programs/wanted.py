"""What is to be fetched for this machine: read from a declaration, checked before anything is."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from skillpouch.net.hosts import host_of_url
from skillpouch.provision.programs.errors import DownloadError
from skillpouch.provision.programs.platforms import for_platform
from skillpouch.trust.programs import pinned_hash

_SHA256 = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One file on the web; without a `sha256` somebody has to vouch for what comes.

    It `is_pinned` when the hash is not the declaration's, but what somebody vouched for.
    """

    url: str
    host: str
    sha256: str | None = None
    is_pinned: bool = False

    @property
    def key(self) -> str:
        """Name it among all downloads."""
        return sha256(f"{self.sha256} {self.url}".encode()).hexdigest()[:32]

    def held_to(self, pins: Iterable[str]) -> "Wanted":
        """Return it with the hash that somebody vouched for; a declared hash stays."""
        pinned = None if self.sha256 else pinned_hash(self.url, pins)
        return replace(self, sha256=pinned, is_pinned=True) if pinned else self


def wanted_for(
    url: str | Mapping[str, str],
    digest: str | Mapping[str, str] | None,
    platform: str,
    *,
    plain_http: bool = False,
) -> Wanted:
    """Return what a declaration means on a platform; raise DownloadError when it means nothing.

    `plain_http` is for tests with a server of their own: without it only https will do.
    """
    address = _choice(url, platform, "url")
    expected = None if digest is None else _digest(_choice(digest, platform, "sha256"), address)
    scheme = address.partition("://")[0].lower()
    if scheme != "https" and not (plain_http and scheme == "http"):
        raise DownloadError(address, "it is not fetched by https", hint="use an https address")
    host = host_of_url(address)
    if not host or not address.isprintable() or " " in address:
        raise DownloadError(address, "its host cannot be told without doubt, or it is no address")
    if address.partition("?")[0].endswith("/"):
        raise DownloadError(address, "it names a folder, not a file")
    return Wanted(url=address, host=host, sha256=expected)


def _choice(value: str | Mapping[str, str], platform: str, field: str) -> str:
    if isinstance(value, str):
        return value
    found = for_platform(value, platform)
    if found is None:
        there = ", ".join(sorted(value)) or "none"
        raise DownloadError(
            f"the program for {platform}",
            f"its declaration has no `{field}` for this platform",
            hint=f"there are: {there}",
        )
    return found


def _digest(text: str, url: str) -> str:
    match = _SHA256.match(text.strip())
    if match is None:
        raise DownloadError(url, "its sha256 is not 64 hexadecimal digits")
    return match[1].lower()
