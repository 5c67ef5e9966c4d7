"""Options that are declared with commander or with util.parseArgs."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.command_tree import CliCommand, CommandParameter
from skillpouch.signatures.javascript.expressions import FunctionExpression
from skillpouch.signatures.javascript.functions import schema_of_default
from skillpouch.signatures.javascript.statements import declared_names
from skillpouch.signatures.javascript.syntax import read_program
from skillpouch.signatures.javascript.tokens import Code, Span
from skillpouch.signatures.javascript.values import (
    NOT_LITERAL,
    ObjectMember,
    read_entries,
    read_literal,
)
from skillpouch.signatures.signature import JsonSchema
from skillpouch.signatures.usage_lines import Planned, said_when_false

# Calls of which only `read_commands` knows the order and the owner.
_UNCLEAR = frozenset({"command", "addCommand", "addOption", "addArgument", "addHelpOption"})
_READ = frozenset({"option", "requiredOption", "argument", "arguments"})
_FLAG = re.compile(r"(?:(-\w)(?:[ ,|]+|$))?(--[A-Za-z][\w-]*)?(?:[ =](<[^<>]*>|\[[^\[\]]*\]))?")
_POSITIONAL = re.compile(r"<([\w-]+)(\.\.\.)?>|\[([\w-]+)(\.\.\.)?\]|([\w-]+)()")
_PARSERS = {"parseInt": "integer", "parseFloat": "number", "Number": "number"}


def read_commander(code: Code) -> list[Planned] | None:
    """Return the arguments that the calls declare; None if one of them is not a literal."""
    planned: list[Planned] = []
    for position in code.find(*_UNCLEAR, *_READ):
        method = code[position].text
        if code[position - 1].text != "." or code[position + 1].text != "(":
            continue
        found = None if method in _UNCLEAR else _read_call(code, method, position + 1)
        if found is None:
            return None
        planned += found
    return planned


def described_by_commander(code: Code) -> str:
    """The text that the program gives its own `--help`."""
    for position in code.find("description"):
        if code[position - 1].text == "." and code[position + 1].text == "(":
            text = read_literal(code, (position + 2, code.after(position + 1) - 1))
            return text if isinstance(text, str) else ""
    return ""


def _read_call(code: Code, method: str, opener: int) -> list[Planned] | None:
    parts = code.split((opener + 1, code.after(opener) - 1), ",")
    values = [read_literal(code, part) for part in parts]
    if not values or not isinstance(values[0], str):
        return None
    if method == "arguments":
        read = [_read_positional(word, values[:1]) for word in values[0].split()]
        known = [each for each in read if each is not None]
        return known if len(known) == len(read) else None
    if method == "argument":
        one = _read_positional(values[0], values)
    else:
        one = _read_option(values[0], values, _parser(code, parts), required=method != "option")
    return None if one is None else [one]


def _parser(code: Code, parts: list[Span]) -> str:
    """The type that the function given as third argument makes of the text."""
    words = [code[start].text for start, end in parts[2:3] if end - start == 1]
    return _PARSERS.get(words[0], "") if words else ""


def _read_option(flags: str, values: list[Any], parser: str, *, required: bool) -> Planned | None:
    match = _FLAG.fullmatch(flags.strip())
    if match is None or not (match.group(1) or match.group(2)):
        return None
    flag, value = match.group(2) or match.group(1), match.group(3) or ""
    others = (match.group(1),) if match.group(1) and match.group(2) else ()
    name = flag.lstrip("-").replace("-", "_")
    if not value:
        return _read_switch(name, flag, others, values)
    kind = parser or schema_of_default(_default(values)).get("type", "string")
    schema: JsonSchema = {"type": kind if kind in {"integer", "number"} else "string"}
    mandatory = value[0] == "<"
    if value[1:-1].endswith("..."):
        nargs: Any = "+" if mandatory else "*"
        words = ArgvArgument(name=name, flag=flag, nargs=nargs, others=others)
        return Planned(words, _described({"type": "array", "items": schema}, values), required)
    shown = _described(_with_default(schema, values), values)
    nargs = None if mandatory else "?"
    argument = ArgvArgument(name=name, flag=flag, nargs=nargs, others=others)
    return Planned(argument, shown, required and "default" not in shown)


def _read_switch(name: str, flag: str, others: tuple[str, ...], values: list[Any]) -> Planned:
    schema = _described({"type": "boolean"}, values)
    if name.startswith("no_"):
        name = name.removeprefix("no_")
        argument = ArgvArgument(name=name, flag=flag, action="store_false", others=others)
        said = said_when_false(flag, schema.get("description", ""))
        return Planned(argument, {**schema, "description": said, "default": True})
    argument = ArgvArgument(name=name, flag=flag, action="store_true", others=others)
    return Planned(argument, schema)


def _read_positional(word: str, values: list[Any]) -> Planned | None:
    match = _POSITIONAL.fullmatch(word.strip())
    if match is None:
        return None
    required, name = match.group(3) is None, match.group(1) or match.group(3) or match.group(5)
    name = name.replace("-", "_")
    schema: JsonSchema = {"type": "string"}
    if match.group(2) or match.group(4):
        argument = ArgvArgument(name=name, nargs="+" if required else "*", after_dashes=True)
        return Planned(argument, _described({"type": "array", "items": schema}, values), required)
    argument = ArgvArgument(name=name, nargs=None if required else "?", after_dashes=True)
    return Planned(argument, _described(_with_default(schema, values), values), required)


def _default(values: list[Any]) -> Any:
    """The last argument after the description; a function before it makes the value."""
    plain = [value for value in values[2:4] if value is not NOT_LITERAL]
    return plain[-1] if plain else None


def _with_default(schema: JsonSchema, values: list[Any]) -> JsonSchema:
    default = _default(values)
    fits = schema_of_default(default).get("type") in {schema["type"], "number"}
    number = schema["type"] in {"integer", "number"}
    return (
        {**schema, "default": default}
        if fits and number == (not isinstance(default, str))
        else schema
    )


def _described(schema: JsonSchema, values: list[Any]) -> JsonSchema:
    text = values[1] if len(values) > 1 else None
    return {**schema, "description": text} if isinstance(text, str) and text else schema


_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_OWN_WORDS = (  # expressions for all words of the command line
    ("process", ".", "argv", ".", "slice", "(", "2", ")"),
    ("argv", ".", "slice", "(", "2", ")"),
    ("Bun", ".", "argv", ".", "slice", "(", "2", ")"),
    ("Deno", ".", "args"),
)
_ASKS_FOR_TEXT = frozenset({"help", "version"})
UTIL = frozenset({"util", "node:util"})
_DECLARE = frozenset({"function", "const", "let", "var"})


def parse_args_calls(code: Code) -> list[int]:
    """Return the positions of calls of `parseArgs`; none if the script defines its own."""
    if any(code[at - 1].text in _DECLARE for at in code.find("parseArgs")):
        return []
    return [at for at in code.find("parseArgs") if code[at + 1].text == "("]


def find_parse_args(code: Code, modules: frozenset[str]) -> int | None:
    """The position of the only call of Node's `parseArgs`."""
    calls = parse_args_calls(code) if modules & UTIL else []
    return calls[0] if len(calls) == 1 else None


def read_parse_args(code: Code, call: int) -> list[Planned] | None:
    """The arguments that the call describes; None when something in it is not literal."""
    opener = call + 2
    if code[opener].text != "{":
        return None
    config = {entry.key: entry.value for entry in read_entries(code, opener)}
    if "" in config or not _reads_all_words(code, config.get("args")):
        return None
    options = _read_options(code, config["options"]) if "options" in config else []
    positionals = read_literal(code, config.get("allowPositionals", (0, 0)))
    if options is None:
        return None
    return [*options, *_words(options)] if positionals is True else options


def _reads_all_words(code: Code, span: Span | None) -> bool:
    if span is None:
        return True
    declared = declared_names(code).get(code[span[0]].text) if span[1] - span[0] == 1 else None
    start = declared.position if declared else span[0]
    return any(code.texts(start, len(words)) == words for words in _OWN_WORDS)


def _read_options(code: Code, span: Span) -> list[Planned] | None:
    start = span[0]
    if span[1] - start == 1 and code[start].text in (names := declared_names(code)):
        start = names[code[start].text].position
    if code[start].text != "{":
        return None
    options = [_read_parse_args_option(code, entry) for entry in read_entries(code, start)]
    known = [option for option in options if option is not None]
    if len(known) < len(options):
        return None
    return [each for each in known if each.argument.name not in _ASKS_FOR_TEXT]


def _read_parse_args_option(code: Code, entry: ObjectMember) -> Planned | None:
    if code[entry.value[0]].text != "{" or not _NAME.fullmatch(entry.key):
        return None
    settings = {
        each.key: read_literal(code, each.value) for each in read_entries(code, entry.value[0])
    }
    if settings.get("type") not in {"string", "boolean"}:
        return None
    name, flag = entry.key.replace("-", "_"), f"--{entry.key}"
    short = settings.get("short")
    others = (f"-{short}",) if isinstance(short, str) and len(short) == 1 else ()
    schema = {"type": settings["type"]}
    if settings["type"] == "boolean":
        switch = ArgvArgument(name=name, flag=flag, action="store_true", others=others)
        return Planned(switch, schema)
    if settings.get("multiple") is True:
        schema = {"type": "array", "items": schema}
        return Planned(ArgvArgument(name=name, flag=flag, action="append", others=others), schema)
    default = settings.get("default")
    shown = {"default": default} if isinstance(default, str) else {}
    return Planned(ArgvArgument(name=name, flag=flag, others=others), schema | shown)


def _words(options: list[Planned]) -> list[Planned]:
    taken = {option.argument.name for option in options}
    name = next(name for name in ("args", "positionals", "_") if name not in taken)
    words = {"type": "array", "items": {"type": "string"}}
    return [Planned(ArgvArgument(name=name, nargs="*", after_dashes=True), words)]


class _UnreadError(Exception):
    """A command is made in a way that is not read."""


@dataclass(slots=True, eq=False)
class _Command:
    """A command of commander while the program is read."""

    word: str = ""
    description: str = ""
    planned: list[Planned] = field(default_factory=list)
    commands: dict[str, "_Command"] = field(default_factory=dict)
    acts: bool = False
    parses: bool = False
    is_attached: bool = False

    def made(self) -> CliCommand:
        return CliCommand(
            description=self.description,
            parameters=[
                CommandParameter(
                    name=one.argument.name,
                    argument=one.argument,
                    schema=one.schema,
                    required=one.required,
                )
                for one in self.planned
            ],
            commands={word: one.made() for word, one in self.commands.items()},
            alone=self.acts or not self.commands,
        )


@dataclass(slots=True, eq=False)
class _Declared:
    """A `new Option(…)` or `new Argument(…)`."""

    is_option: bool
    values: list[Any]
    required: bool = False
    choices: list[str] = field(default_factory=list)


def read_commands(code: Code) -> CliCommand | None:
    """Return the commands of a program that uses commander; None if one of them is not read."""
    reader = _CommandReader()
    try:
        reader.statements(read_program(code))
    except _UnreadError:
        return None
    roots = [one for one in reader.made if not one.is_attached and (one.commands or one.planned)]
    parsing = [one for one in roots if one.parses] or roots
    return parsing[0].made() if len(parsing) == 1 else None


class _CommandReader:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.made: list[_Command] = []
        self.program = self._new("")

    def _new(self, word: str) -> _Command:
        self.made.append(_Command(word))
        return self.made[-1]

    def statements(self, body: Iterable[ast.AST]) -> None:
        """Follow statements, also within blocks and functions, in their order."""
        for node in body:
            if isinstance(node, ast.Assign):
                self._assign(node)
            elif isinstance(node, ast.expr):
                self.value(node)
            else:
                self.statements(ast.iter_child_nodes(node))

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        target = node.targets[0]
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Dict) and value is self.program:
            names = [one.id for one in target.values if isinstance(one, ast.Name)]
            self.names |= {name: value for name in names if name == "program"}

    def value(self, node: ast.AST) -> Any:
        """Return the command, option or plain value of an expression; None for anything else."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, self.program if node.id == "program" else None)
        if isinstance(node, ast.NamedExpr):
            return self.value(node.value)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, FunctionExpression):
            if not {"command", "option", "addCommand"}.isdisjoint(node.names):
                self.statements(node.body)
            return None
        for child in ast.iter_child_nodes(node):
            self.value(child)
        return None

    def _call(self, node: ast.Call) -> Any:
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        owner = self.value(called.value) if isinstance(called, ast.Attribute) else None
        if isinstance(owner, _Command) and name not in ("Command", "Option", "Argument"):
            return self._on_command(owner, name, node.args)
        if isinstance(owner, _Declared):
            return _on_declared(owner, name, [_plain(each) for each in node.args])
        plain = [_plain(each) for each in node.args]
        if name == "require" and plain == ["commander"]:
            return self.program
        if name == "Command":
            return self._new(plain[0] if plain and isinstance(plain[0], str) else "")
        if name in ("Option", "Argument"):
            return _Declared(name == "Option", plain)
        if isinstance(called, FunctionExpression):
            self.value(called)
        if any(isinstance(self.value(each), _Command) for each in node.args):
            raise _UnreadError  # another function may add to the command
        return None

    def _on_command(self, owner: _Command, name: str, nodes: list[ast.expr]) -> Any:
        plain = [_plain(each) for each in nodes]
        if name in _READ:
            owner.planned += _declared_by(name, plain, nodes)
        elif name == "command":
            return self._sub_command(owner, plain)
        elif name in ("addCommand", "addOption", "addArgument"):
            self._add(owner, self.value(nodes[0]) if nodes else None)
        elif name in ("description", "name") and plain and isinstance(plain[0], str):
            setattr(owner, "word" if name == "name" else name, plain[0])
        owner.parses = owner.parses or name in ("parse", "parseAsync")
        owner.acts = owner.acts or name == "action"
        return None if name in ("opts", "args", "getOptionValue") else owner

    def _sub_command(self, owner: _Command, plain: list[Any]) -> _Command:
        words = plain[0].split() if plain and isinstance(plain[0], str) else []
        if not words or isinstance(plain[1] if plain[1:] else None, str):
            raise _UnreadError  # its name is computed, or another file is run
        made = self._new(words[0])
        made.is_attached = True
        for word in words[1:]:
            made.planned += _known(_read_positional(word, [word]))
        owner.commands[made.word] = made
        return made

    def _add(self, owner: _Command, added: Any) -> None:
        if isinstance(added, _Command) and added.word:
            added.is_attached = True
            owner.commands[added.word] = added
        elif isinstance(added, _Declared) and added.values and isinstance(added.values[0], str):
            owner.planned.append(_planned(added))
        else:
            raise _UnreadError


def _known(planned: Planned | None) -> list[Planned]:
    if planned is None:
        raise _UnreadError
    return [planned]


def _declared_by(name: str, plain: list[Any], nodes: list[ast.expr]) -> list[Planned]:
    if not plain or not isinstance(plain[0], str):
        raise _UnreadError
    if name == "arguments":
        return [one for word in plain[0].split() for one in _known(_read_positional(word, [word]))]
    if name == "argument":
        return _known(_read_positional(plain[0], plain))
    third = nodes[2] if nodes[2:] else None
    parser = _PARSERS.get(third.id, "") if isinstance(third, ast.Name) else ""
    return _known(_read_option(plain[0], plain, parser, required=name != "option"))


def _on_declared(owner: _Declared, name: str, plain: list[Any]) -> _Declared:
    if name == "default" and plain:
        owner.values = [*owner.values[:2], *[""][len(owner.values) - 1 :], plain[0]]
    elif name == "choices" and plain and isinstance(plain[0], list):
        owner.choices = [choice for choice in plain[0] if isinstance(choice, str)]
    elif name == "makeOptionMandatory":
        owner.required = True
    return owner


def _planned(declared: _Declared) -> Planned:
    flags, values = declared.values[0], declared.values
    if declared.is_option:
        read = _read_option(flags, values, "", required=declared.required)
    else:
        read = _read_positional(flags, values)
    planned = _known(read)[0]
    if declared.choices and planned.schema.get("type") == "string":
        return planned._replace(schema={**planned.schema, "enum": declared.choices})
    return planned


def _plain(node: ast.AST) -> Any:
    """Return the value of a literal, or `NOT_LITERAL`."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List):
        values = [_plain(each) for each in node.elts]
        return NOT_LITERAL if NOT_LITERAL in values else values
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _plain(node.operand)
        return -value if isinstance(value, int | float) else NOT_LITERAL
    return NOT_LITERAL
