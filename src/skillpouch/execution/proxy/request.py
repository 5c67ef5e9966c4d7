"""Reads what a program asks of a proxy, strictly: what can be read in two ways is refused."""

import re
from dataclasses import dataclass

from skillpouch.net.hosts import Host, HostError, read_host

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/1\.([01])\Z")
_ABSOLUTE = re.compile(r"http://([^/?#\\@]+)(/[^#]*|\?[^#]*)?\Z", re.IGNORECASE)
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\Z")
_LENGTH = re.compile(rb"[0-9]{1,18}\Z")
_HTTP_PORT = 80
# They concern one connection; the length of the body is written anew.
_NOT_PASSED_ON = frozenset(
    {
        *(b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade"),
        *(b"proxy-authenticate", b"proxy-authorization", b"host"),
        *(b"content-length", b"transfer-encoding"),
    }
)

Headers = list[tuple[bytes, bytes]]


class BadRequestError(ValueError):
    """What was asked cannot be read, or not in one way only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """Bytes both ways, to a host and port."""

    host: Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """One request, as it is sent on; `body_bytes` is None where the body comes in chunks."""

    host: Host
    head: bytes
    body_bytes: int | None


def read_request(head: bytes) -> Tunnel | Forward:
    """Read the lines of a request, without the empty one that ends them.

    Raises:
        BadRequestError: it is not a request that a proxy can be sure about.
    """
    first, *lines = head.split(b"\r\n")
    line = _LINE.match(first)
    if line is None:
        raise BadRequestError("this is not a request of HTTP/1.1")
    method, target = line[1], line[2].decode()
    headers = [_read_header(text) for text in lines]
    if method == b"CONNECT":
        host = _read_host(target)
        if host.port is None:
            raise BadRequestError("CONNECT names no port")
        return Tunnel(host=host)
    host, path = _read_target(target)
    start = b"%b %b HTTP/1.%b" % (method, path.encode(), line[3])
    if line[3] == b"0" and _values(headers, b"transfer-encoding"):
        # RFC 9112, 6.1: to HTTP/1.0 there are no chunks, so where the body ends is anybody's guess.
        raise BadRequestError("HTTP/1.0 knows no Transfer-Encoding")
    return _forward(host, start, headers)


def _read_header(text: bytes) -> tuple[bytes, bytes]:
    header = _HEADER.match(text)
    if header is None:
        raise BadRequestError("a header cannot be read")
    return header[1], header[2].rstrip(b" \t")


def _read_host(text: str) -> Host:
    try:
        host = read_host(text)
    except HostError as error:
        raise BadRequestError(str(error)) from None
    if "*" in host.name:
        raise BadRequestError(f"{text!r:.80} is not one host")
    return host


def _read_target(target: str) -> tuple[Host, str]:
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise BadRequestError("this is a proxy: ask for http://HOST/PATH or CONNECT HOST:PORT")
    host = _read_host(absolute[1])
    path = absolute[2] or "/"
    port = host.port or _HTTP_PORT
    return Host(host.name, port, is_address=host.is_address), path if path[0] == "/" else f"/{path}"


def _forward(host: Host, start: bytes, headers: Headers) -> Forward:
    body_bytes = _body_bytes(headers)
    named = {
        word.strip().lower() for word in b",".join(_values(headers, b"connection")).split(b",")
    }
    kept = [
        b"%b: %b" % (name, value)
        for name, value in headers
        if name.lower() not in _NOT_PASSED_ON | named
    ]
    shown = str(host).removesuffix(":80").encode()
    if body_bytes is None:
        kept.append(b"Transfer-Encoding: chunked")
    elif _values(headers, b"content-length"):
        kept.append(b"Content-Length: %d" % body_bytes)
    lines = [start, b"Host: %b" % shown, *kept, b"Connection: close", b"", b""]
    return Forward(host=host, head=b"\r\n".join(lines), body_bytes=body_bytes)


def _body_bytes(headers: Headers) -> int | None:
    lengths = _values(headers, b"content-length")
    codings = _values(headers, b"transfer-encoding")
    if codings:
        if lengths or [coding.lower() for coding in codings] != [b"chunked"]:
            raise BadRequestError("the length of the body cannot be told")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.match(lengths[0]):
        raise BadRequestError("the length of the body cannot be told")
    return int(lengths[0])


def _values(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name.lower() == wanted]
