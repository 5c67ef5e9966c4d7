"""The help text of an argument with argparse's own placeholders filled in."""

import re
from typing import Any

from skillpouch.signatures.python.argparse_arguments import SUPPRESS, Declared
from skillpouch.signatures.python.literals import items_of
from skillpouch.signatures.python.values import Member, Reference

_PLACEHOLDER = re.compile(r"%(?:%|\((?P<name>\w+)\)[-#0-9.]*[a-zA-Z])")


def help_text(declared: Declared, default: Any, prog: str) -> str:
    """Return the help on one line; what only the running script knows becomes `…`."""
    if declared.help == SUPPRESS:
        return ""
    known = {
        "default": default,
        "choices": declared.choices,
        "prog": prog or "this script",
        "dest": declared.dest,
        "const": declared.const,
        "type": declared.type.name if isinstance(declared.type, Reference) else None,
        "nargs": declared.nargs,
        "required": declared.required,
    }

    def fill(match: re.Match[str]) -> str:
        return _shown(known.get(match["name"])) if match["name"] else "%"

    return " ".join(_PLACEHOLDER.sub(fill, declared.help).split())


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float) or value is None:
        return str(value)
    items = items_of(value)
    if items is None:
        return "…"
    return ", ".join(_shown(item.value if isinstance(item, Member) else item) for item in items)
