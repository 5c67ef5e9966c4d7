"""`allowed-tools` in the four ways people write it: by spaces, by commas, one item, a list."""

from typing import Any


def parse_allowed_tools(value: Any) -> tuple[str, ...] | None:
    """Return the tools named, or None when the skill does not say. `Bash(git log:*)` is one."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(item for part in value for item in _split(str(part)))
    return tuple(_split(value)) if isinstance(value, str) else None


def _split(text: str) -> list[str]:
    if "(" not in text:
        return text.replace(",", " ").split()
    items: list[str] = []
    item, depth = "", 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth <= 0 and (character.isspace() or character == ","):
            items.append(item)
            item, depth = "", 0
        else:
            item += character
    return [found for found in (*items, item) if found]


def is_bash(item: str) -> bool:
    """Tell whether an item of `allowed-tools` lets scripts run."""
    return item == "Bash" or item.startswith("Bash(") or item == "*"
