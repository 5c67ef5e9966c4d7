"""Names of flags: `--user-id`, `--user_id` and `--userId` are one."""

import re
from collections.abc import Mapping
from typing import Any

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORT = re.compile(r"-[^\W\d]")


def property_named(written: str, properties: Mapping[str, Any]) -> str | None:
    """Return the property that a flag names; exactly as written before any other spelling."""
    if written in properties:
        return written
    wanted = _plain(written)
    return next((name for name in properties if _plain(name) == wanted), None) if wanted else None


def _plain(name: str) -> str:
    return _HUMP.sub("_", name).replace("-", "_").lower()


def is_short_flag(word: str) -> bool:
    """Tell `-v` from `-5`, from `-` and from `- a line of a list`."""
    return _SHORT.match(word) is not None
