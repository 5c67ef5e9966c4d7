"""Reads the commands that a script makes with typer: `typer.run(main)`, or an app of several."""

import ast
from dataclasses import dataclass, field

from skillpouch.signatures.python.calls import read_call
from skillpouch.signatures.python.command_tree import Command, interfaces_of
from skillpouch.signatures.python.entry import mentions_when_run
from skillpouch.signatures.python.outline import Outline
from skillpouch.signatures.python.scopes import Scope, defaults_of, parameters_of
from skillpouch.signatures.python.typer_parameters import read_parameter
from skillpouch.signatures.python.values import FunctionNode, UncertainError
from skillpouch.signatures.signature import Signature


@dataclass(slots=True, eq=False)
class App:
    """One `typer.Typer()` while the script is read."""

    description: str = ""
    callback: Command | None = None
    alone: bool = False
    commands: dict[str, Command] = field(default_factory=dict)
    apps: dict[str, "App"] = field(default_factory=dict)
    has_parent: bool = False

    def command(self) -> Command:
        only = next(iter(self.commands.values()), None)
        if only and len(self.commands) == 1 and not self.callback and not self.apps:
            return only
        parameters = self.callback.parameters if self.callback else ()
        inner = {word: app.command_below() for word, app in self.apps.items()}
        return Command(
            description=self.description or (self.callback.description if self.callback else ""),
            parameters=parameters,
            commands=self.commands | inner,
            alone=self.alone and bool(parameters),
        )

    def command_below(self) -> Command:
        """Return this app as part of another: there, even a single command has its word."""
        callback = self.callback or Command()
        return Command(
            description=self.description or callback.description,
            parameters=callback.parameters,
            commands=self.commands | {w: app.command_below() for w, app in self.apps.items()},
            alone=self.alone and bool(callback.parameters),
        )


def read_typer(outline: Outline) -> Signature | None:
    """Return the interface of the function or app that the script runs, None without one."""
    if "typer" not in outline.imports:
        return None
    scope = Scope(outline, outline.tree.body)
    command = _run_function(scope) or _run_app(scope)
    if command is None:
        return None
    interface, commands = interfaces_of(command)
    return Signature(reader="typer", interface=interface, commands=commands)


def _run_function(scope: Scope) -> Command | None:
    for statement in scope.outline.tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and scope.outline.dotted(node.func) == "typer.run":
                target = node.args[0] if node.args else None
                name = target.id if isinstance(target, ast.Name) else ""
                if name not in scope.outline.functions:
                    raise UncertainError("it runs a function from another module", node.lineno)
                return _command(scope.outline.functions[name], "", scope)
    return None


def _run_app(scope: Scope) -> Command | None:
    apps = _apps(scope)
    for node in scope.outline.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _read_function(node, scope, apps)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            _read_added(node.value, scope, apps)
    roots = [name for name, app in apps.items() if not app.has_parent]
    if len(roots) > 1:
        roots = [name for name in roots if mentions_when_run(scope.outline, name)]
    if apps and len(roots) != 1:
        raise UncertainError("it is not certain which of its apps runs")
    return apps[roots[0]].command() if apps else None


def _apps(scope: Scope) -> dict[str, App]:
    apps: dict[str, App] = {}
    for name, value in scope.stores.items():
        if isinstance(value, ast.Call) and scope.outline.dotted(value.func) == "typer.Typer":
            call = read_call(value, scope)
            alone = call.is_set("invoke_without_command")
            apps[name] = App(description=call.text("help"), alone=alone)
    return apps


def _read_function(node: FunctionNode, scope: Scope, apps: dict[str, App]) -> None:
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
            continue
        owner = decorator.func.value
        app = apps.get(owner.id) if isinstance(owner, ast.Name) else None
        if app is None:
            continue
        call = read_call(decorator, scope)
        name = (call.arguments or [call.get("name", None)])[0]
        if not call.complete or not (name is None or isinstance(name, str)):
            raise UncertainError("a command is made with values known only at run time", call.line)
        command = _command(node, call.text("help"), scope)
        if decorator.func.attr == "callback":
            app.callback = command
            app.alone = app.alone or call.is_set("invoke_without_command")
        elif decorator.func.attr == "command":
            app.commands[name or node.name.lower().replace("_", "-")] = command


def _read_added(call: ast.Call, scope: Scope, apps: dict[str, App]) -> None:
    """Follow `app.add_typer(other, name="other")`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_typer":
        return
    parent = apps.get(call.func.value.id) if isinstance(call.func.value, ast.Name) else None
    added = call.args[0] if call.args else None
    app = apps.get(added.id) if isinstance(added, ast.Name) else None
    name = read_call(call, scope).text("name")
    if parent is None or app is None or not name:
        raise UncertainError("a command comes from another module", call.lineno)
    app.has_parent = True
    parent.apps[name] = app


def _command(node: FunctionNode, help_text: str, scope: Scope) -> Command:
    if node.args.vararg or node.args.kwarg:
        raise UncertainError(f"{node.name} takes any number of arguments", node.lineno)
    defaults = defaults_of(node)
    read = [read_parameter(one, defaults.get(one.arg), scope) for one in parameters_of(node)]
    return Command(
        description=help_text or ast.get_docstring(node) or "",
        parameters=[parameter for parameter in read if parameter],
    )
