"""What a command line may fill, read from a schema once: a script calls one tool many times."""

from typing import Any

from kitbag.shell.plain_words import takes_raw_words
from kitbag.shell.schema_shapes import alternatives, properties_of
from kitbag.signatures.signature import JsonSchema


class Parameters:
    """The properties of a schema, and the simple schemas that a value of each may fit."""

    __slots__ = ("_simple", "are_raw", "properties", "root")

    def __init__(self, root: JsonSchema) -> None:
        self.root = root
        self.properties = properties_of(root)
        self.are_raw = takes_raw_words(self.properties, root)
        self._simple: dict[str, tuple[list[JsonSchema], frozenset[Any]]] = {}

    def simple(self, name: str) -> tuple[list[JsonSchema], frozenset[Any]]:
        """Return what a value may fit, and the types among it; None is the one of an enum."""
        found = self._simple.get(name)
        if found is None:
            schemas = alternatives(self.properties[name], self.root)
            kinds = frozenset(each.get("type") for each in schemas)
            found = self._simple[name] = schemas, kinds
        return found


# Once for each schema object; the object is kept, so that its id stays its own.
_known: dict[int, Parameters] = {}
_MOST_KNOWN = 4096


def parameters_of(root: JsonSchema) -> Parameters:
    """Return the parameters of a schema."""
    found = _known.get(id(root))
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[id(root)] = Parameters(root)
    return found
