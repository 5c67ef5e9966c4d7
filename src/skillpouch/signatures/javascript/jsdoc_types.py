"""The arguments of a handler as its JSDoc comment documents them."""

from collections.abc import Iterable, Mapping

from skillpouch.signatures.argument_list import object_schema
from skillpouch.signatures.javascript.jsdoc import Doc, DocParameter, read_doc
from skillpouch.signatures.javascript.tokens import read_tokens
from skillpouch.signatures.javascript.typescript_types import TypeReader
from skillpouch.signatures.javascript.values import NOT_LITERAL, read_literal
from skillpouch.signatures.signature import JsonSchema

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
    """The schema that `@param` tags give, or None when they do not tell the properties.

    `names` are the properties known to be taken: only for those may a tag leave out `args.`.
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
