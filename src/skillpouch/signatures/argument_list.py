"""The interfaces every language shares: words in their order, and a plan of named arguments."""

from collections.abc import Iterable
from typing import NamedTuple

from skillpouch.signatures.argv import Argument
from skillpouch.signatures.signature import Interface, JsonSchema


class Planned(NamedTuple):
    """An argument of a command line with the schema of its value."""

    argument: Argument
    schema: JsonSchema
    required: bool = False


def argument_list(description: str, usage: str = "") -> Interface:
    """A script that is seen to read its arguments, but not which: any number of words.

    `usage` is the script's own line about them, the best there is to go by.
    """
    words: JsonSchema = {"type": "array", "items": {"type": "string"}}
    if usage:
        words["description"] = f"Command-line arguments; usage: {usage}"
    return planned(description, [Planned(Argument(name="args", nargs="*"), words)])


def planned(description: str, arguments: Iterable[Planned]) -> Interface:
    """A script whose arguments are all known."""
    known = list(arguments)
    return Interface(
        convention="argv",
        description=description,
        input_schema={
            **object_schema(
                {each.argument.name: each.schema for each in known},
                [each.argument.name for each in known if each.required],
            ),
            "additionalProperties": False,
        },
        plan=tuple(each.argument for each in known),
    )


def object_schema(properties: dict[str, JsonSchema], required: list[str]) -> JsonSchema:
    """An object with these properties; `required` appears only when something is."""
    schema: JsonSchema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema
