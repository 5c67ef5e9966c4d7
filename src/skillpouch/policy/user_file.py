"""The user's own `policy.toml`: everything a policy can say, written by the one it protects."""

import os
import stat
from pathlib import Path
from typing import Any, get_args

from skillpouch.environment import POLICY_FILE as NAME
from skillpouch.environment import config_directory
from skillpouch.errors import PolicyFileError
from skillpouch.execution.confinement import Layer
from skillpouch.policy.concerns import Mode
from skillpouch.policy.policy import Policy
from skillpouch.policy.policy_file import PolicyFile, parse_file, read_bytes
from skillpouch.policy.toml_table import FileProblems, Table, shown

# Some forty thousand rules.
_MOST_BYTES = 4 * 1024 * 1024
_DAY = 86_400
_ELSEWHERE = {
    "grants": "grants are made by `skillpouch trust NAME`, not by a file",
    "requests": "requests belong in a project's skillpouch.toml",
    "configuration": "configuration belongs in a project's skillpouch.toml",
}


def user_policy_path() -> Path | None:
    """Return where the user's policy is looked for, if there is a home at all."""
    directory = config_directory()
    return directory / NAME if directory else None


def read_user_policy(path: Path | None = None) -> Policy:
    """Read the user's policy; without a file, the one out of the box.

    Raises:
        PolicyFileError: it is there and cannot be used, for every reason it names.
    """
    path = path or user_policy_path()
    if path is None or not os.path.lexists(path):
        return Policy()
    refuse_strangers(path)
    return parse_user_policy(read_bytes(str(path), _MOST_BYTES), str(path))


def parse_user_policy(data: bytes, path: str = NAME) -> Policy:
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
        "rules": [rule for _, rule in file.rules()],
        "limits": file.limits(lower_only=False),
    }
    top.end(_ELSEWHERE)
    return Policy(**facts)


def take_protections(top: Table) -> frozenset[str]:
    """Take `require`, the protections that must be there."""
    named, known = frozenset(top.take_texts("require")), frozenset(get_args(Layer))
    for layer in sorted(named - known):
        there = ", ".join(get_args(Layer))
        top.wrong("require", f"{shown(layer)} is no protection: there are {there}")
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


def refuse_strangers(path: Path) -> None:
    """Refuse a file that another user could have written: it would decide for this one."""
    try:
        status = path.stat()
    except OSError:
        return  # reading it says why
    problems = FileProblems(str(path))
    if status.st_uid not in (0, os.geteuid()):
        problems.add("policy-unreadable", "it belongs to another user: make it yours, or remove it")
    elif status.st_mode & stat.S_IWOTH:
        problems.add("policy-unreadable", "everybody can write it: run chmod o-w on it")
    if problems.found:
        raise PolicyFileError(str(path), problems.found)
