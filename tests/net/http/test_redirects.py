"""Redirects and retries: followed by hand, with nothing taken along that is not the next host's."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from skillpouch import SkillManager
from skillpouch.net.http.exchange import retry_delay
from tests.net.http.conftest import Call, MakeManager, Serve
from tests.net.http.servers import Seen, Writer, reply

pytestmark = pytest.mark.slow

HOSTS = "name: demo\ndescription: d\n"


def moved(where: str, status: str = "302 Found") -> bytes:
    return reply("moved", status, Location=where)


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        ("301 Moved", "GET", "GET"),
        ("302 Found", "POST", "GET"),
        ("303 See Other", "POST", "GET"),
        ("303 See Other", "HEAD", "HEAD"),
        ("303 See Other", "DELETE", "GET"),
        ("307 Temporary", "POST", "POST"),
        ("308 Permanent", "PUT", "PUT"),
    ],
)
def test_a_redirect_on_the_same_host_is_followed(
    status: str, method: str, then: str, serve: Serve, call: Call
) -> None:
    def answer(seen: Seen, write: Writer) -> None:
        write(moved("/there?x=1", status) if seen.target == "/here" else reply("found"))

    server = serve(answer)

    result = call({"url": f"{server.url}/here", "method": method, "headers": {"X-Own": "1"}})

    assert result.http is not None
    assert (result.outcome, result.http.url) == ("ok", f"{server.url}/there?x=1")
    last = server.seen[-1]
    assert (last.method, last.target, last.header("x-own")) == (then, "/there?x=1", ["1"])
    assert (last.body == b"{}") == (then in ("POST", "PUT"))


@pytest.mark.promise("http-4")
def test_nothing_of_a_skill_is_taken_to_another_origin(
    serve: Serve, manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2-secret")
    other = serve(reply("hello"))
    first = serve(moved(f"{other.url}/x"))
    headers = {"Authorization": "Bearer ${env:API_KEY}", "X-Api-Key": "${env:API_KEY}", "X-A": "1"}

    result = granted(manager_of, {"url": first.url, "headers": headers}, other.host).call("ask")

    assert (result.outcome, result.stdout) == ("ok", "hello")
    assert first.seen[0].header("authorization") == ["Bearer hunter2-secret"]
    names = {name.lower() for name, _ in other.seen[0].headers}
    assert names == {"host", "accept", "accept-encoding", "user-agent"}


def granted(manager_of: MakeManager, backend: object, *hosts: str) -> SkillManager:
    """Return a manager whose skill is granted what it declares, and more hosts."""
    from skillpouch.needs import Need
    from skillpouch.trust.grants import Grants
    from skillpouch.trust.requested import asks_of

    manager = manager_of(backend)
    skill = manager.get_skill("demo")
    asked = asks_of(skill, manager.get_skill_tools("demo"))
    more = [Need(kind="host", value=host) for host in hosts]
    Grants().grant(skill, [*asked, *more], by="test")
    return manager


@pytest.mark.promise("http-4")
def test_a_redirect_to_a_host_that_is_not_granted_is_not_followed(serve: Serve, call: Call) -> None:
    other = serve()
    server = serve(moved(f"{other.url}/x"))

    result = call({"url": server.url})

    assert (result.outcome, result.code) == ("failed", "redirect_refused")
    assert f"`skillpouch trust demo --host {other.host}`" in result.content
    assert other.seen == []


@pytest.mark.promise("http-1")
@pytest.mark.parametrize(
    "where",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://metadata.google.internal/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://localhost/",
        "//169.254.169.254/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://user@127.0.0.1/",
        "http:\\\\127.0.0.1\\",
    ],
)
def test_a_redirect_to_metadata_in_any_spelling_is_not_followed(
    where: str, serve: Serve, call: Call
) -> None:
    server = serve(moved(where))

    result = call({"url": server.url})

    assert (result.outcome, result.code) == ("failed", "redirect_refused")
    assert len(server.seen) == 1


@pytest.mark.promise("http-4")
@pytest.mark.parametrize("status", ["307 Temporary", "308 Permanent"])
def test_a_body_is_not_sent_to_another_origin(
    status: str, serve: Serve, manager_of: MakeManager
) -> None:
    other = serve()
    server = serve(moved(other.url, status))

    result = granted(manager_of, {"url": server.url, "method": "POST"}, other.host).call("ask")

    assert (result.code, other.seen) == ("redirect_refused", [])


@pytest.mark.promise("http-4")
def test_a_secret_that_a_server_echoes_is_not_taken_to_another_origin(
    serve: Serve, manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2/secret")
    other = serve()

    def answer(seen: Seen, write: Writer) -> None:
        write(moved(f"{other.url}{seen.target}"))

    server = serve(answer)
    manager = granted(manager_of, {"url": f"{server.url}/?key=${{env:API_KEY}}"}, other.host)

    result = manager.call("ask")

    assert server.seen[0].target == "/?key=hunter2%2Fsecret"
    assert (result.code, other.seen) == ("redirect_refused", [])
    assert "hunter2" not in repr(result)


def test_redirects_in_a_circle_end(serve: Serve, call: Call) -> None:
    server = serve(moved("/again"))

    result = call({"url": server.url})

    assert (result.outcome, result.code) == ("failed", "too_many_redirects")
    assert len(server.seen) == 11


def failing(times: int, answer: bytes) -> "tuple[list[int], object]":
    count = [0]

    def run(_: Seen, write: Writer) -> None:
        count[0] += 1
        if count[0] > times:
            write(reply("fine"))
        elif answer:
            write(answer)
        else:
            raise OSError

    return count, run


BUSY = reply("busy", "503 Busy", Retry_After="0")


@pytest.mark.parametrize("answer", [BUSY, reply("", "429 Slow", Retry_After="0"), b""])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_what_can_be_done_twice_is_tried_again(
    method: str, answer: bytes, serve: Serve, call: Call
) -> None:
    count, run = failing(2, answer)

    result = call({"url": serve(run).url, "method": method})

    assert (result.outcome, count) == ("ok", [3])


@pytest.mark.promise("http-8")
@pytest.mark.parametrize("answer", [BUSY, b""])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_what_cannot_be_done_twice_is_sent_once(
    method: str, answer: bytes, serve: Serve, call: Call
) -> None:
    count, run = failing(1, answer)

    result = call({"url": serve(run).url, "method": method})

    assert (result.outcome, count) == ("failed", [1])


def test_when_all_tries_fail_the_last_answer_counts(serve: Serve, call: Call) -> None:
    server = serve(BUSY)

    result = call({"url": server.url, "retries": 1})

    assert (result.outcome, result.stdout, len(server.seen)) == ("failed", "busy", 2)
    assert "retry-after: 0" in result.content


def test_a_server_that_wants_to_be_left_alone_for_long_is(serve: Serve, call: Call) -> None:
    server = serve(reply("busy", "503 Busy", Retry_After="3600"))

    result = call({"url": server.url})

    assert (result.outcome, len(server.seen)) == ("failed", 1)


def in_seconds(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def test_retry_after_is_kept_to_within_bounds() -> None:
    assert retry_delay(0, "", 30) == 0.2
    assert retry_delay(2, "", 30) == 0.8
    assert retry_delay(0, "7", 30) == 7
    assert retry_delay(0, "16", 30) is None
    assert retry_delay(0, "31", 1_000) is None
    assert retry_delay(0, "9" * 400, 1_000) is None
    assert retry_delay(0, in_seconds(-100), 30) == 0
    assert retry_delay(0, in_seconds(100), 1_000) is None
    assert retry_delay(0, "soon", 30) == 0.2
    assert retry_delay(0, "²", 30) == 0.2
