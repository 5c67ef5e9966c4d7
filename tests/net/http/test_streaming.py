"""Answers that come piece by piece: shown as they come, kept as one bounded result."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch import SkillManager
from skillpouch.net.http.plan import Shape
from skillpouch.net.http.receiving import cutter_for
from skillpouch.results import ToolResult
from tests.net.http.conftest import Call, MakeManager, Serve
from tests.net.http.servers import Seen, Writer

pytestmark = pytest.mark.slow

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nConnection: close\r\n\r\n"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
EVENTS = (
    ': hello\n\nevent: delta\ndata: {"text": "é"}\n\nevent: ping\ndata: {}\n\n'
    "event: delta\ndata: two\ndata: lines\n\ndata: [DONE]\n\ndata: never seen\n\n"
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def shown(manager: SkillManager) -> tuple[ToolResult, list[bytes]]:
    pieces: list[bytes] = []
    result = manager.call("demo.ask", {}, on_output=lambda _, data: pieces.append(data))
    return result, pieces


def test_events_are_shown_one_by_one_and_end_where_declared(
    serve: Serve, manager_of: MakeManager
) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(CHUNKED)
        for byte in EVENTS.encode():
            write(chunk(bytes([byte])))  # every character and every line in pieces
        server.stopping.wait()

    server = serve(answer)
    manager = manager_of({"url": server.url, "response": {"mode": "sse", "until": "[DONE]"}})

    result, pieces = shown(manager)

    assert pieces == ['{"text": "é"}\n'.encode(), b"{}\n", b"two\nlines\n"]
    assert result.structured == [{"text": "é"}, {}, "two\nlines"]
    assert (result.outcome, result.stdout) == ("ok", '{"text": "é"}\n{}\ntwo\nlines\n')
    assert server.seen[0].header("accept") == ["text/event-stream"]


def test_only_events_of_the_declared_name_count(serve: Serve, call: Call) -> None:
    server = serve(HEAD % b"text/event-stream" + EVENTS.encode())
    server.answer = _closing(server.answer)

    result = call({"url": server.url, "response": {"mode": "sse", "event": "delta"}})

    assert result.structured == [{"text": "é"}, "two\nlines"]


def _closing(answer: Any) -> Any:
    def close(seen: Seen, write: Writer) -> None:
        answer(seen, write)
        raise OSError

    return close


def test_json_lines_are_values(serve: Serve, call: Call) -> None:
    server = serve(HEAD % b"application/x-ndjson" + b'{"a": 1}\r\n\n[2]\nnot json\n"last"')
    server.answer = _closing(server.answer)

    result = call({"url": server.url, "response": "ndjson"})

    assert result.structured == [{"a": 1}, [2], "not json", "last"]


def test_lines_are_shown_whole(serve: Serve, manager_of: MakeManager) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(HEAD % b"text/plain")
        for piece in (b"on", b"e\ntw", b"o\n", "thré".encode()[:-1], b"\xa9e"):
            write(piece)
        raise OSError

    manager = manager_of({"url": serve(answer).url, "response": {"mode": "lines"}})

    result, pieces = shown(manager)

    assert pieces == [b"one\n", b"two\n", "thrée\n".encode().replace("é".encode(), b"\xc3\xa9")]
    assert result.structured is None


def test_a_stream_that_says_nothing_is_given_up(serve: Serve, call: Call) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(CHUNKED + chunk(b"data: 1\n\n"))
        server.stopping.wait()

    server = serve(answer)
    response = {"mode": "sse", "idle_timeout_ms": 200}

    result = call({"url": server.url, "response": response})

    assert (result.outcome, result.exit_code, result.code) == ("timed_out", 124, "idle_timeout")
    assert result.structured == [1]
    assert result.content.endswith("\n\n1\nno data arrived for 0.2 s")


@pytest.mark.promise("http-6")
def test_an_endless_stream_ends_at_the_declared_number_of_events(serve: Serve, call: Call) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(CHUNKED)
        while not write.gone:
            write(chunk(b"data: x\n\n" * 100))

    response = {"mode": "sse", "max_events": 250}

    result = call({"url": serve(answer).url, "response": response})

    assert (result.outcome, result.structured) == ("ok", ["x"] * 250)


@pytest.mark.promise("http-6")
def test_an_endless_stream_of_which_no_number_is_declared_is_given_up(
    serve: Serve, call: Call
) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(CHUNKED)
        while not write.gone:
            write(chunk(b"x\n" * 5_000))

    result = call({"url": serve(answer).url, "response": "lines"})

    assert (result.outcome, result.code) == ("killed", "output_limit")
    assert "it sent more than 100,000 events" in result.content


@pytest.mark.promise("http-6")
@pytest.mark.parametrize("mode", ["lines", "ndjson", "sse"])
def test_a_line_without_end_ends(mode: str, serve: Serve, call: Call) -> None:
    def answer(_: Seen, write: Writer) -> None:
        write(HEAD % b"text/plain" + b"data: ")
        while not write.gone:
            write(b"x" * 65_536)

    result = call({"url": serve(answer).url, "response": {"mode": mode}})

    assert (result.outcome, result.code) == ("failed", "line_limit")


def test_an_error_is_read_as_one_piece(serve: Serve, call: Call) -> None:
    body = b'{"error": "no"}'
    head = b"HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
    server = serve(head + body)

    result = call({"url": server.url, "response": {"mode": "sse"}})

    assert (result.outcome, result.structured) == ("failed", {"error": "no"})


@pytest.mark.promise("http-5")
def test_a_secret_split_over_pieces_is_not_shown(
    serve: Serve, manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2-secret")

    def answer(_: Seen, write: Writer) -> None:
        write(CHUNKED)
        for byte in b"data: my key is hunter2-secret, really\n\n":
            write(chunk(bytes([byte])))
        write(b"0\r\n\r\n")

    backend = {"url": serve(answer).url, "headers": {"X-Key": "${env:API_KEY}"}, "response": "sse"}

    result, pieces = shown(manager_of(backend))

    assert pieces == [b"my key is [redacted API_KEY], really\n"]
    assert "hunter2" not in repr(result)


async def test_cancelling_closes_the_connection(serve: Serve, manager_of: MakeManager) -> None:
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()

    def answer(_: Seen, write: Writer) -> None:
        write(CHUNKED + chunk(b"data: 1\n\n"))
        while not write.gone and not server.stopping.wait(0.01):
            write(chunk(b": ping\n\n"))
        loop.call_soon_threadsafe(gone.set)

    server = serve(answer)
    manager = manager_of({"url": server.url, "response": "sse"})
    first = asyncio.Event()
    task = asyncio.ensure_future(manager.acall("demo.ask", {}, on_output=lambda *_: first.set()))
    await first.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(gone.wait(), 100)


def test_what_the_listener_raises_ends_the_call(serve: Serve, manager_of: MakeManager) -> None:
    server = serve(HEAD % b"text/plain" + b"one\ntwo\n")
    server.answer = _closing(server.answer)

    def refuse(*_: object) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        manager_of({"url": server.url, "response": "lines"}).call("demo.ask", {}, on_output=refuse)


LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))


@settings(deadline=None)
@given(
    lines=st.lists(LINE, min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
    cuts=st.lists(st.integers(0, 200)),
)
def test_lines_do_not_depend_on_where_the_stream_is_cut(
    lines: list[str], end: str, cuts: list[int]
) -> None:
    data = "".join(f"{line}{end}" for line in lines).encode()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    cutter = cutter_for(Shape(mode="lines"))

    found = [line for start, stop in pairwise(places) for line in cutter.feed(data[start:stop])]

    assert [*found, *cutter.close()] == lines


@settings(deadline=None)
@given(
    events=st.lists(st.text("ab: é{}", min_size=1), min_size=1),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.lists(st.integers(0, 200)),
)
def test_events_do_not_depend_on_where_the_stream_is_cut(
    events: list[str], end: str, cuts: list[int]
) -> None:
    data = "".join(f"id: 1{end}data: {event}{end}{end}" for event in events).encode()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    cutter = cutter_for(Shape(mode="sse"))

    found = [event for start, stop in pairwise(places) for event in cutter.feed(data[start:stop])]

    assert found == events


@settings(deadline=None)
@given(data=st.binary(), mode=st.sampled_from(["lines", "ndjson", "sse"]))
def test_any_bytes_are_cut_without_an_error(data: bytes, mode: Any) -> None:
    cutter = cutter_for(Shape(mode=mode))

    found = [*cutter.feed(data), *cutter.close()]

    assert all(isinstance(piece, str) for piece in found)
    json.dumps(found)
