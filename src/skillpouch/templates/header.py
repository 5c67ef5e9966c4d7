"""The value of one header, which no value can turn into two."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from skillpouch.templates.errors import TemplateError
from skillpouch.templates.parts import (
    Parts,
    filled,
    is_left_out,
    names_in,
    parse_parts,
    refuse_characters,
    variables_in,
)

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_REASON = "a header cannot hold line breaks or control characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderTemplate:
    parts: Parts
    names: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the template of a header's value."""
        if bad := _CONTROL.search(text):
            raise TemplateError(_REASON, bad.start())
        parts = parse_parts(text)
        return cls(parts=parts, names=names_in(parts), variables=variables_in(parts))

    def fill(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> str | None:
        """Return the value; None when its arguments are not given and the header is left out."""
        if is_left_out(self.parts, arguments):
            return None
        texts = list(filled(self.parts, arguments, secrets))
        for one in texts:
            refuse_characters(one, _CONTROL, _REASON)
        return "".join(one.text for one in texts)
