"""What a policy is asked about one call, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from skillpouch.needs import Need
from skillpouch.tools import Effect

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The facts of one call before it runs.

    `needs` are those that nobody granted yet, `granted` those that somebody did. `confined` is
    false when nothing will hold the call; `first_use` is true when no call of this digest was
    ever approved. `home` is the folder of the skill and `workspace` what tools may write, both
    without links; "" where no rule minds places.
    """

    tool: str  # its id
    skill: str
    confined: bool
    first_use: bool
    effects: tuple[Effect, ...] = ("read", "write", "execute")
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    granted: tuple[Need, ...] = ()
    digest: str = ""
    name: str = ""  # by which models call the tool; a rule that refuses may say that, too
    home: str = ""
    workspace: str = ""
    roots: tuple[str, ...] = ()  # where the skill was found, when that had to be said


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict, which rule or need it comes from, and what exactly would allow the call."""

    verdict: Verdict
    reasons: tuple[str, ...]
    hints: tuple[str, ...] = ()
