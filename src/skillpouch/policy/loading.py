"""Loads the user's policy.toml and a project's skillpouch.toml, and makes one policy of them."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from skillpouch.environment import POLICY_FILE, PROJECT_FILE, config_directory
from skillpouch.errors import PolicyFileError
from skillpouch.limits import Layer
from skillpouch.needs import PLAIN_KINDS, Need
from skillpouch.net.hosts import host_of_url, leads_inside
from skillpouch.policy.approval import ANSWERERS, ApprovalSettings, WebhookSettings
from skillpouch.policy.change_rules import CHANGE_KEYS
from skillpouch.policy.conditions import (
    Absent,
    Condition,
    Equals,
    Glob,
    Greater,
    Less,
    Present,
    Regex,
)
from skillpouch.policy.limit_rules import JobBounds, LimitRule
from skillpouch.policy.patterns import parse_need
from skillpouch.policy.policy import Policy
from skillpouch.policy.policy_file import (
    PolicyFile,
    parse_file,
    parse_values,
    read_bytes,
    take_way,
)
from skillpouch.policy.project import Project, ServerTable, SkillRequest, read_entries
from skillpouch.policy.rules import Mode, Rule
from skillpouch.policy.toml import FileProblems, Table, shown
from skillpouch.tools import Effect

# Some forty thousand rules.
_MOST_BYTES = 4 * 1024 * 1024
_DAY = 86_400
_MOST_DAYS = 366
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MOST_JOBS = 1_000_000
_ELSEWHERE = {
    "grants": "grants are made by `skillpouch trust NAME`, not by a file",
    "requests": "requests belong in a project's skillpouch.toml",
    "configuration": "configuration belongs in a project's skillpouch.toml",
}


def user_policy_path() -> Path | None:
    """Return the path of the user's policy, None without a home."""
    directory = config_directory()
    return directory / POLICY_FILE if directory else None


def read_user_policy(path: Path | None = None) -> Policy:
    """Read the user's policy; without a file, return the default one.

    Raises:
        PolicyFileError: the file exists and cannot be used; it lists all problems.
    """
    path = path or user_policy_path()
    if path is None or not os.path.lexists(path):
        return Policy()
    refuse_writable_by_others(path)
    return parse_user_policy(read_bytes(str(path), _MOST_BYTES), str(path))


def parse_user_policy(data: bytes, path: str = POLICY_FILE) -> Policy:
    """Read the bytes of a `policy.toml`."""
    return parse_file(data, path, _policy)


def _policy(file: PolicyFile) -> Policy:
    top = file.top
    facts: dict[str, Any] = {
        "mode": top.take_choice("mode", get_args(Mode), "careful"),
        "allowed_tools": top.take_choice("allowed_tools", ("enforce", "advice"), "enforce"),
        "require": take_protections(top),
        "require_journal": top.take_flag("require_journal"),
        "answer_seconds": _seconds(top),
        "writes": take_way(top, lower_only=False),
        "rules": [rule for _, rule in file.rules()],
        "limits": file.limits(lower_only=False),
    }
    _job_bounds(file)
    _approvals(file)
    top.end(_ELSEWHERE)
    return Policy(**facts)


def read_job_bounds() -> JobBounds:
    """Read `[jobs]` of the user's policy; without one, return the usual bounds."""
    path = user_policy_path()
    if path is None or not os.path.lexists(path):
        return JobBounds()
    refuse_writable_by_others(path)
    return parse_file(read_bytes(str(path), _MOST_BYTES), str(path), _job_bounds)


def _job_bounds(file: PolicyFile) -> JobBounds:
    table = file.top.take_table("jobs")
    values = {each.name: _count(table, each.name, most=_MOST_JOBS) for each in fields(JobBounds)}
    table.end()
    return JobBounds(**{name: value for name, value in values.items() if value is not None})


def read_approval_settings() -> ApprovalSettings:
    """Read `[approvals]` of the user's policy; without one, return the usual settings."""
    path = user_policy_path()
    if path is None or not os.path.lexists(path):
        return ApprovalSettings()
    refuse_writable_by_others(path)
    return parse_file(read_bytes(str(path), _MOST_BYTES), str(path), _approvals)


def _approvals(file: PolicyFile) -> ApprovalSettings:
    table = file.top.take_table("approvals")
    days = table.take("keep_days")
    is_number = isinstance(days, int | float) and not isinstance(days, bool)
    if days is not None and not (is_number and 0 < days <= _MOST_DAYS):
        table.wrong("keep_days", f"must be above zero, up to {_MOST_DAYS}, not {shown(days)}")
        days = None
    named = table.take_texts("answered_by")
    for word in named:
        if word not in ANSWERERS:
            there = ", ".join(ANSWERERS)
            table.wrong("answered_by", f"{shown(word)} answers nothing: use some of {there}")
    has_webhook = isinstance(table.peek("webhook"), dict)
    inner = table.take_table("webhook")
    webhook = _webhook(inner) if has_webhook else None
    table.end()
    return ApprovalSettings(
        keep_days=days or ApprovalSettings().keep_days,
        answered_by=tuple(each for each in ANSWERERS if each in named) or ANSWERERS,
        webhook=webhook,
    )


def _webhook(table: Table) -> WebhookSettings:
    url, secret = table.take_text("url"), table.take_text("secret")
    internal = table.take_flag("internal")
    host = host_of_url(url)
    if not host:
        table.wrong("url", f"is {shown(url)}: use an address such as 'https://host/path'")
    elif not internal and not url.lower().startswith("https:"):
        table.wrong("url", "is not https: say `internal = true` if it is a host of your own")
    elif not internal and leads_inside(host):
        table.wrong("url", "is inside your network: say `internal = true` if that is meant")
    if not _VARIABLE.fullmatch(secret):
        table.wrong("secret", f"is {shown(secret)}: name the environment variable that has it")
    table.end()
    return WebhookSettings(url=url, secret=secret, internal=internal)


def take_protections(top: Table) -> frozenset[str]:
    """Read `require`, the protections without which nothing runs."""
    named, known = frozenset(top.take_texts("require")), frozenset(get_args(Layer))
    for layer in sorted(named - known):
        there = ", ".join(get_args(Layer))
        top.wrong("require", f"{shown(layer)} is not a protection: use one of {there}")
    return named & known


def _seconds(top: Table) -> float:
    value = top.take("answer_seconds")
    default = Policy().answer_seconds
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _DAY:
        top.wrong(
            "answer_seconds", f"must be a number above zero, up to {_DAY}, not {shown(value)}"
        )
        return default
    return value


def refuse_writable_by_others(path: Path) -> None:
    """Refuse a policy file that another user may have written."""
    try:
        status = path.stat()
    except OSError:
        return  # reading the file reports the reason
    problems = FileProblems(str(path))
    if status.st_uid not in (0, os.geteuid()):
        problems.add("policy-unreadable", "it belongs to another user: make it yours, or remove it")
    elif status.st_mode & stat.S_IWOTH:
        problems.add("policy-unreadable", "everybody can write it: run chmod o-w on it")
    if problems.found:
        raise PolicyFileError(str(path), problems.found)


# More than a person would write: a limit, because an untrusted file must not take long to read.
_MOST_PROJECT_BYTES = 64 * 1024
_MOST_COUNTED = 4_096
_YOURS = "a project cannot loosen anything: it belongs in your own policy.toml"
_ANSWERS = "a project cannot decide who is asked or answers: it belongs in your own policy.toml"
_GRANTS = "a project cannot grant itself anything: run `skillpouch trust NAME`"
_NOT_FOR_PROJECTS = {
    **dict.fromkeys(("grants", "grant", "trust", "secrets", "hosts", "unconfined"), _GRANTS),
    **dict.fromkeys(("allow", "answer_seconds", "sandbox", "jobs"), _YOURS),
    **dict.fromkeys(("approvals", "webhook", "approver"), _ANSWERS),
}


def read_project(folder: Path) -> Project:
    """Read the `skillpouch.toml` of a folder; without one, return an empty project.

    Raises:
        PolicyFileError: the file exists and cannot be used; it lists all problems.
    """
    path = folder / PROJECT_FILE
    if not os.path.lexists(path):
        return Project()
    return parse_project(read_bytes(str(path), _MOST_PROJECT_BYTES), str(path))


def parse_project(data: bytes, path: str = PROJECT_FILE) -> Project:
    """Read the bytes of a `skillpouch.toml`."""
    return parse_file(data, path, _project)


def _project(file: PolicyFile) -> Project:
    top = file.top
    facts: dict[str, Any] = {
        "strict": _only(top, "mode", "strict"),
        "enforce_allowed_tools": _only(top, "allowed_tools", "enforce"),
        "require": take_protections(top),
        "require_journal": top.take_flag("require_journal"),
        "writes": take_way(top, lower_only=True),
        "rules": tuple(_refusing(file)),
        "limits": tuple(file.limits(lower_only=True)),
        "requests": tuple(_request(table) for table in file.tables("requests")),
        "mcp": read_entries(file),
    }
    facts |= _configuration(top.take_table("configuration"))
    facts["server"] = _server(top.take_table("server"))
    top.end(_NOT_FOR_PROJECTS)
    return Project(**facts)


def _only(top: Table, key: str, wanted: str) -> bool:
    value = top.take(key)
    if value not in (None, wanted):
        top.misplaced(key, f"can only be {wanted!r} here, not {shown(value)}: {_YOURS}")
    return value is not None


def _refusing(file: PolicyFile) -> list[Rule]:
    found = []
    for table, rule in file.rules():
        if rule.allows:
            table.misplaced("verdict", _YOURS)
        else:
            found.append(rule)
    return found


def _request(table: Table) -> SkillRequest:
    skill = table.take_text("skill")
    table.call_it(skill)
    if not skill:
        table.wrong("skill", "is missing: the name of a skill of this project")
    needs = []
    for text in table.take_texts("needs"):
        try:
            pattern = parse_need(text)
        except ValueError as error:
            table.wrong("needs", str(error))
            continue
        value = "" if pattern.kind in PLAIN_KINDS else pattern.value
        needs.append(Need(kind=pattern.kind, value=value, asked_in=PROJECT_FILE))
    if not needs:
        table.wrong("needs", "is missing: a list such as ['host:api.example.com']")
    reason = table.take_text("reason")
    table.end()
    return SkillRequest(skill=skill, needs=tuple(needs), reason=reason)


def _configuration(table: Table) -> dict[str, Any]:
    roots = [_inside(table, "roots", text) for text in table.take_texts("roots")]
    workspace = table.take_text("workspace")
    inside = _inside(table, "workspace", workspace) if workspace else None
    table.end()
    return {"roots": tuple(roots), "workspace": inside}


def _server(table: Table) -> ServerTable:
    for key in ("listen", "http", "token_file", "tls_cert", "tls_key", "tls_client_ca"):
        if table.take(key) is not None:
            table.misplaced(key, "a project cannot decide who may connect to a server")
    found = ServerTable(
        most_running=_count(table, "most_running"),
        most_per_session=_count(table, "most_per_session"),
        drain_seconds=_count(table, "drain_seconds", least=0),
    )
    table.end()
    return found


def _count(table: Table, key: str, least: int = 1, most: int = _MOST_COUNTED) -> int | None:
    value = table.take(key)
    if value is None or (type(value) is int and least <= value <= most):
        return value
    table.wrong(key, f"is {shown(value)}: use a number from {least} to {most}")
    return None


def _inside(table: Table, key: str, text: str) -> Path:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or "\\" in text or "\0" in text:
        table.misplaced(key, f"{shown(text)} leads out of the project: name a folder below it")
    return Path(path)


def load_policy(project: Path | None = None) -> Policy:
    """Read the user's policy and tighten it by the `skillpouch.toml` of a project's folder.

    Raises:
        PolicyFileError: a file exists and cannot be used; no part of an invalid policy is used.
    """
    policy = read_user_policy()
    return policy if project is None else policy.tightened_by(read_project(project))


def policy_document(policy: Policy) -> dict[str, Any] | None:
    """Return a policy as JSON values, from which `policy_of_document` makes one that decides alike.

    None if that cannot be: a rule has a test that is no part of Skillpouch. Examples of rules are
    left out, because they were checked already.
    """
    plain = replace(policy, rules=[_comparable(rule) for rule in policy.rules])
    rules = [_rule_values(rule) for rule in plain.rules]
    limits = [_limit_values(rule) for rule in policy.limits]
    if None in rules:
        return None
    values = {
        "mode": policy.mode,
        "allowed_tools": policy.allowed_tools,
        "require": sorted(policy.require),
        "require_journal": policy.require_journal,
        "writes": policy.writes,
        "rules": rules,
        "limits": limits,
    }
    document = {
        "values": {key: value for key, value in values.items() if value not in (None, [])},
        "answer_seconds": policy.answer_seconds,
        "origins": [rule.origin for rule in policy.rules],
        "lower_only": [rule.lower_only for rule in policy.limits],
    }
    try:
        return document if policy_of_document(document) == plain else None
    except (PolicyFileError, ValueError):
        return None


def policy_of_document(document: Mapping[str, Any]) -> Policy:
    """Return the policy that `policy_document` wrote, read as a policy.toml is."""
    pairs = partial(zip, strict=True)
    read = parse_values(document["values"], POLICY_FILE, _policy)
    origins, lower = document["origins"], document["lower_only"]
    return replace(
        read,
        answer_seconds=document["answer_seconds"],
        rules=[replace(rule, origin=origin) for rule, origin in pairs(read.rules, origins)],
        limits=[
            replace(rule, lower_only=is_) for rule, is_ in zip(read.limits, lower, strict=True)
        ],
    )


def _comparable(rule: Rule) -> Rule:
    """Return a rule as a file gives it: without examples, and with its effects in order."""
    effects = tuple(effect for effect in get_args(Effect) if effect in rule.effects)
    return replace(rule, match=(), no_match=(), effects=effects)


_LISTED = ("tools", "skills", "effects", "needs", "path")


def _rule_values(rule: Rule) -> dict[str, Any] | None:
    when = [_condition_values(condition) for condition in rule.when]
    unless = [_condition_values(condition) for condition in rule.unless]
    if None in when or None in unless:
        return None
    changes = rule.changes
    if changes is not None:
        said = {key: getattr(changes, key) for key in CHANGE_KEYS}
        said["paths"] = list(changes.paths)
        when.append({"changes": {k: v for k, v in said.items() if v not in (None, False, [])}})
    texts = {"verdict": rule.verdict, "name": rule.name, "reason": rule.reason}
    lists = {key: list(getattr(rule, key)) for key in _LISTED} | {"when": when, "unless": unless}
    return {key: value for key, value in {**texts, **lists}.items() if value}


def _condition_values(condition: Condition) -> dict[str, Any] | None:
    said = _test_values(condition.test)
    return None if said is None else {"argument": condition.argument, **said}


# The key of each test in a file, and the field with its value.
_TESTS: dict[type, tuple[str, str]] = {
    Equals: ("equals", "value"),
    Glob: ("glob", "pattern"),
    Regex: ("regex", "pattern"),
    Greater: ("greater", "than"),
    Less: ("less", "than"),
}


def _test_values(test: object) -> dict[str, Any] | None:
    if isinstance(test, Present | Absent):
        return {"present" if isinstance(test, Present) else "absent": True}
    # By its name: a policy without such a rule does not load what reads commands.
    is_command = type(test).__module__ == "skillpouch.policy.command_test"
    key, field = ("command", "pattern") if is_command else _TESTS.get(type(test), ("", ""))
    return {key: getattr(test, field)} if key else None


def _limit_values(rule: LimitRule) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: "unlimited" if value is None else value for name, value in rule.values.items()
    }
    lists = {"tools": list(rule.tools), "skills": list(rule.skills), "writes": rule.writes}
    return {**values, **{key: value for key, value in lists.items() if value}}
