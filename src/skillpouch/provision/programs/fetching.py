"""Downloads one file by https: granted hosts only, redirects, limits, resumed after a break."""

import asyncio
import json
import platform
import re
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urljoin

from skillpouch.needs import Need
from skillpouch.net.hosts import covers_host, host_of_url
from skillpouch.provision.programs.progress import DownloadProgress
from skillpouch.trust.errors import DownloadError, UngrantedError
from skillpouch.trust.grant import pinned_hash

if TYPE_CHECKING:
    from skillpouch.net.http.guard import Guard, Resolve


class InterruptedDownloadError(Exception):
    """The connection was lost, or could not be made: another try may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadResponse:
    """`headers` have lower-case names; `pieces` are the body as it was sent."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class Opener(Protocol):
    """Requests a file from a server, without following redirects; each skill has its own.

    Raises InterruptedDownloadError when there is no answer, CallDeniedError when the host is not
    allowed.
    """

    def __call__(
        self, url: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[DownloadResponse]: ...


class Partial:
    """The files of one download, in a folder of its own. Only the holder of its lock uses it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "unfinished"
        self._about = folder / "about.json"

    def size(self) -> int:
        """Return how many bytes were downloaded so far."""
        try:
            return self.file.stat().st_size
        except FileNotFoundError:
            return 0

    def range_headers(self, *, hash_is_known: bool) -> dict[str, str]:
        """Return the headers that request only the rest; {} to request the whole file.

        Without a hash to check the whole file, the server must confirm that the file is still the
        same.
        """
        size, validator = self.size(), self._validator()
        if not size or not (validator or hash_is_known):
            return {}
        return {"range": f"bytes={size}-"} | ({"if-range": validator} if validator else {})

    def restart(self, headers: Mapping[str, str]) -> None:
        """Delete the partial file, and note by which header the server identifies the file."""
        self.file.unlink(missing_ok=True)
        etag = headers.get("etag", "")
        strong = etag if etag and not etag.startswith("W/") else ""
        about = {"validator": strong or headers.get("last-modified", "")}
        self._about.write_text(json.dumps(about))

    def discard(self) -> None:
        """Throw everything away."""
        self.file.unlink(missing_ok=True)
        self._about.unlink(missing_ok=True)

    def _validator(self) -> str:
        try:
            about: Any = json.loads(self._about.read_text())
        except (OSError, ValueError):
            return ""
        found = about.get("validator") if isinstance(about, dict) else None
        return found if isinstance(found, str) else ""


_MACHINES = {
    "x86_64": ("x86_64", "amd64", "x64"),
    "aarch64": ("aarch64", "arm64"),
    "armv7l": ("armv7l", "armv7", "arm"),
    "i686": ("i686", "i386", "x86"),
}
_SYSTEMS = {"linux": ("linux",), "darwin": ("darwin", "macos")}


def this_platform() -> str:
    """Return the name of this machine's platform, such as `linux-x86_64`."""
    machine = platform.machine().lower()
    usual = next((name for name, others in _MACHINES.items() if machine in others), machine)
    return f"{sys.platform}-{usual}"


def for_platform(choices: Mapping[str, str], name: str) -> str | None:
    """Return the choice for a platform: its own, one for its system, or the one for `any`."""
    system, _, machine = name.partition("-")
    systems = _SYSTEMS.get(system, (system,))
    machines = _MACHINES.get(machine, (machine,))
    exact = [f"{one}{mark}{other}" for one in systems for other in machines for mark in "-_/"]
    lower = {key.lower(): value for key, value in choices.items()}
    return next((lower[key] for key in (*exact, *systems, "any") if key in lower), None)


_SHA256 = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFile:
    """One file on the web; without a `sha256` a person must approve its content.

    `is_pinned`: the hash is not declared, but is that of the approved content.
    """

    url: str
    host: str
    sha256: str | None = None
    is_pinned: bool = False

    @property
    def key(self) -> str:
        """The name of this download among all downloads."""
        return sha256(f"{self.sha256} {self.url}".encode()).hexdigest()[:32]

    def held_to(self, pins: Iterable[str]) -> "WantedFile":
        """Return it with the approved hash, unless a hash is declared."""
        pinned = None if self.sha256 else pinned_hash(self.url, pins)
        return replace(self, sha256=pinned, is_pinned=True) if pinned else self


def wanted_for(
    url: str | Mapping[str, str],
    digest: str | Mapping[str, str] | None,
    platform: str,
    *,
    plain_http: bool = False,
) -> WantedFile:
    """Return the file that a declaration names for a platform; raise DownloadError if none.

    `plain_http` is for tests with a server of their own: otherwise only https is allowed.
    """
    address = _choice(url, platform, "url")
    expected = None if digest is None else _digest(_choice(digest, platform, "sha256"), address)
    scheme = address.partition("://")[0].lower()
    if scheme != "https" and not (plain_http and scheme == "http"):
        raise DownloadError(address, "only https is allowed", hint="use an https address")
    host = host_of_url(address)
    if not host or not address.isprintable() or " " in address:
        raise DownloadError(address, "it is not an address, or its host is ambiguous")
    if address.partition("?")[0].endswith("/"):
        raise DownloadError(address, "it names a folder, not a file")
    return WantedFile(url=address, host=host, sha256=expected)


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


_REDIRECTS = (301, 302, 303, 307, 308)
_OK, _PARTIAL, _UNSATISFIABLE = 200, 206, 416
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)\Z")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Bounds of one download."""

    most_bytes: int = 512 * _MIB
    seconds: float = 600.0
    attempts: int = 3
    redirects: int = 10


class _Again(Exception):  # noqa: N818 - control flow, not a failure
    """The request must be repeated: at another address, or for the whole file."""


class Fetch:
    """Fetches one file into a partial download, until all of it is there."""

    def __init__(
        self,
        wanted: WantedFile,
        partial: Partial,
        opener: Opener,
        limits: FetchLimits,
        progress: DownloadProgress,
    ) -> None:
        self._wanted = wanted
        self._partial = partial
        self._opener = opener
        self._limits = limits
        self._progress = progress
        self._url = wanted.url

    async def run(self) -> None:
        """Fetch; raise DownloadError when it cannot be done within the limits."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._try_often()
        except TimeoutError:
            reason = f"it took more than {self._limits.seconds:g} s"
            raise self._error(reason, hint="call again: it continues where it stopped") from None
        except OSError as error:
            raise self._error((error.strerror or str(error)).lower()) from None

    async def _try_often(self) -> None:
        lost: InterruptedDownloadError | None = None
        for _ in range(self._limits.attempts):
            try:
                await self._follow()
            except InterruptedDownloadError as error:
                lost = error
            else:
                return
        raise self._error(str(lost), hint="call again: it continues where it stopped")

    async def _follow(self) -> None:
        self._url = self._wanted.url
        for _ in range(self._limits.redirects + 1):
            try:
                await self._ask()
            except _Again:
                continue
            return
        raise self._error(f"it was redirected more than {self._limits.redirects} times")

    async def _ask(self) -> None:
        known = self._wanted.sha256 is not None
        headers = self._partial.range_headers(hash_is_known=known)
        async with self._opener(self._url, {"accept-encoding": "identity", **headers}) as answer:
            if answer.status in _REDIRECTS:
                self._url = self._redirected(answer.headers.get("location", ""))
                raise _Again
            if answer.status == _UNSATISFIABLE and headers:
                self._partial.discard()
                raise _Again
            await self._receive(answer)

    def _redirected(self, location: str) -> str:
        found = urljoin(self._url, location)
        if not location or found.partition(":")[0].lower() != self._wanted.url.partition(":")[0]:
            raise self._error(f"it was redirected to {found!r:.200}, which is not https")
        return found

    async def _receive(self, answer: DownloadResponse) -> None:
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise self._error("the server encodes it, although identity was requested")
        total = self._begin(answer)
        done = self._partial.size()
        self._refuse_large(total or done)
        self._progress.begin(self._wanted.host, done, total)
        with self._partial.file.open("ab") as file:
            async for piece in answer.pieces:
                done += len(piece)
                self._refuse_large(done)
                file.write(piece)
                self._progress.at(done, total)
        if total is not None and done != total:
            raise InterruptedDownloadError(f"{done:,} of {total:,} bytes arrived")

    def _begin(self, answer: DownloadResponse) -> int | None:
        """Return the total size of the file in bytes, including the part already downloaded."""
        if answer.status == _PARTIAL:
            return self._continued(answer.headers)
        if answer.status != _OK:
            raise self._error(f"the server answered {answer.status}")
        self._partial.restart(answer.headers)
        length = answer.headers.get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() else None

    def _continued(self, headers: Mapping[str, str]) -> int:
        match = _RANGE.match(headers.get("content-range", ""))
        if match is None or int(match[1]) != self._partial.size():
            self._partial.discard()
            raise _Again
        return int(match[2])

    def _refuse_large(self, size: int) -> None:
        if size > self._limits.most_bytes:
            self._partial.discard()
            raise self._error(f"it is larger than the {self._limits.most_bytes:,} bytes allowed")

    def _error(self, reason: str, *, hint: str = "") -> DownloadError:
        return DownloadError(self._wanted.url, reason, hint=hint)


_CONNECT_SECONDS = 15.0
_IDLE_SECONDS = 30.0


def web_opener(skill: str, hosts: tuple[str, ...], *, resolve: "Resolve | None" = None) -> Opener:
    """Return an opener for the hosts that a skill was granted; `resolve` looks up names."""

    def open_url(
        url: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[DownloadResponse]:
        from skillpouch.net.http.guard import GrantedHosts, Guard

        host = host_of_url(url)
        if not host or not any(covers_host(granted, host) for granted in hosts):
            raise UngrantedError(skill, [Need(kind="host", value=host or url)])
        return _open(url, headers, Guard(GrantedHosts(hosts=hosts, skill=skill), resolve=resolve))

    return open_url


@asynccontextmanager
async def _open(
    url: str, headers: Mapping[str, str], guard: "Guard"
) -> AsyncIterator[DownloadResponse]:
    import httpcore2

    from skillpouch.net.http.guard import ExchangeError
    from skillpouch.net.http.pools import GuardedPool

    limits = {"connect": _CONNECT_SECONDS, "read": _IDLE_SECONDS, "write": _IDLE_SECONDS}
    named = list({"user-agent": "skillpouch", **headers}.items())
    lost = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError)
    try:
        async with (
            GuardedPool(guard) as pool,
            pool.stream("GET", url, headers=named, extensions={"timeout": limits}) as response,
        ):
            yield DownloadResponse(
                status=response.status,
                headers={
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers
                },
                pieces=response.aiter_stream(),
            )
    except (*lost, ExchangeError) as error:
        raise InterruptedDownloadError(str(error) or type(error).__name__) from None
