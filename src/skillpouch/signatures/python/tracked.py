"""Objects of a script that are followed wherever the script takes them."""

import ast
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.calls import Call
from skillpouch.signatures.python.values import UNKNOWN, Class, Thing


@dataclass(slots=True, eq=False, kw_only=True)
class Tracked(Thing):
    """An object whose methods matter; code outside the file must not get hold of it unseen.

    `made_from` is the script's own class when the script has made one for it.
    """

    made_from: Class | None = None

    def attribute(self, name: str) -> Any:
        return Method(self, name)

    def assign(self, name: str, value: Any) -> None:
        """Take note that the script sets an attribute."""

    def invoke(self, _method: str, _call: Call) -> Any:
        return UNKNOWN


@dataclass(slots=True, eq=False)
class Method(Tracked):
    """A method taken from its object: `add = parser.add_argument`."""

    owner: Tracked
    name: str


@dataclass(slots=True, eq=False)
class Instance(Thing):
    """An object of one of the script's own classes; `self` is one."""

    made_from: Class
    attributes: dict[str, Any] = field(default_factory=dict)

    def attribute(self, name: str) -> Any:
        return self.attributes.get(name, self.made_from.attribute(name))


@dataclass(slots=True, eq=False)
class Base(Tracked):
    """What `super()` gives: the object without the methods its own class adds."""

    owner: Tracked

    def invoke(self, method: str, call: Call) -> Any:
        return self.owner.invoke(method, call)


def holds_tracked(value: Any) -> bool:
    """Tell whether a value is, or directly contains, an object that is followed."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, Tracked) for item in value)
    if isinstance(value, dict):
        return any(isinstance(item, Tracked) for item in value.values())
    return isinstance(value, Tracked)


def methods_of(made_from: Class) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the methods of a class, with those of its bases in the same file."""
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for base in made_from.node.bases:
        value = made_from.scope.value(base)
        if isinstance(value, Class) and value.node is not made_from.node:
            found |= methods_of(value)
    for node in made_from.node.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
    return found
