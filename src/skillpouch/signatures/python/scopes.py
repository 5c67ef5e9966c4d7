"""Which names a program binds, where, and what stores to them."""

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.literals import ResolvedCall, call_builtin, call_method, fold
from skillpouch.signatures.python.outline import BLOCKS, Outline
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Class,
    Enumeration,
    Foreign,
    FunctionNode,
    Member,
    PythonFunction,
    Reference,
    Thing,
    UncertainError,
)

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CHANGING = frozenset(
    ("append", "add", "extend", "insert", "update", "remove", "pop", "clear", "setdefault", "sort")
)

Stores = dict[str, ast.expr | None]
Set = tuple[str, ast.expr | None]


def stores_of(body: Iterable[ast.stmt]) -> Stores:
    """Map each name to the only expression assigned to it, or to None if there are others."""
    found: Stores = {}
    pending = list[ast.AST](body)[::-1]
    while pending:
        node = pending.pop()
        kind = type(node)
        sets = _SETS.get(kind)
        if sets:
            for name, value in sets(node):
                found[name] = None if name in found else value
        if kind in BLOCKS and kind not in _INNER:
            for block in BLOCKS[kind][::-1]:
                pending += getattr(node, block)[::-1]
    return found


def _assign(node: ast.Assign) -> Iterator[Set]:
    for target in node.targets:
        yield from _targets(target, node.value)


def _annotated(node: ast.AnnAssign) -> Iterator[Set]:
    if node.value:
        yield from _targets(node.target, node.value)


def _changed(node: ast.AugAssign | ast.For | ast.AsyncFor) -> Iterator[Set]:
    return _targets(node.target, None)


def _with(node: ast.With | ast.AsyncWith) -> Iterator[Set]:
    for item in node.items:
        if item.optional_vars:
            yield from _targets(item.optional_vars, None)


def _except(node: ast.ExceptHandler) -> Iterator[Set]:
    if node.name:
        yield node.name, None


def _method(node: ast.Expr) -> Iterator[Set]:
    """Yield the list or dict that a method changes in place."""
    call = node.value
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        owner = call.func.value
        if call.func.attr in _CHANGING and isinstance(owner, ast.Name):
            yield owner.id, None


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[Set]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        yield target.value.id, None
        yield target.value.id, None
    elif isinstance(target, ast.Tuple | ast.List):
        parts: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            parts = list(value.elts)
        for element, part in zip(target.elts, parts, strict=True):
            yield from _targets(element, part)


_SETS: dict[type[ast.AST], Callable[[Any], Iterator[Set]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _changed,
    ast.For: _changed,
    ast.AsyncFor: _changed,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _except,
    ast.Expr: _method,
}


_ENUMS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag")
_MOST_STEPS = 50_000

Caller = Callable[[ast.Call, "Scope"], Any]


class Budget:
    """Limits the steps of evaluation: a script may contain more than there is time for."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def spend(self, node: ast.AST) -> None:
        self._left -= 1
        if self._left < 0:
            line = getattr(node, "lineno", None)
            raise UncertainError("there is too much to compute", line)


class Scope:
    """The names that one block of statements can see.

    `bound` holds the values that were assigned while following the script; any other name has a
    value only if it is assigned exactly once. `call` computes calls; the default follows none.
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
        """Return an inner scope with these names."""
        return Scope(self.outline, (), outer=self, bound=names)

    def release(self) -> None:
        """Drop all values, to break cycles: functions and classes in it refer to this scope."""
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
            self._values[name] = UNKNOWN  # for an expression that uses its own name
            node = self.stores[name]
            if node is not None:
                # Evaluated without following calls: no call may be followed twice.
                quiet = Scope(self.outline, (), outer=self, call=call_literal)
                self._values[name] = quiet.value(node)
        return self._values[name]

    def global_value(self, name: str) -> Any:
        outline = self.outline
        if name in self.stores:
            changed = name in outline.global_names or name in outline.functions
            return UNKNOWN if changed else self.once(name)
        if name in outline.functions:
            return PythonFunction(outline.functions[name], self)
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


@dataclass(slots=True, eq=False, kw_only=True)
class Tracked(Thing):
    """An object whose method calls are followed; passing it to code outside the file is reported.

    `made_from` is set if the script defines a class of its own for it.
    """

    made_from: Class | None = None

    def attribute(self, name: str) -> Any:
        return Method(self, name)

    def assign(self, name: str, value: Any) -> None:
        """Called when the script sets an attribute."""

    def invoke(self, _method: str, _call: ResolvedCall) -> Any:
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
    """The value of `super()`: the object without the methods of its own class."""

    owner: Tracked

    def invoke(self, method: str, call: ResolvedCall) -> Any:
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
