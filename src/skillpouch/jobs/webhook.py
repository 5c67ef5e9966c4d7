"""WebhookSender: sends kept questions to an address of the user's, signed, and reads its answers.

A request is a POST with the question as JSON. `Skillpouch-Signature` is `v1=` and the HMAC-SHA256
of the timestamp, a dot and the body; each try has a timestamp and a delivery id of its own. A reply
may answer at once, with a body that is signed with the delivery id in the place of the timestamp:
so nobody without the secret can answer, and no reply counts for another question, or twice.
"""

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from skillpouch.environment import variable
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.job import KeptQuestion
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.questions import SENDING, answer_question, question_as_dict
from skillpouch.json_values import json_value
from skillpouch.net.hosts import Host, is_elsewhere
from skillpouch.net.http.bodies import value_of
from skillpouch.net.http.exchange import Way, exchange, is_worth_a_retry
from skillpouch.net.http.guard import (
    ExchangeError,
    GrantedHosts,
    InsideAddressError,
    Url,
    read_url,
)
from skillpouch.net.http.request import Content, HttpRequest
from skillpouch.policy.approval import Answer, WebhookSettings
from skillpouch.text import clean

_Value = TypeVar("_Value")
PAUSES = (0.0, 2.0, 10.0, 60.0, 300.0)  # before each try, in seconds
_TRY_SECONDS = 30.0
_AT_ONCE = 4
_MOST_BYTES = 64 * 1024  # of a reply
_MOST_SENT = 256 * 1024
_LONGEST_TEXT = 20_000  # of one text, in a question that is too long
_SHORTEST_SECRET = 16
_LONGEST_REASON = 500
TIMESTAMP, SIGNATURE, DELIVERY = (
    "Skillpouch-Timestamp",
    "Skillpouch-Signature",
    "Skillpouch-Delivery",
)


class Do(Protocol):
    """Does something with the store, on its thread."""

    def __call__(self, change: Callable[[], _Value], /) -> Awaitable[_Value]: ...


class _TryAgainError(Exception):
    """It may succeed later."""


class _FailedError(Exception):
    """It will not succeed, however often it is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _WebhookHost(GrantedHosts):
    """The host of the webhook; the user said whether it may be one of this machine's networks."""

    internal: bool = False

    def check_address(self, host: Host, address: str) -> None:
        if not self.internal and not is_elsewhere(address):
            raise InsideAddressError(host, address)


class _Reply(NamedTuple):
    status: int
    signature: str
    body: bytes


def signature_of(secret: str, first: str, body: bytes) -> str:
    """Return the signature of a body; `first` is a timestamp, or in a reply the delivery id."""
    return "v1=" + hmac.new(secret.encode(), f"{first}.".encode() + body, sha256).hexdigest()


class WebhookSender:
    """Sends questions in the background; what became of each is kept with it."""

    def __init__(
        self,
        settings: WebhookSettings,
        do: Do,
        store: JobStore,
        on_answer: Callable[[], Awaitable[None]],
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self.settings = settings
        self._do = do
        self._store = store
        self._on_answer = on_answer
        self._pauses = pauses
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, kept: KeptQuestion) -> None:
        """Begin to send a question; this never waits, and never fails."""
        task = asyncio.ensure_future(self._sent(kept))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop sending."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sent(self, kept: KeptQuestion) -> None:
        await self._note(kept, SENDING)
        failed = ""
        for number, pause in enumerate(self._pauses, 1):
            await asyncio.sleep(pause)
            if not await self._is_pending(kept):
                await self._note(kept, failed or "not sent: it was answered before")
                return
            try:
                async with self._places, asyncio.timeout(_TRY_SECONDS):
                    told = await self._try(kept)
            except _FailedError as error:
                await self._note(kept, f"failed: {error}")
                return
            except (_TryAgainError, TimeoutError) as error:
                why = str(error) or f"no answer within {_TRY_SECONDS:g} s"
                failed = f"failed {_times(number)}: {why}"
            else:
                await self._note(kept, told)
                return
        await self._note(kept, failed)

    async def _note(self, kept: KeptQuestion, told: str) -> None:
        text = clean(told)[:_LONGEST_REASON]
        await self._do(lambda: self._store.questions.note_webhook(kept.id, text))

    async def _is_pending(self, kept: KeptQuestion) -> bool:
        found = await self._do(lambda: self._store.questions.get(kept.id))
        return found.state == "pending"

    async def _try(self, kept: KeptQuestion) -> str:
        """Send a question once, and return what became of it."""
        secret = variable(self.settings.secret) or ""
        if len(secret) < _SHORTEST_SECRET:
            state = "shorter than 16 characters" if secret else "not set where the job host runs"
            raise _FailedError(f"the secret {self.settings.secret} is {state}")
        delivery = f"d{token_hex(16)}"
        body = _body_of(kept, delivery)
        reply = await self._posted(body, delivery, secret)
        if is_worth_a_retry(reply.status) or reply.status >= 500:  # noqa: PLR2004 - the server's
            raise _TryAgainError(f"it answered {reply.status}")
        if not 200 <= reply.status < 300:  # noqa: PLR2004 - success
            raise _FailedError(f"it answered {reply.status}")
        answer = _answer_in(reply, delivery, secret)
        if answer is None:
            return "delivered"
        by = f"webhook {_url_of(self.settings).authority}"
        try:
            await self._do(lambda: answer_question(self._store, kept.id, answer, by=by))
        except SkillpouchError as error:  # somebody was first, say
            return f"delivered; its answer does not count: {error}"
        await self._on_answer()
        return "delivered, and answered"

    async def _posted(self, body: bytes, delivery: str, secret: str) -> _Reply:
        url, now = _url_of(self.settings), str(int(time.time()))
        way = Way(
            granted=_WebhookHost(hosts=(str(url.host),), internal=self.settings.internal),
            retries=0,
            deadline=asyncio.get_running_loop().time() + _TRY_SECONDS,
            has_secret=lambda text: secret in text,
        )
        request = HttpRequest(
            method="POST",
            url=url,
            own_headers=(
                ("Accept-Encoding", "identity"),
                (TIMESTAMP, now),
                (DELIVERY, delivery),
                (SIGNATURE, signature_of(secret, now, body)),
            ),
            content=Content(content_type="application/json", pieces=(body,)),
            accept="application/json",
        )
        try:
            async with exchange(request, way) as answer:
                read = await _read(answer.response.aiter_stream())
                signature = value_of(SIGNATURE.lower(), answer.headers)
                return _Reply(answer.response.status, signature, read)
        except InsideAddressError as error:
            where = f"{error.host.name} resolves to {error.address}, inside your network"
            raise _FailedError(f"{where}: say `internal = true` if that is meant") from None
        except ExchangeError as error:
            raise _TryAgainError(str(error)) from None


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _url_of(settings: WebhookSettings) -> Url:
    return read_url(settings.url)  # it was checked when the policy was read


async def _read(stream: Any) -> bytes:
    read = b""
    async for piece in stream:
        read += piece
        if len(read) > _MOST_BYTES:
            raise _FailedError(f"its answer has more than {_MOST_BYTES:,} bytes")
    return read


def _body_of(kept: KeptQuestion, delivery: str) -> bytes:
    facts = question_as_dict(kept)
    del facts["webhook"], facts["answered_by"], facts["reason"]
    told = {"type": "question", "delivery": delivery, "question": facts}
    body = json.dumps(told, ensure_ascii=True).encode()
    if len(body) <= _MOST_SENT:
        return body
    arguments = json.dumps(facts["arguments"])
    facts |= {
        "runs": _cut(facts["runs"]),
        "arguments": {"shortened": _cut(arguments)},
        "changes": facts.get("changes", [])[:100],
        "diff": _cut(facts.get("diff", "")),
        "shortened": True,
    }
    return json.dumps(told, ensure_ascii=True).encode()


def _cut(text: str) -> str:
    half = _LONGEST_TEXT // 2
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:half]} … {len(text) - 2 * half:,} characters not shown … {text[-half:]}"


_YES: dict[object, bool] = {"approve": True, "deny": False}


def _answer_in(reply: _Reply, delivery: str, secret: str) -> Answer | None:
    """Return the answer in a reply, None if there is none; raise if it cannot be trusted."""
    if not reply.body.strip():
        return None
    value = json_value(reply.body.decode("utf-8", "replace"))
    if not isinstance(value, dict) or "answer" not in value:
        return None  # "ok", or a page: it only says that the question arrived
    if not hmac.compare_digest(
        reply.signature.encode(), signature_of(secret, delivery, reply.body).encode()
    ):
        raise _FailedError("its answer is not signed with the secret and this delivery's id")
    word, remember = value["answer"], value.get("remember", "once")
    if word not in ("approve", "deny"):
        raise _FailedError(f"its answer is {str(word)!r:.40}: use 'approve' or 'deny'")
    if remember not in ("once", "session", "always"):
        raise _FailedError(f"its remember is {str(remember)!r:.40}: use once, session or always")
    reason = clean(str(value.get("reason", "")))[:_LONGEST_REASON]
    lasting: Literal["once", "session", "always"] = remember
    return Answer(yes=_YES[word], remember=lasting, reason=reason)
