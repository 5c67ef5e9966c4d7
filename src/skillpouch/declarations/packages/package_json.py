"""Reads `package.json` and its lock file; packages by name only, never by address."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillpouch.declarations.packages.declared_files import DeclaredFiles, RequirementRefusedError

_PLACE = re.compile(r"(?:(?:\A|/)node_modules/(?:@[\w.~-]+/)?[\w.~-]+)+\Z")
_VERSION = re.compile(r"v?\d+\.\d+\.\d+[\w.+-]*\Z")
_KNOWN_VERSIONS = (2, 3)
# The fields of a locked package that decide what is installed and where. Not `resolved`: it is an
# address, and a skill does not choose where packages come from.
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
        raise LockRefusedError(f"{place!r} has no version: only packages by name are installed")
    resolved = entry.get("resolved")
    if isinstance(resolved, str) and not resolved.startswith(("https:", "http:")):
        raise LockRefusedError(f"{place!r} comes from {resolved!r}, which is not a registry")
    return {key: value for key, value in entry.items() if key in _KEPT}


_NAME = re.compile(r"(?:@[a-z0-9~][\w.~-]*/)?[a-z0-9~][\w.~-]*\Z", re.IGNORECASE)
# A range (^1.2, >=1 <3 || 4.x), a tag (latest): no colon and no slash, so no address and no path.
_RANGE = re.compile(r"[\w.^~<>=|* +,-]*\Z")
_SECTIONS = ("dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta")
_ALIAS = "npm:"
_LOCK_BYTES = 8 * 1024 * 1024
_DEEPEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The input of npm: a package.json that Skillpouch writes, and a lock file if there is one."""

    packages: tuple[str, ...]  # for people: "lodash@^4"
    text: str = field(repr=False)
    lock: str | None = field(default=None, repr=False)

    @property
    def fetched(self) -> tuple[str, ...]:
        """Every package that the skill names itself; an alias is replaced with the real package.

        The dependencies of these packages are not included.
        """
        value = json.loads(self.text)
        optional = value.get("peerDependenciesMeta", {})
        # Since version 7, npm installs peer dependencies, too, except optional ones.
        peers = {
            name: what
            for name, what in value.get("peerDependencies", {}).items()
            if name not in optional
        }
        wanted = {**peers, **value.get("dependencies", {}), **value.get("optionalDependencies", {})}
        found = {_real(name, what) for name, what in wanted.items()}
        found |= {_real("", what) for what in _aliases(value.get("overrides", {}))}
        return tuple(sorted(found | _locked_aliases(self.lock)))


def read_manifest(files: DeclaredFiles, path: Path) -> Manifest | None:
    """Return what the package.json at `path` asks for, None if there is no such file.

    Raises:
        RequirementRefusedError: it cannot be read, or asks for more than packages by name.
    """
    text = files.read(path)
    if text is None:
        return None
    value = _object(path, text)
    wanted = {name: _section(path, name, value.get(name)) for name in _SECTIONS if name in value}
    named = {**wanted.get("dependencies", {}), **wanted.get("optionalDependencies", {})}
    if "overrides" in value:
        wanted["overrides"] = _overrides(path, value["overrides"])
    manifest = {"name": "skillpouch-environment", "version": "0.0.0", "private": True, **wanted}
    return Manifest(
        packages=tuple(sorted(f"{name}@{what}" if what else name for name, what in named.items())),
        text=_written(manifest),
        lock=_lock(files, path.with_name("package-lock.json"), manifest),
    )


def _real(name: str, what: str) -> str:
    """Return a package and its version under the name that the registry knows."""
    if what.startswith(_ALIAS):
        return what.removeprefix(_ALIAS)
    return f"{name}@{what}" if what.strip(" *") else name


def _aliases(overrides: Any) -> Iterator[str]:
    for what in overrides.values():
        if isinstance(what, dict):
            yield from _aliases(what)
        elif what.startswith(_ALIAS):
            yield what


def _locked_aliases(lock: str | None) -> set[str]:
    """Return the packages of a lock file that are installed under another package's name."""
    packages = json.loads(lock)["packages"] if lock else {}
    return {
        f"{entry['name']}@{entry['version']}"
        for place, entry in packages.items()
        if place
        and entry.get("name", place.rpartition("node_modules/")[2])
        != place.rpartition("node_modules/")[2]
    }


def _lock(files: DeclaredFiles, path: Path, manifest: dict[str, Any]) -> str | None:
    text = files.read(path, _LOCK_BYTES)
    if text is None:
        return None
    try:
        return _written(plain_lock(_object(path, text), manifest))
    except LockRefusedError as error:
        raise RequirementRefusedError(str(path), str(error)) from None


def _object(path: Path, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequirementRefusedError(str(path), f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequirementRefusedError(str(path), "it is not a JSON object")
    return value


def _section(path: Path, section: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequirementRefusedError(str(path), f"{section} is not an object")
    if section == "peerDependenciesMeta":
        optional = {"optional": True}
        return {_name(path, name): optional for name, what in value.items() if what == optional}
    return {_name(path, name): _range(path, name, what) for name, what in value.items()}


def _overrides(path: Path, value: Any, depth: int = 0) -> dict[str, Any]:
    if not isinstance(value, dict) or depth > _DEEPEST:
        raise RequirementRefusedError(str(path), "overrides is not an object of versions")
    found: dict[str, Any] = {}
    for key, what in value.items():
        at = key.find("@", 1)
        if key != ".":
            _name(path, key[:at] if at > 0 else key)
            _range(path, key, key[at + 1 :] if at > 0 else "")
        if isinstance(what, dict):
            found[key] = _overrides(path, what, depth + 1)
        else:
            found[key] = what if _is_reference(what) else _range(path, key, what)
    return found


def _is_reference(what: Any) -> bool:
    return isinstance(what, str) and what.startswith("$") and bool(_NAME.match(what[1:]))


def _name(path: Path, name: str) -> str:
    if not _NAME.match(name):
        raise RequirementRefusedError(str(path), f"{name!r} is not the name of a package")
    return name


def _range(path: Path, name: str, what: Any) -> str:
    if not isinstance(what, str):
        raise RequirementRefusedError(str(path), f"the version of {name!r} is not text")
    if not is_range(what):
        reason = f"{name}: {what!r} is an address or a path: only packages by name are installed"
        raise RequirementRefusedError(str(path), reason)
    return what


def is_range(what: str) -> bool:
    """Tell whether this is a version to get from the registry, not an address or a path."""
    if not what.startswith(_ALIAS):
        return bool(_RANGE.match(what))
    alias = what.removeprefix(_ALIAS)
    other, at, version = alias.rpartition("@")  # an alias: another package under this name
    name, version = (other, version) if at and other else (alias, "")
    return bool(_NAME.match(name)) and bool(_RANGE.match(version))


def _written(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
