"""One `add_argument` call as a property of a schema: its action, names, type and help."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from skillpouch.signatures.argv import Action
from skillpouch.signatures.python.literals import ResolvedCall, items_of
from skillpouch.signatures.python.scopes import Tracked, defaults_of
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Class,
    Foreign,
    FunctionNode,
    PythonFunction,
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


def read_action(call: ResolvedCall) -> tuple[Action | Printing, Any]:
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
        # It takes no value: to a caller it is a switch, whatever it does.
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
    """Yield each `nargs` that an action's own constructor sets, as 0 or "unknown"."""
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


Kind = Literal["string", "integer", "number"]
Nargs = int | Literal["?", "*", "+", "..."] | None

SUPPRESS = "==SUPPRESS=="

_NARGS: dict[Any, Nargs] = {
    None: None,
    "?": "?",
    "*": "*",
    "+": "+",
    "...": "...",
    "argparse.OPTIONAL": "?",
    "argparse.ZERO_OR_MORE": "*",
    "argparse.ONE_OR_MORE": "+",
    "argparse.REMAINDER": "...",
}
# The texts that these types accept can be checked before the script runs; what any other callable
# accepts is unknown.
_KINDS: dict[str, Kind] = {"int": "integer", "float": "number"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArgparseArgument:
    """An argument as the script declares it; `flags` is empty for a positional."""

    dest: str
    line: int
    flags: tuple[str, ...] = ()
    action: Action = "store"
    nargs: Nargs = None
    kind: Kind = "string"
    choices: Any = None
    default: Any = None
    const: Any = None
    required: bool = False
    help: str = ""
    type: Any = None

    @property
    def flag(self) -> str | None:
        """The flag a command line is written with: the first long one, else the first."""
        return next(filter(_is_long, self.flags), self.flags[0]) if self.flags else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The names that must be unique among the arguments of a parser."""
        return self.flags or (self.dest,)


def declare(call: ResolvedCall, prefix_chars: str) -> ArgparseArgument | None:
    """Return the argument a call declares, None for one that only prints (help, version)."""
    if not call.complete:
        raise UncertainError(
            "an argument is declared with values known only at run time", call.line
        )
    action, nargs = read_action(call)
    if action == "help" or action == "version":  # noqa: PLR1714 - narrows the type
        return None
    flags = _flags(call, prefix_chars)
    if not flags and action in ("append", "extend"):
        action = "store"  # a positional occurs once
    kind = call.get("type", None)
    return ArgparseArgument(
        dest=_dest(call, flags, prefix_chars),
        line=call.line,
        flags=flags,
        action=action,
        nargs=_nargs(nargs, call.line),
        kind=_KINDS.get(kind.name, "string") if isinstance(kind, Reference) else "string",
        choices=call.get("choices", None),
        default=_constant(call.get("default", None)),
        const=call.get("const", None),
        required=call.is_set("required"),
        help=call.text("help"),
        type=kind,
    )


def _flags(call: ResolvedCall, prefix_chars: str) -> tuple[str, ...]:
    names = call.arguments
    if not all(isinstance(name, str) and name for name in names):
        raise UncertainError("the name of an argument is computed at run time", call.line)
    dashed = [name[0] in prefix_chars for name in names]
    if all(dashed):
        return tuple(names)
    if len(names) > 1:
        raise UncertainError("an argument mixes flags and plain names", call.line)
    return ()


def _dest(call: ResolvedCall, flags: tuple[str, ...], prefix_chars: str) -> str:
    if not flags and call.arguments:
        return str(call.arguments[0])
    if dest := call.text("dest"):
        return dest
    if not flags:
        raise UncertainError("an argument has no name", call.line)
    long = [flag for flag in flags if len(flag) > 1 and flag[1] in prefix_chars]
    return (long or flags)[0].lstrip(prefix_chars).replace("-", "_")


def _nargs(value: Any, line: int) -> Nargs:
    if isinstance(value, Reference):
        value = value.name
    # A script without sub-parsers uses these for a sub-command and its words.
    if value in ("A...", "argparse.PARSER"):
        return "+"
    if type(value) is int and value > 0:
        return value
    if value is UNKNOWN or isinstance(value, list | dict) or value not in _NARGS:
        raise UncertainError("the number of values of an argument is computed at run time", line)
    return _NARGS[value]


def _constant(value: Any) -> Any:
    return SUPPRESS if value == Reference("argparse.SUPPRESS") else value


def _is_long(flag: str) -> bool:
    return len(flag) > 2 and flag[0] == flag[1]  # noqa: PLR2004 - `--` and a letter


_PARSING = (
    "parse_args",
    "parse_known_args",
    "parse_intermixed_args",
    "parse_known_intermixed_args",
)


@dataclass(slots=True, eq=False)
class Exclusive:
    """A mutually exclusive group."""

    required: bool
    members: list[ArgparseArgument] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Parser(Tracked):
    """One ArgumentParser; `parsed` is the method with which it parses the command line, or ""."""

    line: int
    description: str = ""
    help: str = ""
    prog: str = ""
    prefix_chars: str = "-"
    replaces: bool = False
    arguments: list[ArgparseArgument] = field(default_factory=list)
    taken: dict[str, ArgparseArgument] = field(default_factory=dict)
    exclusives: list[Exclusive] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    parents: list["Parser"] = field(default_factory=list)
    subparsers: "Subparsers | None" = None
    parsed: str = ""

    def configure(self, call: ResolvedCall) -> None:
        """Apply the arguments of a constructor."""
        if not call.complete:
            raise UncertainError("a parser is made with values known only at run time", call.line)
        prefix_chars = call.get("prefix_chars", "-")
        parents = items_of(call.get("parents", []))
        if not isinstance(prefix_chars, str) or parents is None:
            raise UncertainError("a parser is made with values known only at run time", call.line)
        self.prefix_chars = prefix_chars
        self.description = call.text("description")
        self.prog = call.text("prog")
        self.replaces = call.get("conflict_handler", None) == "resolve"
        for parent in parents:
            if not isinstance(parent, Parser):
                raise UncertainError("a parser has a parent from another module", call.line)
            self._inherit(parent)

    def _inherit(self, parent: "Parser") -> None:
        self.parents.append(parent)
        self.arguments += parent.arguments
        self.taken |= parent.taken
        self.defaults |= parent.defaults
        self.exclusives += [
            Exclusive(required=group.required, members=list(group.members))
            for group in parent.exclusives
        ]

    def invoke(self, method: str, call: ResolvedCall) -> Any:
        if method == "add_argument":
            return self.add(call, None)
        if method == "add_subparsers":
            return self._add_subparsers(call)
        if method in _PARSING:
            self._parse(method, call)
        elif method == "set_defaults":
            self.defaults |= call.keywords
        elif method == "__init__":
            self.configure(call)
        return _group(self, method, call)

    def attribute(self, name: str) -> Any:
        # The groups a parser starts with; scripts rename and reorder them.
        if name in ("_action_groups", "_optionals", "_positionals"):
            return Group(self)
        return Tracked.attribute(self, name)

    def assign(self, name: str, value: Any) -> None:
        if name == "description" and isinstance(value, str):
            self.description = value

    def add(self, call: ResolvedCall, exclusive: Exclusive | None) -> Any:
        declared = declare(call, self.prefix_chars)
        if declared is None or not self._make_room(declared):
            return UNKNOWN
        self.arguments.append(declared)
        if exclusive:
            exclusive.members.append(declared)
        return UNKNOWN

    def _make_room(self, declared: ArgparseArgument) -> bool:
        """Decide between arguments of the same name, which are in different branches."""
        taken = [self.taken[key] for key in declared.keys if key in self.taken]
        if taken and not self.replaces:
            return False
        if taken:
            self.arguments = [one for one in self.arguments if one not in taken]
        self.taken |= dict.fromkeys(declared.keys, declared)
        return True

    def _add_subparsers(self, call: ResolvedCall) -> "Subparsers":
        if self.subparsers is None:
            self.subparsers = Subparsers()
        self.subparsers.required = self.subparsers.required or call.is_set("required")
        return self.subparsers

    def _parse(self, method: str, call: ResolvedCall) -> None:
        words = call.arguments[0] if call.arguments else call.get("args", None)
        if isinstance(words, list | tuple):
            return  # it parses a list in the script, not the command line
        if isinstance(words, Reference) and words.name not in ("sys.argv", "sys.argv[1:]"):
            raise UncertainError("only a part of the command line is parsed", call.line)
        self.parsed = self.parsed or method


@dataclass(slots=True, eq=False)
class Group(Tracked):
    """An argument group: its arguments are those of its parser."""

    parser: Parser
    exclusive: Exclusive | None = None

    def invoke(self, method: str, call: ResolvedCall) -> Any:
        if method == "add_argument":
            return self.parser.add(call, self.exclusive)
        if method == "pop":
            return self
        return _group(self.parser, method, call)


@dataclass(slots=True, eq=False)
class Subparsers(Tracked):
    """The sub-commands of a parser."""

    required: bool = False
    parsers: dict[str, Parser] = field(default_factory=dict)

    def invoke(self, method: str, call: ResolvedCall) -> Any:
        if method != "add_parser":
            return UNKNOWN
        name = call.arguments[0] if call.arguments else call.get("name")
        if not isinstance(name, str) or not name:
            raise UncertainError("the name of a sub-command is computed at run time", call.line)
        parser = Parser(line=call.line, help=call.text("help"))
        parser.configure(call)
        return self.parsers.setdefault(name, parser)

    def attribute(self, name: str) -> Any:
        return self.parsers if name == "choices" else Tracked.attribute(self, name)

    def assign(self, name: str, value: Any) -> None:
        if name == "required":
            self.required = value is True


def _group(parser: Parser, method: str, call: ResolvedCall) -> Any:
    if method == "add_argument_group":
        return Group(parser)
    if method == "add_mutually_exclusive_group":
        exclusive = Exclusive(required=call.is_set("required"))
        parser.exclusives.append(exclusive)
        return Group(parser, exclusive)
    return UNKNOWN


def summary_of(parser: Parser) -> str:
    """Return what a script says about one of its sub-commands."""
    if parser.help or parser.description:
        return parser.help or parser.description
    functions = [value for value in parser.defaults.values() if isinstance(value, PythonFunction)]
    return str(functions[0].attribute("__doc__") or "") if functions else ""
