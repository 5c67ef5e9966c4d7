import asyncio
import hmac
import json
import re
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from skillpouch.jobs.job import KeptQuestion, NewJob, new_job_id
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.webhook import WebhookSender, signature_of
from skillpouch.needs import Need
from skillpouch.policy.approval import ANSWERERS, Answer, Answerer, Question, WebhookSettings
from tests.jobs.hooks import SECRET, answering, arrived, receiver


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def asked(store: JobStore, who: tuple[Answerer, ...] = ANSWERERS, **facts: Any) -> KeptQuestion:
    job, process = new_job_id(), store.this_process()
    store.add(NewJob(id=job, tool="demo.say", setup="{}", setup_hash="s", call="{}"))
    store.claim(job, process)
    question = Question(
        tool="demo.say",
        skill="demo",
        runs="python say.py",
        needs=(Need(kind="host", value="example.com"),),
        reasons=("it needs the host example.com",),
        digest="ab" * 32,
        **facts,
    )
    kept = store.questions.ask(job, process, question, seconds=60, after_run=False, who=who)
    assert kept is not None
    return kept


async def sent(store: JobStore, kept: KeptQuestion, url: str, **settings: Any) -> KeptQuestion:
    """Send a question to the end, with short pauses, and return it as it is then."""
    told: list[str] = []

    async def on_answer() -> None:
        told.append("answered")

    facts = {"url": url, "secret": "HOOK_SECRET", "internal": True, **settings}
    sender = WebhookSender(
        WebhookSettings(**facts), asyncio.to_thread, store, on_answer, pauses=(0, 0.01, 0.02)
    )
    sender.send(kept)
    await asyncio.gather(*sender._tasks)
    found = store.questions.get(kept.id)
    assert told == (["answered"] if found.answer else [])
    return found


@pytest.mark.promise("hook-1")
async def test_a_question_arrives_signed_with_all_that_somebody_needs() -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(arrived) as (url, seen):
        found = await sent(store, kept, url)

    (request,) = seen
    stamp, body = request["headers"]["skillpouch-timestamp"], request["body"]
    expected = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, sha256).hexdigest()
    assert request["headers"]["skillpouch-signature"] == f"v1={expected}"
    assert abs(time.time() - int(stamp)) < 120
    message = json.loads(body)
    assert message["delivery"] == request["headers"]["skillpouch-delivery"]
    question = message["question"]
    assert {key: question[key] for key in ("id", "job", "tool", "runs", "digest")} == {
        "id": kept.id,
        "job": kept.job,
        "tool": "demo.say",
        "runs": "python say.py",
        "digest": "ab" * 32,
    }
    assert question["needs"] == [{"kind": "host", "value": "example.com"}]
    assert question["reasons"] == ["it needs the host example.com"]
    assert question["expires_at"] is not None
    assert (found.state, found.webhook) == ("pending", "delivered")
    assert SECRET not in body.decode()


async def test_a_reply_can_approve_and_say_for_how_long() -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(answering({"answer": "approve", "remember": "session"})) as (url, _):
        found = await sent(store, kept, url)

    assert found.answer == Answer(yes=True, remember="session")
    assert found.answered_by.startswith("webhook 127.0.0.1:")
    assert (found.state, found.webhook) == ("approved", "delivered, and answered")


async def test_a_reply_can_deny_with_a_reason() -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(answering({"answer": "deny", "reason": "not on\x1b[2J a Friday"})) as (url, _):
        found = await sent(store, kept, url)

    assert (found.state, found.reason) == ("denied", "not on a Friday")


def unsigned(_: dict[str, str], __: bytes) -> str:
    return ""


def with_another_secret(headers: dict[str, str], data: bytes) -> str:
    return signature_of("another secret of enough length", headers["skillpouch-delivery"], data)


def as_a_request_is_signed(headers: dict[str, str], data: bytes) -> str:
    return signature_of(SECRET, headers["skillpouch-timestamp"], data)


def for_another_delivery(_: dict[str, str], data: bytes) -> str:
    return signature_of(SECRET, "d" + "0" * 32, data)


@pytest.mark.promise("hook-2")
@pytest.mark.parametrize(
    "sign", [unsigned, with_another_secret, as_a_request_is_signed, for_another_delivery]
)
async def test_an_approval_that_is_not_signed_for_this_delivery_counts_for_nothing(
    sign: Callable[[dict[str, str], bytes], str],
) -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(answering({"answer": "approve"}, sign=sign)) as (url, seen):
        found = await sent(store, kept, url)

    assert len(seen) == 1
    assert (found.state, found.answer) == ("pending", None)
    assert found.webhook == (
        "failed: its answer is not signed with the secret and this delivery's id"
    )


@pytest.mark.promise("hook-2")
async def test_a_recorded_reply_does_not_answer_another_question() -> None:
    store = JobStore()
    first, second = asked(store), asked(store)
    recorded: list[tuple[int, dict[str, str], bytes]] = []

    def once_then_replayed(
        headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if not recorded:
            recorded.append(answering({"answer": "approve"})(headers, body))
        return recorded[0]

    with receiver(once_then_replayed) as (url, _):
        states = [(await sent(store, kept, url)).state for kept in (first, second)]

    assert states == ["approved", "pending"]


@pytest.mark.parametrize(
    "answer", [{"answer": "yes"}, {"answer": True}, {"answer": "approve", "remember": "forever"}]
)
async def test_an_answer_in_other_words_is_reported_and_counts_for_nothing(answer: object) -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(answering(answer)) as (url, _):
        found = await sent(store, kept, url)

    assert found.state == "pending"
    assert found.webhook.startswith("failed: its ")


async def test_a_page_that_only_says_ok_means_that_the_question_arrived() -> None:
    store = JobStore()
    kept = asked(store)

    def page(_: dict[str, str], __: bytes) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, b"<html>ok</html>"

    with receiver(page) as (url, _):
        found = await sent(store, kept, url)

    assert (found.state, found.webhook) == ("pending", "delivered")


async def test_a_server_in_trouble_is_tried_again_with_a_new_delivery_each_time() -> None:
    store = JobStore()
    kept = asked(store)
    statuses = iter([503, 500, 204])

    with receiver(lambda *_: (next(statuses), {}, b"")) as (url, seen):
        found = await sent(store, kept, url)

    assert found.webhook == "delivered"
    assert len({each["headers"]["skillpouch-delivery"] for each in seen}) == 3


async def test_after_the_last_try_the_failure_is_kept_with_the_question() -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(lambda *_: (500, {}, b"")) as (url, seen):
        found = await sent(store, kept, url)
    nobody = await sent(store, asked(store), url)

    assert len(seen) == 3
    assert (found.state, found.webhook) == ("pending", "failed 3 times: it answered 500")
    assert nobody.webhook.startswith("failed 3 times: cannot connect to 127.0.0.1")


async def test_what_a_server_refuses_is_not_sent_again() -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(lambda *_: (403, {}, b"")) as (url, seen):
        found = await sent(store, kept, url)

    assert (len(seen), found.webhook) == (1, "failed: it answered 403")


async def test_a_question_that_was_answered_meanwhile_is_not_sent_again() -> None:
    store = JobStore()
    kept = asked(store)

    def answered_elsewhere(_: dict[str, str], __: bytes) -> tuple[int, dict[str, str], bytes]:
        JobStore().questions.answer(kept.id, Answer(yes=False), by="user ada")
        return 500, {}, b""

    with receiver(answered_elsewhere) as (url, seen):
        found = await sent_without_answer(store, kept, url)

    assert len(seen) == 1
    assert (found.state, found.answered_by) == ("denied", "user ada")


async def sent_without_answer(store: JobStore, kept: KeptQuestion, url: str) -> KeptQuestion:
    async def never() -> None:
        raise AssertionError("the webhook did not answer")

    settings = WebhookSettings(url=url, secret="HOOK_SECRET", internal=True)
    sender = WebhookSender(settings, asyncio.to_thread, store, never, pauses=(0, 0.01, 0.02))
    sender.send(kept)
    await asyncio.gather(*sender._tasks)
    return store.questions.get(kept.id)


async def test_a_webhook_that_may_not_answer_only_hears_of_the_question() -> None:
    store = JobStore()
    kept = asked(store, who=("user",))

    with receiver(answering({"answer": "approve"})) as (url, _):
        found = await sent_without_answer(store, kept, url)

    assert found.state == "pending"
    assert found.webhook.startswith("delivered; its answer does not count: ")


@pytest.mark.promise("hook-3")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
async def test_a_host_inside_is_called_only_if_the_user_said_so(name: str) -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(arrived) as (url, seen):
        found = await sent(store, kept, url.replace("127.0.0.1", name), internal=False)

    assert seen == []
    assert found.webhook.endswith("inside your network: say `internal = true` if that is meant")


async def test_the_receiver_of_the_documentation_checks_and_answers() -> None:
    page = Path(__file__).parents[2] / "docs/concepts/approvals.md"
    *_, example = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    shown: dict[str, Any] = {}
    exec(example.replace("reports.build", "demo.say"), shown)
    store, seen = JobStore(), set[str]()
    kept = asked(store)

    def documented(headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        reply: tuple[int, dict[str, str], bytes] = shown["reply_to"](headers, body, SECRET, seen)
        twice = shown["reply_to"](headers, body, SECRET, seen)[0]
        forged = shown["reply_to"](headers, body + b" ", SECRET, seen)[0]
        assert (twice, forged) == (409, 401)
        return reply

    with receiver(documented) as (url, _):
        found = await sent(store, kept, url)

    assert (found.state, found.webhook) == ("approved", "delivered, and answered")


@pytest.mark.parametrize("value", ["", "short"])
async def test_without_a_real_secret_nothing_is_sent(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore()
    kept = asked(store)
    monkeypatch.setenv("HOOK_SECRET", value)

    with receiver(arrived) as (url, seen):
        found = await sent(store, kept, url)

    assert seen == []
    assert found.webhook.startswith("failed: the secret HOOK_SECRET is ")


async def test_a_long_question_is_shortened_and_says_so() -> None:
    store = JobStore()
    kept = asked(store, arguments={"text": "x" * 1_000_000})

    with receiver(arrived) as (url, seen):
        await sent(store, kept, url)

    question = json.loads(seen[0]["body"])["question"]
    assert len(seen[0]["body"]) < 256 * 1024
    assert question["shortened"] is True
    assert "characters not shown" in question["arguments"]["shortened"]


async def test_a_reply_without_end_is_not_read_to_its_end() -> None:
    store = JobStore()
    kept = asked(store)

    with receiver(lambda *_: (200, {}, b" " * 1_000_000)) as (url, _):
        found = await sent(store, kept, url)

    assert found.webhook == "failed: its answer has more than 65,536 bytes"
