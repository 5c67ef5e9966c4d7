"""What asks, grants and changes look like, to a person and to a program."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from skillpouch.cli.as_text import print_table
from skillpouch.discovery.digest import digest_of
from skillpouch.environment import is_set
from skillpouch.errors import SkillUnreadableError
from skillpouch.needs import Need
from skillpouch.trust.changes import Change
from skillpouch.trust.consent import Consent
from skillpouch.trust.errors import describe
from skillpouch.trust.grant import Grant, grant_as_json, needs_of
from skillpouch.trust.paths import holds_home, real_path
from skillpouch.trust.review import Review, reason_against
from skillpouch.trust.visible import visible

_MOST_IN_ONE_FOLDER = 12
_WORDS = {"packages": "package"}


def print_review(review: Review) -> None:
    """Print what a skill asks for, what it has and what changed."""
    click.echo(f"{review.skill.name}  {visible(str(review.skill.home))}\n")
    if not review.asks:
        click.echo("asks for nothing")
    rows = [
        (_WORDS.get(need.kind, need.kind), visible(need.value), _state(need, review.grant), where)
        for need in review.asks
        for where in [visible(need.asked_in)]
    ]
    print_table(("asks for", "", "", "where"), rows)
    _print_more(review)
    if review.last is not None:
        click.echo(f"\ngranted {review.last.when} by {review.last.by}: {_given(review.last)}")
    if review.last is not None and review.grant is None:
        click.echo("it changed since then, so nothing of that counts:")
        _print_changes(review.changes)
    for link in review.leads_out:
        click.echo(f"\nleads outside, to what no digest covers: {visible(link)}")


def print_differences(review: Review, wanted: Sequence[Need]) -> None:
    """Print what a skill asks for that it did not have, and what it had and no longer asks for."""
    asked = {(need.kind, need.value) for need in review.asks}
    new = [describe(n) for n in review.asks if review.last is None or not review.last.covers(n)]
    gone = [describe(n) for n in wanted if n.kind != "packages" and (n.kind, n.value) not in asked]
    if new:
        click.echo(f"\nasks for what it did not have: {visible(', '.join(new))}")
    if gone:
        click.echo(f"\nhad what it does not ask for now: {visible(', '.join(gone))}")


def print_grants(grants: Sequence[Grant], consent: Consent | None) -> None:
    """Print one line per grant."""
    rows = [(g.skill, visible(g.home), state_of(g), _given(g), g.when, g.by) for g in grants]
    print_table(("skill", "folder", "state", "granted", "when", "by"), rows)
    if consent is not None:
        click.echo(f"unconfined on this machine: yes, since {consent.when}, by {consent.by}")


def review_as_json(review: Review, grant: Grant | None) -> dict[str, Any]:
    """Return a review for programs, beside what the skill has now."""
    return {
        "skill": review.skill.name,
        "path": str(review.skill.home),
        "digest": review.seen.digest,
        "asks": [_ask_as_json(need, grant) for need in review.asks],
        "granted": None if grant is None else grant_as_json(grant),
        "changed": [change._asdict() for change in review.changes],
        "leads_out": list(review.leads_out),
        "packages": [asdict(proposal) for proposal in review.proposals],
    }


def record_as_json(grant: Grant) -> dict[str, Any]:
    """Return a grant for programs, and whether it still counts."""
    return grant_as_json(grant) | {"state": state_of(grant)}


def consent_as_json(consent: Consent | None) -> dict[str, str] | None:
    """Return the consent to run unconfined for programs."""
    return None if consent is None else asdict(consent)


def state_of(grant: Grant) -> str:
    """Return whether a skill is still what was granted: `valid`, `changed` or `gone`."""
    if not Path(grant.home).is_dir():
        return "gone"
    try:
        return "valid" if digest_of(grant.home) == grant.digest else "changed"
    except SkillUnreadableError:
        return "changed"


def _ask_as_json(need: Need, grant: Grant | None) -> dict[str, Any]:
    facts = asdict(need) | {"granted": grant is not None and grant.covers(need)}
    return facts | {"set": is_set(need.value)} if need.kind == "secret" else facts


def _state(need: Need, grant: Grant | None) -> str:
    against = reason_against(need)
    granted = grant is not None and grant.covers(need)
    words = [
        "granted" if granted else f"cannot be granted: {against}" if against else "not granted"
    ]
    if need.kind == "secret":
        words.append("set" if is_set(need.value) else "not set")
    if not need.declared:
        words.append("not declared")
    if need.kind in ("read", "write") and holds_home(real_path(need.value)):
        words.append("YOUR WHOLE HOME")
    if need.kind == "unconfined":
        words.append("NO PROTECTION AT ALL")
    return ", ".join(words)


def _given(grant: Grant) -> str:
    given = [describe(need) for need in needs_of(grant)]
    return visible(", ".join([*given, *(f"tool {tool}" for tool in grant.tools)])) or "nothing"


def _print_more(review: Review) -> None:
    guesses = [each.package for each in review.proposals if each.confidence == "guess"]
    if guesses:
        click.echo(f"\nonly guessed from an import, look before you grant: {', '.join(guesses)}")
    optional = [each.package for each in review.proposals if each.optional]
    if optional:
        click.echo(f"\nused when it is there: {', '.join(optional)}")


def _print_changes(changes: Sequence[Change]) -> None:
    if not changes:
        click.echo("  (more files than are kept to be compared)")
    counts = Counter(change.path.partition("/")[0] for change in changes)
    told = set()
    for change in changes:
        folder = change.path.partition("/")[0]
        if counts[folder] <= _MOST_IN_ONE_FOLDER:
            click.echo(
                f"  {change.what:<8} {visible(change.path)}  {visible(change.detail)}".rstrip()
            )
        elif folder not in told:
            told.add(folder)
            click.echo(f"  {counts[folder]:,} changes in {visible(folder)}/")
