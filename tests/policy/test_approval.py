"""Asking somebody: every way in which it is not a yes is a no that says why."""

import asyncio
import functools
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from skillpouch.errors import CallDeniedError
from skillpouch.policy import Answer, Approver, Question, ask

QUESTION = Question(tool="web.fetch", skill="web", runs="python3 scripts/fetch.py")
LONG = 100.0


async def later(question: Question) -> bool:
    await asyncio.sleep(0)
    return question == QUESTION


class Desk:
    """An approver that is an object."""

    async def __call__(self, question: Question) -> Answer:
        return Answer(yes=await later(question), remember="always")


@pytest.mark.parametrize(
    ("approver", "answer"),
    [
        (lambda _: True, Answer(yes=True)),
        (lambda _: False, Answer(yes=False, reason="the approver said no")),
        (lambda _: Answer(yes=True, remember="session"), Answer(yes=True, remember="session")),
        (later, Answer(yes=True)),
        (lambda question: Desk()(replace(question)), Answer(yes=True, remember="always")),
        (functools.partial(later), Answer(yes=True)),
        (Desk(), Answer(yes=True, remember="always")),
    ],
)
async def test_functions_coroutines_and_objects_answer(approver: Approver, answer: Answer) -> None:
    assert await ask(approver, QUESTION, LONG) == answer


@pytest.mark.promise("pol-9")
async def test_nobody_to_ask_is_a_no() -> None:
    assert await ask(None, QUESTION, LONG) == Answer(
        yes=False, cause="no_approver", reason="there is nobody to ask"
    )


@pytest.mark.promise("pol-9")
async def test_no_answer_in_time_is_a_no_and_the_approver_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def never(_: Question) -> bool:
        try:
            return await asyncio.Event().wait()
        finally:
            cancelled.set()

    answer = await ask(never, QUESTION, 0.01)

    assert answer == Answer(
        yes=False, cause="no_answer", reason="nobody answered within 0.01 seconds"
    )
    await asyncio.wait_for(cancelled.wait(), LONG)


@pytest.mark.promise("pol-9")
async def test_a_yes_that_comes_too_late_changes_nothing() -> None:
    released, ended = threading.Event(), threading.Event()

    def slow(_: Question) -> bool:
        released.wait(LONG)
        ended.set()
        return True

    answer = await ask(slow, QUESTION, 0.01)
    released.set()
    await asyncio.to_thread(ended.wait, LONG)

    assert (answer.yes, answer.cause) == (False, "no_answer")


def test_a_yes_after_the_loop_has_closed_disturbs_nobody() -> None:
    released = threading.Event()
    threads: list[threading.Thread] = []

    def slow(_: Question) -> bool:
        threads.append(threading.current_thread())
        return released.wait(LONG)

    answer = asyncio.run(ask(slow, QUESTION, 0.01))
    released.set()
    threads[0].join(LONG)

    assert not answer.yes
    assert not threads[0].is_alive()


async def test_an_approver_that_fails_too_late_disturbs_nobody() -> None:
    cancelled = asyncio.Event()

    async def stubborn(_: Question) -> bool:
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise RuntimeError("too late") from None

    answer = await ask(stubborn, QUESTION, 0.01)
    await cancelled.wait()

    assert answer.cause == "no_answer"


def raising(error: BaseException) -> Callable[[Question], bool]:
    def fail(_: Question) -> bool:
        raise error

    return fail


async def failing(_: Question) -> bool:
    raise TimeoutError("its own")


async def giving_up(_: Question) -> bool:
    raise asyncio.CancelledError


@pytest.mark.promise("pol-9")
@pytest.mark.parametrize(
    ("approver", "reason"),
    [
        (raising(KeyError("x")), "the approver failed: KeyError: 'x'"),
        (raising(StopIteration()), "the approver failed: RuntimeError: StopIteration()"),
        (raising(SystemExit(0)), "the approver failed: RuntimeError: SystemExit(0)"),
        (failing, "the approver failed: TimeoutError: its own"),
        (giving_up, "the approver failed: CancelledError: "),
        (lambda _: "yes", "the approver returned a str, not a bool or an Answer"),
        (lambda _: None, "the approver returned a NoneType, not a bool or an Answer"),
        (lambda _: 1, "the approver returned a int, not a bool or an Answer"),
        (
            lambda _: Answer(yes=cast("bool", "no")),
            "the approver failed: TypeError: yes is 'no': use True or",
        ),
    ],
)
async def test_an_approver_that_fails_is_a_no_and_is_logged(
    approver: Approver, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="skillpouch.policy"):
        answer = await ask(approver, QUESTION, LONG)

    assert (answer.yes, answer.cause) == (False, "approver_failed")
    assert answer.reason.startswith(reason)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_slow_function_does_not_stop_the_loop() -> None:
    loop, released = asyncio.get_running_loop(), threading.Event()
    loop.call_soon(released.set)

    answer = await ask(lambda _: released.wait(LONG), QUESTION, LONG)

    assert answer.yes


async def test_cancelling_the_call_cancels_the_question() -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(_: Question) -> bool:
        asked.set()
        try:
            return await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(ask(wait, QUESTION, LONG))
    await asked.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), LONG)


def test_an_answer_is_remembered_in_one_of_three_ways() -> None:
    with pytest.raises(ValueError, match="remember is 'forever'"):
        Answer(yes=True, remember="forever")  # type: ignore[arg-type] # that is the test


def test_a_denial_keeps_its_facts() -> None:
    error = CallDeniedError(tool="web.fetch", reasons=["a", "b"], hints=["do x", "do y"])

    assert (error.code, error.tool, error.reasons) == ("denied", "web.fetch", ("a", "b"))
    assert str(error) == "web.fetch may not run: a; b"
    assert error.hint == "do x or do y"


def test_what_would_allow_a_call_can_be_pasted_by_itself() -> None:
    ways = ["skillpouch trust web --package 'a>=1'", "Policy.trusting()", "change the rule 'x'"]

    hint = CallDeniedError(tool="web.fetch", hints=ways).hint

    assert hint == (
        "`skillpouch trust web --package 'a>=1'` or `Policy.trusting()` or change the rule 'x'"
    )


def test_a_denial_without_reasons_says_so() -> None:
    assert str(CallDeniedError(tool="t.x")) == "t.x may not run: no policy allows it"
