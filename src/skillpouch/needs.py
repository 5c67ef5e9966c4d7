"""What a sandboxed call has to be granted: a secret, a host, a path, packages, a program."""

from dataclasses import dataclass
from typing import Literal

NeedKind = Literal["secret", "host", "read", "write", "packages", "program", "unconfined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that has to be granted.

    `value` is a variable's name, a host with or without a port, an absolute path, packages, or the
    address and hash of a downloaded program; "" for `unconfined`. `declared` is true if the skill
    itself asks for it; `asked_in` tells where: "metadata", "scripts/fetch.py:12" …
    """

    kind: NeedKind
    value: str = ""
    declared: bool = True
    asked_in: str = ""
