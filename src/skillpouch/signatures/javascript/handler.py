"""The arguments of a JavaScript handler: from its types, its JSDoc, or the way it takes them."""

from typing import NamedTuple

from skillpouch.signatures.argument_list import object_schema
from skillpouch.signatures.javascript.functions import Function
from skillpouch.signatures.javascript.jsdoc import read_doc
from skillpouch.signatures.javascript.jsdoc_types import documented_arguments, read_definitions
from skillpouch.signatures.javascript.patterns import (
    Parameter,
    Properties,
    read_parameter,
    taken_properties,
)
from skillpouch.signatures.javascript.tokens import Code
from skillpouch.signatures.javascript.typescript_types import TypeReader, named_types
from skillpouch.signatures.signature import JsonSchema

_INJECTED = "__workDir"  # the runtime adds it to every call; no caller passes it
_MOST_PARTS = 5_000  # of a schema: types that use types can grow without bound


class HandlerArguments(NamedTuple):
    """The schema of a handler's arguments, None when unknown, and the reader that knew it."""

    schema: JsonSchema | None
    reader: str


def handler_arguments(code: Code, function: Function) -> HandlerArguments:
    """What the first parameter of a handler holds, from the surest source there is."""
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
    # A comment may leave some out; a type, or code that takes each by its name, cannot.
    if annotated is not None or taken is not None:
        finished["additionalProperties"] = False
    return HandlerArguments(finished, reader)


def takes_an_object(code: Code, function: Function) -> bool:
    """Whether it is written as a handler: `handler(…)`, `(args) => …`, `({ text }) => …`."""
    if not function.parameters:
        return function.name == "handler"
    parameter = read_parameter(code, function.parameters[0])
    return function.name == "handler" or parameter.name == "args" or parameter.pattern is not None


def _annotated(code: Code, parameter: Parameter) -> JsonSchema | None:
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
    """TypeScript has the better types, the comment above it the words."""
    described = documented["properties"] if documented else {}
    words = {
        name: {"description": described[name]["description"], **member}
        for name, member in schema["properties"].items()
        if "description" in described.get(name, {})
    }
    return {**schema, "properties": {**schema["properties"], **words}}


def _finished(schema: JsonSchema, taken: Properties) -> JsonSchema:
    """Without what the runtime injects, and with the defaults that the code gives."""
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
