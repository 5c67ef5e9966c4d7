"""`handler`, `main` and what fire runs: parameters, docstrings and the keys that they read."""

import ast
from dataclasses import dataclass
from typing import Any

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.command_tree import (
    CliCommand,
    CommandParameter,
    interfaces_of,
    object_schema,
)
from skillpouch.signatures.python.annotations import schema_of
from skillpouch.signatures.python.docstrings import Documented, documented_parameters
from skillpouch.signatures.python.outline import Outline, acts, mentions_when_run
from skillpouch.signatures.python.scopes import Scope, defaults_of, parameters_of
from skillpouch.signatures.python.values import FunctionNode, UncertainError, is_plain
from skillpouch.signatures.signature import Interface, JsonSchema, Signature

_READING = ("get", "pop")
_OF_A_DICT = (*_READING, "items", "keys", "values", "copy", "setdefault", "update")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key that a function reads; a default that is not a literal is None."""

    name: str
    required: bool
    default: Any = None


def keys_of(node: FunctionNode, parameter: str) -> list[Key] | None:
    """Return the keys in the order they are read, None if the whole object is passed elsewhere."""
    keys: dict[str, Key] = {}
    understood: set[int] = set()
    for part in ast.walk(node):
        found = _read(part, parameter)
        if found:
            owner, key = found
            understood.add(id(owner))
            if key:
                known = keys.get(key.name, key)
                keys[key.name] = Key(
                    name=key.name,
                    required=known.required and key.required,
                    default=key.default if known.default is None else known.default,
                )
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == parameter and id(part) not in understood:
            return None
    return sorted(keys.values(), key=lambda key: not key.required)


def uses_attributes(node: FunctionNode, parameter: str) -> bool:
    """Tell whether the parameter is an object with attributes and not a dict: `args.path`."""
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == parameter
        and part.attr not in _OF_A_DICT
        for part in ast.walk(node)
    )


def _read(part: ast.AST, parameter: str) -> tuple[ast.Name, Key | None] | None:
    """Return the name that a use of the parameter stands on, and the key it takes."""
    if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load):
        return _key(part.value, part.slice, parameter, required=True)
    if isinstance(part, ast.Call):
        return _read_by_method(part, parameter)
    if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.In | ast.NotIn):
        return _key(part.comparators[0], part.left, parameter)
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
        owner = part.operand
        if isinstance(owner, ast.Name) and owner.id == parameter:
            return owner, None
    return None


def _read_by_method(call: ast.Call, parameter: str) -> tuple[ast.Name, Key | None] | None:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _READING or not call.args:
        return None
    default = call.args[1] if len(call.args) > 1 else None
    return _key(call.func.value, call.args[0], parameter, default=default)


def _key(
    owner: ast.expr,
    name: ast.expr,
    parameter: str,
    *,
    required: bool = False,
    default: ast.expr | None = None,
) -> tuple[ast.Name, Key | None] | None:
    if not isinstance(owner, ast.Name) or owner.id != parameter:
        return None
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    if name.value == "__workDir":  # passed by the runtime, not by a caller
        return owner, None
    return owner, Key(name=name.value, required=required, default=_literal(default))


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
# A lone parameter with one of these names is a command line, not an argument.
_COMMAND_LINES = ("argv", "args", "_argv", "sys_argv")


def read_handler(outline: Outline) -> Signature | None:
    """Return the interface of a `handler(args)`, None when there is none."""
    node = outline.functions.get("handler")
    if node is None or not _takes_one(node):
        return None
    parameter = parameters_of(node)[0]
    if uses_attributes(node, parameter.arg):
        return None  # the handler of an argparse sub-command, or of a signal
    scope = Scope(outline, outline.tree.body)
    return Signature(
        reader="handler",
        interface=Interface(
            convention="handler", input_schema=_handler_schema(node, parameter, scope)
        ),
    )


def read_main(outline: Outline) -> Signature | None:
    """Return the interface of a `main(name: type, …)` that nothing in the file calls."""
    node = outline.functions.get("main")
    if node is None or mentions_when_run(outline, "main"):
        return None
    parameters = parameters_of(node)
    if len(parameters) == 1 and parameters[0].arg in _COMMAND_LINES:
        return None
    if not parameters and any(map(acts, outline.main_blocks)):
        return None  # the file does something else when it is run
    if node.args.vararg or node.args.kwarg:
        raise UncertainError("main takes any number of arguments", node.lineno)
    scope = Scope(outline, outline.tree.body)
    return Signature(
        reader="main",
        interface=Interface(convention="main", input_schema=_main_schema(node, scope)),
    )


def _takes_one(node: FunctionNode) -> bool:
    required = [one.arg for one in parameters_of(node) if one.arg not in defaults_of(node)]
    return bool(parameters_of(node)) and len(required) <= 1 and not node.args.kwonlyargs


def _handler_schema(node: FunctionNode, parameter: ast.arg, scope: Scope) -> JsonSchema | None:
    documented = documented_parameters(ast.get_docstring(node))
    documented.pop(parameter.arg, None)
    annotated = schema_of(parameter.annotation, scope)
    if "properties" in annotated:
        return _described(annotated, documented) | {"additionalProperties": False}
    keys = keys_of(node, parameter.arg)
    if documented:
        return _documented_schema(documented, keys or [], scope)
    return _keys_schema(keys) if keys else None


def _described(schema: JsonSchema, documented: dict[str, Documented]) -> JsonSchema:
    for name, one in documented.items():
        if name in schema["properties"] and one.description:
            schema["properties"][name].setdefault("description", one.description)
    return schema


def _documented_schema(
    documented: dict[str, Documented], keys: list[Key], scope: Scope
) -> JsonSchema:
    used = {key.name: key for key in keys}
    properties: JsonSchema = {}
    for name, one in documented.items():
        properties[name] = one.schema(scope)
        if one.description:
            properties[name]["description"] = one.description
    required = [
        name
        for name, one in documented.items()
        if not one.optional and (name not in used or used[name].required)
    ]
    return object_schema(properties, required)


def _keys_schema(keys: list[Key]) -> JsonSchema:
    properties: JsonSchema = {}
    for key in keys:
        kind = _JSON_TYPES.get(type(key.default))
        properties[key.name] = {"type": kind} if kind else {}
        if kind and is_plain(key.default):
            properties[key.name]["default"] = key.default
    return object_schema(properties, [key.name for key in keys if key.required])


def _main_schema(node: FunctionNode, scope: Scope) -> JsonSchema:
    documented = documented_parameters(ast.get_docstring(node))
    defaults = defaults_of(node)
    properties: JsonSchema = {}
    for parameter in parameters_of(node):
        about = documented.get(parameter.arg, Documented(name=parameter.arg))
        schema = schema_of(parameter.annotation, scope) or about.schema(scope)
        if about.description:
            schema = {"description": about.description} | schema
        default = scope.value(defaults[parameter.arg]) if parameter.arg in defaults else None
        properties[parameter.arg] = schema | _default(default)
    required = [one.arg for one in parameters_of(node) if one.arg not in defaults]
    return object_schema(properties, required)


def _default(value: Any) -> JsonSchema:
    if value is None or not is_plain(value):
        return {}
    return {"default": list(value) if isinstance(value, tuple) else value}


def read_fire(outline: Outline) -> Signature | None:
    """Return the interface of the function, class or dictionary that `fire.Fire` runs."""
    if "fire" not in outline.imports:
        return None
    calls = [
        part
        for part in ast.walk(outline.tree)
        if isinstance(part, ast.Call) and outline.dotted(part.func) == "fire.Fire"
    ]
    if len(calls) != 1:
        raise UncertainError("its command line is read by fire")
    run = _FireReader(outline).command(calls[0])
    interface, commands = interfaces_of(run)
    return Signature(reader="fire", interface=interface, commands=commands)


class _FireReader:
    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.scope = Scope(outline, outline.tree.body)

    def command(self, call: ast.Call) -> CliCommand:
        given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "component")]
        if {each.arg for each in call.keywords} - {"component", "name"} or len(call.args) > 1:
            raise UncertainError("fire is given more than what it runs", call.lineno)
        if given:
            return self._component(given[0])
        functions = {name: node for name, node in self.outline.functions.items() if name[0] != "_"}
        if self.outline.classes or not functions:
            raise UncertainError("fire shows everything in the file", call.lineno)
        commands = {name: self._function(node) for name, node in functions.items()}
        return CliCommand(commands=commands, alone=False)

    def _component(self, node: ast.expr) -> CliCommand:
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            keys = [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]
            values = [self._component(value) for value in node.values]
            return CliCommand(commands=dict(zip(keys, values, strict=True)), alone=False)
        name = node.id if isinstance(node, ast.Name) else ""
        if name in self.outline.functions:
            return self._function(self.outline.functions[name])
        if name in self.outline.classes:
            return self._class(self.outline.classes[name], is_made=False)
        made = node.func if isinstance(node, ast.Call) else None
        if isinstance(made, ast.Name) and made.id in self.outline.classes:
            return self._class(self.outline.classes[made.id], is_made=True)
        raise UncertainError("what fire runs is not defined in this file", node.lineno)

    def _class(self, node: ast.ClassDef, *, is_made: bool) -> CliCommand:
        """Return a command for each method; the parameters of the class come before its word."""
        if any(not (isinstance(base, ast.Name) and base.id == "object") for base in node.bases):
            raise UncertainError("the class that fire runs has another class below it", node.lineno)
        if node.decorator_list:
            raise UncertainError("the class that fire runs is made by a decorator", node.lineno)
        methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
        first = methods.get("__init__")
        parameters = self._parameters(first, 1) if first and not is_made else []
        commands = {
            name: self._method(one) for name, one in methods.items() if not name.startswith("_")
        }
        own = {one.name for one in parameters}
        if any(own & {each.name for each in one.parameters} for one in commands.values()):
            raise UncertainError("a method has a parameter of its class's name", node.lineno)
        return CliCommand(
            description=ast.get_docstring(node) or "",
            parameters=parameters,
            commands=commands,
            alone=False,
        )

    def _method(self, node: FunctionNode) -> CliCommand:
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if set(decorators) - {"staticmethod", "classmethod"}:
            raise UncertainError("a method that fire runs has a decorator", node.lineno)
        return self._function(node, 0 if "staticmethod" in decorators else 1)

    def _function(self, node: FunctionNode, skipped: int = 0) -> CliCommand:
        if node.decorator_list and not skipped and "staticmethod" not in ast.dump(node):
            raise UncertainError("a function that fire runs has a decorator", node.lineno)
        return CliCommand(
            description=ast.get_docstring(node) or "", parameters=self._parameters(node, skipped)
        )

    def _parameters(self, node: FunctionNode, skipped: int) -> list[CommandParameter]:
        if node.args.vararg or node.args.kwarg or node.args.posonlyargs:
            raise UncertainError("a function that fire runs takes any number of arguments")
        schema = _main_schema(node, self.scope)
        required = schema.get("required", [])
        names = list(schema["properties"])[skipped:]
        # Fire reads each value as a literal of Python: only so written, text stays text.
        return [
            CommandParameter(
                name=name,
                argument=ArgvArgument(name=name, flag=f"--{name}", joined=True, literal=True),
                schema=schema["properties"][name],
                required=name in required,
            )
            for name in names
        ]
