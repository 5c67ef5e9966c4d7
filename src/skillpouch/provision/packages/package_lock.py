"""A lock file without its addresses: versions and checksums stay, places are the user's choice."""

import re
from typing import Any

_PLACE = re.compile(r"(?:(?:\A|/)node_modules/(?:@[\w.~-]+/)?[\w.~-]+)+\Z")
_VERSION = re.compile(r"v?\d+\.\d+\.\d+[\w.+-]*\Z")
_KNOWN_VERSIONS = (2, 3)
# Of a locked package: what decides what is installed and where. Not `resolved`, an address.
_KEPT = frozenset(
    (
        *("name", "version", "integrity", "optional", "peer", "devOptional", "inBundle"),
        *("dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta"),
        *("bundleDependencies", "engines", "os", "cpu", "libc", "bin", "license"),
    )
)
_ROOT_SECTIONS = ("dependencies", "optionalDependencies", "peerDependencies")


class LockRefusedError(ValueError):
    """A lock file that cannot be used; the message says why."""


def plain_lock(lock: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the lock file for our own manifest, with nothing that is for development only."""
    packages = lock.get("packages")
    if lock.get("lockfileVersion") not in _KNOWN_VERSIONS or not isinstance(packages, dict):
        raise LockRefusedError("it was written by an old npm: run `npm install` to renew it")
    root = {key: manifest[key] for key in ("name", "version", *_ROOT_SECTIONS) if key in manifest}
    kept = {"": root}
    for place, entry in packages.items():
        if place and not (isinstance(entry, dict) and entry.get("dev") is True):
            kept[place] = _entry(place, entry)
    return {
        "name": manifest["name"],
        "version": manifest["version"],
        "lockfileVersion": 3,
        "requires": True,
        "packages": kept,
    }


def _entry(place: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict) or not _PLACE.match(place) or ".." in place.split("/"):
        raise LockRefusedError(f"{place!r} is not a package below node_modules")
    if entry.get("link"):
        raise LockRefusedError(f"{place!r} is a link: only packages by name are installed")
    if not _VERSION.match(str(entry.get("version"))):
        raise LockRefusedError(f"{place!r} has no version number: only packages by name can be had")
    resolved = entry.get("resolved")
    if isinstance(resolved, str) and not resolved.startswith(("https:", "http:")):
        raise LockRefusedError(f"{place!r} comes from {resolved!r}, which is no registry")
    return {key: value for key, value in entry.items() if key in _KEPT}
