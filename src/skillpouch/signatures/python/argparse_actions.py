"""What an `action=` makes of the words after a flag, for argparse's own actions and a script's."""

import ast
from collections.abc import Iterator
from typing import Any, Literal

from skillpouch.signatures.argv import Action
from skillpouch.signatures.python.calls import Call
from skillpouch.signatures.python.scopes import defaults_of
from skillpouch.signatures.python.values import (
    Class,
    Foreign,
    FunctionNode,
    Reference,
    UncertainError,
)

Printing = Literal["help", "version"]

_ACTIONS: dict[str | None, Action | Printing] = {
    None: "store",
    "store": "store",
    "store_true": "store_true",
    "store_false": "store_false",
    "store_const": "store_const",
    "append": "append",
    "append_const": "append_const",
    "extend": "extend",
    "count": "count",
    "help": "help",
    "version": "version",
}
_CLASSES: dict[str, Action | Printing] = {
    "argparse.Action": "store",
    "argparse.BooleanOptionalAction": "boolean_optional",
    "argparse._StoreAction": "store",
    "argparse._StoreTrueAction": "store_true",
    "argparse._StoreFalseAction": "store_false",
    "argparse._StoreConstAction": "store_const",
    "argparse._AppendAction": "append",
    "argparse._AppendConstAction": "append_const",
    "argparse._ExtendAction": "extend",
    "argparse._CountAction": "count",
    "argparse._HelpAction": "help",
    "argparse._VersionAction": "version",
}


def read_action(call: Call) -> tuple[Action | Printing, Any]:
    """Return the action of an `add_argument` call, and how many values it takes."""
    action = call.get("action", None)
    nargs = call.get("nargs", None)
    if (action is None or isinstance(action, str)) and action in _ACTIONS:
        return _ACTIONS[action], nargs
    if isinstance(action, Reference) and action.name in _CLASSES:
        return _CLASSES[action.name], nargs
    if isinstance(action, Class):
        return _custom(action, nargs, call.line)
    if isinstance(action, Reference | Foreign) and "nargs" in call.keywords:
        return ("store_true", None) if nargs == 0 else ("store", nargs)
    raise UncertainError("the action of an argument is defined elsewhere", call.line)


def _custom(action: Class, nargs: Any, line: int) -> tuple[Action | Printing, Any]:
    inherited = _inherited(action)
    makes = _init(action.node)
    if makes is not None:
        given = list(_nargs_given(makes))
        if "unknown" in given:
            raise UncertainError("an action decides itself how many values it takes", line)
        if 0 in given:
            nargs = 0
    if inherited == "store" and nargs == 0:
        # It takes no value and does what it likes: to a caller it is a switch.
        return "store_true", None
    return inherited, nargs


def _inherited(action: Class) -> Action | Printing:
    for base in action.node.bases:
        value = action.scope.value(base)
        if isinstance(value, Reference) and value.name in _CLASSES:
            return _CLASSES[value.name]
        if isinstance(value, Class) and value.node is not action.node:
            return _inherited(value)
    raise UncertainError("the action of an argument is defined elsewhere", action.node.lineno)


def _init(node: ast.ClassDef) -> FunctionNode | None:
    return next(
        (
            part
            for part in node.body
            if isinstance(part, ast.FunctionDef) and part.name == "__init__"
        ),
        None,
    )


def _nargs_given(makes: FunctionNode) -> Iterator[Any]:
    """Yield the `nargs` an action's own constructor passes on: 0, "unknown", or nothing of note."""
    default = defaults_of(makes).get("nargs")
    if isinstance(default, ast.Constant) and default.value is not None:
        yield default.value if default.value == 0 else "unknown"
    for node in ast.walk(makes):
        if isinstance(node, ast.keyword) and node.arg == "nargs":
            if isinstance(node.value, ast.Constant) and node.value.value == 0:
                yield 0
            elif not (isinstance(node.value, ast.Name) and node.value.id == "nargs"):
                yield "unknown"
        elif isinstance(node, ast.Constant) and node.value == "nargs":
            yield "unknown"
