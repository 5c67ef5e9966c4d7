"""What travels to the job host: the call, and the setup from which its executor is made again."""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from skillpouch.calls import ToolCall, interceptors
from skillpouch.controls import Controls
from skillpouch.discovery.text_skills.folders import is_text_home
from skillpouch.journal.journal import Journal
from skillpouch.limits import Limits, UsualMemory, UsualSeconds
from skillpouch.policy.approval import Approver
from skillpouch.policy.limit_rules import Deadline, OwnersTimeout, OwnersWrites
from skillpouch.policy.loading import policy_of_document
from skillpouch.registry.registry import ToolSource
from skillpouch.secrets.sources import Secrets, environment_secrets
from skillpouch.tools import BuiltIn, Function, Hosted, Tool
from skillpouch.trust.grants import Grants

_SETUP = 1  # the number of this format
_write = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode


class StaysHereError(Exception):
    """Why a call cannot be made by another process: the reason, for the log and for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall:
    """One call, as `ToolExecutor.execute` takes it, and what has to be the same in the host."""

    tool: str
    arguments: Any = None
    stdin: bytes | None = None
    timeout: float | None = None
    writes: str | None = None
    place: str = ""  # the folder of the skill
    digest: str = ""  # of its files, when the job was started
    names: tuple[str, ...] = ()  # secrets and settings that the caller looked up
    caller: str = ""  # which executor of which process made it

    def to_json(self) -> str:
        """Write the call. What the owner of the machine may do at a terminal is kept."""
        facts = {each.name: getattr(self, each.name) for each in fields(JobCall)}
        facts["stdin"] = None if self.stdin is None else b64encode(self.stdin).decode()
        facts["names"] = list(self.names)
        timeout = self.timeout
        if isinstance(timeout, Deadline):  # nobody waits for a job as long as for a call
            facts["timeout"] = timeout.asked
        facts["owners"] = [
            isinstance(timeout, OwnersTimeout),
            isinstance(self.writes, OwnersWrites),
        ]
        try:
            return _write(facts)
        except (TypeError, ValueError, RecursionError) as error:
            raise StaysHereError(f"its arguments are no JSON: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> "JobCall":
        """Read what `to_json` wrote."""
        facts: dict[str, Any] = json.loads(text)
        of_timeout, of_writes = facts.pop("owners")
        if facts["stdin"] is not None:
            facts["stdin"] = b64decode(facts["stdin"])
        if of_timeout:
            facts["timeout"] = OwnersTimeout(facts["timeout"])
        if of_writes:
            facts["writes"] = OwnersWrites(facts["writes"])
        facts["names"] = tuple(facts["names"])
        return cls(**facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetup:
    """From what an executor is made again: where its skills are, and its controls.

    `roots` are folders with skills, or `files` is one skill that was given as text.
    """

    controls: Mapping[str, Any]
    roots: tuple[str, ...] = ()
    skill: str = ""
    files: Mapping[str, str] | None = None

    def to_json(self) -> str:
        return _write({"format": _SETUP, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "JobSetup":
        facts: dict[str, Any] = json.loads(text)
        if facts.pop("format") != _SETUP:
            raise ValueError("another version of Skillpouch wrote it")
        facts["roots"] = tuple(facts["roots"])
        return cls(**facts)


def hash_of(setup: str) -> str:
    """Return the name of a setup: equal ones are kept once."""
    return sha256(setup.encode()).hexdigest()


def where_it_is(tool: Tool, source: ToolSource) -> dict[str, Any]:
    """Return how another process finds a tool: by the roots of its skills, or by a text.

    Raises StaysHereError for what exists in this process only.
    """
    reason = why_here(tool, source)
    if reason:
        raise StaysHereError(reason)
    if is_text_home(tool.home):
        return {"skill": tool.skill, "files": _files_below(tool.home)}
    return {"roots": _roots_of(source)}


def why_here(tool: Tool, source: ToolSource) -> str:
    """Return why no other process can run a tool, "" if one can."""
    if interceptors:
        return "a test intercepts the calls of this process"
    if isinstance(tool.runs, Function | Hosted):
        return "it is code of this process"
    if isinstance(tool.runs, BuiltIn):
        return "it has the state of a conversation in this process"
    is_found = bool(tool.home) and (is_text_home(tool.home) or bool(_roots_of(source)))
    return "" if is_found else "its skill was not found below a root"


def _roots_of(source: object) -> tuple[str, ...]:
    while (below := getattr(source, "shared", None)) is not None:
        source = below
    return tuple(getattr(source, "roots", ()))


def _files_below(home: str) -> dict[str, str]:
    """Return the files of a skill that was given as text; the caller holds its folder."""
    found = {}
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, home)] = Path(path).read_text(encoding="utf-8")
    return found


def controls_document(
    controls: Controls, policy: Mapping[str, Any] | None, call: ToolCall
) -> dict[str, Any]:
    """Return controls as JSON values; `policy` is the document of the policy that is in force.

    Raises StaysHereError for what cannot be named to another process.
    """
    if policy is None:
        raise StaysHereError("a rule of its policy has a test of its own")
    project = controls.project
    journal, grants = controls.journal, controls.grants
    return {
        "policy": policy,
        "limits": None if controls.limits is None else _limits_document(controls.limits),
        "sandbox": controls.sandbox,
        "writes": controls.writes,
        "require": sorted(controls.require),
        "workspace": str(call.terms.workspace),
        "read_only": sorted(str(path) for path in (*call.terms.read_only, *call.terms.reserved)),
        "journal": _directory(journal) if isinstance(journal, Journal) else bool(journal),
        "grants": None if grants is None else _directory(grants),
        "session": controls.session,
        "project": str(project() if callable(project) else project) if project else None,
        "roots": list(controls.roots),
        "environment": controls.secrets in (None, environment_secrets),
    }


def _directory(thing: Journal | Grants) -> str:
    if thing.directory is None or type(thing) not in (Journal, Grants):
        raise StaysHereError(f"its {type(thing).__name__.lower()} is an object of this process")
    return str(thing.directory)


def _limits_document(limits: Limits) -> dict[str, Any]:
    # What nobody set, a grant may raise: the host gives it the same default.
    usual = (UsualMemory, UsualSeconds)
    return {name: value for name, value in asdict(limits).items() if not isinstance(value, usual)}


def controls_of(
    document: Mapping[str, Any], *, approver: Approver, secrets: Secrets, answer_seconds: float
) -> Controls:
    """Return the controls that `controls_document` wrote, for the job host."""
    policy = policy_of_document(document["policy"])
    limits, journal, grants = (document[name] for name in ("limits", "journal", "grants"))
    return Controls(
        policy=replace(policy, answer_seconds=answer_seconds),
        approver=approver,
        grants=None if grants is None else Grants(Path(grants)),
        secrets=secrets,
        journal=Journal(Path(journal)) if isinstance(journal, str) else journal,
        limits=None if limits is None else Limits(**limits),
        sandbox=document["sandbox"],
        writes=document["writes"],
        require=tuple(document["require"]),
        workspace=document["workspace"],
        read_only=_always(tuple(map(Path, document["read_only"]))),
        session=document["session"],
        project=None if document["project"] is None else Path(document["project"]),
        roots=tuple(document["roots"]),
    )


def _always(paths: tuple[Path, ...]) -> Callable[[Path], tuple[Path, ...]]:
    # A function: the paths are resolved already, and a link that was made since is not followed.
    return lambda _: paths
