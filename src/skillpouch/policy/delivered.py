"""What a tool is really given, in each way in which it may read that: what rules judge.

A text may be an object to the script that gets it, and standard input may take the place of
arguments. What different programs would read differently is in doubt, whatever a rule asks.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from skillpouch.arguments import is_untyped
from skillpouch.calls import ToolCall
from skillpouch.policy.conditions import UNREADABLE, Filled
from skillpouch.tools import Binary, InlineScript


class _AmbiguousError(ValueError):
    """A text that two programs would not read alike."""


def readings(call: ToolCall) -> Iterator[Mapping[str, Any]]:
    """Yield the arguments as they are delivered, then what else a tool may take for them."""
    arguments = _opened(call)
    yield arguments
    filled = _defaults(call.tool.input_schema, arguments)
    if filled:
        yield Filled(arguments, filled)
    if call.stdin is not None and _takes_input_for_arguments(call):
        yield _input(call)


def _opened(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments with a text that reaches the script as an object, as that object."""
    arguments = call.arguments
    data = arguments.get("data")
    # As `skillpouch.backends.conventions` has it: such a text goes to standard input as it is.
    if not isinstance(data, str) or not data.lstrip().startswith("{"):
        return arguments
    if call.tool.convention != "stdin" or not is_untyped(call.tool.input_schema):
        return arguments
    try:
        return {**arguments, "data": _decode(data)}
    except _AmbiguousError:
        return UNREADABLE
    except (ValueError, RecursionError):
        return arguments


def _defaults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a script takes for arguments that were left out, as far as it says so."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: about["default"]
        for name, about in properties.items()
        if isinstance(about, Mapping) and "default" in about and name not in arguments
    }


def _takes_input_for_arguments(call: ToolCall) -> bool:
    runs = call.tool.runs
    if isinstance(runs, Binary):
        return runs.args_template is None
    return isinstance(runs, InlineScript) or call.tool.convention == "stdin"


def _input(call: ToolCall) -> Mapping[str, Any]:
    """Return what input says to a script that reads its arguments from it."""
    given = call.stdin or b""
    if not given.strip():
        return {}
    try:
        # A byte order mark, other encodings, more than one value: programs differ about them.
        value = _decode(given.decode("utf-8"))
    except (ValueError, RecursionError):
        return UNREADABLE
    if is_untyped(call.tool.input_schema):
        return {"data": value}
    return value if isinstance(value, dict) else UNREADABLE


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _AmbiguousError("a key is there twice")
    return found


_decode = json.JSONDecoder(object_pairs_hook=_once).decode
