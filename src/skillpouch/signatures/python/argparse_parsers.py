"""The parsers, groups and sub-commands that a script builds, as they stand while it is followed."""

from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.argparse_arguments import Declared, declare
from skillpouch.signatures.python.calls import Call
from skillpouch.signatures.python.literals import items_of
from skillpouch.signatures.python.tracked import Tracked
from skillpouch.signatures.python.values import UNKNOWN, Function, Reference, UncertainError

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
    members: list[Declared] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Parser(Tracked):
    """One ArgumentParser; `parsed` tells that the script gives it its command line."""

    line: int
    description: str = ""
    help: str = ""
    prog: str = ""
    prefix_chars: str = "-"
    replaces: bool = False
    arguments: list[Declared] = field(default_factory=list)
    taken: dict[str, Declared] = field(default_factory=dict)
    exclusives: list[Exclusive] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    parents: list["Parser"] = field(default_factory=list)
    subparsers: "Subparsers | None" = None
    parsed: str = ""

    def configure(self, call: Call) -> None:
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

    def invoke(self, method: str, call: Call) -> Any:
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

    def add(self, call: Call, exclusive: Exclusive | None) -> Any:
        declared = declare(call, self.prefix_chars)
        if declared is None or not self._make_room(declared):
            return UNKNOWN
        self.arguments.append(declared)
        if exclusive:
            exclusive.members.append(declared)
        return UNKNOWN

    def _make_room(self, declared: Declared) -> bool:
        """Settle arguments that cannot both be there: they stand in different branches."""
        taken = [self.taken[key] for key in declared.keys if key in self.taken]
        if taken and not self.replaces:
            return False
        if taken:
            self.arguments = [one for one in self.arguments if one not in taken]
        self.taken |= dict.fromkeys(declared.keys, declared)
        return True

    def _add_subparsers(self, call: Call) -> "Subparsers":
        if self.subparsers is None:
            self.subparsers = Subparsers()
        self.subparsers.required = self.subparsers.required or call.is_set("required")
        return self.subparsers

    def _parse(self, method: str, call: Call) -> None:
        words = call.arguments[0] if call.arguments else call.get("args", None)
        if isinstance(words, list | tuple):
            return  # words of its own, not those of the command line
        if isinstance(words, Reference) and words.name not in ("sys.argv", "sys.argv[1:]"):
            raise UncertainError("only a part of the command line is parsed", call.line)
        self.parsed = self.parsed or method


@dataclass(slots=True, eq=False)
class Group(Tracked):
    """An argument group: its arguments are those of its parser."""

    parser: Parser
    exclusive: Exclusive | None = None

    def invoke(self, method: str, call: Call) -> Any:
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

    def invoke(self, method: str, call: Call) -> Any:
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


def _group(parser: Parser, method: str, call: Call) -> Any:
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
    functions = [value for value in parser.defaults.values() if isinstance(value, Function)]
    return str(functions[0].attribute("__doc__") or "") if functions else ""
