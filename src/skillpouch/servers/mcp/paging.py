"""Lists in pages: a cursor says after which name the next page begins, so a change harms none."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

Value = TypeVar("Value")

_LONGEST_CURSOR = 4_096


def page_of(
    items: Mapping[str, Value], cursor: str | None, size: int
) -> tuple[list[Value], str | None]:
    """Return the items after a cursor, at most `size`, and the cursor of those that follow.

    `items` are sorted by name. One that was taken away meanwhile takes nothing else with it.
    """
    names = _after(items, None if cursor is None else _name(cursor))
    page = [items[name] for name in names[:size]]
    return page, _cursor(names[size - 1]) if len(names) > size else None


def _after(names: Iterable[str], last: str | None) -> list[str]:
    return list(names) if last is None else [name for name in names if name > last]


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()


def _name(cursor: str) -> str:
    try:
        return base64.b64decode(cursor[:_LONGEST_CURSOR], altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise MCPError(INVALID_PARAMS, "no such cursor: begin without one") from None
