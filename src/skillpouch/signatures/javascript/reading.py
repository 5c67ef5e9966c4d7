"""Reads the interface of a JavaScript or TypeScript program without running it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from skillpouch.signatures.command_tree import CliCommand, interfaces_of
from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.hand_written.hand_written import OwnUsage, read_hand_written
from skillpouch.signatures.hand_written.tracking import HandWrittenProgram
from skillpouch.signatures.javascript.functions import (
    FunctionParameter,
    JavaScriptFunction,
    Properties,
    read_parameter,
    read_pattern,
    taken_properties,
)
from skillpouch.signatures.javascript.jsdoc import Doc, DocParameter, read_doc
from skillpouch.signatures.javascript.options import (
    UTIL,
    described_by_commander,
    find_parse_args,
    parse_args_calls,
    read_commander,
    read_commands,
    read_parse_args,
)
from skillpouch.signatures.javascript.statements import (
    DefaultExport,
    default_export,
    does_something,
    imported_modules,
)
from skillpouch.signatures.javascript.syntax import read_program
from skillpouch.signatures.javascript.tokens import Code, read_tokens
from skillpouch.signatures.javascript.typescript_types import TypeReader, named_types
from skillpouch.signatures.javascript.values import NOT_LITERAL, read_literal, text_of
from skillpouch.signatures.signature import (
    Interface,
    JsonSchema,
    Signature,
    first_paragraph,
    is_standard,
)
from skillpouch.signatures.usage_lines import (
    argument_list,
    listed_flags,
    object_schema,
    own_usage,
    planned,
)

_DOTS = frozenset({".", "?."})
_ASSIGNS = frozenset({"=", "??=", "||=", "+="})
_PROCESS = frozenset({"process", "node:process"})
# Packages that read the command line.
COMMAND_LINE_PACKAGES = frozenset(
    [
        "commander",
        "yargs",
        "yargs/yargs",
        "minimist",
        "meow",
        "arg",
        "cac",
        "sade",
        "mri",
        "getopts",
        "command-line-args",
        "@oclif/core",
        "clipanion",
        "citty",
    ]
)
_PROMPT_PACKAGES = frozenset(
    ["inquirer", "@inquirer/prompts", "prompts", "enquirer", "@clack/prompts"]
)
_LINE_PACKAGES = frozenset(
    ["readline", "node:readline", "readline/promises", "node:readline/promises"]
)


def variables_read(code: Code) -> tuple[str, ...]:
    """`process.env.X`, `process.env["X"]`, `const { X } = process.env`, `Deno.env.get("X")`."""
    names: set[str] = set()
    for position in code.find("process", "Bun"):
        if _member_of(code, position) == "env":
            names.update(_names_at(code, position))
    for position in code.find("Deno"):
        if code.texts(position + 1, 5) == (".", "env", ".", "get", "("):
            names.add(text_of(code[position + 6]))
    return tuple(sorted(name for name in names if name.isidentifier() and not is_standard(name)))


def _member_of(code: Code, position: int) -> str:
    """Return the name after the dot; "" if the name before it is itself a member."""
    is_owner = code[position + 1].text in _DOTS and code[position - 1].text not in _DOTS
    return code[position + 2].text if is_owner else ""


def _names_at(code: Code, position: int) -> Iterator[str]:
    after = position + 3
    if code[after].text in _DOTS and code[after + 1].text == "[":  # process.env?.["X"]
        after += 1
    name = code[after + 1]
    if code[after].text in _DOTS and name.kind == "name":
        is_read = code[after + 2].text not in _ASSIGNS
    else:
        is_read = code[after].text == "[" and name.kind == "string"
        is_read = is_read and code[after + 3].text not in _ASSIGNS
    if is_read:
        yield text_of(name)
    elif code[position - 1].text == "=" and (opener := code.partners.get(position - 2)) is not None:
        yield from read_pattern(code, opener) or ()


def reads_words(code: Code, modules: frozenset[str]) -> bool:
    """Tell whether the program reads its command line."""
    if modules & COMMAND_LINE_PACKAGES:
        return True
    members = {
        _member_of(code, position)
        for position in code.find("process", "Bun", "Deno")
        # `argv[1]` is the script's own path: modules use it to check whether they are run directly.
        if code.texts(position + 3, 3) != ("[", "1", "]")
    }
    calls = bool(modules & UTIL) and bool(parse_args_calls(code))
    imported = bool(modules & _PROCESS and code.find("argv"))  # import { argv } from "process"
    imported = imported or any(map(partial(_takes_argv, code), code.find("process")))
    return calls or imported or bool(members & {"argv", "args"})


def _takes_argv(code: Code, position: int) -> bool:
    """`const { argv } = process`."""
    opener = code.partners.get(position - 2, -1) if code[position - 1].text == "=" else -1
    return opener >= 0 and "argv" in (read_pattern(code, opener) or ())


def asks_questions(code: Code, modules: frozenset[str]) -> bool:
    """Tell whether the program asks a person questions."""
    if modules & _PROMPT_PACKAGES:
        return True
    questions = any(code[position - 1].text in _DOTS for position in code.find("question"))
    return questions and bool(modules & _LINE_PACKAGES)


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def documented_arguments(
    doc: Doc, definitions: Mapping[str, JsonSchema], names: Iterable[str]
) -> JsonSchema | None:
    """Return the schema from `@param` tags, or None if they do not describe the properties.

    `names` are the properties that the code reads: only for these may a tag leave out `args.`.
    """
    paths = [parameter for parameter in doc.parameters if "." in parameter.name]
    if paths:
        root = paths[0].name.split(".")[0] + "."
        return _object_of(
            [
                parameter._replace(name=parameter.name.removeprefix(root))
                for parameter in paths
                if parameter.name.startswith(root)
            ],
            definitions,
        )
    known = set(names)
    if doc.parameters and all(parameter.name in known for parameter in doc.parameters):
        return _object_of(doc.parameters, definitions)
    if doc.parameters:
        whole = _read_type(doc.parameters[0].type, definitions)
        return whole if whole.get("properties") else None
    return None


def read_definitions(comments: Iterable[str]) -> dict[str, JsonSchema]:
    """The types that `@typedef` comments define."""
    definitions: dict[str, JsonSchema] = {}
    for comment in comments:
        if "@typedef" not in comment:
            continue
        doc = read_doc(comment)
        definitions[doc.defines] = (
            _object_of(doc.parameters, definitions)
            if doc.parameters
            else _read_type(doc.defined_as, definitions)
        )
    return definitions


def _object_of(
    parameters: Iterable[DocParameter], definitions: Mapping[str, JsonSchema]
) -> JsonSchema:
    # `items[].name` and `options.deep` describe the inside of a property named before.
    direct = [each for each in parameters if each.name and not set(each.name) & {".", "["}]
    return object_schema(
        {parameter.name: _property_of(parameter, definitions) for parameter in direct},
        [parameter.name for parameter in direct if _is_required(parameter)],
    )


def _is_required(parameter: DocParameter) -> bool:
    choices = [choice.strip() for choice in parameter.type.split("|")]
    return not parameter.optional and "undefined" not in choices


def _property_of(parameter: DocParameter, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    schema = dict(_read_type(parameter.type, definitions))
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.default is not None:
        schema |= _default(parameter.default, str(schema.get("type", "")))
    return schema


def _default(text: str, kind: str) -> JsonSchema:
    code = read_tokens(text)
    value = read_literal(code, (0, len(code)))
    fitting = _PYTHON_TYPES.get(kind, (object,))
    if value is not NOT_LITERAL and isinstance(value, fitting) and value is not None:
        return {"default": value}
    # Most people write `[mode=fast]` without quotes.
    return {"default": text} if kind in {"string", ""} else {}


def _read_type(text: str, definitions: Mapping[str, JsonSchema]) -> JsonSchema:
    if text in definitions:
        return definitions[text]
    if text in {"", "*", "any"}:
        return {}
    code = read_tokens(text)
    return TypeReader(code, {}).read((0, len(code)))


_INJECTED = "__workDir"  # the runtime adds it to every call; no caller passes it
_MOST_PARTS = 5_000  # of a schema: types that use other types can grow exponentially


class HandlerArguments(NamedTuple):
    """The schema of a handler's arguments, None if unknown, and the reader that found it."""

    schema: JsonSchema | None
    reader: str


def handler_arguments(code: Code, function: JavaScriptFunction) -> HandlerArguments:
    """Return the properties of a handler's first parameter, from the most reliable source."""
    if not function.parameters:
        return HandlerArguments({**object_schema({}, []), "additionalProperties": False}, "handler")
    parameter = read_parameter(code, function.parameters[0])
    taken = taken_properties(code, function, parameter)
    annotated = _annotated(code, parameter)
    documented = documented_arguments(
        read_doc(function.doc), read_definitions(code.docs), taken or ()
    )
    schema, reader = _best(annotated, documented, taken)
    if schema is None or _is_too_large(schema):
        return HandlerArguments(None, "comments")
    finished = _finished(schema, taken or {})
    # A comment may be incomplete; a type, or code that reads each property by name, is not.
    if annotated is not None or taken is not None:
        finished["additionalProperties"] = False
    return HandlerArguments(finished, reader)


def takes_an_object(code: Code, function: JavaScriptFunction) -> bool:
    """Tell whether a function looks like a handler: `handler(…)`, `(args) => …`, `({ x }) => …`."""
    if not function.parameters:
        return function.name == "handler"
    parameter = read_parameter(code, function.parameters[0])
    return function.name == "handler" or parameter.name == "args" or parameter.pattern is not None


def _annotated(code: Code, parameter: FunctionParameter) -> JsonSchema | None:
    if parameter.type is None:
        return None
    schema = TypeReader(code, named_types(code)).read(parameter.type)
    return schema if "properties" in schema else None


def _best(
    annotated: JsonSchema | None, documented: JsonSchema | None, taken: Properties | None
) -> tuple[JsonSchema | None, str]:
    if annotated is not None:
        return _with_descriptions(annotated, documented), "typescript"
    if documented is not None:
        return documented, "jsdoc"
    return (None, "") if taken is None else (object_schema(taken, []), "handler")


def _with_descriptions(schema: JsonSchema, documented: JsonSchema | None) -> JsonSchema:
    """Return the schema of TypeScript types with the descriptions of the comment above."""
    described = documented["properties"] if documented else {}
    words = {
        name: {"description": described[name]["description"], **member}
        for name, member in schema["properties"].items()
        if "description" in described.get(name, {})
    }
    return {**schema, "properties": {**schema["properties"], **words}}


def _finished(schema: JsonSchema, taken: Properties) -> JsonSchema:
    """Return the schema without injected properties, and with the defaults in the code."""
    known = {**{name: {} for name in taken}, **schema["properties"]}
    properties = {
        name: {**taken.get(name, {}), **member}
        for name, member in known.items()
        if name != _INJECTED
    }
    required = [
        name
        for name in schema.get("required", [])
        if name in properties and "default" not in properties[name]
    ]
    return object_schema(properties, required)


def _is_too_large(schema: JsonSchema) -> bool:
    pending, parts = [schema], 0
    while pending and parts <= _MOST_PARTS:
        part = pending.pop()
        parts += 1
        pending.extend(child for child in part.values() if isinstance(child, dict))
        pending.extend(choice for choice in part.get("anyOf", ()) if isinstance(choice, dict))
    return parts > _MOST_PARTS


# A longer script is a bundle made by a tool, and contains no types or comments.
_LONGEST = 120_000
_CONTEXT = frozenset({"", "context", "ctx", "callback"})  # parameters that a runtime passes second
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
        try:
            return _read_command_line(text, code, modules, comment)
        except RecursionError:
            return Signature(
                reader="argv",
                interface=argument_list(comment, own_usage(text)),
                uncertain="its statements are nested too deeply to follow",
            )
    return Signature(
        reader="comments", interface=Interface(convention="stdin", description=comment)
    )


def _is_command_line(code: Code, export: DefaultExport) -> bool:
    """Tell whether an exported function belongs to a command-line program, and is no handler."""
    return export.function is None or not takes_an_object(code, export.function)


def _is_library(code: Code, export: DefaultExport) -> bool:
    """Tell whether a function is for other code: it needs several values, a handler one object."""
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
        if commands := read_commands(code) if code.find("command", "addCommand") else None:
            return _read_commands(commands, comment)
        known, reader = read_commander(code), "commander"
        unknown = "the options given to commander are not all literal"
        comment = comment or first_paragraph(described_by_commander(code))
    elif not modules & COMMAND_LINE_PACKAGES:
        return _read_words(text, code, comment)
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


def _read_commands(commands: CliCommand, comment: str) -> Signature:
    interface, below = interfaces_of(commands)
    return Signature(
        reader="commander",
        interface=replace(interface, description=comment or interface.description),
        commands=below,
        runs_alone=commands.alone and bool(below),
    )


_ARGV = {"process.argv": -2, "Bun.argv": -2, "Deno.args": 0}
_EXITS = frozenset({"process.exit", "Deno.exit"})


def _read_words(text: str, code: Code, comment: str) -> Signature:
    """Read a script that reads the words of its command line by hand."""
    program = HandWrittenProgram(body=read_program(code), is_python=False, argv=_ARGV, exits=_EXITS)
    usage = own_usage(text)
    found = read_hand_written(program, OwnUsage(usage, listed_flags(text)), comment)
    return Signature(
        reader="argv",
        interface=found.interface or argument_list(comment, usage),
        uncertain=found.reason,
        uncertain_line=None if found.line is None else text.count("\n", 0, found.line) + 1,
    )


def _describes_tests(code: Code) -> bool:
    return any(code[position + 1].text == "(" for position in code.find_outside("describe"))


def _line(text: str, code: Code, position: int) -> int:
    return text.count("\n", 0, code[position].start) + 1
