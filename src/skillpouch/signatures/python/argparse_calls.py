"""Reads the command line of a script that uses argparse."""

from collections.abc import Sequence

from skillpouch.signatures.python.argparse_interfaces import command_of
from skillpouch.signatures.python.argparse_parsers import Parser
from skillpouch.signatures.python.calls import Call
from skillpouch.signatures.python.command_tree import interfaces_of
from skillpouch.signatures.python.follow import Follower
from skillpouch.signatures.python.lines import Marks
from skillpouch.signatures.python.outline import Outline
from skillpouch.signatures.python.tracked import Tracked
from skillpouch.signatures.python.values import Foreign, UncertainError, Unknown
from skillpouch.signatures.signature import Signature

_PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
_WORDS = (
    "ArgumentParser",
    "add_argument",
    "add_argument_group",
    "add_mutually_exclusive_group",
    "add_subparsers",
    "add_parser",
    "set_defaults",
    *_PARSING,
)


def read_argparse(outline: Outline) -> Signature | None:
    """Return the interface an argparse script gives itself, None when it makes no parser."""
    if "argparse" not in outline.text:
        return None
    parser = _find_parser(outline)
    if parser is None:
        return None
    interface, commands = interfaces_of(command_of(parser))
    return Signature(reader="argparse", interface=interface, commands=commands)


def _find_parser(outline: Outline) -> Parser | None:
    parsers: list[Parser] = []

    def make(call: Call) -> Tracked:
        parser = Parser(line=call.line)
        parser.configure(call)
        parsers.append(parser)
        return parser

    follower = Follower(
        outline,
        words=(*_WORDS, *_aliases(outline)),
        makers={"argparse.ArgumentParser": make},
        on_unfollowed=_refuse_unfollowed,
    )
    try:
        follower.run_module()
        waiting = [] if any(parser.parsed for parser in parsers) else _entries(outline)
        for name in waiting:
            follower.run_definition(name)
            if any(parser.parsed for parser in parsers):
                break
    finally:
        follower.release()
    return _choose(parsers)


def _aliases(outline: Outline) -> list[str]:
    made = "argparse.ArgumentParser"
    return [f"{name}(" for name, origin in outline.origins.items() if origin == made]


def _refuse_unfollowed(owner: Foreign | Unknown, method: str, call: Call) -> None:
    """Refuse a parser that came from somewhere else.

    Objects of other libraries have an `add_argument`, too (a browser's options), but only a
    parser is asked to parse.
    """
    if isinstance(owner, Foreign) and method in _PARSING:
        raise UncertainError(f"its parser is made by {owner.origin}", call.line)
    if isinstance(owner, Unknown) and method in _WORDS:
        raise UncertainError("its parser could not be followed", call.line)


def _entries(outline: Outline) -> list[str]:
    """Return the functions and classes that could be where a parser is made or used."""
    marks = Marks()
    words = ("ArgumentParser(", *_PARSING, *_aliases(outline))
    marks.add(line for word in words for line in outline.lines.of(word))
    names = [name for name, node in outline.functions.items() if marks.within_node(node)]
    names += [name for name, node in outline.classes.items() if marks.within_node(node)]
    return sorted(names, key=lambda name: name != "main")


def _choose(parsers: Sequence[Parser]) -> Parser | None:
    """Return the parser that gets the command line; a helper may have made it more than once."""
    distinct: dict[int, Parser] = {}
    for parser in parsers:
        distinct.setdefault(parser.line, parser)
    inherited = {parent.line for parser in parsers for parent in parser.parents}
    parsed = [parser for parser in distinct.values() if parser.parsed]
    parsed = [parser for parser in parsed if parser.line not in inherited] or parsed
    if not parsed:
        parsed = [parser for parser in distinct.values() if parser.line not in inherited]
    if len(parsed) > 1:
        return _merge(sorted(parsed, key=lambda parser: parser.parsed == "parse_args"))
    return parsed[0] if parsed else None


def _merge(parsers: Sequence[Parser]) -> Parser:
    """Join parsers that read one command line in turn: all but the last leave the rest alone."""
    *early, last = parsers
    for parser in early:
        only_flags = all(declared.flags for declared in parser.arguments)
        if parser.parsed != "parse_known_args" or parser.subparsers or not only_flags:
            raise UncertainError("more than one parser reads the command line", parser.line)
        known = {flag for declared in last.arguments for flag in declared.flags}
        last.arguments += [one for one in parser.arguments if not known & set(one.flags)]
    return last
