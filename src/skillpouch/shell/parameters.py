"""What a command line may fill, read from a schema once: a script calls one tool many times."""

from collections.abc import Callable, Sequence
from typing import Any

from skillpouch.json_values import NO_VALUE
from skillpouch.runtime.memoize import by_identity
from skillpouch.shell.plain_words import takes_raw_words
from skillpouch.shell.schema_shapes import alternatives, properties_of
from skillpouch.shell.text_values import one_reader
from skillpouch.signatures.signature import JsonSchema

Read = Callable[[str], Any]


class Parameters:
    """The properties of a schema, and the simple schemas that a value of each may fit."""

    __slots__ = ("_readers", "_simple", "are_raw", "properties", "root")

    def __init__(self, root: JsonSchema) -> None:
        self.root = root
        self.properties = properties_of(root)
        self.are_raw = takes_raw_words(self.properties, root)
        self._simple: dict[str, tuple[list[JsonSchema], frozenset[Any]]] = {}
        self._readers: dict[str, Read | None] = {}

    def simple(self, name: str) -> tuple[list[JsonSchema], frozenset[Any]]:
        """Return what a value may fit, and the types among it; None is the one of an enum."""
        found = self._simple.get(name)
        if found is None:
            schemas = alternatives(self.properties[name], self.root)
            kinds = frozenset(each.get("type") for each in schemas)
            found = self._simple[name] = schemas, kinds
        return found

    def pairs(self, words: Sequence[str]) -> dict[str, Any] | None:
        """Return what `--name value --other value` spells; None for a line that says anything else.

        Most lines are nothing but that, and then there is nothing to weigh.
        """
        if len(words) % 2:
            return None
        found: dict[str, Any] = {}
        for at in range(0, len(words), 2):
            flag, text = words[at], words[at + 1]
            name = flag[2:]
            if not name or flag[:2] != "--" or text[:2] == "--" or name in found:
                return None
            read = self._readers[name] if name in self._readers else self._reader(name)
            value = NO_VALUE if read is None else read(text)
            if value is NO_VALUE:
                return None
            found[name] = value
        return found

    def _reader(self, name: str) -> Read | None:
        if name not in self.properties or "=" in name:
            return None  # and it is not kept: scripts may write any number of such names
        self._readers[name] = read = one_reader(self.simple(name)[0])
        return read


parameters_of = by_identity(Parameters)  # once for each schema
