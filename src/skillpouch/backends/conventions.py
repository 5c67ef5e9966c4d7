"""How arguments reach a script: its words, its standard input, its environment. Pure decisions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillpouch.arguments import is_untyped
from skillpouch.backends.argument_variables import argument_variables, as_json
from skillpouch.calls import ToolCall
from skillpouch.errors import InvalidArgumentsError
from skillpouch.signatures.argv import NO_DEFAULTS, Defaults, words
from skillpouch.tools import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a script is given. `arguments` is the JSON of all arguments, as it is passed on."""

    words: tuple[str, ...] = ()
    stdin: bytes = b""
    arguments: str = "{}"


def delivery_of(call: ToolCall, script: Script) -> Delivery:
    """Decide what a script gets, by its convention."""
    arguments: Any = dict(call.arguments)
    if script.convention == "handler" and is_untyped(call.tool.input_schema):
        data = arguments.get("data")
        arguments = {} if data is None else data
    if call.tool.declared_in == "tools.json" and isinstance(arguments, dict):
        arguments["__workDir"] = str(call.terms.workspace)
    text = as_json(arguments)
    if script.convention in ("handler", "main"):
        return Delivery(stdin=_stdin(call, text), arguments=text)
    if script.convention == "argv":
        return Delivery(words=_words(call, script), stdin=_stdin(call, ""), arguments=text)
    if is_untyped(call.tool.input_schema):
        return _untyped(call)
    return Delivery(stdin=_stdin(call, text), arguments=text)


def delivery_of_declared(call: ToolCall, words: tuple[str, ...] | None = None) -> Delivery:
    """Decide what a program gets that is no file of a skill: `words`, or JSON on standard input."""
    arguments = dict(call.arguments)
    if call.tool.declared_in == "tools.json":
        arguments["__workDir"] = str(call.terms.workspace)
    text = as_json(arguments)
    stdin = _stdin(call, text if words is None else "")
    return Delivery(words=words or (), stdin=stdin, arguments=text)


def _untyped(call: ToolCall) -> Delivery:
    """Pass `data` as JSON on standard input, and text or a list of texts also as words."""
    data = call.arguments.get("data")
    if isinstance(data, str) and _is_json_object(data):
        return Delivery(stdin=_stdin(call, data), arguments=data)
    text = "{}" if data is None else as_json(data)
    given: tuple[str, ...] = ()
    if isinstance(data, str):
        given = (data,)
    elif isinstance(data, list) and all(isinstance(item, str) for item in data):
        given = tuple(data)
    _refuse_nul(call, given)
    return Delivery(words=given, stdin=_stdin(call, text), arguments=text)


def variables(delivery: Delivery, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return TOOL_ARGS and TOOL_ARG_<NAME>, as far as they fit into an environment."""
    return argument_variables(delivery.arguments, arguments)


def _words(call: ToolCall, script: Script) -> tuple[str, ...]:
    try:
        return tuple(words(script.plan or (), call.arguments, _defaults(call)))
    except ValueError as error:
        raise InvalidArgumentsError(call.tool.id, [str(error)]) from None


def _defaults(call: ToolCall) -> Defaults:
    """Return what the schema says of positionals; a manifest speaks for a script that does not."""
    properties = call.tool.input_schema.get("properties", {})
    values = {
        name: each["default"]
        for name, each in properties.items()
        if isinstance(each, dict) and each.get("default") is not None
    }
    return Defaults(values, all=call.tool.declared_in == "manifest") if values else NO_DEFAULTS


def _refuse_nul(call: ToolCall, given: tuple[str, ...]) -> None:
    if any("\0" in word for word in given):
        problem = "a word of a command line cannot hold a NUL character"
        raise InvalidArgumentsError(call.tool.id, [problem])


def _stdin(call: ToolCall, text: str) -> bytes:
    return text.encode() if call.stdin is None else call.stdin


def _is_json_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
