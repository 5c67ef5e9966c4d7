"""An address on the web, read in the only way that nobody can read differently."""

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from skillpouch.net.hosts import Host, HostError, read_host

_URL = re.compile(r"(https?)://([^/?#\\\s@]+)([^#]*)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}
# Everything that may stand in a path and a query as it is; the rest is percent-encoded.
_KEPT = "%/?:@!$&'()*+,;=-._~[]"


class BadUrlError(ValueError):
    """A text that is no address on the web, or one that programs read differently."""


@dataclass(frozen=True, slots=True)
class Url:
    """`host` always has its port; `target` is what the server is asked for."""

    scheme: str
    host: Host
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """The host as the server is told: without the port that everybody expects."""
        is_usual = self.host.port == _PORTS[self.scheme]
        return str(Host(self.host.name) if is_usual else self.host)

    @property
    def origin(self) -> tuple[str, Host]:
        return self.scheme, self.host


def read_url(text: str) -> Url:
    """Return what a text says; raise BadUrlError for a user before the host or a backslash."""
    match = _URL.fullmatch(text.partition("#")[0])
    if match is None:
        raise BadUrlError("it is no plain http or https address")
    scheme = match[1].lower()
    try:
        host = read_host(match[2])
    except HostError as error:
        raise BadUrlError(str(error)) from None
    if "*" in host.name:
        raise BadUrlError("a star is no host")
    port = host.port or _PORTS[scheme]
    target = quote(match[3], safe=_KEPT)
    return Url(scheme, Host(host.name, port, is_address=host.is_address), _rooted(target))


def join_url(base: Url, location: str) -> Url:
    """Return where a redirect leads."""
    if "\\" in location:  # a slash to browsers, a letter to others
        raise BadUrlError("a backslash is not part of an address")
    try:
        return read_url(urljoin(str(base), location))
    except ValueError as error:
        raise BadUrlError(str(error)) from None


def _rooted(target: str) -> str:
    return target if target.startswith("/") else f"/{target}"
