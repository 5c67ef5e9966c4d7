"""Arguments as environment variables: `TOOL_ARGS`, and `TOOL_ARG_<NAME>` for each of them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from skillpouch.json_values import json_text
from skillpouch.registry.names import argument_variable

# The kernel takes 128 KiB for one variable; what is larger goes into a file.
_LARGEST_VARIABLE = 96 * 1024
_MOST_VARIABLES = 512 * 1024


def fits_variable(text: str) -> bool:
    """Tell whether a text can be the value of one variable."""
    return len(text.encode()) <= _LARGEST_VARIABLE and "\0" not in text


def argument_variables(all_of_them: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables; those that do not fit are named in `TOOL_ARGS_OMITTED`.

    `all_of_them` is the JSON of all arguments. Two arguments that want one variable get none.
    """
    wanted = {"TOOL_ARGS": all_of_them}
    names = {name: argument_variable(name) for name in arguments}
    often = Counter(names.values()) if names else _NONE
    for name, value in arguments.items():
        if often[names[name]] == 1:
            wanted[names[name]] = value if isinstance(value, str) else as_json(value)
    found: dict[str, str] = {}
    room = _MOST_VARIABLES
    for variable, text in wanted.items():
        size = 0 if variable == "TOOL_ARGS" else len(text.encode())
        if fits_variable(text) and size <= room:
            found[variable] = text
            room -= size
    omitted = [*(name for name in wanted if name not in found), *_twice(often)]
    return (
        found | {"TOOL_ARGS_OMITTED": " ".join(omitted)[:_LARGEST_VARIABLE]} if omitted else found
    )


def as_json(value: Any) -> str:
    """Return a value as a program reads it from a variable or its standard input."""
    return json_text(value)


_NONE: Counter[str] = Counter()


def _twice(often: Counter[str]) -> list[str]:
    return sorted(variable for variable, count in often.items() if count > 1)
