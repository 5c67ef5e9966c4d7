"""What a project's own file says: it may ask and tighten, and has no way to loosen."""

from dataclasses import dataclass, field
from pathlib import Path

from skillpouch.needs import Need
from skillpouch.policy.limit_rules import LimitRule
from skillpouch.policy.mcp_entries import McpEntry
from skillpouch.policy.rules import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRequest:
    """What a project says that a skill needs: people are shown it, and nothing is granted by it."""

    skill: str
    needs: tuple[Need, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """How much a server of this project takes, where its command line does not say.

    Where it listens and whom it lets in, only whoever starts it says.
    """

    most_running: int | None = None
    most_per_session: int | None = None
    drain_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A `skillpouch.toml`. `roots` and `workspace` are folders below the project's own.

    `mcp` are servers it would like to use: none is started until a user has it in a file of
    their own.
    """

    rules: tuple[Rule, ...] = ()
    limits: tuple[LimitRule, ...] = ()
    strict: bool = False
    enforce_allowed_tools: bool = False
    require: frozenset[str] = frozenset()
    require_journal: bool = False
    requests: tuple[SkillRequest, ...] = ()
    mcp: tuple[McpEntry, ...] = ()
    roots: tuple[Path, ...] = ()
    workspace: Path | None = None
    server: ServerTable = field(default_factory=ServerTable)

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule.allows:
                raise ValueError(f"a project cannot allow anything: {rule.label}")
