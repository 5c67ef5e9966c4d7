"""A plain text, such as a body that is neither JSON nor a form: values go in as they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from skillpouch.templates.parts import Argument, Parts, filled, names_in, parse_parts, variables_in


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTemplate:
    parts: Parts
    names: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a template that any text may fill."""
        parts = parse_parts(text)
        return cls(parts=parts, names=names_in(parts), variables=variables_in(parts))

    def fill(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
        """Return the text; an argument that is not given leaves nothing in its place."""
        given = tuple(
            part
            for part in self.parts
            if not isinstance(part, Argument) or arguments.get(part.name) is not None
        )
        return "".join(one.text for one in filled(given, arguments, secrets))
