"""argparse, followed through a program: parsers, sub-commands, groups and their calls."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.command_tree import CliCommand, CommandParameter, interfaces_of
from skillpouch.signatures.python.argparse_arguments import (
    SUPPRESS,
    ArgparseArgument,
    Kind,
    Parser,
    summary_of,
)
from skillpouch.signatures.python.follow import Follower
from skillpouch.signatures.python.lines import Marks
from skillpouch.signatures.python.literals import ResolvedCall, items_of
from skillpouch.signatures.python.outline import (
    Outline,
    UnreadableError,
    may_run,
    outline_of,
    parse_python,
    with_plain_lines,
)
from skillpouch.signatures.python.scopes import Tracked
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Enumeration,
    Foreign,
    Member,
    Reference,
    UncertainError,
    Unknown,
    is_plain,
)
from skillpouch.signatures.signature import JsonSchema, Signature
from skillpouch.signatures.usage_lines import said_when_false

_PLACEHOLDER = re.compile(r"%(?:%|\((?P<name>\w+)\)[-#0-9.]*[a-zA-Z])")


def help_text(declared: ArgparseArgument, default: Any, prog: str) -> str:
    """Return the help on one line; parts that are known only at run time become `…`."""
    if declared.help == SUPPRESS:
        return ""
    known = {
        "default": default,
        "choices": declared.choices,
        "prog": prog or "this script",
        "dest": declared.dest,
        "const": declared.const,
        "type": declared.type.name if isinstance(declared.type, Reference) else None,
        "nargs": declared.nargs,
        "required": declared.required,
    }

    def fill(match: re.Match[str]) -> str:
        return _shown(known.get(match["name"])) if match["name"] else "%"

    return " ".join(_PLACEHOLDER.sub(fill, declared.help).split())


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float) or value is None:
        return str(value)
    items = items_of(value)
    if items is None:
        return "…"
    return ", ".join(_shown(item.value if isinstance(item, Member) else item) for item in items)


_SWITCHES = ("store_true", "store_false", "store_const", "append_const", "boolean_optional")
_TYPES: dict[Kind, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "string": str,
}


def property_schema(declared: ArgparseArgument, default: Any, prog: str) -> JsonSchema:
    """Return the schema of the argument's property; `default` counts set_defaults()."""
    schema = _shape(declared)
    text = help_text(declared, default, prog)
    if declared.action == "store_false" and declared.help != SUPPRESS:
        text = said_when_false(declared.flag or "", text)
    if text:
        schema["description"] = text
    shown = _default(declared, default)
    if shown is not None:
        schema["default"] = shown
    return schema


def takes_many(declared: ArgparseArgument) -> bool:
    """Tell whether one occurrence of the argument takes a list of values."""
    return declared.nargs is not None and declared.nargs != "?"


def _shape(declared: ArgparseArgument) -> JsonSchema:
    if declared.action in _SWITCHES:
        return {"type": "boolean"}
    if declared.action == "count":
        return {"type": "integer", "minimum": 0}
    schema = _single(declared)
    if takes_many(declared):
        schema = {"type": "array", "items": schema, **_length(declared)}
    if declared.action == "append" or (declared.action == "extend" and not takes_many(declared)):
        return {"type": "array", "items": schema}
    return schema


def _length(declared: ArgparseArgument) -> JsonSchema:
    if declared.nargs == "+":
        return {"minItems": 1}
    if isinstance(declared.nargs, int) and declared.action != "extend":
        return {"minItems": declared.nargs, "maxItems": declared.nargs}
    return {}


def _single(declared: ArgparseArgument) -> JsonSchema:
    schema: JsonSchema = {"type": declared.kind}
    choices = declared.choices
    if isinstance(choices, range) and declared.kind == "integer" and choices.step == 1:
        return schema | {"minimum": choices.start, "maximum": choices.stop - 1}
    values = items_of(choices)
    if values is None and isinstance(declared.type, Enumeration):
        values = list(declared.type.members)
    if values:
        enum = [_choice(value, declared) for value in values if value is not None]
        if all(isinstance(value, _TYPES[declared.kind]) for value in enum):
            return schema | {"enum": list(dict.fromkeys(enum))}
    return schema


def _choice(value: Any, declared: ArgparseArgument) -> Any:
    """Return the text a caller passes for a choice, or its number when the type is one."""
    if isinstance(value, Member):
        value = value.value if isinstance(declared.type, Enumeration) else UNKNOWN
    if declared.kind == "string" and isinstance(value, int | float):
        return str(value)
    return value


def _default(declared: ArgparseArgument, default: Any) -> Any:
    if isinstance(default, Member) and isinstance(declared.type, Enumeration):
        default = default.value
    if default is None or default == SUPPRESS or not is_plain(default):
        return None
    if declared.action in _SWITCHES:
        usual = declared.action in ("store_true", "store_const", "append_const")
        return default if isinstance(default, bool) and not (usual and not default) else None
    if takes_many(declared) or declared.action in ("append", "extend"):
        items = [_value(item, declared) for item in default] if isinstance(default, list) else []
        return items if items and None not in items else None
    return None if declared.action == "count" and not default else _value(default, declared)


def _value(value: Any, declared: ArgparseArgument) -> Any:
    """Return a default as its property would hold it, None when it would not fit."""
    kind = "integer" if declared.action == "count" else declared.kind
    if kind == "string":
        return str(value) if isinstance(value, str | int | float) else None
    if isinstance(value, str):
        # argparse puts a default that is text through the type.
        try:
            return int(value) if kind == "integer" else float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, _TYPES[kind]):
        return None
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(CommandParameter):
    """A property, and the arguments it stands for: one, or a switch and its opposite."""

    declared: tuple[ArgparseArgument, ...]


def name_arguments(parser: Parser) -> list[Named]:
    """Name each argument by its `dest`; by its own flag where a `dest` is shared."""
    shared: dict[str, list[ArgparseArgument]] = defaultdict(list)
    for declared in parser.arguments:
        shared[declared.dest].append(declared)
    named: dict[str, Named] = {}
    takes_all = False
    for declared in parser.arguments:
        if takes_all and not declared.flags and declared.nargs in ("?", "*"):
            continue  # argparse gives all words to the list before it, and never one to this
        takes_all = takes_all or (not declared.flags and declared.nargs in ("*", "+", "..."))
        together = shared[declared.dest]
        if len(together) > 1 and _are_opposites(together):
            if declared is together[0]:
                named[declared.dest] = _opposites(together, parser)
            continue
        name = declared.dest if len(together) == 1 else _own_name(declared, parser.prefix_chars)
        name = _free(name, named)
        named[name] = _named(name, declared, parser)
    return list(named.values())


def _named(name: str, declared: ArgparseArgument, parser: Parser) -> Named:
    default, flag = declared.default, declared.flag
    if default is None and declared.action == "store_false":
        default = True
    return Named(
        name=name,
        declared=(declared,),
        argument=ArgvArgument(
            name=name,
            flag=flag,
            action=declared.action,
            nargs=declared.nargs,
            off_flag=_off_flag(declared),
            after_dashes=not declared.flags,
            others=_others(declared, flag),
        ),
        schema=property_schema(declared, parser.defaults.get(declared.dest, default), parser.prog),
        required=_is_required(declared),
    )


def _others(declared: ArgparseArgument, first: str | None) -> tuple[str, ...]:
    if len(declared.flags) <= 1:  # most of them
        return ()
    return tuple(flag for flag in declared.flags if flag != first)


def _is_required(declared: ArgparseArgument) -> bool:
    if declared.flags:
        return declared.required
    return declared.nargs not in ("?", "*", "...")


def _are_opposites(together: Iterable[ArgparseArgument]) -> bool:
    return sorted(declared.action for declared in together) == ["store_false", "store_true"]


def _opposites(together: list[ArgparseArgument], parser: Parser) -> Named:
    on, off = sorted(together, key=lambda declared: declared.action, reverse=True)
    default = parser.defaults.get(on.dest, on.default if on.default is not None else off.default)
    schema = property_schema(on, None, parser.prog)
    without = help_text(off, None, parser.prog)
    if without and off.help != SUPPRESS:
        shown = [schema.get("description", ""), f"false passes {off.flag}: {without}"]
        schema["description"] = "; ".join(filter(None, shown))
    if isinstance(default, bool):
        schema["default"] = default
    return Named(
        name=on.dest,
        declared=(on, off),
        argument=ArgvArgument(
            name=on.dest,
            flag=on.flag,
            action="boolean_optional",
            off_flag=off.flag,
            others=_others(on, on.flag),
        ),
        schema=schema,
    )


def _off_flag(declared: ArgparseArgument) -> str | None:
    if declared.action != "boolean_optional" or not declared.flag:
        return None
    return f"--no-{declared.flag[2:]}" if declared.flag.startswith("--") else None


def _own_name(declared: ArgparseArgument, prefix_chars: str) -> str:
    if not declared.flag:
        return declared.dest
    return declared.flag.lstrip(prefix_chars).replace("-", "_")


def _free(name: str, taken: Iterable[str]) -> str:
    count = 2
    free = name
    while free in taken:
        free = f"{name}_{count}"
        count += 1
    return free


# A property with this value adds no word, so argparse does not see it.
_OFF: dict[str, Any] = {
    "store_true": False,
    "store_const": False,
    "append_const": False,
    "store_false": True,
    "count": 0,
}


# Each pair needs an entry in the schema; in larger groups only argparse itself refuses a pair.
_LARGEST_GROUP = 20


def constrain(schema: JsonSchema, level: Sequence[CommandParameter], *, parser: Parser) -> None:
    """Add the rules of mutually exclusive groups to a schema."""
    named = [item for item in level if isinstance(item, Named)]
    for group in parser.exclusives:
        members = [item for item in named if not {*group.members}.isdisjoint(item.declared)]
        if 1 < len(members) <= _LARGEST_GROUP:
            _exclude(schema, members)
        if members and group.required:
            _require_one(schema, members)


def _exclude(schema: JsonSchema, members: Sequence[Named]) -> None:
    dependent = schema.setdefault("dependentSchemas", {})
    # One entry per pair is enough: the rule holds in both directions.
    for position, item in enumerate(members[:-1], start=1):
        others: JsonSchema = {
            "properties": {other.name: _when_off(other) for other in members[position:]}
        }
        if item.argument.action in _OFF:
            off = {"properties": {item.name: _when_off(item)}}
            others = {"if": off, "else": others}
        dependent[item.name] = others


def _when_off(item: Named) -> Any:
    action = item.argument.action
    return {"const": _OFF[action]} if action in _OFF else False


def _when_given(item: Named) -> JsonSchema:
    """Return the schema of an object in which a word is passed for this argument."""
    given: JsonSchema = {"required": [item.name]}
    if item.argument.action in _OFF:
        given["properties"] = {item.name: {"not": {"const": _OFF[item.argument.action]}}}
    return given


def _require_one(schema: JsonSchema, members: Sequence[Named]) -> None:
    names = [item.name for item in members]
    switches = any(item.argument.action in _OFF for item in members)
    required = schema.get("required", [])
    if len(names) == 1 and not switches:
        schema["required"] = [*required, *names]
    elif not switches and set(schema["properties"]) == {*required, *names}:
        schema["minProperties"] = len(required) + 1
    else:
        schema.setdefault("allOf", []).append({"anyOf": [_when_given(item) for item in members]})
    for name in names:
        described = schema["properties"][name].get("description", "")
        rule = f"(exactly one of {', '.join(names)} is required)" if names[1:] else "(required)"
        schema["properties"][name]["description"] = f"{described} {rule}".strip()


def command_of(parser: Parser, description: str = "") -> CliCommand:
    """Return the command line of a parser and of everything below it."""
    inner = parser.subparsers.parsers if parser.subparsers else {}
    needs_one = bool(parser.subparsers and parser.subparsers.required) or not parser.arguments
    return CliCommand(
        description=description or parser.description,
        parameters=name_arguments(parser),
        commands={word: command_of(one, summary_of(one)) for word, one in inner.items()},
        alone=not (inner and needs_one),
        constrain=partial(constrain, parser=parser),
    )


_PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
_WORDS = (
    "ArgumentParser",
    "add_argument",
    "add_argument_group",
    "add_mutually_exclusive_group",
    "add_subparsers",
    "add_parser",
    "set_defaults",
    *_PARSING,
)


def read_argparse(outline: Outline) -> Signature | None:
    """Return the interface an argparse script gives itself, None when it makes no parser."""
    is_here = "argparse" in outline.text
    if not is_here and (outline.module_text is None or "parse_args(" not in outline.text):
        return None
    try:
        parser = _find_parser(outline)
    except UncertainError:
        parser = _find_with_modules(outline)
        if parser is None and is_here:
            raise
    if parser is None:
        return None
    interface, commands = interfaces_of(command_of(parser))
    return Signature(reader="argparse", interface=interface, commands=commands)


def _find_with_modules(outline: Outline) -> Parser | None:
    """Find a parser that other files of the skill make or complete; None if that is uncertain."""
    text_of = outline.module_text
    if text_of is None:
        return None

    def read(module: str) -> Outline | None:
        text = with_plain_lines(text_of(module))
        try:
            return outline_of(text, parse_python(text)) if text else None
        except UnreadableError:
            return None

    try:
        return _find_parser(outline, read)
    except UncertainError:
        return None


def _find_parser(
    outline: Outline, modules: Callable[[str], Outline | None] | None = None
) -> Parser | None:
    parsers: list[Parser] = []

    def make(call: ResolvedCall) -> Tracked:
        parser = Parser(line=call.line)
        parser.configure(call)
        parsers.append(parser)
        return parser

    follower = Follower(
        outline,
        words=(*_WORDS, *_aliases(outline)),
        makers={"argparse.ArgumentParser": make},
        on_unfollowed=_refuse_unfollowed,
        modules=modules,
    )
    try:
        follower.run_module()
        waiting = [] if any(parser.parsed for parser in parsers) else _entries(outline)
        for name in waiting:
            follower.run_definition(name)
            if any(parser.parsed for parser in parsers):
                break
    finally:
        follower.release()
    return _choose(parsers)


def _aliases(outline: Outline) -> list[str]:
    made = "argparse.ArgumentParser"
    return [f"{name}(" for name, origin in outline.origins.items() if origin == made]


def _refuse_unfollowed(owner: Foreign | Unknown, method: str, call: ResolvedCall) -> None:
    """Refuse a parser that was not made in this file.

    Objects of other libraries have an `add_argument`, too (a browser's options), but only parsers
    have the methods that parse.
    """
    if isinstance(owner, Foreign) and method in _PARSING:
        raise UncertainError(f"its parser is made by {owner.origin}", call.line)
    if isinstance(owner, Unknown) and method in _WORDS:
        raise UncertainError("its parser could not be followed", call.line)


def _entries(outline: Outline) -> list[str]:
    """Return the functions and classes in which a parser may be made or used."""
    marks = Marks()
    words = ("ArgumentParser(", *_PARSING, *_aliases(outline))
    marks.add(line for word in words for line in outline.lines.of(word))
    own = {**outline.functions, **outline.classes}
    names = [name for name, node in own.items() if marks.within_node(node)]
    return sorted((each for each in names if may_run(outline, each)), key=lambda n: n != "main")


def _choose(parsers: Sequence[Parser]) -> Parser | None:
    """Return the parser that gets the command line; a helper may have made it more than once."""
    distinct: dict[int, Parser] = {}
    for parser in parsers:
        distinct.setdefault(parser.line, parser)
    inherited = {parent.line for parser in parsers for parent in parser.parents}
    parsed = [parser for parser in distinct.values() if parser.parsed]
    parsed = [parser for parser in parsed if parser.line not in inherited] or parsed
    if not parsed:
        parsed = [parser for parser in distinct.values() if parser.line not in inherited]
    if len(parsed) > 1:
        return _merge(sorted(parsed, key=lambda parser: parser.parsed == "parse_args"))
    return parsed[0] if parsed else None


def _merge(parsers: Sequence[Parser]) -> Parser:
    """Merge parsers that read one command line in turn; all but the last ignore unknown words."""
    *early, last = parsers
    for parser in early:
        only_flags = all(declared.flags for declared in parser.arguments)
        if parser.parsed != "parse_known_args" or parser.subparsers or not only_flags:
            raise UncertainError("more than one parser reads the command line", parser.line)
        known = {flag for declared in last.arguments for flag in declared.flags}
        last.arguments += [one for one in parser.arguments if not known & set(one.flags)]
    return last
