"""What a sandboxed call has to be granted: a secret, a host, a path, packages and the like."""

from dataclasses import dataclass
from typing import Literal

NeedKind = Literal[
    "secret",
    "setting",
    "host",
    "read",
    "write",
    "packages",
    "build",
    "program",
    "commands",
    "unconfined",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that has to be granted.

    `value` is a variable's name, a host with or without a port, an absolute path, packages, or the
    address and hash of a downloaded program; "" for `unconfined`. A `setting` is a plain variable:
    `NAME` where it is asked for, `NAME=value` where it is given. `build` is a package that may be
    built from its source. `commands` extends a grant to the commands that an agent writes for the
    skill. `declared` is true if the skill itself asks for it; `asked_in` tells
    where: "metadata", "scripts/fetch.py:12" …
    """

    kind: NeedKind
    value: str = ""
    declared: bool = True
    asked_in: str = ""
