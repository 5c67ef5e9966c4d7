"""What was seen in a shell script, each with the function it stands in."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Read(NamedTuple):
    """An expansion such as `$1`, `${2:-out.txt}` or `$API_KEY`; `scope` is its function."""

    name: str
    start: int
    end: int
    scope: str = ""
    operator: str = ""
    word: str = ""


class Assignment(NamedTuple):
    """`plain` when no condition, loop or subshell is around it."""

    name: str
    value: int  # where the value begins
    scope: str
    plain: bool


class Command(NamedTuple):
    """The first word of a command; "" when only running the script would tell it."""

    name: str
    start: int
    scope: str
    for_value: bool  # inside `$(…)`: run for what it prints


@dataclass(frozen=True, slots=True)
class ShellFacts:
    reads: list[Read] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
