"""The options of a script that uses commander, when they are literal."""

import re
from typing import Any

from skillpouch.signatures.argument_list import Planned
from skillpouch.signatures.argv import Argument
from skillpouch.signatures.javascript.patterns import schema_of_default
from skillpouch.signatures.javascript.tokens import Code, Span
from skillpouch.signatures.javascript.values import NOT_LITERAL, read_literal
from skillpouch.signatures.signature import JsonSchema

# Sub-commands and option objects: a plan made from the rest would be wrong.
_UNCLEAR = frozenset({"command", "addCommand", "addOption", "addArgument", "addHelpOption"})
_READ = frozenset({"option", "requiredOption", "argument", "arguments"})
_FLAG = re.compile(r"(?:(-\w)(?:[ ,|]+|$))?(--[A-Za-z][\w-]*)?(?:[ =](<[^<>]*>|\[[^\[\]]*\]))?")
_POSITIONAL = re.compile(r"<([\w-]+)(\.\.\.)?>|\[([\w-]+)(\.\.\.)?\]|([\w-]+)()")
_PARSERS = {"parseInt": "integer", "parseFloat": "number", "Number": "number"}


def read_commander(code: Code) -> list[Planned] | None:
    """The arguments that the calls describe; None when one of them is not literal."""
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
    name = flag.lstrip("-").replace("-", "_")
    if not value:
        return _read_switch(name, flag, values)
    kind = parser or schema_of_default(_default(values)).get("type", "string")
    schema: JsonSchema = {"type": kind if kind in {"integer", "number"} else "string"}
    mandatory = value[0] == "<"
    if value[1:-1].endswith("..."):
        words = Argument(name=name, flag=flag, nargs="+" if mandatory else "*")
        return Planned(words, _described({"type": "array", "items": schema}, values), required)
    shown = _described(_with_default(schema, values), values)
    argument = Argument(name=name, flag=flag, nargs=None if mandatory else "?")
    return Planned(argument, shown, required and "default" not in shown)


def _read_switch(name: str, flag: str, values: list[Any]) -> Planned:
    schema = _described({"type": "boolean"}, values)
    if name.startswith("no_"):
        argument = Argument(name=name.removeprefix("no_"), flag=flag, action="store_false")
        return Planned(argument, {**schema, "default": True})
    return Planned(Argument(name=name, flag=flag, action="store_true"), schema)


def _read_positional(word: str, values: list[Any]) -> Planned | None:
    match = _POSITIONAL.fullmatch(word.strip())
    if match is None:
        return None
    required, name = match.group(3) is None, match.group(1) or match.group(3) or match.group(5)
    name = name.replace("-", "_")
    schema: JsonSchema = {"type": "string"}
    if match.group(2) or match.group(4):
        argument = Argument(name=name, nargs="+" if required else "*", after_dashes=True)
        return Planned(argument, _described({"type": "array", "items": schema}, values), required)
    argument = Argument(name=name, nargs=None if required else "?", after_dashes=True)
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
