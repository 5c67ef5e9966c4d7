"""JavaScript and TypeScript: a default export to call, a command line, or JSON on stdin."""

from dataclasses import replace

from skillpouch.signatures.argument_list import argument_list, planned
from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.first_paragraph import first_paragraph
from skillpouch.signatures.javascript.commander_options import (
    described_by_commander,
    read_commander,
)
from skillpouch.signatures.javascript.environment import asks_questions, reads_words, variables_read
from skillpouch.signatures.javascript.exports import DefaultExport, default_export
from skillpouch.signatures.javascript.handler import handler_arguments, takes_an_object
from skillpouch.signatures.javascript.jsdoc import read_doc
from skillpouch.signatures.javascript.parse_args_options import find_parse_args, read_parse_args
from skillpouch.signatures.javascript.statements import does_something, imported_modules
from skillpouch.signatures.javascript.tokens import Code, read_tokens
from skillpouch.signatures.own_usage import own_usage
from skillpouch.signatures.signature import Interface, Signature

# Longer ones are bundles made by a tool: nobody wrote types into them.
_LONGEST = 120_000
_CONTEXT = frozenset({"", "context", "ctx", "callback"})  # what runtimes pass beside the event
_TEST_PACKAGES = frozenset(
    [
        "node:test",
        "vitest",
        "jest",
        "@jest/globals",
        "mocha",
        "bun:test",
        "ava",
        "tap",
        "uvu",
        "jasmine",
    ]
)


def read_javascript(text: str, *, filename: str = "") -> Signature:
    """Read a script without running it; any text gives a signature."""
    comment = first_paragraph(first_comment(text, "javascript", filename))
    if len(text) > _LONGEST:
        return _read_bundle(text, comment)
    code = read_tokens(text)
    modules = imported_modules(code)
    signature = _read_interface(text, code, modules, comment)
    return replace(
        signature,
        variables=variables_read(code),
        imports=modules,
        has_entry=signature.interface.convention == "handler" or does_something(code),
        is_test=bool(modules & _TEST_PACKAGES) or _describes_tests(code),
        reads_input=asks_questions(code, modules),
    )


def _read_bundle(text: str, description: str) -> Signature:
    untyped = Interface(convention="stdin", description=description)
    return Signature(
        reader="comments",
        interface=argument_list(description) if "process.argv" in text else untyped,
        uncertain=f"the script is longer than {_LONGEST:,} characters",
    )


def _read_interface(text: str, code: Code, modules: frozenset[str], comment: str) -> Signature:
    export, words = default_export(code), reads_words(code, modules)
    if export and not (words and _is_command_line(code, export)) and not _is_library(code, export):
        return _read_handler(text, code, export, comment)
    if words:
        return _read_command_line(text, code, modules, comment)
    return Signature(
        reader="comments", interface=Interface(convention="stdin", description=comment)
    )


def _is_command_line(code: Code, export: DefaultExport) -> bool:
    """A function exported by a program that also reads its words takes those, not an object."""
    return export.function is None or not takes_an_object(code, export.function)


def _is_library(code: Code, export: DefaultExport) -> bool:
    """A function that needs several values is called by other code; a handler takes one object."""
    parameters = export.function.parameters if export.function else []
    needed = [span for span in parameters if len(code.split(span, "=")) == 1]
    return len(needed) > 1 and code[needed[1][0]].text.lstrip("_") not in _CONTEXT


def _read_handler(text: str, code: Code, export: DefaultExport, comment: str) -> Signature:
    schema, reader, doc = None, "comments", ""
    if export.function:
        schema, reader = handler_arguments(code, export.function)
        doc = first_paragraph(read_doc(export.function.doc).description)
    unknown = "" if schema is not None else "the default export does not say what it takes"
    return Signature(
        reader=reader,
        interface=Interface(convention="handler", description=doc or comment, input_schema=schema),
        uncertain=unknown,
        uncertain_line=_line(text, code, export.position) if unknown else None,
    )


def _read_command_line(text: str, code: Code, modules: frozenset[str], comment: str) -> Signature:
    call = find_parse_args(code, modules)
    if call is not None:
        known, reader = read_parse_args(code, call), "parseArgs"
        unknown = "the options given to parseArgs are not all literal"
    elif "commander" in modules:
        known, reader = read_commander(code), "commander"
        unknown = "the options given to commander are not all literal"
        comment = comment or first_paragraph(described_by_commander(code))
    else:
        known, reader, unknown = None, "argv", ""
    if known:
        return Signature(reader=reader, interface=planned(comment, known))
    return Signature(
        reader="argv",
        interface=argument_list(comment, own_usage(text)),
        uncertain=unknown,
        uncertain_line=None if call is None else _line(text, code, call),
    )


def _describes_tests(code: Code) -> bool:
    return any(code[position + 1].text == "(" for position in code.find_outside("describe"))


def _line(text: str, code: Code, position: int) -> int:
    return text.count("\n", 0, code[position].start) + 1
