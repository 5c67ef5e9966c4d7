"""Packages by name: which granted one is the one that is needed."""

import re
from collections.abc import Iterable

_NPM = "npm:"
_PYTHON = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(.*)\Z", re.DOTALL)
# A range may have blanks between its parts: `>=1 <3 || 4.x`.
_JAVASCRIPT = re.compile(
    r"npm:((?:@[\w.~-]+/)?[a-zA-Z0-9_~][\w.~-]*)(@[^\s@]+(?: [^\s@]+)*)?\Z", re.ASCII
)
_CLAUSE = r"\s*(?:===|[=!<>~]=|[<>])\s*[\w.*+!-]++\s*"
_VERSION = re.compile(rf"(?:\[[\w., -]*\])?(?:{_CLAUSE}(?:,{_CLAUSE})*)?\Z", re.ASCII)


def split_package(text: str) -> tuple[str, str]:
    """Return name and version of a package, the name in its one spelling; "" for what is none.

    A Python package as pip writes it (`PyYAML==6.0`), one for Node.js as `npm:name@version`.
    """
    if text.startswith(_NPM):
        found = _JAVASCRIPT.match(text)
        # Names at npm once had capitals, and those are others than the small ones.
        return (f"{_NPM}{found[1]}", found[2] or "") if found else ("", "")
    found = _PYTHON.match(text)
    if found is None or not _VERSION.match(found[2]):
        return "", ""
    return re.sub(r"[-_.]+", "-", found[1]).lower(), found[2].strip()


def covers_package(granted: str, needed: str) -> bool:
    """Tell whether a package that was granted is the needed one.

    Where either names no version, every version will do; else both must name the same.
    """
    name, version = split_package(needed)
    granted_name, granted_version = split_package(granted)
    same = "" in (version, granted_version) or version == granted_version
    return bool(name) and name == granted_name and same


def with_packages(packages: tuple[str, ...], new: Iterable[str]) -> tuple[str, ...]:
    """Return the packages with some more; they take the place of other versions of the same.

    Several versions of one package that are named together stay together: two scripts of a
    skill may declare one each.
    """
    wanted = set(new)
    names = {split_package(each)[0] for each in wanted}
    others = [each for each in packages if split_package(each)[0] not in names]
    return tuple(sorted({*others, *wanted}))
