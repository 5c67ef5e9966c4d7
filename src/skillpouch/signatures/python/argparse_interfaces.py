"""A followed argparse parser as a command line with parameters and sub-commands."""

from functools import partial

from skillpouch.signatures.python.argparse_groups import constrain
from skillpouch.signatures.python.argparse_names import name_arguments
from skillpouch.signatures.python.argparse_parsers import Parser, summary_of
from skillpouch.signatures.python.command_tree import Command


def command_of(parser: Parser, description: str = "") -> Command:
    """Return the command line of a parser and of everything below it."""
    inner = parser.subparsers.parsers if parser.subparsers else {}
    needs_one = bool(parser.subparsers and parser.subparsers.required) or not parser.arguments
    return Command(
        description=description or parser.description,
        parameters=name_arguments(parser),
        commands={word: command_of(one, summary_of(one)) for word, one in inner.items()},
        alone=not (inner and needs_one),
        constrain=partial(constrain, parser=parser),
    )
