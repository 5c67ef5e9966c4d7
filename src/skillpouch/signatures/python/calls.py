"""A call as a reader sees it: the values it passes, as far as they are known."""

import ast
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.literals import items_of
from skillpouch.signatures.python.values import UNKNOWN, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`complete` is False when `*values` or `**values` could not be resolved."""

    line: int
    arguments: list[Any] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    complete: bool = True

    def text(self, keyword: str) -> str:
        value = self.keywords.get(keyword)
        return value if isinstance(value, str) else ""

    def is_set(self, keyword: str) -> bool:
        return self.keywords.get(keyword) is True

    def get(self, keyword: str, default: Any = UNKNOWN) -> Any:
        return self.keywords.get(keyword, default)


def read_call(node: ast.Call, names: Names) -> Call:
    """Compute the arguments of a call, `*` and `**` included where they are known."""
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    complete = True
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            arguments.append(names.value(argument))
            continue
        spread = items_of(names.value(argument.value))
        complete = complete and spread is not None
        arguments += spread or []
    for keyword in node.keywords:
        value = names.value(keyword.value)
        if keyword.arg:
            keywords[keyword.arg] = value
        elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
            keywords |= value
        else:
            complete = False
    return Call(line=node.lineno, arguments=arguments, keywords=keywords, complete=complete)
