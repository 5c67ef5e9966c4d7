"""typer: commands and parameters, read from signatures."""

import ast
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.command_tree import CliCommand, CommandParameter, interfaces_of
from skillpouch.signatures.python.annotations import last_name, schema_of
from skillpouch.signatures.python.click import OptionNames, about, many, option_names
from skillpouch.signatures.python.literals import ResolvedCall, read_call
from skillpouch.signatures.python.outline import Outline, mentions_when_run
from skillpouch.signatures.python.scopes import Scope, defaults_of, parameters_of
from skillpouch.signatures.python.values import FunctionNode, UncertainError
from skillpouch.signatures.signature import JsonSchema, Signature

_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class TyperParameter:
    """What a parameter says about itself, in whichever of typer's two styles."""

    name: str
    annotation: ast.expr | None
    kind: str  # "Option", "Argument" or "" when typer decides
    call: ResolvedCall
    default: Any

    @property
    def required(self) -> bool:
        asked = self.call.get("prompt", False) not in (False, None)
        made_later = "default_factory" in self.call.keywords
        return asked or (self.default in (_MISSING, ...) and not made_later)


def read_parameter(
    parameter: ast.arg, default: ast.expr | None, scope: Scope
) -> CommandParameter | None:
    """Return the property of a parameter, None for one that typer fills in itself."""
    given = _given(parameter, default, scope)
    if last_name(given.annotation or ast.Name("str")) == "Context" or given.call.is_set("is_eager"):
        return None
    schema, is_many = _value_schema(given, scope)
    is_argument = given.kind == "Argument" or (not given.kind and given.default is _MISSING)
    if is_argument:
        return _argument(given, schema, is_many=is_many)
    return _option(given, schema, is_many=is_many)


def _given(parameter: ast.arg, default: ast.expr | None, scope: Scope) -> TyperParameter:
    annotation = parameter.annotation
    info: ast.expr | None = None
    if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Annotated":
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
        annotation = parts[0] if parts else None
        info = next((part for part in parts[1:] if _kind(part, scope)), None)
    if default is not None and _kind(default, scope):
        call = _checked(default, scope)
        value = call.arguments[0] if call.arguments else call.get("default", _MISSING)
        call = ResolvedCall(line=call.line, arguments=call.arguments[1:], keywords=call.keywords)
        kind = _kind(default, scope)
    else:
        kind = _kind(info, scope) if info else ""
        call = _checked(info, scope) if info else ResolvedCall(line=parameter.lineno)
        value = scope.value(default) if default is not None else _MISSING
    return TyperParameter(
        name=parameter.arg, annotation=annotation, kind=kind, call=call, default=value
    )


def _kind(node: ast.expr, scope: Scope) -> str:
    if not isinstance(node, ast.Call):
        return ""
    name = scope.outline.dotted(node.func)
    return name.removeprefix("typer.") if name in ("typer.Option", "typer.Argument") else ""


def _checked(node: ast.expr, scope: Scope) -> ResolvedCall:
    assert isinstance(node, ast.Call)
    call = read_call(node, scope)
    if not call.complete:
        raise UncertainError("an option is declared with values known only at run time", call.line)
    return call


def _value_schema(given: TyperParameter, scope: Scope) -> tuple[JsonSchema, bool]:
    """Return the schema of one value as it is written, and whether there may be many."""
    schema = schema_of(given.annotation, scope)
    if given.annotation is None and isinstance(given.default, int | float):
        kinds = {bool: "boolean", int: "integer", float: "number"}
        schema = {"type": kinds[type(given.default)]}
    schema = _without_null(schema)
    is_many = schema.get("type") == "array" and "prefixItems" not in schema
    value = schema.get("items", {"type": "string"}) if is_many else schema
    if value.get("type") not in ("integer", "number", "boolean", "array"):
        value = {"type": "string"} | {key: value[key] for key in ("enum",) if key in value}
    for name, key in (("min", "minimum"), ("max", "maximum")):
        if isinstance(bound := given.call.get(name), int | float):
            value = value | {key: bound}
    return value, is_many


def _without_null(schema: JsonSchema) -> JsonSchema:
    if isinstance(schema.get("type"), list):
        kinds = [kind for kind in schema["type"] if kind != "null"]
        schema = schema | {"type": kinds[0] if len(kinds) == 1 else kinds}
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _argument(given: TyperParameter, schema: JsonSchema, *, is_many: bool) -> CommandParameter:
    nargs: Any = None if given.required else "?"
    if is_many:
        nargs = "+" if given.required else "*"
    return CommandParameter(
        name=given.name,
        argument=ArgvArgument(name=given.name, nargs=nargs, after_dashes=True),
        schema=many(schema, nargs) | _about(given),
        required=given.required,
    )


def _option(given: TyperParameter, schema: JsonSchema, *, is_many: bool) -> CommandParameter:
    names = _names(given, is_switch=schema.get("type") == "boolean" and not is_many)
    action: Any = "append" if is_many else "store"
    nargs = schema.get("maxItems") if "prefixItems" in schema else None
    if given.call.is_set("count"):
        schema, action = {"type": "integer", "minimum": 0}, "count"
    elif schema.get("type") == "boolean" and not is_many:
        action = "boolean_optional" if names.off_flags else "store_true"
    if is_many:
        schema = {"type": "array", "items": schema}
    return CommandParameter(
        name=given.name,
        argument=ArgvArgument(
            name=given.name,
            flag=names.flag,
            action=action,
            nargs=nargs,
            off_flag=names.off_flag,
            others=names.others,
        ),
        schema=schema | _about(given),
        required=given.required,
    )


def _names(given: TyperParameter, *, is_switch: bool) -> OptionNames:
    if given.call.arguments:
        return option_names(given.call)
    dashed = given.name.replace("_", "-")
    off_flags = (f"--no-{dashed}",) if is_switch and not given.call.is_set("count") else ()
    return OptionNames(name=given.name, flags=(f"--{dashed}",), off_flags=off_flags)


def _about(given: TyperParameter) -> JsonSchema:
    default = None if given.default in (_MISSING, ...) else given.default
    return about(given.call.text("help"), getattr(default, "value", default))


@dataclass(slots=True, eq=False)
class App:
    """One `typer.Typer()` while the script is read."""

    description: str = ""
    callback: CliCommand | None = None
    alone: bool = False
    commands: dict[str, CliCommand] = field(default_factory=dict)
    apps: dict[str, "App"] = field(default_factory=dict)
    has_parent: bool = False

    def command(self) -> CliCommand:
        only = next(iter(self.commands.values()), None)
        if only and len(self.commands) == 1 and not self.callback and not self.apps:
            return only
        parameters = self.callback.parameters if self.callback else ()
        inner = {word: app.command_below() for word, app in self.apps.items()}
        return CliCommand(
            description=self.description or (self.callback.description if self.callback else ""),
            parameters=parameters,
            commands=self.commands | inner,
            alone=self.alone and bool(parameters),
        )

    def command_below(self) -> CliCommand:
        """Return this app as part of another: there, even a single command has its word."""
        callback = self.callback or CliCommand()
        return CliCommand(
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
    return Signature(
        reader="typer",
        interface=interface,
        commands=commands,
        runs_alone=command.alone and bool(commands),
    )


def _run_function(scope: Scope) -> CliCommand | None:
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


def _run_app(scope: Scope) -> CliCommand | None:
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


def _command(node: FunctionNode, help_text: str, scope: Scope) -> CliCommand:
    if node.args.vararg or node.args.kwarg:
        raise UncertainError(f"{node.name} takes any number of arguments", node.lineno)
    defaults = defaults_of(node)
    read = [read_parameter(one, defaults.get(one.arg), scope) for one in parameters_of(node)]
    return CliCommand(
        description=help_text or ast.get_docstring(node) or "",
        parameters=[parameter for parameter in read if parameter],
    )
