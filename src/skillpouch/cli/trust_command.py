"""`skillpouch trust`: shows what a skill asks for and was granted, and grants or revokes it."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillpouch.cli.options import common_options, manager_for
from skillpouch.cli.output import print_json, print_table
from skillpouch.discovery.digest import digest_of
from skillpouch.environment import is_set
from skillpouch.errors import (
    AmbiguousNameError,
    SkillNotFoundError,
    SkillpouchError,
    SkillUnreadableError,
)
from skillpouch.manager import SkillManager
from skillpouch.needs import Need, NeedKind, needs_no_grant, profile_of
from skillpouch.provision.packages.lookup import pinned_packages
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.secrets.sources import SecretValues, environment_secrets
from skillpouch.text import visible
from skillpouch.trust.errors import WHOSE_FILES, ConsentNeededError, describe, trust_command
from skillpouch.trust.grant import Grant, grant_as_json, holds_home, needs_of, real_path
from skillpouch.trust.granted_packages import declared_packages
from skillpouch.trust.grants import Consent, Grants
from skillpouch.trust.review import PathChange, Review, reason_against, review_skill

if TYPE_CHECKING:
    from skillpouch.tools import Tool


_MOST_IN_ONE_FOLDER = 12
_WORDS = {"packages": "package"}


def print_review(review: Review) -> None:
    """Print what a skill asks for, what it has and what changed."""
    click.echo(f"{review.skill.name}  {visible(str(review.skill.home))}\n")
    if not review.asks:
        click.echo("asks for nothing")
    home = str(review.skill.home)
    rows = [
        (
            _WORDS.get(need.kind, need.kind),
            visible(need.value),
            _state(need, review.grant, home),
            where,
        )
        for need in review.asks
        for where in [visible(need.asked_in)]
    ]
    print_table(("asks for", "", "", "where"), rows)
    for kind in dict.fromkeys(need.kind for need in review.asks):
        if (profile := profile_of(kind)) is not None:
            click.echo(f"{kind}: {profile[0]}; the risk: {profile[1]}")
    _print_more(review)
    if review.last is not None:
        click.echo(f"\ngranted {review.last.when} by {review.last.by}: {_given(review.last)}")
    if review.last is not None and review.grant is None:
        click.echo("it changed since then, so none of that is granted now:")
        _print_changes(review.changes)
    for link in review.leads_out:
        click.echo(f"\nlinks to a place outside that no digest covers: {visible(link)}")


def print_differences(review: Review, wanted: Sequence[Need]) -> None:
    """Print what a skill asks for that it did not have, and what it had and no longer asks for."""
    asked = {(need.kind, need.value) for need in review.asks}
    new = [describe(n) for n in review.asks if review.last is None or not review.last.covers(n)]
    gone = [describe(n) for n in wanted if n.kind != "packages" and (n.kind, n.value) not in asked]
    if new:
        click.echo(f"\nnewly asks for: {visible(', '.join(new))}")
    if gone:
        click.echo(f"\nno longer asks for: {visible(', '.join(gone))}")


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
    is_variable = need.kind in ("secret", "setting")
    return facts | {"set": is_set(need.value)} if is_variable else facts


def _state(need: Need, grant: Grant | None, home: str) -> str:
    against = reason_against(need, home)
    granted = grant is not None and grant.covers(need)
    words = [
        "granted" if granted else f"cannot be granted: {against}" if against else "not granted"
    ]
    if need.kind in ("secret", "setting") and not (granted and need.kind == "setting"):
        words.append("set" if is_set(need.value) else "not set")
    if not need.declared:
        words.append("not declared")
    if is_absent(need):
        words.append("does not exist")
    if need.kind in ("read", "write") and holds_home(real_path(need.value)):
        words.append("YOUR WHOLE HOME")
    if need.kind == "unconfined":
        words.append("NO PROTECTION AT ALL")
    if needs_no_grant(need):
        words = ["needs no grant where calls have a network of their own"]
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


def _print_changes(changes: Sequence[PathChange]) -> None:
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


_SETTING = "Give a plain variable, shown and kept; by default as it is set here."
_BUILD = "Let a package without a wheel be built, confined; its own code does that."
_PROGRAM = "Approve a program that is downloaded."
_MACHINE = (
    "Where this machine cannot confine tools, they run unprotected. They can then read, "
    "change and send away everything that you can."
)


_OWN_FOLDER = (
    "Let its calls write in its own folder and keep this there; its files never change. "
    "`.` and folders of the skill keep nothing."
)
_COMMANDS = (
    "Grant all it was granted to commands that an agent writes for it, too. They run "
    f"{WHOSE_FILES}."
)


@click.command("trust")
@click.argument("name", required=False)
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="Grant a variable.")
@click.option("--set", "settings", multiple=True, metavar="NAME[=VALUE]", help=_SETTING)
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Grant a host, or host:port.")
@click.option("--read", "read", multiple=True, metavar="PATH", help="Grant reading a path.")
@click.option("--write", "write", multiple=True, metavar="PATH", help="Grant writing a path.")
@click.option("--package", "packages", multiple=True, metavar="NAME", help="Grant a package.")
@click.option("--build", "builds", multiple=True, metavar="NAME", help=_BUILD)
@click.option("--program", "programs", multiple=True, metavar="URL#sha256=…", help=_PROGRAM)
@click.option("--local-sockets", is_flag=True, help="Grant unix sockets among its own processes.")
@click.option("--memory", metavar="SIZE", help="Grant memory for each process, as in 4GiB.")
@click.option("--time", "time_", metavar="TIME", help="Grant time for each call, as in 2h.")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Grant a device: gpu.")
@click.option("--own-folder", "own", multiple=True, metavar="NAME", help=_OWN_FOLDER)
@click.option("--commands", is_flag=True, help=_COMMANDS)
@click.option(
    "--unconfined", is_flag=True, help="Grant running unconfined; without NAME, on this machine."
)
@click.option("--yes", is_flag=True, help="Grant what is named here, else all it declares.")
@click.option("--renew", is_flag=True, help="Grant again what it had before it changed.")
@click.option("--revoke", is_flag=True, help="Take everything back.")
@click.option("--list", "listing", is_flag=True, help="Show every grant there is.")
@common_options
def command(  # noqa: PLR0913, PLR0917 - one parameter per option
    name: str | None,
    secrets: tuple[str, ...],
    settings: tuple[str, ...],
    hosts: tuple[str, ...],
    read: tuple[str, ...],
    write: tuple[str, ...],
    packages: tuple[str, ...],
    builds: tuple[str, ...],
    programs: tuple[str, ...],
    local_sockets: bool,
    memory: str | None,
    time_: str | None,
    devices: tuple[str, ...],
    own: tuple[str, ...],
    commands: bool,
    unconfined: bool,
    yes: bool,
    renew: bool,
    revoke: bool,
    listing: bool,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show what the skill NAME asks for and what changed since it was granted; grant it.

    On a terminal it asks. Anywhere else nothing is granted without --yes, and it exits with 3. A
    grant ends when any file of the skill changes. Runs nothing, prints no secret.
    """
    named: dict[NeedKind, tuple[str, ...]] = {
        "secret": secrets,
        "setting": settings,
        "host": hosts,
        "read": read,
        "write": write,
        "packages": packages,
        "build": builds,
        "program": programs,
        "devices": devices,
        "own-folder": own,
        "memory": (memory,) if memory else (),
        "time": (time_,) if time_ else (),
        "local-sockets": ("",) * local_sockets,
        "commands": ("",) * commands,
        "unconfined": ("",) * unconfined,
    }
    chosen = _chosen(named)
    grants = Grants()
    if listing:
        _list(grants, as_json=as_json)
    elif name is None:
        if not unconfined or len(chosen) > 1:
            raise click.UsageError("name a skill, or use --list or --unconfined alone")
        _decide_for_machine(grants, yes=yes, revoke=revoke, as_json=as_json)
    elif revoke:
        _revoke(name, manager_for(roots), grants, as_json=as_json)
    else:
        manager = manager_for(roots)
        skill = manager.get_skill(name)
        review = review_skill(
            skill, lambda: manager.get_skill_tools(skill.name), grants, declared_packages
        )
        invocation = _Invocation(grants, roots, yes=yes, as_json=as_json)
        invocation.tools = tuple(manager.get_skill_tools(skill.name))
        if renew:
            _renew(invocation, review, chosen)
        else:
            _decide(invocation, review, chosen)


class _Invocation:
    """How this command was called, and where its answers go."""

    def __init__(
        self, grants: Grants, roots: tuple[Path, ...], *, yes: bool, as_json: bool
    ) -> None:
        self.grants = grants
        self.roots = [str(root) for root in roots]
        self.yes = yes
        self.as_json = as_json
        self.tools: tuple[Tool, ...] = ()

    @property
    def can_ask(self) -> bool:
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()


def _chosen(named: dict[NeedKind, tuple[str, ...]]) -> tuple[Need, ...]:
    for name in named.get("setting", ()):
        if "=" not in name and not is_set(name):
            raise click.UsageError(f"{name} has no value here: write --set {name}=VALUE")
    paths = ("read", "write")
    return tuple(
        Need(kind=kind, value=str(Path(value).expanduser().absolute()) if kind in paths else value)
        for kind, values in named.items()
        for value in values
    )


def _decide(invocation: _Invocation, review: Review, chosen: tuple[Need, ...]) -> None:
    if not invocation.as_json:
        print_review(review)
    wanted = chosen or tuple(
        need
        for need in review.ungranted
        if need.declared and not reason_against(need, str(review.skill.home))
    )
    _say_whose_files(wanted)
    _say_what_opens([need for need in chosen if need.kind == "own-folder"])
    undeclared = () if chosen else tuple(need for need in review.ungranted if not need.declared)
    # With the values of settings: they are shown, and granted as they are now.
    wanted, undeclared = (
        tuple(SecretValues(environment_secrets, None).resolved(each))
        for each in (wanted, undeclared)
    )
    if invocation.yes:
        _grant(invocation, review, wanted, said_yes=True)
        _hint_at(undeclared, review, invocation)
    elif invocation.can_ask and (wanted or undeclared):
        agreed = _ask(wanted, "" if chosen else "what it declares")
        agreed += _ask(undeclared, "what it does not declare")
        _grant(invocation, review, agreed, said_yes=bool(agreed))
    elif invocation.can_ask and review.grant is None:
        _grant(invocation, review, (), said_yes=_confirm("It asks for nothing. Trust it as it is?"))
    else:
        _show_only(invocation, review, wanted, undeclared)


def _renew(invocation: _Invocation, review: Review, more: tuple[Need, ...]) -> None:
    """Grant again what a skill had before it changed, and what else is named."""
    last, name = review.last, review.skill.name
    if last is None:
        raise click.UsageError(f"{name} was never granted anything: leave --renew out")
    if review.grant is not None and not more:
        click.echo(f"{name} did not change since it was granted", err=True)
        return
    wanted = (*needs_of(last), *more)
    if not invocation.as_json:
        print_review(review)
        print_differences(review, wanted)
    _say_whose_files(wanted)
    if not invocation.yes and not invocation.can_ask:
        raise ConsentNeededError(name, wanted, roots=invocation.roots, renew=True)
    listed = ", ".join(describe(need) for need in wanted) or "nothing but to run"
    if invocation.yes or _confirm(f"Grant it again: {listed}?"):
        _grant(invocation, review, wanted, said_yes=True, tools=last.tools)


def is_absent(need: Need) -> bool:
    """Tell whether a need is a path at which there is nothing."""
    return need.kind in ("read", "write") and not Path(need.value).exists()


def _say_what_opens(wanted: Sequence[Need]) -> None:
    for kind in dict.fromkeys(need.kind for need in wanted):
        if (profile := profile_of(kind)) is not None:
            click.echo(f"{kind}: {profile[0]}; the risk: {profile[1]}", err=True)


def _say_whose_files(wanted: Sequence[Need]) -> None:
    if any(need.kind == "commands" for need in wanted):
        click.echo(f"commands run {WHOSE_FILES}", err=True)


def _show_only(
    invocation: _Invocation, review: Review, wanted: tuple[Need, ...], undeclared: tuple[Need, ...]
) -> None:
    if invocation.as_json:
        print_json(review_as_json(review, review.grant))
    _hint_at(undeclared, review, invocation)
    if wanted:
        raise ConsentNeededError(review.skill.name, wanted, roots=invocation.roots)


def _hint_at(undeclared: tuple[Need, ...], review: Review, invocation: _Invocation) -> None:
    if undeclared:
        command = trust_command(review.skill.name, undeclared, roots=invocation.roots)
        click.echo(f"not declared, so only granted by name: `{command}`", err=True)


def _ask(needs: tuple[Need, ...], what: str) -> tuple[Need, ...]:
    if not needs:
        return ()
    listed = ", ".join(describe(need) for need in needs)
    return needs if _confirm(f"Grant {f'{what}: ' if what else ''}{listed}?") else ()


def _confirm(question: str) -> bool:
    return click.confirm(question, default=False, err=True)


def _grant(
    invocation: _Invocation,
    review: Review,
    agreed: tuple[Need, ...],
    *,
    said_yes: bool,
    tools: tuple[str, ...] = (),
) -> None:
    grant = review.grant
    if any(need.kind == "packages" for need in agreed):
        # Before the grant: an install that fails, or that somebody ends, leaves nothing granted.
        had, builds = (grant.packages, grant.builds) if grant else ((), ())
        install = pinned_packages(
            review.skill, invocation.tools, agreed, _say, granted=had, builds=builds
        )
        try:
            agreed = run_blocking(install)
        except SkillpouchError as error:
            error.look_below(invocation.roots)
            raise
    # A skill that asks for nothing is trusted by a grant, too: a strict policy wants one.
    if agreed or (said_yes and grant is None):
        grant = invocation.grants.grant(review.skill, agreed, tools=tools, seen=review.seen)
    if invocation.as_json:
        print_json(review_as_json(review, grant))
    given = ", ".join(describe(need) for need in agreed) or "nothing more"
    click.echo(f"granted to {review.skill.name}: {given}", err=True)
    for need in filter(is_absent, agreed):
        told = "does not exist: calls are given it as soon as it does"
        click.echo(f"{visible(need.value)} {told}", err=True)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _list(grants: Grants, *, as_json: bool) -> None:
    found, consent = grants.list(), grants.consent()
    if as_json:
        records = [record_as_json(grant) for grant in found]
        print_json({"grants": records, "unconfined": consent_as_json(consent)})
    else:
        print_grants(found, consent)


def _revoke(name: str, manager: SkillManager, grants: Grants, *, as_json: bool) -> None:
    skill, home = name, ""
    try:
        found = manager.get_skill(name)
        skill, home = found.name, str(found.home.resolve())
    except SkillNotFoundError:
        # A skill that is gone may still have a record; its folder names it, too.
        records = [each for each in grants.list() if name in (each.skill, each.home)]
        if not records:
            raise
        if len(records) > 1:
            raise AmbiguousNameError(name, [each.home for each in records]) from None
        skill, home = records[0].skill, records[0].home
    was_there = grants.forget(skill, home)
    if as_json:
        print_json({"skill": skill, "revoked": was_there})
    click.echo(f"{skill} has {'no grants any more' if was_there else 'no grants'}", err=True)


def _decide_for_machine(grants: Grants, *, yes: bool, revoke: bool, as_json: bool) -> None:
    if revoke:
        grants.withdraw_consent()
    elif yes:
        grants.give_consent()
    elif sys.stdin.isatty() and sys.stderr.isatty():
        click.echo(_MACHINE, err=True)
        if _confirm("Is that what you want?"):
            grants.give_consent()
    else:
        raise ConsentNeededError("", (Need(kind="unconfined"),))
    consent = grants.consent()
    if as_json:
        print_json({"unconfined": consent_as_json(consent)})
    state = "may" if consent else "may not"
    click.echo(f"tools {state} run unconfined where this machine cannot confine", err=True)
