"""A call as a reader sees it: the values it passes, as far as they are known."""

from dataclasses import dataclass, field
from typing import Any

from kitbag.signatures.values import UNKNOWN


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
