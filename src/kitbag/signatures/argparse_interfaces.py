"""The interfaces of a parser: a schema and an argv plan for it and for each sub-command."""

from collections.abc import Iterator, Sequence

from kitbag.argv import ArgvPlan, Word
from kitbag.signatures.argparse_groups import constrain
from kitbag.signatures.argparse_names import Named, name_arguments
from kitbag.signatures.argparse_parsers import Parser, summary_of
from kitbag.signatures.first_paragraph import first_paragraph
from kitbag.signatures.signature import Interface, JsonSchema

# The parsers on the way to a sub-command, each with the word that leads to it.
Path = Sequence[tuple[str, Parser]]


def interfaces_of(parser: Parser) -> tuple[Interface, dict[str, Interface]]:
    """Return the interface of the whole script, and one for each sub-command it has.

    With sub-commands, the script itself keeps a plan only when it can be called without one.
    """
    commands = {
        ".".join(word for word, _ in path[1:]): _interface(path, summary_of(path[-1][1]))
        for path in _paths([("", parser)])
        if len(path) > 1
    }
    if _is_callable(parser):
        return _interface([("", parser)], parser.description), commands
    return Interface(convention="argv", description=first_paragraph(parser.description)), commands


def _paths(path: Path) -> Iterator[Path]:
    parser = path[-1][1]
    if _is_callable(parser):
        yield path
    for word, inner in parser.subparsers.parsers.items() if parser.subparsers else ():
        yield from _paths([*path, (word, inner)])


def _is_callable(parser: Parser) -> bool:
    if not parser.subparsers or not parser.subparsers.parsers:
        return True
    return bool(parser.arguments) and not parser.subparsers.required


def _interface(path: Path, description: str) -> Interface:
    plan: ArgvPlan = ()
    named: list[Named] = []
    levels = [name_arguments(parser) for _, parser in path]
    for depth, (word, _) in enumerate(path):
        # A name that a later level uses again belongs to that level.
        later = {item.name for level in levels[depth + 1 :] for item in level}
        own = [item for item in levels[depth] if item.name not in later]
        if word:
            plan += (Word(text=word),)
        plan += tuple(item.argument for item in own)
        named += own
    schema = _schema(named)
    for _, parser in path:
        constrain(schema, named, parser)
    return Interface(
        convention="argv",
        description=first_paragraph(description),
        input_schema=schema,
        plan=plan,
    )


def _schema(named: Sequence[Named]) -> JsonSchema:
    schema: JsonSchema = {
        "type": "object",
        "properties": {item.name: dict(item.schema) for item in named},
        "additionalProperties": False,
    }
    if required := [item.name for item in named if item.required]:
        schema["required"] = required
    return schema
