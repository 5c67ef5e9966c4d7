"""A command line with its parameters and sub-commands, and the interfaces that follow from it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord
from skillpouch.signatures.signature import Interface, JsonSchema, first_paragraph


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandParameter:
    """One property, its schema, and the words it turns into."""

    name: str
    argument: ArgvArgument
    schema: JsonSchema
    required: bool = False
    ends: bool = False  # with it the program ends at once, and needs nothing else
    unless_ended: bool = False  # required, except with a parameter that ends


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCommand:
    """A command or sub-command.

    `alone` tells whether it can be called without one of its own sub-commands; `constrain` adds
    rules between its parameters to a schema.
    """

    description: str = ""
    parameters: Sequence[CommandParameter] = ()
    commands: Mapping[str, "CliCommand"] = field(default_factory=dict)
    alone: bool = True
    constrain: Callable[[JsonSchema, Sequence[CommandParameter]], None] | None = None


# The commands from the top to a sub-command, each with its name.
Path = tuple[tuple[str, CliCommand], ...]


def interfaces_of(command: CliCommand) -> tuple[Interface, dict[str, Interface]]:
    """Return the interface of a command, and one for each sub-command: `remote.add`.

    A command that needs a sub-command keeps its description, but neither schema nor plan.
    """
    root: Path = (("", command),)
    commands = {
        ".".join(word for word, _ in path[1:]): _interface(path)
        for path in _paths(root)
        if len(path) > 1
    }
    if command.alone:
        return _interface(root), commands
    description = first_paragraph(command.description)
    return Interface(convention="argv", description=description), commands


def object_schema(properties: JsonSchema, required: Sequence[str]) -> JsonSchema:
    """Return the schema of an object with these properties and no others."""
    schema: JsonSchema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return schema | {"required": list(required)} if required else schema


def _paths(path: Path) -> Iterator[Path]:
    _, command = path[-1]
    if command.alone:
        yield path
    for word, inner in command.commands.items():
        yield from _paths((*path, (word, inner)))


def _interface(path: Path) -> Interface:
    plan: ArgvPlan = ()
    levels: list[list[CommandParameter]] = []
    for depth, (word, command) in enumerate(path):
        # If levels share a name, the last level keeps it.
        later = {one.name for _, inner in path[depth + 1 :] for one in inner.parameters}
        own = [one for one in command.parameters if one.name not in later]
        plan += (FixedWord(text=word),) if word else ()
        plan += tuple(one.argument for one in own)
        levels.append(own)
    parameters = [one for level in levels for one in level]
    schema = object_schema(
        {one.name: dict(one.schema) for one in parameters},
        [one.name for one in parameters if one.required],
    )
    for level, (_, command) in zip(levels, path, strict=True):
        _order(schema, level)
        _require_unless_ended(schema, level)
        if command.constrain:
            command.constrain(schema, level)
    return Interface(
        convention="argv",
        description=first_paragraph(path[-1][1].description),
        input_schema=schema,
        plan=plan,
    )


def _require_unless_ended(schema: JsonSchema, level: Sequence[CommandParameter]) -> None:
    """Add to a schema what a program needs if no parameter is given with which it ends."""
    needed = [one.name for one in level if one.unless_ended]
    ending = [
        {"required": [one.name], "properties": {one.name: {"not": {"const": False}}}}
        for one in level
        if one.ends
    ]
    if not needed or not ending:
        return
    schema.setdefault("allOf", []).append({"anyOf": [{"required": needed}, *ending]})
    # In words, too: models are not shown such rules.
    names = " or ".join(one.name for one in level if one.ends)
    for name in needed:
        described = schema["properties"][name].get("description", "")
        said = f"{described} (required, unless {names} is given)".strip()
        schema["properties"][name]["description"] = said


def _order(schema: JsonSchema, level: Sequence[CommandParameter]) -> None:
    """Add to a schema that what comes after an optional positional needs it.

    That is every optional positional, and every flag after one that stands before the flags.
    """
    before: list[str] = []
    first: list[str] = []
    for one in level:
        is_open = one.argument.nargs in ("?", "*", "...")
        if one.argument.first and is_open:
            first.append(one.name)
        needs = [name for name in first if name != one.name]
        if one.argument.flag is None and is_open:
            needs += [name for name in before if name not in needs]
            if one.argument.nargs == "?" and not one.argument.skippable:
                before.append(one.name)
        if needs:
            schema.setdefault("dependentRequired", {})[one.name] = needs
