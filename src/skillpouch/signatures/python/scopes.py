"""What the names of a script stand for: constants set once, functions, classes, imported things."""

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skillpouch.signatures.python.literal_calls import call_builtin, call_method
from skillpouch.signatures.python.literals import fold
from skillpouch.signatures.python.outline import Outline
from skillpouch.signatures.python.stores import Stores, stores_of
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Class,
    Enumeration,
    Foreign,
    Function,
    FunctionNode,
    Member,
    Reference,
    Thing,
    UncertainError,
)

_ENUMS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag")
_MOST_STEPS = 50_000

Caller = Callable[[ast.Call, "Scope"], Any]


class Budget:
    """How much may still be computed: a script can ask for more than there is time for."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def spend(self, node: ast.AST) -> None:
        self._left -= 1
        if self._left < 0:
            line = getattr(node, "lineno", None)
            raise UncertainError("there is too much to compute", line)


class Scope:
    """The names one block of statements can see.

    `bound` holds what following the script has set so far; every other name counts only when it
    is set exactly once. `call` decides what a call is worth; the default runs nothing.
    """

    def __init__(
        self,
        outline: Outline,
        body: Sequence[ast.stmt],
        *,
        outer: "Scope | None" = None,
        bound: Mapping[str, Any] | None = None,
        call: Caller | None = None,
    ) -> None:
        self.outline = outline
        self.outer = outer
        self.bound = dict(bound or {})
        self.call: Caller = call or (outer.call if outer else call_literal)
        self.budget: Budget = outer.budget if outer else Budget()
        self._body = body
        self._stores: Stores | None = None
        self._values: dict[str, Any] = {}

    @property
    def stores(self) -> Stores:
        if self._stores is None:
            self._stores = stores_of(self._body)
        return self._stores

    def given(self, names: Mapping[str, Any]) -> "Scope":
        """Return the same scope with a few names set on top."""
        return Scope(self.outline, (), outer=self, bound=names)

    def release(self) -> None:
        """Forget every value: functions and classes among them hold this scope in turn."""
        self.bound.clear()
        self._values.clear()
        self.call = call_literal

    def value(self, node: ast.expr) -> Any:
        self.budget.spend(node)
        evaluate = _EVALUATORS.get(type(node))
        return evaluate(self, node) if evaluate else fold(node, self)

    def lookup(self, name: str) -> Any:
        scope: Scope | None = self
        while scope:
            if name in scope.bound:
                return scope.bound[name]
            if scope.outer and name in scope.stores:
                return scope.once(name)
            if not scope.outer:
                return scope.global_value(name)
            scope = scope.outer
        return UNKNOWN

    def once(self, name: str) -> Any:
        """Return the value of a name that this block sets exactly once."""
        if name not in self._values:
            self._values[name] = UNKNOWN  # a name that needs itself
            node = self.stores[name]
            if node is not None:
                # Computed outside the flow: nothing may be followed twice.
                quiet = Scope(self.outline, (), outer=self, call=call_literal)
                self._values[name] = quiet.value(node)
        return self._values[name]

    def global_value(self, name: str) -> Any:
        outline = self.outline
        if name in self.stores:
            changed = name in outline.global_names or name in outline.functions
            return UNKNOWN if changed else self.once(name)
        if name in outline.functions:
            return Function(outline.functions[name], self)
        if name in outline.classes:
            if name not in self._values:
                self._values[name] = self._class(outline.classes[name])
            return self._values[name]
        if name in outline.origins:
            return Reference(outline.origins[name])
        if name == "__doc__":
            return ast.get_docstring(outline.tree)
        return Reference(name) if hasattr(builtins, name) else UNKNOWN

    def _class(self, node: ast.ClassDef) -> Any:
        if not any(self.outline.dotted(base) in _ENUMS for base in node.bases):
            return Class(node, self)
        quiet = Scope(self.outline, (), outer=self, call=call_literal)
        members = (
            Member(node.name, name, quiet.value(value))
            for name, value in stores_of(node.body).items()
            if value is not None and not name.startswith("_")
        )
        return Enumeration(node.name, tuple(members))


def _constant(_: Scope, node: ast.Constant) -> Any:
    return node.value


def _name(scope: Scope, node: ast.Name) -> Any:
    return scope.lookup(node.id)


def _attribute(scope: Scope, node: ast.Attribute) -> Any:
    owner = scope.value(node.value)
    return owner.attribute(node.attr) if isinstance(owner, Thing) else UNKNOWN


def _call(scope: Scope, node: ast.Call) -> Any:
    return scope.call(node, scope)


def _named(scope: Scope, node: ast.NamedExpr) -> Any:
    scope.bound[node.target.id] = scope.value(node.value)
    return scope.bound[node.target.id]


_EVALUATORS: dict[type[ast.expr], Callable[[Scope, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.NamedExpr: _named,
}


def call_literal(node: ast.Call, scope: Scope) -> Any:
    """Return what a call gives when that is certain without running any of the script."""
    arguments = [scope.value(argument) for argument in node.args]
    if isinstance(node.func, ast.Attribute):
        owner = scope.value(node.func.value)
        if isinstance(owner, str | list | dict):
            return call_method(owner, node.func.attr, arguments)
    return call_known(scope.value(node.func), arguments, {k.arg or "" for k in node.keywords})


def call_known(callee: Any, arguments: list[Any], keywords: set[str]) -> Any:
    """Return what a builtin gives; what other modules make is foreign, all else unknown."""
    if isinstance(callee, Foreign):
        return callee
    if not isinstance(callee, Reference):
        return UNKNOWN
    if hasattr(builtins, callee.name):
        return UNKNOWN if keywords else call_builtin(callee.name, arguments)
    return Foreign(callee.name)


def parameters_of(node: FunctionNode) -> list[ast.arg]:
    """Return the parameters that a caller can name, in order."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def defaults_of(node: FunctionNode) -> dict[str, ast.expr]:
    """Return the default of every parameter that has one."""
    positional = [*node.args.posonlyargs, *node.args.args]
    last = positional[len(positional) - len(node.args.defaults) :]
    defaults = {arg.arg: value for arg, value in zip(last, node.args.defaults, strict=True)}
    for arg, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if value is not None:
            defaults[arg.arg] = value
    return defaults
