import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.execution.proxy.connection import (
    BadRequestError,
    ChunkedBody,
    ChunkError,
    CountedBody,
    Forward,
    Tunnel,
    read_request,
)
from skillpouch.net.hosts import Host


def lines(*text: str) -> bytes:
    return "\r\n".join(text).encode("latin-1")


def test_a_tunnel_names_a_host_and_a_port() -> None:
    asked = read_request(lines("CONNECT API.example.com.:443 HTTP/1.1", "Host: elsewhere"))

    assert asked == Tunnel(host=Host("api.example.com", 443))


def test_a_request_is_sent_on_without_what_concerns_one_connection() -> None:
    asked = read_request(
        lines(
            "POST http://Example.com:8080/a?b=%20c HTTP/1.1",
            "Host: other.example",
            "Accept: */*",
            "Connection: keep-alive, X-Own",
            "X-Own: 1",
            "Proxy-Authorization: Basic abc",
            "Content-Length: 3",
        )
    )

    assert asked == Forward(
        host=Host("example.com", 8080),
        head=lines(
            "POST /a?b=%20c HTTP/1.1",
            "Host: example.com:8080",
            "Accept: */*",
            "Content-Length: 3",
            "Connection: close",
            "",
            "",
        ),
        body_bytes=3,
    )


@pytest.mark.parametrize(
    ("target", "host", "path"),
    [
        ("http://example.com", Host("example.com", 80), "/"),
        ("HTTP://example.com?q", Host("example.com", 80), "/?q"),
        ("http://[::1]:81/", Host("::1", 81, is_address=True), "/"),
        ("http://[::ffff:127.0.0.1]/", Host("127.0.0.1", 80, is_address=True), "/"),
        ("http://example.com//evil.com/", Host("example.com", 80), "//evil.com/"),
    ],
)
def test_a_web_address_is_a_host_and_a_path(target: str, host: Host, path: str) -> None:
    asked = read_request(lines(f"GET {target} HTTP/1.0"))

    assert isinstance(asked, Forward)
    assert (asked.host, asked.body_bytes) == (host, 0)
    assert asked.head.startswith(f"GET {path} HTTP/1.0\r\nHost: ".encode())


TRICKS = [
    lines("GET / HTTP/1.1", "Host: example.com"),
    lines("GET https://example.com/ HTTP/1.1"),
    lines("GET ftp://example.com/ HTTP/1.1"),
    lines("GET http://user@example.com/ HTTP/1.1"),
    lines("GET http://example.com@evil.com/ HTTP/1.1"),
    lines("GET http://example.com\\@evil.com/ HTTP/1.1"),
    lines("GET http://example.com#@evil.com/ HTTP/1.1"),
    lines("GET http://0x7f.1/ HTTP/1.1"),
    lines("GET http://2130706433/ HTTP/1.1"),
    lines("GET http://0177.0.0.1/ HTTP/1.1"),
    lines("GET http://127.1/ HTTP/1.1"),
    lines("GET http://[fe80::1%25eth0]/ HTTP/1.1"),
    lines("GET http://example.com:0/ HTTP/1.1"),
    lines("GET http://example.com:99999/ HTTP/1.1"),
    lines("GET http://*.example.com/ HTTP/1.1"),
    lines("GET http:///path HTTP/1.1"),
    lines("CONNECT example.com HTTP/1.1"),
    lines("CONNECT user@example.com:443 HTTP/1.1"),
    lines("CONNECT *:443 HTTP/1.1"),
    lines("CONNECT http://example.com:443 HTTP/1.1"),
    lines("CONNECT example.com:443"),
    lines("CONNECT example.com:443 HTTP/2.0"),
    lines("GET  http://example.com/ HTTP/1.1"),
    lines("GET http://example.com/ HTTP/1.1", "Host : x"),
    lines("GET http://example.com/ HTTP/1.1", " folded"),
    lines("GET http://example.com/ HTTP/1.1", "A: b\nContent-Length: 3"),
    lines("GET http://example.com/ HTTP/1.1", "A: b\0"),
    lines("GET http://example.com/ HTTP/1.1", "A: b\rB: c"),
    lines("GET http://example.com/ HTTP/1.1", "Content-Length: 3", "Content-Length: 3"),
    lines("GET http://example.com/ HTTP/1.1", "Content-Length: +3"),
    lines("GET http://example.com/ HTTP/1.1", "Content-Length: 3, 3"),
    lines("GET http://example.com/ HTTP/1.1", "Content-Length: "),
    lines("GET http://example.com/ HTTP/1.1", "Content-Length: 3", "Transfer-Encoding: chunked"),
    lines("GET http://example.com/ HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
    lines("GET http://example.com/ HTTP/1.1", "Transfer-Encoding: chunked, chunked"),
    lines("GET http://example.com/ HTTP/1.1", "Transfer-Encoding: xchunked"),
    lines("POST http://example.com/ HTTP/1.0", "Transfer-Encoding: chunked"),
    b"",
]


@pytest.mark.promise("net-7")
@pytest.mark.parametrize("head", TRICKS)
def test_what_can_be_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(BadRequestError):
        read_request(head)


def test_a_header_that_is_named_as_belonging_to_the_connection_cannot_take_the_length_away() -> (
    None
):
    asked = read_request(
        lines(
            "POST http://example.com/ HTTP/1.1",
            "Connection: content-length",
            "Content-Length: 3",
        )
    )

    assert isinstance(asked, Forward)
    assert b"Content-Length: 3\r\n" in asked.head


pieces = st.sampled_from(
    [
        "GET",
        "CONNECT",
        " ",
        "http://",
        "example.com",
        ":443",
        "/",
        "HTTP/1.1",
        "\r\n",
        "\n",
        ": ",
        "Content-Length",
        "Transfer-Encoding",
        "chunked",
        "3",
        "@",
        "\x00",
        "Connection",
        ",",
        "\x80",
    ]
)
SENT_ON = re.compile(rb"[^\r\n\0]+(?:\r\n[^\r\n\0:]+: ?[^\r\n\0]*)+\r\n\r\n")


@given(st.lists(pieces, max_size=20).map("".join) | st.text(max_size=100))
def test_any_head_is_a_request_or_refused_and_is_sent_on_as_one(text: str) -> None:
    head = text.encode("latin-1", "replace")
    try:
        asked = read_request(head)
    except BadRequestError:
        return

    assert asked.host.port is not None
    if isinstance(asked, Forward):
        assert SENT_ON.fullmatch(asked.head)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.integers(1, 7), st.binary())
def test_chunks_are_passed_on_as_they_are_and_nothing_behind_them(
    chunks: list[bytes], step: int, behind: bytes
) -> None:
    sent = b"".join(b"%x;name=value\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    wanted = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    whole = sent + b"0\r\nX-Trailer: dropped\r\n\r\n" + behind
    body = ChunkedBody()

    passed = b"".join(body.feed(whole[at : at + step]) for at in range(0, len(whole), step))

    assert (passed, body.is_done) == (wanted, True)


@pytest.mark.parametrize(
    "sent",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"3\nabc",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b" 3\r\n",
        b"0x3\r\n",
        b"3" * 5000,
        b"0\r\n" + b"a: b\r\n" * 100,
        b"\r\n",
    ],
)
def test_what_is_no_chunk_is_refused(sent: bytes) -> None:
    with pytest.raises(ChunkError):
        ChunkedBody().feed(sent)


@given(st.binary(), st.integers(0, 50))
def test_a_counted_body_ends_where_it_said(data: bytes, count: int) -> None:
    body = CountedBody(count)

    assert body.feed(data) == data[:count]
    assert body.is_done == (len(data) >= count)
