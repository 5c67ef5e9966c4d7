"""`skillpouch approvals`, `approve`, `deny`: the questions that wait, and answers to them."""

import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from skillpouch.cli.options import EXIT_NOT_STARTED, common_options
from skillpouch.cli.output import print_json, print_table
from skillpouch.jobs.job import JobHostError, KeptQuestion
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.questions import (
    answer_and_go_on,
    open_questions,
    question_as_dict,
    this_user,
)
from skillpouch.policy.approval import Answer, Remember
from skillpouch.policy.terminal import described
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.text import clean, visible

_REMEMBER = "For this call, for its session, or always, while the skill does not change."
_LONGEST_ASKS = 70
_SHORT = 13  # of an id, on a terminal


@click.group("approvals", invoke_without_command=True)
@click.option("--all", "show_all", is_flag=True, help="Also what was answered, or expired.")
@common_options
@click.pass_context
def approvals_command(
    context: click.Context,
    /,
    show_all: bool,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command has them
    as_json: bool,
) -> None:
    """List the questions that wait for an answer, the oldest first.

    `skillpouch approvals show ID` shows all that somebody needs to decide; `skillpouch approve ID`
    and `skillpouch deny ID` answer. The first answer counts.
    """
    if context.invoked_subcommand is not None:
        return
    store = JobStore()
    waiting = open_questions(store)  # first: it also notes what is too late
    found = store.questions.all() if show_all else waiting
    if as_json:
        print_json({"approvals": [question_as_dict(kept) for kept in found]})
    elif found:
        headings = ("id", "asked", "tool", "asks", "state", "until", "webhook")
        print_table(headings, [_row(kept) for kept in found])
    else:
        click.echo("no question waits for an answer", err=True)


@approvals_command.command("show")
@click.argument("question", metavar="ID")
@common_options
def show(question: str, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """Show all of a question: what would run, why it is asked, what it needs.

    ID is that of the question or of its job, or its first characters. Hidden characters are
    written out.
    """
    kept = _found(JobStore(), question)
    if as_json:
        print_json(question_as_dict(kept))
        return
    facts = {
        "question": kept.id,
        "job": kept.job,
        "session": kept.question.session,
        "asked": _local(kept.asked_at),
        "until": _local(kept.until),
        "state": kept.state,
        "answer": _answer_text(kept),
        "who": ", ".join(kept.who),
        "webhook": kept.webhook,
        "digest": kept.question.digest,  # whoever approves approves exactly this content
    }
    for name, value in facts.items():
        if value:
            click.echo(f"  {name:<9}  {visible(value)}")
    click.echo(described(replace(kept.question, digest="")))
    if kept.after_run:
        click.echo(_AFTER_RUN, err=True)
    if kept.state == "pending":
        steps = f"`skillpouch approve {kept.id}` or `skillpouch deny {kept.id}`"
        click.echo(steps, err=True)


_AFTER_RUN = (
    "part of this call has run: if its job host ends before there is an answer, the job is lost;"
    " its changes stay kept (`skillpouch changes`)"
)


@click.command("approve")
@click.argument("question", metavar="ID")
@click.option(
    "--remember",
    type=click.Choice(["once", "session", "always"]),
    default="once",
    help=_REMEMBER,
)
@click.option("--always", is_flag=True, help="The same as `--remember always`.")
@common_options
def approve_command(
    question: str,
    remember: Remember,
    always: bool,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command has them
    as_json: bool,
) -> None:
    """Approve the question ID, and let its job go on; the first answer counts.

    What is approved is exactly what was shown: if the skill has changed since, the answer counts
    for nothing, and there is a new question.
    """
    lasting: Remember = "always" if always else remember
    _answer(question, Answer(yes=True, remember=lasting), as_json)


@click.command("deny")
@click.argument("question", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Why: whoever called is told.")
@common_options
def deny_command(
    question: str,
    reason: str,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command has them
    as_json: bool,
) -> None:
    """Deny the question ID: its job fails, and nothing of it runs or arrives."""
    _answer(question, Answer(yes=False, reason=clean(reason)), as_json)


def _answer(text: str, answer: Answer, as_json: bool) -> None:
    store = JobStore()
    kept = _found(store, text)
    try:
        kept = run_blocking(answer_and_go_on(store, kept.id, answer, by=this_user()))
    except JobHostError as error:
        click.echo(f"error: {error}", err=True)
        click.echo("hint: the answer is kept, and counts when a job host runs", err=True)
        raise click.exceptions.Exit(EXIT_NOT_STARTED) from None
    if as_json:
        print_json(question_as_dict(kept))
    else:
        told = f"{kept.state}: {clean(kept.question.tool)}, job {kept.job}"
        click.echo(told)
        click.echo(f"`skillpouch jobs wait {kept.job}` shows its result", err=True)


def _found(store: JobStore, text: str) -> KeptQuestion:
    """Return a question by its id or that of its job, or by the first characters of either."""
    if text.startswith("j"):
        pending = store.questions.last_of(store.find(text))
        if pending is not None:
            return pending
    return store.questions.get(store.questions.find(text))


def _row(kept: KeptQuestion) -> tuple[str, ...]:
    return (
        short_id(kept.id),
        _local(kept.asked_at),
        clean(kept.question.tool),
        _asks(kept),
        kept.state,
        _local(kept.until),
        clean(kept.webhook),
    )


def short_id(whole: str) -> str:
    """Return an id for a table: on a terminal, as many characters as tell it apart."""
    return whole[:_SHORT] if sys.stdout.isatty() else whole


def _asks(kept: KeptQuestion) -> str:
    asked = kept.question
    if asked.changes:
        told = f"let {len(asked.changes):,} changes arrive: {'; '.join(asked.reasons)}"
    else:
        told = "; ".join(asked.reasons)
    told = visible(told)
    return told if len(told) <= _LONGEST_ASKS else f"{told[: _LONGEST_ASKS - 1]}…"


def _answer_text(kept: KeptQuestion) -> str:
    if not kept.answered_by:
        return ""
    lasting = f", {kept.answer.remember}" if kept.answer and kept.answer.yes else ""
    why = f": {kept.reason}" if kept.reason else ""
    return f"{kept.state} by {kept.answered_by}{lasting}{why}"


def _local(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
