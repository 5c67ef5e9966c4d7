"""What a call does while a script is followed: enter a function, make an object, use a method."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

from skillpouch.signatures.python.literals import ResolvedCall, call_method, read_call
from skillpouch.signatures.python.scopes import (
    Base,
    Instance,
    Method,
    Scope,
    Tracked,
    call_known,
    defaults_of,
    holds_tracked,
    methods_of,
)
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Class,
    Foreign,
    FunctionNode,
    PythonFunction,
    Reference,
    UncertainError,
    Unknown,
)

Run = Callable[[FunctionNode, Scope], Any]
Maker = Callable[[ResolvedCall], Tracked]
Unfollowed = Callable[[Foreign | Unknown, str, ResolvedCall], None]

_DEEPEST = 25
# Functions outside the file that read an object or pass it on, but never change it.
_HARMLESS = frozenset(
    (
        *("print", "isinstance", "str", "repr", "id", "type", "vars", "dir", "hasattr", "bool"),
        *("callable", "getattr", "super", "functools.partial", "argcomplete.autocomplete"),
        *("list", "tuple", "dict", "set", "sorted", "reversed", "enumerate", "zip", "iter"),
    )
)


class CallFollower:
    """Computes the value of each call; `run` follows the body of a function of the script.

    `elsewhere` returns what a full name stands for in other files of the skill, if that is known.
    """

    def __init__(
        self,
        makers: Mapping[str, Maker],
        run: Run,
        on_unfollowed: Unfollowed,
        elsewhere: Callable[[str], Any],
    ) -> None:
        self._makers = makers
        self._run = run
        self._on_unfollowed = on_unfollowed
        self._elsewhere = elsewhere
        self._active: list[FunctionNode] = []
        self._selves: list[Any] = []
        self.reached: set[FunctionNode | ast.ClassDef] = set()

    def __call__(self, node: ast.Call, scope: Scope) -> Any:
        call = read_call(node, scope)
        if not isinstance(node.func, ast.Attribute):
            return self.apply(scope.value(node.func), call)
        owner = scope.value(node.func.value)
        name = node.func.attr
        if isinstance(owner, Tracked | Instance | Class):
            return self.use(owner, name, call)
        if name == "append" and any(map(holds_tracked, call.arguments)):
            return _append(node.func.value, call, scope)
        if isinstance(owner, str | list | dict):
            return call_method(owner, name, call.arguments)
        if isinstance(owner, Foreign | Unknown):
            self._on_unfollowed(owner, name, call)
        return self.apply(scope.value(node.func), call)

    def use(self, owner: Any, name: str, call: ResolvedCall) -> Any:
        """Call a method: one the script defines itself, or one of the object."""
        made_from = owner if isinstance(owner, Class) else owner.made_from
        method = methods_of(made_from).get(name) if made_from else None
        if made_from and method:
            return self.enter(
                PythonFunction(method, made_from.scope), _with_self(method, owner, call)
            )
        if isinstance(owner, Tracked):
            return owner.invoke(name, call)
        return self.apply(owner.attribute(name), call)

    def apply(self, callee: Any, call: ResolvedCall) -> Any:
        if isinstance(callee, Reference) and callee.name not in self._makers:
            found = self._elsewhere(callee.name)
            callee = found if isinstance(found, PythonFunction | Class) else callee
        if isinstance(callee, PythonFunction):
            return self.enter(callee, call)
        if isinstance(callee, Class):
            return self.make(callee, call)
        if isinstance(callee, Method):
            return self.use(callee.owner, callee.name, call)
        if isinstance(callee, Reference):
            if callee.name in self._makers:
                return self._makers[callee.name](call)
            if callee.name == "super":
                return self._super()
        _refuse_escape(callee, call)
        return call_known(callee, call.arguments, set(call.keywords))

    def make(self, made_from: Class, call: ResolvedCall) -> Any:
        """Make an object of one of the script's own classes."""
        self.reached.add(made_from.node)
        maker = self._maker(made_from)
        if not maker:
            instance = Instance(made_from)
            self.use(instance, "__init__", call)
            return instance
        if "__init__" not in methods_of(made_from):
            tracked = maker(call)
            tracked.made_from = made_from
            return tracked
        tracked = maker(ResolvedCall(line=call.line))
        tracked.made_from = made_from
        self.use(tracked, "__init__", call)
        return tracked

    def _maker(self, made_from: Class) -> Maker | None:
        for base in made_from.node.bases:
            value = made_from.scope.value(base)
            if isinstance(value, Reference) and value.name in self._makers:
                return self._makers[value.name]
            if isinstance(value, Class) and value is not made_from:
                return self._maker(value)
        return None

    def enter(self, function: PythonFunction, call: ResolvedCall) -> Any:
        node = function.node
        if node in self._active or len(self._active) > _DEEPEST:
            return UNKNOWN
        self.reached.add(node)
        scope: Scope = function.scope
        inner = Scope(scope.outline, node.body, outer=scope)
        inner.bound = _parameters(function, call)
        for name, value in inner.bound.items():
            # The function assigns it again, perhaps on a line that is skipped.
            if name in inner.stores and not holds_tracked(value):
                inner.bound[name] = UNKNOWN
        self._active.append(node)
        self._selves.append(next(iter(inner.bound.values()), None))
        try:
            return self._run(node, inner)
        finally:
            self._active.pop()
            self._selves.pop()

    def _super(self) -> Any:
        owner = self._selves[-1] if self._selves else None
        if isinstance(owner, Tracked):
            return Base(owner)
        if isinstance(owner, Instance):
            for base in owner.made_from.node.bases:
                value = owner.made_from.scope.value(base)
                if isinstance(value, Class):
                    return Instance(value, owner.attributes)
        return UNKNOWN


def _parameters(function: PythonFunction, call: ResolvedCall) -> dict[str, Any]:
    arguments, scope = function.node.args, function.scope
    bound: dict[str, Any] = {}
    positional = [parameter.arg for parameter in [*arguments.posonlyargs, *arguments.args]]
    named = {*positional, *(parameter.arg for parameter in arguments.kwonlyargs)}
    bound |= dict(zip(positional, call.arguments, strict=False))
    bound |= {name: value for name, value in call.keywords.items() if name in named}
    defaults = defaults_of(function.node)
    for name in [*positional, *(parameter.arg for parameter in arguments.kwonlyargs)]:
        if name not in bound:
            known = name in defaults and call.complete
            bound[name] = scope.value(defaults[name]) if known else UNKNOWN
    if arguments.vararg:
        bound[arguments.vararg.arg] = (
            call.arguments[len(positional) :] if call.complete else UNKNOWN
        )
    if arguments.kwarg:
        rest = {name: value for name, value in call.keywords.items() if name not in named}
        bound[arguments.kwarg.arg] = rest if call.complete else UNKNOWN
    return bound


def _append(target: ast.expr, call: ResolvedCall, scope: Scope) -> Any:
    """Keep a list of objects that are followed, wherever its empty list came from."""
    kept = scope.bound.setdefault(target.id, []) if isinstance(target, ast.Name) else None
    if not isinstance(kept, list):
        raise UncertainError("a parser is kept where it could not be followed", call.line)
    kept += call.arguments
    return None


def _with_self(method: FunctionNode, owner: Any, call: ResolvedCall) -> ResolvedCall:
    decorators = {node.id for node in method.decorator_list if isinstance(node, ast.Name)}
    called_on_class = isinstance(owner, Class) and "classmethod" not in decorators
    if "staticmethod" in decorators or called_on_class:
        return call
    return ResolvedCall(
        line=call.line,
        arguments=[owner, *call.arguments],
        keywords=call.keywords,
        complete=call.complete,
    )


def _refuse_escape(callee: Any, call: ResolvedCall) -> None:
    if not any(map(holds_tracked, [*call.arguments, *call.keywords.values()])):
        return
    name = callee.name if isinstance(callee, Reference) else getattr(callee, "origin", "")
    if name in _HARMLESS or name.startswith("logging."):
        return
    where = f"{name}, which is not in this file" if name else "code that could not be followed"
    raise UncertainError(f"a parser is passed to {where}", call.line)
