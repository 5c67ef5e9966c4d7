"""Packages by name: which granted one is the one that is needed."""

import re

_NPM = "npm:"
_PYTHON = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(.*)\Z", re.DOTALL)
_JAVASCRIPT = re.compile(r"npm:((?:@[\w.~-]+/)?[a-zA-Z0-9_~][\w.~-]*)(@\S+)?\Z", re.ASCII)
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
    """Tell whether a package that was granted is the needed one: any version, or the one named."""
    name, version = split_package(needed)
    granted_name, granted_version = split_package(granted)
    return bool(name) and name == granted_name and version in ("", granted_version)


def with_package(packages: tuple[str, ...], package: str) -> tuple[str, ...]:
    """Return the packages with one more; it takes the place of another version of itself."""
    name, _ = split_package(package)
    others = [each for each in packages if split_package(each)[0] != name]
    return tuple(sorted([*others, package]))
