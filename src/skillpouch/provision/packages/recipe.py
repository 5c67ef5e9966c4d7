"""How an environment is made: files to write, programs to run, each with what it may reach."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from skillpouch.execution.confinement import Network
from skillpouch.provision.packages.configuration import Settings

# Changes whenever the same needs would be installed differently.
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One program. `optional`: when it fails, the environment is usable all the same."""

    argv: tuple[str, ...]
    settings: Settings = field(default_factory=Settings)
    variables: tuple[tuple[str, str], ...] = ()
    interpreters: tuple[Path, ...] = ()
    network: Network = "none"
    optional: bool = False


class Recipe(Protocol):
    """Everything that is decided before an environment is built."""

    @property
    def digest(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def steps(self, folder: Path, downloads: Path) -> Sequence[Step]:
        """Write what the installer reads into the folder, and return what is to be run there."""

    def objection(self, folder: Path) -> str:
        """Say why what was installed must not be used, "" when it may."""

    def record(self) -> dict[str, Any]:
        """Return what must be known of the finished environment."""

    def try_yourself(self) -> str:
        """Return the command with which a person sees the same without Skillpouch."""


def digest_of(*facts: object) -> str:
    """Return a name for an environment that depends on these facts."""
    return sha256(json.dumps([FORMAT, *facts]).encode()).hexdigest()[:32]
