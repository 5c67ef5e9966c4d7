"""What a script says about itself: the value that every reader of a language makes."""

from dataclasses import dataclass, field
from typing import Any, Literal

from skillpouch.signatures.argv import ArgvPlan

JsonSchema = dict[str, Any]

Convention = Literal["handler", "main", "argv", "stdin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One way to call a script: the script itself, or one of its sub-commands.

    `input_schema` is None when the types could not be known; `plan` is set for `argv` only.
    """

    convention: Convention
    description: str = ""
    input_schema: JsonSchema | None = None
    plan: ArgvPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What a PEP 723 block asks for."""

    requires_python: str = ""
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Everything read from one script, without running it."""

    reader: str  # which reader knew the interface: "argparse", "handler", "jsdoc", "comments" …
    interface: Interface
    commands: dict[str, Interface] = field(default_factory=dict)  # sub-command → its interface
    uncertain: str = ""  # why the interface is untyped although the script takes arguments
    uncertain_line: int | None = None
    variables: tuple[str, ...] = ()  # environment variables it reads, sorted
    dependencies: Dependencies | None = None
    imports: frozenset[str] = frozenset()  # modules it imports; relative ones start with "."
    has_entry: bool = True  # a main block, `main`, `handler`, or statements that do something
    is_test: bool = False  # imports pytest or unittest
    reads_input: bool = False  # asks a person a question (`input()`, `read -p`)
