"""Reads the commands and groups that a script makes with click's decorators."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from skillpouch.signatures.python.calls import read_call
from skillpouch.signatures.python.click_parameters import read_argument, read_option
from skillpouch.signatures.python.command_tree import Command, Parameter, interfaces_of
from skillpouch.signatures.python.entry import mentions_when_run
from skillpouch.signatures.python.outline import Outline
from skillpouch.signatures.python.scopes import Scope
from skillpouch.signatures.python.values import Foreign, Function, FunctionNode, UncertainError
from skillpouch.signatures.signature import Signature

_MODULES = ("click", "rich_click", "asyncclick")
# Left out of a command's name since click 8.2.
_SUFFIXES = ("command", "cmd", "group", "grp")


@dataclass(slots=True, eq=False)
class Found:
    """A decorated function while the script is read; groups collect their commands."""

    node: FunctionNode
    word: str
    help: str
    is_group: bool
    alone: bool
    parameters: list[Parameter]
    commands: dict[str, "Found"] = field(default_factory=dict)
    has_parent: bool = False

    def command(self) -> Command:
        return Command(
            description=self.help.partition("\f")[0],
            parameters=self.parameters,
            commands={word: one.command() for word, one in self.commands.items()},
            alone=not self.is_group or (self.alone and bool(self.parameters)),
        )


def read_click(outline: Outline) -> Signature | None:
    """Return the interface of the command that the script runs, None without one."""
    if not any(name.partition(".")[0] in _MODULES for name in outline.imports):
        return None
    scope = Scope(outline, outline.tree.body)
    found: dict[str, Found] = {}
    for node in outline.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _read_function(node, scope, found)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            _read_added(node.value, scope, found)
    if not found:
        return None
    interface, commands = interfaces_of(_root(outline, found).command())
    return Signature(reader="click", interface=interface, commands=commands)


def click_name(node: ast.expr, outline: Outline) -> str:
    """Return `option` for `click.option`, "" for what is not click's."""
    module, _, name = outline.dotted(node).partition(".")
    return name if module in _MODULES else ""


def _root(outline: Outline, found: dict[str, Found]) -> Found:
    roots = {name: one for name, one in found.items() if not one.has_parent}
    if len(roots) > 1:
        roots = {name: one for name, one in roots.items() if mentions_when_run(outline, name)}
    if len(roots) != 1:
        raise UncertainError("it is not certain which of its commands runs")
    return next(iter(roots.values()))


def _read_function(node: FunctionNode, scope: Scope, found: dict[str, Found]) -> None:
    decorators = [_resolved(decorator, scope) for decorator in node.decorator_list]
    for decorator in decorators:
        made = _command(node, decorator, scope, found)
        if made:
            made.parameters += _parameters(decorators, decorator, scope)
            found[node.name] = made
            return


def _resolved(decorator: ast.expr, scope: Scope) -> ast.expr:
    """Return what stands behind a decorator that has a name of its own: `verbose = option(…)`."""
    if isinstance(decorator, ast.Name):
        return scope.stores.get(decorator.id) or decorator
    return decorator


def _command(
    node: FunctionNode, decorator: ast.expr, scope: Scope, found: dict[str, Found]
) -> Found | None:
    """Return the command a decorator makes, already attached to its group."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    kind = click_name(called, scope.outline)
    parent = None
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        parent = found.get(called.value.id)
        kind = called.attr if parent else kind
    if kind not in ("command", "group"):
        return None
    call = read_call(decorator, scope) if isinstance(decorator, ast.Call) else None
    if call and (not call.complete or "cls" in call.keywords or "params" in call.keywords):
        raise UncertainError("a command is made with values known only at run time", call.line)
    name = (call.arguments or [call.get("name", None)])[0] if call else None
    if name is not None and not isinstance(name, str):
        raise UncertainError("the name of a command is computed at run time", node.lineno)
    made = Found(
        node=node,
        word=name or _word(node.name),
        help=(call.text("help") if call else "") or ast.get_docstring(node) or "",
        is_group=kind == "group",
        alone=bool(call and call.is_set("invoke_without_command")),
        parameters=[],
    )
    if parent:
        _attach(parent, made, made.word)
    return made


def _word(name: str) -> str:
    word = name.lower().replace("_", "-")
    left, _, suffix = word.rpartition("-")
    return left if left and suffix in _SUFFIXES else word


def _attach(parent: Found, made: Found, word: str) -> None:
    made.has_parent = True
    parent.commands[word] = made


def _read_added(call: ast.Call, scope: Scope, found: dict[str, Found]) -> None:
    """Follow `group.add_command(command, "name")`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_command":
        return
    parent = found.get(call.func.value.id) if isinstance(call.func.value, ast.Name) else None
    if parent is None:
        return
    added = call.args[0] if call.args else None
    made = found.get(added.id) if isinstance(added, ast.Name) else None
    if made is None:
        raise UncertainError("a command comes from another module", call.lineno)
    given = read_call(call, scope)
    name = given.arguments[1] if given.arguments[1:] else given.get("name", made.word)
    if not isinstance(name, str):
        raise UncertainError("the name of a command is computed at run time", call.lineno)
    _attach(parent, made, name)


def _parameters(decorators: list[ast.expr], command: ast.expr, scope: Scope) -> Iterator[Parameter]:
    taken: set[str] = set()
    for decorator in decorators:
        parameter = None if decorator is command else _parameter(decorator, scope)
        if parameter and parameter.name in taken and parameter.argument.flag:
            # Several flags write to one parameter: each is a switch of its own.
            name = parameter.argument.flag.lstrip("-").replace("-", "_")
            parameter = replace(
                parameter, name=name, argument=parameter.argument._replace(name=name)
            )
        if parameter:
            taken.add(parameter.name)
            yield parameter


def _parameter(decorator: ast.expr, scope: Scope) -> Parameter | None:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    kind = click_name(called, scope.outline)
    if isinstance(decorator, ast.Call) and kind == "option":
        return read_option(decorator, scope)
    if isinstance(decorator, ast.Call) and kind == "argument":
        return read_argument(decorator, scope)
    if kind in ("confirmation_option", "password_option"):
        raise UncertainError("it asks a person for an answer", decorator.lineno)
    if not kind and not _is_harmless(scope.value(called)):
        name = ast.unparse(called)
        raise UncertainError(f"the decorator {name} may add options", decorator.lineno)
    return None


def _is_harmless(decorator: object) -> bool:
    """Tell whether a decorator can only wrap: one of this file that declares nothing."""
    if isinstance(decorator, Foreign):
        return decorator.origin.partition(".")[0] in _MODULES
    return isinstance(decorator, Function) and not any(
        isinstance(part, ast.Attribute) and part.attr in ("option", "argument")
        for part in ast.walk(decorator.node)
    )
