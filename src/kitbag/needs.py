"""What a call needs beyond being confined: a secret, a host, a path, packages, or no confinement."""

from dataclasses import dataclass
from typing import Literal

NeedKind = Literal["secret", "host", "read", "write", "packages", "unconfined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that has to be granted. `declared`: the skill says so itself, where `asked_in` tells."""

    kind: NeedKind
    value: str = ""  # a variable's name, a host (host or host:port), an absolute path, packages; "" for unconfined
    declared: bool = True
    asked_in: str = ""  # "metadata", "requires.env", "## Configuration", "scripts/fetch.py:12" …
