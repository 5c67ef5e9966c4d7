"""What a sandboxed call has to be granted: a secret, a host, a path, packages, a profile, time."""

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
    "local-sockets",
    "loopback",
    "memory",
    "devices",
    "time",
    "own-folder",
    "commands",
    "unconfined",
]
# Kinds that have no value: they are needed, or not.
PLAIN_KINDS: tuple[NeedKind, ...] = ("local-sockets", "loopback", "commands", "unconfined")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that has to be granted.

    `value` is a variable's name, a host with or without a port, an absolute path, packages, the
    address and hash of a downloaded program, a size as in `4GiB`, `gpu`, how long a call may take
    as in `2h`, an entry in the folder of the skill; "" for the kinds that have none. A `setting` is
    a plain variable: `NAME` where it is asked for, `NAME=value` where it is given. `build` is a
    package that may be built from its source. `commands` extends a grant to the commands that an
    agent writes for the skill. `declared` is true if the skill itself asks for it; `asked_in` tells
    where: "metadata", "scripts/fetch.py:12" …
    """

    kind: NeedKind
    value: str = ""
    declared: bool = True
    asked_in: str = ""


def needs_no_grant(need: Need) -> bool:
    """Tell whether every call has this where it is safe, and no call elsewhere."""
    return need.kind == "loopback"


# Of each profile between confined and unconfined: what it opens, and what it risks.
_PROFILES: dict[NeedKind, tuple[str, str]] = {
    "local-sockets": (
        "its processes connect to each other by unix sockets in their own temporary folders",
        "a larger part of the kernel is open to it; no socket of others is",
    ),
    "loopback": (
        "its processes listen and connect on 127.0.0.1 and ::1 of a network of their own",
        "TCP of the kernel is open to it; nothing outside is",
    ),
    "memory": (
        "each of its processes may use that much memory",
        "other programs of this machine may run short of it",
    ),
    "devices": (
        "it uses the graphics processors of this machine",
        "their drivers are open to it, and what other programs left in their memory may be",
    ),
    "own-folder": (
        "its calls write beside the files of the skill, which never change, and keep this there",
        "what one call leaves there the next one finds, and may run; undo does not reach it",
    ),
}


def profile_of(kind: NeedKind) -> tuple[str, str] | None:
    """Return what a profile opens and what it risks; None for a need that is no profile."""
    return _PROFILES.get(kind)
