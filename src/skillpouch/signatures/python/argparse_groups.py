"""What one argument means for another: groups that exclude or require each other.

Nothing here stands at the root as `anyOf`, `oneOf` or `allOf`: one provider refuses those.
"""

from collections.abc import Sequence
from typing import Any

from skillpouch.signatures.python.argparse_names import Named
from skillpouch.signatures.python.argparse_parsers import Parser
from skillpouch.signatures.python.command_tree import Parameter
from skillpouch.signatures.signature import JsonSchema

# A property with this value adds no word, so it does not count as given.
_OFF: dict[str, Any] = {
    "store_true": False,
    "store_const": False,
    "append_const": False,
    "store_false": True,
    "count": 0,
}


# Each pair needs a line of schema; past this, argparse alone refuses a wrong pair.
_LARGEST_GROUP = 20


def constrain(schema: JsonSchema, level: Sequence[Parameter], *, parser: Parser) -> None:
    """Add to a schema what the groups of one parser ask for."""
    named = [item for item in level if isinstance(item, Named)]
    for group in parser.exclusives:
        members = [item for item in named if not {*group.members}.isdisjoint(item.declared)]
        if 1 < len(members) <= _LARGEST_GROUP:
            _exclude(schema, members)
        if members and group.required:
            _require_one(schema, members)


def _exclude(schema: JsonSchema, members: Sequence[Named]) -> None:
    dependent = schema.setdefault("dependentSchemas", {})
    # Said once per pair: the rule holds in both directions.
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


def _require_one(schema: JsonSchema, members: Sequence[Named]) -> None:
    names = [item.name for item in members]
    switches = any(item.argument.action in _OFF for item in members)
    required = schema.get("required", [])
    if len(names) == 1 and not switches:
        schema["required"] = [*required, *names]
    elif not switches and set(schema["properties"]) == {*required, *names}:
        schema["minProperties"] = len(required) + 1
    for name in names:
        described = schema["properties"][name].get("description", "")
        rule = f"(exactly one of {', '.join(names)} is required)" if names[1:] else "(required)"
        schema["properties"][name]["description"] = f"{described} {rule}".strip()
