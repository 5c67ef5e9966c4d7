"""The values of expressions for a reader that does not run a script.

Plain Python values represent themselves; the classes here represent everything else.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Literal, Protocol

from skillpouch.errors import PortableError

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Unknown(Enum):
    """The value of an expression that is known only at run time."""

    UNKNOWN = auto()


UNKNOWN: Final[Literal[Unknown.UNKNOWN]] = Unknown.UNKNOWN

_MOST_PARTS = 2_000


class Thing:
    """Anything that is not a plain value; its attributes are unknown by default."""

    __slots__ = ()

    def attribute(self, _name: str) -> Any:
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Reference(Thing):
    """Something from another module or a builtin, by its full name: `argparse.SUPPRESS`, `int`."""

    name: str

    def attribute(self, name: str) -> Any:
        return Reference(f"{self.name}.{name}")


@dataclass(frozen=True, slots=True)
class Foreign(Thing):
    """A value made by code outside this file; `origin` names that code."""

    origin: str

    def attribute(self, name: str) -> Any:  # noqa: ARG002 - foreign like its owner
        return self


@dataclass(frozen=True, slots=True)
class Member(Thing):
    """A member of an Enum class of the script."""

    enum: str
    name: str
    value: Any

    def attribute(self, name: str) -> Any:
        return {"name": self.name, "value": self.value}.get(name, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Enumeration(Thing):
    """An Enum class of the script."""

    name: str
    members: tuple[Member, ...]

    def attribute(self, name: str) -> Any:
        members = {member.name: member for member in self.members}
        return members if name == "__members__" else members.get(name, UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class PythonFunction(Thing):
    """A function of the script and the names it can see."""

    node: FunctionNode
    scope: Any

    def attribute(self, name: str) -> Any:
        known = {"__name__": self.node.name, "__doc__": ast.get_docstring(self.node)}
        return known.get(name, UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class Class(Thing):
    """A class of the script, except Enums; `attributes` is filled while it is followed."""

    node: ast.ClassDef
    scope: Any
    attributes: dict[str, Any] = field(default_factory=dict)

    def attribute(self, name: str) -> Any:
        return self.attributes.get(name, UNKNOWN)


class NameResolver(Protocol):
    """Looks up the values of names in a script."""

    def value(self, node: ast.expr) -> Any: ...

    def given(self, names: Mapping[str, Any]) -> "NameResolver": ...


class UncertainError(PortableError):
    """The script's arguments cannot be known without running it."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def is_plain(value: Any) -> bool:
    """Tell whether a value is small, can be written as JSON, and contains nothing unknown."""
    pending, seen = [value], 0
    while pending and seen < _MOST_PARTS:
        part = pending.pop()
        seen += 1
        if isinstance(part, list | tuple | set | frozenset):
            pending += part
        elif isinstance(part, dict) and all(isinstance(key, str) for key in part):
            pending += part.values()
        elif part is not None and not isinstance(part, str | int | float):
            return False
    return not pending
