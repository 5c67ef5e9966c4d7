"""Secrets in a request: sent where they are declared, and seen nowhere else."""

import json
import logging

import pytest

from skillpouch import Policy, ToolExecutor
from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.tools import Http, Tool
from skillpouch.trust.errors import UngrantedError
from tests.net.http.conftest import Call, MakeManager, Serve
from tests.net.http.servers import Seen, Writer, reply

pytestmark = pytest.mark.slow

KEY = "hunter2/secret+key"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", KEY)


@pytest.mark.promise("http-5")
def test_a_secret_in_the_query_is_in_no_part_of_the_result(
    serve: Serve, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def echo(seen: Seen, write: Writer) -> None:
        body = json.dumps({"target": seen.target, "auth": seen.header("authorization")})
        write(reply(body, kind="application/json", ETag=KEY, Location=seen.target))

    server = serve(echo)
    headers = {"Authorization": "Bearer ${env:API_KEY}"}

    result = call({"url": f"{server.url}/x?key=${{env:API_KEY}}", "headers": headers})

    assert server.seen[0].target == "/x?key=hunter2%2Fsecret%2Bkey"
    assert server.seen[0].header("authorization") == [f"Bearer {KEY}"]
    assert "hunter2" not in repr(result)
    assert "hunter2" not in caplog.text
    assert result.http is not None
    assert result.http.url == f"{server.url}/x?key=[redacted API_KEY]"
    assert result.structured["auth"] == ["Bearer [redacted API_KEY]"]


@pytest.mark.promise("http-5")
def test_a_secret_is_not_in_a_file_that_is_saved(serve: Serve, call: Call) -> None:
    server = serve(reply(b"x" * 200_000 + KEY.encode() + b"y" * 200_000))

    result = call({"url": server.url, "headers": {"X-Key": "${env:API_KEY}"}})

    assert b"hunter2" not in result.saved[0].read_bytes()
    assert b"[redacted API_KEY]" in result.saved[0].read_bytes()


@pytest.mark.promise("http-5")
def test_a_secret_that_is_no_header_is_not_in_the_error(
    serve: Serve, manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2\nX-Evil: 1")
    server = serve()
    manager = manager_of({"url": server.url, "headers": {"X-Key": "${env:API_KEY}"}})

    with pytest.raises(SkillpouchError) as caught:
        manager.call("demo.ask")

    assert caught.value.code == "cannot_start"
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
    assert server.seen == []


@pytest.mark.parametrize("value", ["", None])
def test_an_unset_variable_is_an_error_and_no_empty_token(
    value: str | None, serve: Serve, manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "") if value == "" else monkeypatch.delenv("API_KEY")
    server = serve()
    backend = {"url": server.url, "headers": {"Authorization": "Bearer ${env:API_KEY}"}}

    with pytest.raises(SkillpouchError) as caught:
        manager_of(backend).call("demo.ask")

    assert caught.value.code == "secret_unset"
    assert server.seen == []


def test_a_variable_that_was_not_granted_is_not_sent(serve: Serve, manager_of: MakeManager) -> None:
    server = serve()
    backend = {"url": server.url, "headers": {"Authorization": "Bearer ${env:API_KEY}"}}

    with pytest.raises(CallDeniedError) as caught:
        manager_of(backend, policy=Policy()).call("demo.ask")

    assert "--secret API_KEY" in caught.value.hint
    assert server.seen == []


async def test_a_tool_of_no_skill_has_no_host_and_no_secret(serve: Serve) -> None:
    server = serve()
    tool = Tool(
        id="own.ask",
        name="ask",
        skill="own",
        description="Ask.",
        input_schema={"type": "object"},
        runs=Http(url=server.url, method="GET"),
    )
    executor = ToolExecutor([tool], policy=Policy.trusting(), journal=False)

    with pytest.raises(UngrantedError) as caught:
        await executor.execute("own.ask", {})

    assert caught.value.hint == f"run `skillpouch trust own --host {server.host}`"
    assert server.seen == []
