"""What installed packages provide for Skillpouch by entry points: backends and sandboxes."""

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from skillpouch.errors import NotProvidedError, ProviderError
from skillpouch.limits import OWN_SANDBOXES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BACKENDS = "skillpouch.backends"  # the name of an entry point is the `type:` that skills declare
SANDBOXES = "skillpouch.sandboxes"  # the name of an entry point is the value of `sandbox=`
_OWN = {BACKENDS: ("binary", "http", "script"), SANDBOXES: OWN_SANDBOXES}


def is_provided(group: str, name: str) -> bool:
    """Tell whether an installed package declares this entry point; loads nothing of the package."""
    return bool(_found(group, name))


def require_provided(group: str, name: str) -> None:
    """Raise NotProvidedError unless an installed package says that it provides this."""
    if not _found(group, name):
        raise NotProvidedError(group, name, known=provided(group))


def load_provided(group: str, name: str, method: str, *, package: str = "") -> Any:
    """Load an entry point, and return the object that its class or function makes.

    `package` is the package that should provide it, if the declaration names one.

    Raises:
        NotProvidedError: no installed package has such an entry point.
        ProviderError: several have, or the one that there is cannot be loaded, or what it makes
            has no such `method`.
    """
    found = _found(group, name)
    if not found:
        raise NotProvidedError(group, name, package=package, known=provided(group))
    if len(found) > 1:
        raise ProviderError(group, name, f"{' and '.join(map(_source, found))} provide it")
    (entry_point,) = found
    try:
        made = entry_point.load()()
    except Exception as error:  # code of another package may raise anything
        reason = f"{_source(entry_point)} cannot be loaded: {type(error).__name__}: {error}"
        raise ProviderError(group, name, reason) from error
    if not callable(getattr(made, method, None)):
        reason = f"what {_source(entry_point)} makes has no method {method!r}"
        raise ProviderError(group, name, reason)
    return made


def provided(group: str) -> list[str]:
    """Return the names that there are: Skillpouch's own, then those of installed packages."""
    return [*_OWN[group], *sorted({each.name for each in _entry_points(group)})]


def _found(group: str, name: str) -> "list[EntryPoint]":
    return [each for each in _entry_points(group) if each.name == name]


def _entry_points(group: str) -> "tuple[EntryPoint, ...]":
    return _read_entry_points(group, tuple(map(_stamp, sys.path)))


@lru_cache(maxsize=4)
def _read_entry_points(
    group: str, _places: tuple[tuple[str, int], ...]
) -> "tuple[EntryPoint, ...]":
    """Read what is installed: milliseconds, and a skill may declare thousands of tools."""
    # Imported here: loading it takes longer than a call, and few calls need it.
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _stamp(place: str) -> tuple[str, int]:
    """Return a place of the import path with its time of change, which installing changes."""
    try:
        return place, os.stat(place or ".").st_mtime_ns
    except OSError:
        return place, 0


def _source(entry_point: "EntryPoint") -> str:
    package = entry_point.dist
    where = f" of {package.name} {package.version}" if package is not None else ""
    return f"{entry_point.value}{where}"
