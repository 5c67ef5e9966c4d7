"""How arguments reach a script: its words, its standard input, its environment. Pure decisions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kitbag.arguments import is_untyped
from kitbag.argv import words
from kitbag.calls import ToolCall
from kitbag.errors import InvalidArgumentsError
from kitbag.tools import Script

# The kernel takes 128 KiB for one variable; what is larger goes into a file.
_LARGEST_VARIABLE = 96 * 1024
_MOST_VARIABLES = 512 * 1024
_NOT_IN_NAMES = re.compile(r"[^A-Z0-9_]")


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
    text = _json(arguments)
    if script.convention in ("handler", "main"):
        return Delivery(stdin=_stdin(call, text), arguments=text)
    if script.convention == "argv":
        return Delivery(words=_words(call, script), stdin=_stdin(call, ""), arguments=text)
    if is_untyped(call.tool.input_schema):
        return _untyped(call)
    return Delivery(stdin=_stdin(call, text), arguments=text)


def _untyped(call: ToolCall) -> Delivery:
    """Pass `data` as JSON on standard input, and text or a list of texts also as words."""
    data = call.arguments.get("data")
    if isinstance(data, str) and _is_json_object(data):
        return Delivery(stdin=_stdin(call, data), arguments=data)
    text = "{}" if data is None else _json(data)
    given: tuple[str, ...] = ()
    if isinstance(data, str):
        given = (data,)
    elif isinstance(data, list) and all(isinstance(item, str) for item in data):
        given = tuple(data)
    _refuse_nul(call, given)
    return Delivery(words=given, stdin=_stdin(call, text), arguments=text)


def variables(delivery: Delivery, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return TOOL_ARGS and TOOL_ARG_<NAME>, as far as they fit into an environment."""
    found: dict[str, str] = {}
    room = _MOST_VARIABLES
    if len(delivery.arguments.encode()) <= _LARGEST_VARIABLE:
        found["TOOL_ARGS"] = delivery.arguments
    else:
        found["TOOL_ARGS_OMITTED"] = "1"
    for name, value in arguments.items():
        text = value if isinstance(value, str) else _json(value)
        size = len(text.encode())
        if size <= min(room, _LARGEST_VARIABLE) and "\0" not in text:
            found[f"TOOL_ARG_{_NOT_IN_NAMES.sub('_', name.upper())}"] = text
            room -= size
    return found


def _words(call: ToolCall, script: Script) -> tuple[str, ...]:
    try:
        return tuple(words(script.plan or (), call.arguments))
    except ValueError as error:
        raise InvalidArgumentsError(call.tool.id, [str(error)]) from None


def _refuse_nul(call: ToolCall, given: tuple[str, ...]) -> None:
    if any("\0" in word for word in given):
        problem = "a word of a command line cannot hold a NUL character"
        raise InvalidArgumentsError(call.tool.id, [problem])


def _stdin(call: ToolCall, text: str) -> bytes:
    return text.encode() if call.stdin is None else call.stdin


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_json_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
