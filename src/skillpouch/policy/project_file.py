"""A project's `skillpouch.toml`: it is untrusted, so it can only tighten, ask and arrange."""

import os
from pathlib import Path, PurePosixPath
from typing import Any

from skillpouch.environment import PROJECT_FILE as NAME
from skillpouch.needs import Need
from skillpouch.policy.mcp_entries import read_entries
from skillpouch.policy.need_patterns import parse_need
from skillpouch.policy.policy_file import PolicyFile, parse_file, read_bytes
from skillpouch.policy.project import Project, ServerTable, SkillRequest
from skillpouch.policy.rules import Rule
from skillpouch.policy.toml_table import Table, shown
from skillpouch.policy.user_file import take_protections

# What a person would write: a stranger's file must not keep anybody waiting.
_MOST_BYTES = 64 * 1024
_MOST_COUNTED = 4_096
_YOURS = "a project cannot loosen anything: it belongs in your own policy.toml"
_GRANTS = "a project cannot grant itself anything: run `skillpouch trust NAME`"
_ELSEWHERE = {
    **dict.fromkeys(("grants", "grant", "trust", "secrets", "hosts", "unconfined"), _GRANTS),
    **dict.fromkeys(("allow", "answer_seconds", "sandbox"), _YOURS),
}


def read_project(folder: Path) -> Project:
    """Read the `skillpouch.toml` of a folder; without one, a project that says nothing.

    Raises:
        PolicyFileError: it is there and cannot be used, for every reason it names.
    """
    path = folder / NAME
    if not os.path.lexists(path):
        return Project()
    return parse_project(read_bytes(str(path), _MOST_BYTES), str(path))


def parse_project(data: bytes, path: str = NAME) -> Project:
    """Read the bytes of a `skillpouch.toml`."""
    return parse_file(data, path, _project)


def _project(file: PolicyFile) -> Project:
    top = file.top
    facts: dict[str, Any] = {
        "strict": _only(top, "mode", "strict"),
        "enforce_allowed_tools": _only(top, "allowed_tools", "enforce"),
        "require": take_protections(top),
        "require_journal": top.take_flag("require_journal"),
        "rules": tuple(_refusing(file)),
        "limits": tuple(file.limits(lower_only=True)),
        "requests": tuple(_request(table) for table in file.tables("requests")),
        "mcp": read_entries(file),
    }
    facts |= _configuration(top.take_table("configuration"))
    facts["server"] = _server(top.take_table("server"))
    top.end(_ELSEWHERE)
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
        value = "" if pattern.kind == "unconfined" else pattern.value
        needs.append(Need(kind=pattern.kind, value=value, asked_in=NAME))
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
            table.misplaced(key, "whoever starts a server says whom it lets in, not a project")
    found = ServerTable(
        most_running=_count(table, "most_running"),
        most_per_session=_count(table, "most_per_session"),
        drain_seconds=_count(table, "drain_seconds", least=0),
    )
    table.end()
    return found


def _count(table: Table, key: str, least: int = 1) -> int | None:
    value = table.take(key)
    if value is None or (type(value) is int and least <= value <= _MOST_COUNTED):
        return value
    table.wrong(key, f"is {shown(value)}: say a number from {least} to {_MOST_COUNTED}")
    return None


def _inside(table: Table, key: str, text: str) -> Path:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or "\\" in text or "\0" in text:
        table.misplaced(key, f"{shown(text)} leads out of the project: name a folder below it")
    return Path(path)
