"""Problem: one thing that was found wrong, or worth knowing, while reading skills."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding about one file.

    `error`: something was lost (a skill, a tool, a declaration). `warning`: it loaded, but not
    as its author meant or not everywhere. `info`: a decision worth knowing.
    """

    path: str
    code: str
    severity: Severity
    message: str
    line: int | None = None
