"""Asks an approver: only an explicit approval allows a call; no answer or a failure denies it."""

import asyncio
import contextlib
import contextvars
import inspect
import json
import logging
import os
import shlex
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, assert_never, get_args

from skillpouch.needs import Need
from skillpouch.results import FileChange
from skillpouch.runtime.timers import clocks_stopped
from skillpouch.tools import (
    Binary,
    BuiltIn,
    External,
    Function,
    Hosted,
    Http,
    InlineScript,
    Script,
    Stub,
    Tool,
)
from skillpouch.trust.errors import WHOSE_FILES

Remember = Literal["once", "session", "always"]
Cause = Literal["answered", "no_approver", "no_answer", "approver_failed"]

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an approver is shown; the values of secrets are redacted.

    `runs` is exactly what will run: a command line, or the name of a function. If it has run, and
    the question is whether its changes may reach the workspace, `changes` are these, and `diff`
    shows them, shortened if there is much.
    """

    tool: str
    skill: str
    runs: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    reasons: tuple[str, ...] = ()
    digest: str = ""
    session: str = ""  # the session that makes the call, if there are sessions
    changes: tuple[FileChange, ...] = ()
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An approval or a denial, how long it is remembered, and why a call is denied."""

    yes: bool
    remember: Remember = "once"
    cause: Cause = "answered"
    reason: str = ""  # for people: why it was refused

    def __post_init__(self) -> None:
        # Only a bool is accepted: the text "no" would count as true.
        if not isinstance(self.yes, bool):
            raise TypeError(f"yes is {self.yes!r}: use True or False")
        if self.remember not in get_args(Remember):
            raise ValueError(f"remember is {self.remember!r}: use 'once', 'session' or 'always'")


Answerer = Literal["user", "caller", "webhook"]
ANSWERERS: tuple[Answerer, ...] = get_args(Answerer)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where questions are sent: an address, and the name of the secret that signs them.

    `internal`: it may lie on this machine or in its networks, and may be plain http.
    """

    url: str
    secret: str
    internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSettings:
    """`[approvals]` of the user's policy: how long a kept question waits, and who may answer it.

    The user answers from the command line, the caller by its own approver, a webhook by its reply.
    """

    keep_days: float = 7.0
    answered_by: tuple[Answerer, ...] = ANSWERERS
    webhook: WebhookSettings | None = None


Reply = bool | Answer
Approver = Callable[[Question], Reply | Awaitable[Reply]]


class _AskedHere(NamedTuple):
    approver: Approver
    seconds: float | None


_asked_here: contextvars.ContextVar[_AskedHere | None] = contextvars.ContextVar(
    "asked_here", default=None
)


@contextlib.contextmanager
def asking(approver: Approver, *, seconds: float | None = None) -> Iterator[None]:
    """Let `approver` answer for calls that are made inside this block, instead of the usual one.

    For a host that asks the client of one request, such as a server. With `seconds` it may take
    that long, whatever the policy says.
    """
    token = _asked_here.set(_AskedHere(approver, seconds))
    try:
        yield
    finally:
        _asked_here.reset(token)


def approver_here() -> Approver | None:
    """Return the approver of this block, None without one."""
    here = _asked_here.get()
    return None if here is None else here.approver


def is_asked_here() -> bool:
    """Tell whether calls that are made here are asked about by an approver of this block."""
    return _asked_here.get() is not None


_WITHDRAWN_SECONDS = 0.5  # for a cancelled approver to withdraw its question


async def ask(approver: Approver | None, question: Question, timeout_seconds: float) -> Answer:
    """Ask, and wait for `timeout_seconds` at most. Errors of the approver are never raised.

    A plain function runs in a thread of its own, so that a prompt does not block the event loop; a
    coroutine function runs on the loop and is cancelled after the timeout.
    """
    here = _asked_here.get()
    if here is not None:
        approver, timeout_seconds = here.approver, here.seconds or timeout_seconds
    if approver is None:
        return _no("no_approver", "there is nobody to ask")
    task = asyncio.ensure_future(_reply(approver, question))
    task.add_done_callback(_look_at)
    try:
        with clocks_stopped():
            await asyncio.wait([task], timeout=timeout_seconds)
        if not task.done():
            task.cancel()
            # Wait for the approver to withdraw its question before the denial is reported.
            await asyncio.wait([task], timeout=_WITHDRAWN_SECONDS)
            return _no("no_answer", f"nobody answered within {timeout_seconds:g} seconds")
    finally:
        task.cancel()
    return _answer(task)


async def _reply(approver: Approver, question: Question) -> object:
    if _is_async(approver):
        reply: object = approver(question)
    else:
        reply = await in_thread(lambda: approver(question))
    return await reply if inspect.isawaitable(reply) else reply


def _is_async(approver: Approver) -> bool:
    call = getattr(approver, "__call__", None)  # noqa: B004 - its method, not whether it has one
    return inspect.iscoroutinefunction(approver) or inspect.iscoroutinefunction(call)


def _answer(task: "asyncio.Future[object]") -> Answer:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is not None:
        _log.warning("the approver failed, so the call is denied", exc_info=error)
        return _no("approver_failed", f"the approver failed: {type(error).__name__}: {error}")
    reply = task.result()
    if isinstance(reply, Answer):
        return reply
    if isinstance(reply, bool):
        return Answer(yes=reply, reason="" if reply else "the approver said no")
    reason = f"the approver returned a {type(reply).__name__}, not a bool or an Answer"
    _log.warning("%s: the call is denied", reason)
    return _no("approver_failed", reason)


def _no(cause: Cause, reason: str) -> Answer:
    return Answer(yes=False, cause=cause, reason=reason)


def _look_at(task: "asyncio.Future[object]") -> None:
    # Without this, asyncio logs the exception of an approver that was too late.
    if not task.cancelled():
        task.exception()


async def in_thread(call: Callable[[], Value]) -> Value:
    """Run a function in a daemon thread: if it never returns, the host can still exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Value] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome: Value | _Raised = context.run(call)
        except BaseException as raised:  # noqa: BLE001 - whatever the approver's function raises
            outcome = _Raised(raised)
        # RuntimeError: the loop was closed meanwhile, so nobody waits for the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, done, outcome)

    threading.Thread(target=run, name="skillpouch-approver", daemon=True).start()
    return await done


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException

    def carried(self) -> Exception:
        """Return an exception that a future accepts: no StopIteration, none that ends the loop."""
        if isinstance(self.error, Exception) and not isinstance(self.error, StopIteration):
            return self.error
        return RuntimeError(repr(self.error))


def _settle(done: "asyncio.Future[Value]", outcome: "Value | _Raised") -> None:
    if done.cancelled():
        return
    if isinstance(outcome, _Raised):
        done.set_exception(outcome.carried())
    else:
        done.set_result(outcome)


def describe_command(tool: Tool) -> str:  # noqa: C901, PLR0911 - one for each kind
    """Return a command line, a request, or the name of a function."""
    match tool.runs:
        case Script(file=file, language=language):
            inside = os.path.relpath(file, tool.home) if tool.home else file
            return f"{language} {shlex.quote(inside)} of {tool.place}"
        case InlineScript(interpreter=interpreter, interpreter_args=words, text=text):
            return f"{shlex.join((interpreter, *words))} with this text:\n{text}"
        case Binary(path=path, url=url, args_template=template):
            where = url if url is None or isinstance(url, str) else " or ".join(url.values())
            return " ".join(filter(None, (path or where, template)))
        case Http(method=method, url=url):
            return f"{method} {url}"
        case External(type=kind, options=options):
            said = json.dumps(options, ensure_ascii=False, sort_keys=True)
            return f"the backend {kind!r} of another package, in this process, with {said}"
        case Stub(skill=skill):
            return f"nothing: it tells the caller to load {skill}"
        case Function(call=call):
            return f"the function {call.__module__}.{getattr(call, '__qualname__', call)}"
        case Hosted(what=what):
            return what
        case BuiltIn(name=name):
            also = f"; it runs {WHOSE_FILES}" if tool.home else ""  # for commands of a skill
            return f"Skillpouch's own {name}, in the workspace{also}"
        case _:
            assert_never(tool.runs)
