"""Which Python a `requires-python` means: version specifiers, compared as PEP 440 says."""

import re

Version = tuple[int, ...]

_CLAUSE = re.compile(r"(~=|===?|!=|<=?|>=?)\s*v?(\d+(?:\.\d+)*)(\.\*)?\Z")


class NotASpecifierError(ValueError):
    """A text that asks for no Python in particular."""


def satisfies(version: Version, specifiers: str) -> bool:
    """Tell whether a released Python, such as (3, 11, 7), is one of those asked for."""
    clauses = [clause.strip() for clause in specifiers.split(",") if clause.strip()]
    # First all of them: a clause that nobody understands is an error, whatever the others say.
    held = [_holds(version, clause) for clause in clauses]
    return all(held)


def _holds(version: Version, clause: str) -> bool:
    found = _CLAUSE.match(clause)
    if found is None:
        raise NotASpecifierError(f"{clause!r} is not a version of Python such as '>=3.11'")
    operator, wanted = found[1], tuple(int(part) for part in found[2].split(".")[:8])
    if found[3]:
        if operator not in ("==", "!="):
            raise NotASpecifierError(f"{clause!r}: only == and != take a '.*'")
        return (version[: len(wanted)] == wanted) == (operator == "==")
    if operator == "~=":
        if len(wanted) == 1:
            raise NotASpecifierError(f"{clause!r}: ~= needs two numbers at least")
        return _compare(version, ">=", wanted) and version[: len(wanted) - 1] == wanted[:-1]
    return _compare(version, operator, wanted)


def _compare(version: Version, operator: str, wanted: Version) -> bool:
    size = max(len(version), len(wanted))
    left, right = (each + (0,) * (size - len(each)) for each in (version, wanted))
    return {
        "==": left == right,
        "===": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]
