"""How a tool's arguments become the words of a command line: a plan made once, words per call."""

from dataclasses import dataclass
from typing import Literal

Action = Literal[
    "store",
    "store_true",
    "store_false",
    "store_const",
    "append",
    "append_const",
    "extend",
    "count",
    "boolean_optional",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word that is always there, such as the name of a sub-command."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One property of the input schema and the words it turns into.

    `flag` is None for a positional. `off_flag` is what says no (`--no-color`).
    """

    name: str
    flag: str | None = None
    action: Action = "store"
    nargs: int | Literal["?", "*", "+", "..."] | None = None
    off_flag: str | None = None


ArgvPlan = tuple[Word | Argument, ...]
