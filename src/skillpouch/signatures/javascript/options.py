"""Options that are declared with commander or with util.parseArgs."""

import re
from typing import Any

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.javascript.functions import schema_of_default
from skillpouch.signatures.javascript.statements import declared_names
from skillpouch.signatures.javascript.tokens import Code, Span
from skillpouch.signatures.javascript.values import (
    NOT_LITERAL,
    ObjectMember,
    read_entries,
    read_literal,
)
from skillpouch.signatures.signature import JsonSchema
from skillpouch.signatures.usage_lines import Planned

# Sub-commands and option objects are not read: a plan without them would be wrong.
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
        return Planned(argument, {**schema, "default": True})
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
