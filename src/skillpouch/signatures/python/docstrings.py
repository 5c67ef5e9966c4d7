"""The parameters that a docstring describes, in Google, NumPy or Sphinx style."""

import ast
import contextlib
from dataclasses import dataclass

from skillpouch.signatures.python.annotations import schema_of
from skillpouch.signatures.python.scopes import Scope
from skillpouch.signatures.signature import JsonSchema

# Without one of these a docstring describes no parameters, and the library need not be loaded.
_SECTIONS = ("Args:", "Arguments:", "Params:", "Parameters", "Keyword", ":param", "@param")
_LONGEST = 20_000

# Words that people write for a type and Python does not know.
_WORDS = {
    "string": "str",
    "text": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "dictionary": "dict",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """One parameter; `optional` is True only when the docstring says so."""

    name: str
    description: str = ""
    type: str = ""
    optional: bool = False

    def schema(self, scope: Scope) -> JsonSchema:
        """Return the schema of the type, as far as the words for it are understood."""
        text = self.type.strip().strip("`").removesuffix("optional").rstrip(" ,")
        items, _, of = text.partition(" of ")
        if of and items.lower() in ("list", "array", "sequence"):
            inner = Documented(name=self.name, type=of.removesuffix("s")).schema(scope)
            return {"type": "array", "items": inner} if inner else {"type": "array"}
        types = [_WORDS.get(part.strip().lower(), part) for part in text.split(" or ")]
        return schema_of(ast.Constant(" | ".join(types)), scope) if text else {}


def documented_parameters(docstring: str | None) -> dict[str, Documented]:
    """Return what a docstring says about each parameter, by name."""
    if not docstring or len(docstring) > _LONGEST:
        return {}
    if not any(section in docstring for section in _SECTIONS):
        return {}
    from docstring_parser import ParseError, parse

    found: dict[str, Documented] = {}
    with contextlib.suppress(ParseError, ValueError, LookupError, AttributeError, TypeError):
        for parameter in parse(docstring).params:
            name = parameter.arg_name.lstrip("*")
            found[name] = Documented(
                name=name,
                description=" ".join((parameter.description or "").split()),
                type=parameter.type_name or "",
                optional=bool(parameter.is_optional or parameter.default is not None),
            )
    return found
