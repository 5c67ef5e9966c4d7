"""click: commands, groups and parameters, read from decorators."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.command_tree import CliCommand, CommandParameter, interfaces_of
from skillpouch.signatures.python.annotations import enum_schema
from skillpouch.signatures.python.literals import ResolvedCall, items_of, read_call
from skillpouch.signatures.python.outline import Outline, mentions_when_run
from skillpouch.signatures.python.scopes import Scope
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Enumeration,
    Foreign,
    FunctionNode,
    PythonFunction,
    Reference,
    UncertainError,
    is_plain,
)
from skillpouch.signatures.signature import JsonSchema, Signature

_TYPES = {
    "int": "integer",
    "click.INT": "integer",
    "click.IntRange": "integer",
    "float": "number",
    "click.FLOAT": "number",
    "click.FloatRange": "number",
    "bool": "boolean",
    "click.BOOL": "boolean",
}
_PREFIX = re.compile(r"[^\w]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionNames:
    """What the words of an option's declaration mean."""

    name: str
    flags: tuple[str, ...]
    off_flags: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return longest_prefix(self.flags)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(flag for flag in self.flags if flag != self.flag)

    @property
    def off_flag(self) -> str | None:
        return longest_prefix(self.off_flags) if self.off_flags else None


def read_option(node: ast.Call, scope: Scope) -> CommandParameter:
    """Return the property an option stands for."""
    call = _checked(node, scope)
    names = option_names(call)
    default = call.get("default", None)
    schema = value_schema(node, call, scope)
    action: Any = "store"
    nargs: int | None = None
    if call.is_set("count"):
        schema, action = {"type": "integer", "minimum": 0}, "count"
    elif names.off_flags:
        schema, action = {"type": "boolean"}, "boolean_optional"
    elif call.is_set("is_flag") or "flag_value" in call.keywords:
        schema, action = {"type": "boolean"}, "store_true"
        default = None
    else:
        nargs = _nargs(call)
        schema = many(schema, nargs)
    if call.is_set("multiple"):
        schema, action = {"type": "array", "items": schema}, "append"
    return CommandParameter(
        name=names.name,
        argument=ArgvArgument(
            name=names.name,
            flag=names.flag,
            action=action,
            nargs=nargs,
            off_flag=names.off_flag,
            others=names.others,
        ),
        schema=schema | about(call.text("help"), default),
        required=call.is_set("required") or call.get("prompt", False) not in (False, None),
    )


def read_argument(node: ast.Call, scope: Scope) -> CommandParameter:
    """Return the property an argument stands for."""
    call = _checked(node, scope)
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], str):
        raise UncertainError("the name of an argument is computed at run time", call.line)
    name = call.arguments[0].replace("-", "_").lower()
    count = call.get("nargs", 1)
    if type(count) is not int:
        raise UncertainError("the number of values of an argument is computed", call.line)
    required = call.get("required", count > 0 and "default" not in call.keywords) is True
    schema = value_schema(node, call, scope)
    nargs: Any = None if required else "?"
    if count < 0:
        nargs = "+" if required else "*"
    elif count > 1:
        nargs = count
    schema = many(schema, nargs)
    return CommandParameter(
        name=name,
        argument=ArgvArgument(name=name, nargs=nargs, after_dashes=True),
        schema=schema | about(call.text("help"), call.get("default", None)),
        required=required,
    )


def option_names(call: ResolvedCall) -> OptionNames:
    """Split `("-s", "--shout/--no-shout", "loud")` into a name, flags and flags that say no."""
    name, flags, off_flags = "", [], []
    for declared in call.arguments:
        if not isinstance(declared, str) or not declared:
            raise UncertainError("the name of an option is computed at run time", call.line)
        if declared.isidentifier():
            name = declared
            continue
        first, _, second = declared.partition(";" if declared.startswith("/") else "/")
        if first.strip():
            flags.append(first.strip())
        if second.strip():
            off_flags.append(second.strip())
    if not flags:
        raise UncertainError("an option has no flag", call.line)
    bare = _PREFIX.sub("", longest_prefix(flags), count=1)
    return OptionNames(
        name=name or bare.replace("-", "_").lower(), flags=tuple(flags), off_flags=tuple(off_flags)
    )


def longest_prefix(flags: list[str] | tuple[str, ...]) -> str:
    """Return the first flag with the most dashes."""
    return max(flags, key=lambda flag: len(_PREFIX.match(flag)[0]))  # type: ignore[index]  # always matches


def value_schema(node: ast.Call, call: ResolvedCall, scope: Scope) -> JsonSchema:
    """Return the schema of one value: from the type, else from the default."""
    types = [keyword.value for keyword in node.keywords if keyword.arg == "type"]
    if types:
        return _type_schema(types[0], scope)
    default = call.get("default", None)
    if call.is_set("multiple") and isinstance(default, list | tuple) and default:
        default = default[0]
    kinds = {bool: "boolean", int: "integer", float: "number"}
    return {"type": kinds.get(type(default), "string")}


def _type_schema(node: ast.expr, scope: Scope) -> JsonSchema:
    value = scope.value(node)
    if isinstance(value, Enumeration):
        return enum_schema([member.name for member in value.members])
    name = value.name if isinstance(value, Reference) else getattr(value, "origin", "")
    name = name.replace("rich_click.", "click.")
    schema: JsonSchema = {"type": _TYPES.get(name, "string")}
    if not isinstance(node, ast.Call) or not isinstance(value, Foreign):
        return schema
    call = read_call(node, scope)
    if name == "click.Choice":
        choices = items_of(call.arguments[0]) if call.arguments else None
        if choices and all(isinstance(choice, str) for choice in choices):
            return schema | {"enum": choices}
    if name in ("click.IntRange", "click.FloatRange"):
        return schema | _range(call)
    return schema


def _range(call: ResolvedCall) -> JsonSchema:
    bounds: JsonSchema = {}
    for position, (name, open_name, key) in enumerate(
        (("min", "min_open", "minimum"), ("max", "max_open", "maximum"))
    ):
        given = call.arguments[position] if position < len(call.arguments) else call.get(name)
        if isinstance(given, int | float):
            exclusive = f"exclusive{key.capitalize()}"
            bounds[exclusive if call.is_set(open_name) else key] = given
    return bounds


def many(schema: JsonSchema, nargs: Any) -> JsonSchema:
    """Return the schema of as many values as `nargs` asks for."""
    if nargs is None or nargs == "?":
        return schema
    length: JsonSchema = {"minItems": 1} if nargs == "+" else {}
    if isinstance(nargs, int):
        length = {"minItems": nargs, "maxItems": nargs}
    return {"type": "array", "items": schema, **length}


def about(text: str, default: Any) -> JsonSchema:
    """Return the description and the default, if there are any."""
    said: JsonSchema = {"description": " ".join(text.split())} if text else {}
    if default is not None and default is not UNKNOWN and is_plain(default):
        said["default"] = list(default) if isinstance(default, tuple) else default
    return said


def _nargs(call: ResolvedCall) -> int | None:
    count = call.get("nargs", 1)
    if type(count) is not int or count < 1:
        raise UncertainError("the number of values of an option is computed", call.line)
    return count if count > 1 else None


def _checked(node: ast.Call, scope: Scope) -> ResolvedCall:
    call = read_call(node, scope)
    if not call.complete or "cls" in call.keywords:
        raise UncertainError("an option is declared with values known only at run time", call.line)
    return call


_MODULES = ("click", "rich_click", "asyncclick")
# Since click 8.2, these suffixes are removed from a command's name.
_SUFFIXES = ("command", "cmd", "group", "grp")


@dataclass(slots=True, eq=False)
class ClickCommand:
    """A decorated function while the script is read; groups collect their commands."""

    node: FunctionNode
    word: str
    help: str
    is_group: bool
    alone: bool
    parameters: list[CommandParameter]
    commands: dict[str, "ClickCommand"] = field(default_factory=dict)
    has_parent: bool = False

    def command(self) -> CliCommand:
        return CliCommand(
            description=self.help.partition("\f")[0],
            parameters=self.parameters,
            commands={word: one.command() for word, one in self.commands.items()},
            alone=not self.is_group or (self.alone and not _only_helps(self.node)),
        )


def read_click(outline: Outline) -> Signature | None:
    """Return the interface of the command that the script runs, None without one."""
    if not any(name.partition(".")[0] in _MODULES for name in outline.imports):
        return None
    scope = Scope(outline, outline.tree.body)
    found: dict[str, ClickCommand] = {}
    for node in outline.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _read_function(node, scope, found)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            _read_added(node.value, scope, found)
    if not found:
        return None
    root = _root(outline, found).command()
    interface, commands = interfaces_of(root)
    runs_alone = root.alone and bool(commands)
    return Signature(reader="click", interface=interface, commands=commands, runs_alone=runs_alone)


def click_name(node: ast.expr, outline: Outline) -> str:
    """Return `option` for `click.option`, "" for what is not click's."""
    module, _, name = outline.dotted(node).partition(".")
    return name if module in _MODULES else ""


def _root(outline: Outline, found: dict[str, ClickCommand]) -> ClickCommand:
    roots = {name: one for name, one in found.items() if not one.has_parent}
    if len(roots) > 1:
        roots = {name: one for name, one in roots.items() if mentions_when_run(outline, name)}
    if len(roots) != 1:
        raise UncertainError("it is not certain which of its commands runs")
    return next(iter(roots.values()))


def _read_function(node: FunctionNode, scope: Scope, found: dict[str, ClickCommand]) -> None:
    decorators = [_resolved(decorator, scope) for decorator in node.decorator_list]
    for decorator in decorators:
        made = _command(node, decorator, scope, found)
        if made:
            made.parameters += _parameters(decorators, decorator, scope)
            found[node.name] = made
            return


def _resolved(decorator: ast.expr, scope: Scope) -> ast.expr:
    """Return the expression of a decorator that has a name: `verbose = option(…)`."""
    if isinstance(decorator, ast.Name):
        return scope.stores.get(decorator.id) or decorator
    return decorator


def _command(
    node: FunctionNode, decorator: ast.expr, scope: Scope, found: dict[str, ClickCommand]
) -> ClickCommand | None:
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
    made = ClickCommand(
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


def _only_helps(node: FunctionNode) -> bool:
    """Tell whether a group without a command shows its help."""
    return any(
        isinstance(part, ast.Attribute) and part.attr in ("get_help", "format_help")
        for part in ast.walk(node)
    )


def _word(name: str) -> str:
    word = name.lower().replace("_", "-")
    left, _, suffix = word.rpartition("-")
    return left if left and suffix in _SUFFIXES else word


def _attach(parent: ClickCommand, made: ClickCommand, word: str) -> None:
    made.has_parent = True
    parent.commands[word] = made


def _read_added(call: ast.Call, scope: Scope, found: dict[str, ClickCommand]) -> None:
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


def _parameters(
    decorators: list[ast.expr], command: ast.expr, scope: Scope
) -> Iterator[CommandParameter]:
    taken: set[str] = set()
    for decorator in decorators:
        parameter = None if decorator is command else _parameter(decorator, scope)
        if parameter and parameter.name in taken and parameter.argument.flag:
            # Several flags set one parameter: each becomes a switch of its own.
            name = parameter.argument.flag.lstrip("-").replace("-", "_")
            parameter = replace(
                parameter, name=name, argument=parameter.argument._replace(name=name)
            )
        if parameter:
            taken.add(parameter.name)
            yield parameter


def _parameter(decorator: ast.expr, scope: Scope) -> CommandParameter | None:
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
    """Tell whether a decorator adds no options: click's own, or one of this file without any."""
    if isinstance(decorator, Foreign):
        return decorator.origin.partition(".")[0] in _MODULES
    return isinstance(decorator, PythonFunction) and not any(
        isinstance(part, ast.Attribute) and part.attr in ("option", "argument")
        for part in ast.walk(decorator.node)
    )
