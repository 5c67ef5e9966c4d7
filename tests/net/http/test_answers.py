"""What is made of an answer: content for a model, a value for a program, and how much is kept."""

import gzip
import json
import threading
import zlib
from pathlib import Path

import pytest

from skillpouch import Limits
from skillpouch.results import HttpAnswer
from tests.net.http.conftest import Call, Serve
from tests.net.http.servers import Seen, Writer, reply

pytestmark = pytest.mark.slow

MIB = 1024 * 1024


def test_the_content_is_status_address_type_and_the_body_set_in_lines(
    serve: Serve, call: Call
) -> None:
    server = serve(reply('{"a":[1,2]}', kind="application/json", ETag="e1", Set_Cookie="s=1"))

    result = call({"url": f"{server.url}/x"})

    body = '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert result.content == f"HTTP 200 OK\n{server.url}/x\napplication/json\n\n{body}"
    assert result.structured == {"a": [1, 2]}
    assert (result.outcome, result.exit_code, result.stdout) == ("ok", 0, '{"a":[1,2]}')
    assert result.protections == {"net": "hosts+addresses"}
    headers = {"content-length": "11", "content-type": "application/json", "etag": "e1"}
    assert result.http == HttpAnswer(status=200, url=f"{server.url}/x", headers=headers)


def test_an_answer_that_is_no_success_fails_with_its_body(serve: Serve, call: Call) -> None:
    server = serve(reply('{"error": "no such city"}', "404 Not Found", "application/json"))

    result = call({"url": server.url})

    assert (result.outcome, result.exit_code, result.code) == ("failed", 1, None)
    assert result.structured == {"error": "no such city"}
    assert result.content.startswith("HTTP 404 Not Found\n")


def test_the_headers_of_a_head_request_are_its_content(serve: Serve, call: Call) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Type: text/css\r\nETag: x\r\n\r\n"
    server = serve(head)

    result = call({"url": server.url, "method": "HEAD"})

    shown = "text/css\ncontent-length: 99\netag: x"
    assert result.content == f"HTTP 200 OK\n{server.url}/\n{shown}"


def test_what_to_do_next_is_said(serve: Serve, call: Call) -> None:
    server = serve(reply("more", Link='</p/2>; rel="next"'))

    assert 'link: </p/2>; rel="next"' in call({"url": server.url}).content


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "two members"])
def test_packed_answers_are_unpacked(encoding: str, serve: Serve, call: Call) -> None:
    text = b"hello " * 50_000
    packer = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "raw deflate": packer.compress(text) + packer.flush(),
        "two members": gzip.compress(text[:600]) + gzip.compress(text[600:]),
    }[encoding]
    name = "gzip" if encoding == "two members" else encoding.rpartition(" ")[2]
    server = serve(reply(packed, Content_Encoding=name))

    result = call({"url": server.url})

    assert result.outcome == "ok"
    assert result.truncated
    assert result.saved[0].read_bytes() == text


def test_text_in_another_encoding_is_read(serve: Serve, call: Call) -> None:
    server = serve(reply("naïve €".encode("cp1252"), kind="text/plain; charset=windows-1252"))

    assert call({"url": server.url}).stdout == "naïve €"


@pytest.mark.parametrize(
    "charset", ["zlib", "base64", "idna", "unicode_escape", "no-such", "rot13"]
)
def test_an_encoding_that_is_none_of_text_is_not_used(
    charset: str, serve: Serve, call: Call
) -> None:
    server = serve(reply(r"plain\u0041", kind=f"text/plain; charset={charset}"))

    assert call({"url": server.url}).stdout == r"plain\u0041"


def test_what_is_no_text_is_saved_and_described(serve: Serve, call: Call) -> None:
    image = b"\x89PNG\r\n\x1a\n\0\0" + bytes(range(256))
    server = serve(reply(image, kind="image/png"))

    result = call({"url": server.url})

    assert result.saved[0].read_bytes() == image
    assert result.saved[0].suffix == ".png"
    said = f"[{len(image)} bytes that are not text, saved as {result.saved[0]}]"
    assert result.content == f"HTTP 200 OK\n{server.url}/\nimage/png\n\n{said}"
    assert (result.stdout, result.structured, result.truncated) == ("", None, False)


@pytest.mark.promise("http-6")
def test_a_long_answer_is_kept_as_head_and_tail_and_whole_in_a_file(
    serve: Serve, call: Call
) -> None:
    text = b"".join(b"%08d\n" % number for number in range(50_000))
    server = serve(reply(text))

    result = call({"url": server.url}, limits=Limits(keep_bytes=1_000))

    assert result.truncated
    assert result.stdout.startswith("00000000\n")
    assert result.stdout.endswith("00049999\n")
    assert f"{len(text) - 1_000} bytes left out" in result.stdout
    assert result.saved[0].read_bytes() == text
    assert result.outcome == "ok"


def test_a_long_json_answer_is_a_value_though_its_text_is_cut(serve: Serve, call: Call) -> None:
    value = [{"n": number} for number in range(5_000)]
    server = serve(reply(json.dumps(value), kind="application/json"))

    result = call({"url": server.url}, limits=Limits(keep_bytes=2_000))

    assert result.structured == value
    assert result.truncated
    assert len(result.content) < 2_300


@pytest.mark.promise("http-6")
def test_a_gzip_bomb_ends_while_it_is_unpacked(serve: Serve, call: Call) -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(256)) + packer.flush()
    server = serve(reply(bomb, Content_Encoding="gzip"))

    result = call({"url": server.url}, limits=Limits(kill_bytes=2 * MIB))

    assert (result.outcome, result.code) == ("killed", "output_limit")
    assert "the answer has more than 2,097,152 bytes" in result.content
    assert result.saved[0].stat().st_size <= 2 * MIB


def test_a_gzip_bomb_inside_a_gzip_bomb_is_not_unpacked(serve: Serve, call: Call) -> None:
    server = serve(reply(gzip.compress(gzip.compress(b"x")), Content_Encoding="gzip, gzip"))

    result = call({"url": server.url})

    assert (result.outcome, result.code) == ("failed", "encoding")


@pytest.mark.promise("http-6")
def test_an_endless_answer_ends(serve: Serve, call: Call) -> None:
    def endless(_: Seen, write: Writer) -> None:
        write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while not write.gone:
            write(b"x" * 65_536)

    result = call({"url": serve(endless).url}, limits=Limits(kill_bytes=MIB))

    assert (result.outcome, result.code) == ("killed", "output_limit")
    assert result.truncated


@pytest.mark.promise("http-7")
def test_a_dripping_server_is_held_to_the_whole_time(serve: Serve, call: Call) -> None:
    def drip(_: Seen, write: Writer) -> None:
        write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nfirst ")
        while not write.gone and not server.stopping.wait(0.05):
            write(b".")

    server = serve(drip)

    result = call({"url": server.url, "timeout_ms": 2500})

    assert (result.outcome, result.exit_code, result.code) == ("timed_out", 124, "timeout")
    assert result.content.startswith(f"HTTP 200 OK\n{server.url}/\ntext/plain\n\nfirst ")
    assert "\ntimed out after 2.5 s\nnote: " in result.content


@pytest.mark.promise("http-7")
def test_a_server_that_never_answers_is_held_to_the_whole_time(serve: Serve, call: Call) -> None:
    never = threading.Event()

    result = call({"url": serve(lambda *_: never.wait(20)).url}, timeout=0.3)
    never.set()

    note = "note: its caller limited it to 0.3 s of the 30 s it may have"
    assert (result.outcome, result.content) == ("timed_out", f"timed out after 0.3 s\n{note}")


def test_an_answer_that_breaks_off_is_no_success(serve: Serve, call: Call) -> None:
    def cut(_: Seen, write: Writer) -> None:
        write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/plain\r\n\r\nhalf")
        raise OSError

    result = call({"url": serve(cut).url, "method": "POST"})

    assert (result.outcome, result.code, result.structured) == ("failed", "cut_off", None)
    assert "half\nthe answer was cut off" in result.content


@pytest.mark.parametrize("garbage", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 2000 OK\r\n\r\n"])
def test_garbage_is_a_failed_result(garbage: bytes, serve: Serve, call: Call) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(garbage)
        raise OSError

    result = call({"url": serve(answer).url, "method": "POST"})

    assert (result.outcome, result.code) == ("failed", "no_answer")


def test_headers_without_end_are_a_failed_result(serve: Serve, call: Call) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(b"HTTP/1.1 200 OK\r\n")
        while not write.gone:
            write(b"X-Filler: " + b"x" * 1_000 + b"\r\n")

    result = call({"url": serve(answer).url, "method": "POST"})

    assert (result.outcome, result.code) == ("failed", "no_answer")


def test_nobody_there_is_a_failed_result(serve: Serve, call: Call) -> None:
    server = serve()
    server.__exit__()

    result = call({"url": server.url, "retries": 0})

    assert (result.outcome, result.code) == ("failed", "connect")
    assert result.content == f"cannot connect to {server.host}: connection refused"


def test_hidden_characters_do_not_reach_the_content(serve: Serve, call: Call) -> None:
    server = serve(reply("a\x1b[31mred\u202eevil"))

    assert call({"url": server.url}).content.endswith("\n\naredevil")


def test_a_file_made_of_an_answer_follows_no_link(
    serve: Serve, call: Call, workspace: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace / ".skillpouch").symlink_to(outside)
    server = serve(reply(b"x" * 5_000))

    result = call({"url": server.url}, limits=Limits(keep_bytes=1_000))

    assert (result.truncated, result.saved, list(outside.iterdir())) == (True, (), [])
