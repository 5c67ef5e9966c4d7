"""Grant: what one skill may have, until a byte of it changes."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from skillpouch.discovery.digest import DigestEntry, Manifest
from skillpouch.environment import home_directory
from skillpouch.limits import read_size, read_time
from skillpouch.needs import Need, NeedKind, needs_no_grant
from skillpouch.net.hosts import covers_host

_NPM = "npm:"
_PYTHON = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(.*)\Z", re.DOTALL)
# A version range may have blanks between its parts: `>=1 <3 || 4.x`.
_JAVASCRIPT = re.compile(
    r"npm:((?:@[\w.~-]+/)?[a-zA-Z0-9_~][\w.~-]*)(@[^\s@]+(?: [^\s@]+)*)?\Z", re.ASCII
)
_CLAUSE = r"\s*(?:===|[=!<>~]=|[<>])\s*[\w.*+!-]++\s*"
_VERSION = re.compile(rf"(?:\[[\w., -]*\])?(?:{_CLAUSE}(?:,{_CLAUSE})*)?\Z", re.ASCII)


def split_package(text: str) -> tuple[str, str]:
    """Return normalized name and version of a package; two empty texts if it is not valid.

    A Python package is written as for pip (`PyYAML==6.0`), one for Node.js as `npm:name@version`.
    """
    if text.startswith(_NPM):
        found = _JAVASCRIPT.match(text)
        # Not lower-cased: npm has old packages whose names differ from others only in capitals.
        return (f"{_NPM}{found[1]}", found[2] or "") if found else ("", "")
    found = _PYTHON.match(text)
    if found is None or not _VERSION.match(found[2]):
        return "", ""
    return re.sub(r"[-_.]+", "-", found[1]).lower(), found[2].strip()


def covers_package(granted: str, needed: str) -> bool:
    """Tell whether a granted package covers a needed one.

    Both must name the same version, unless one of them names none.
    """
    name, version = split_package(needed)
    granted_name, granted_version = split_package(granted)
    same = "" in (version, granted_version) or version == granted_version
    return bool(name) and name == granted_name and same


def with_packages(packages: tuple[str, ...], new: Iterable[str]) -> tuple[str, ...]:
    """Add packages to those already granted, replacing other versions of the same packages.

    Several versions of one package in `new` are all kept: two scripts of a skill may declare
    different ones.
    """
    wanted = set(new)
    names = {split_package(each)[0] for each in wanted}
    others = [each for each in packages if split_package(each)[0] not in names]
    return tuple(sorted({*others, *wanted}))


def real_path(path: str) -> str:
    """Return a path without links, `.` and `..`; "" if it is not an absolute path.

    It need not exist.
    """
    if not path.startswith("/"):
        return ""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a loop of links; a NUL
        return ""


def covers_path(granted: str, needed: str) -> bool:
    """Tell whether a granted path is the needed one, or a folder above it.

    `granted` was resolved when it was granted: a link that replaced it later does not move the
    grant. The user's home, and each folder above it, needs a grant of exactly this path.
    """
    found = real_path(needed)
    if not found or not _is_plain(granted):
        return False
    if found == granted:
        return True
    return is_below(found, granted) and not holds_home(found)


def is_below(path: str, folder: str) -> bool:
    """Tell whether a normalized path lies inside a folder, and is not the folder itself."""
    return path != folder and path.startswith(folder if folder == "/" else f"{folder}/")


def holds_home(path: str) -> bool:
    """Tell whether a normalized path is the user's home, or a folder above it."""
    home = home_directory()
    if home is None:
        return path == "/"
    real = os.path.realpath(home)
    return path == real or is_below(real, path)


def _is_plain(path: str) -> bool:
    return path.startswith("/") and path == os.path.normpath(path) and not path.startswith("//")


_PIN = re.compile(r"(https://[^\s#]+)#sha256=([0-9a-f]{64})\Z")


def pin_of(url: str, sha256: str) -> str:
    """Return a pin: an address with the hash that its content must have."""
    return f"{url.partition('#')[0]}#sha256={sha256}"


def split_pin(pin: str) -> tuple[str, str]:
    """Return address and hash of a pin; two empty texts if it is not valid."""
    match = _PIN.match(pin)
    return (match[1], match[2]) if match else ("", "")


def pinned_hash(url: str, pins: Iterable[str]) -> str | None:
    """Return the approved hash of an address, None if there is none."""
    wanted = url.partition("#")[0]
    return next((found for each, found in map(split_pin, pins) if each == wanted), None)


def with_pin(pins: tuple[str, ...], pin: str) -> tuple[str, ...]:
    """Add a pin, replacing another one of the same address."""
    url = split_pin(pin)[0]
    return tuple(sorted({*(each for each in pins if split_pin(each)[0] != url), pin}))


_FORMAT = 1
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
# The list of files is only shown to people, who compare fewer; the digest covers all files.
_MOST_FILES = 10_000
_LISTS = (
    *("secrets", "settings", "hosts", "read", "write", "packages", "builds", "programs", "tools"),
    *("devices", "own_folder"),
)
_REQUIRED = frozenset({"skill", "home", "digest"})  # a grant of an earlier version lacks some lists
_KINDS: dict[NeedKind, str] = {
    "secret": "secrets",
    "setting": "settings",
    "host": "hosts",
    "read": "read",
    "write": "write",
    "packages": "packages",
    "build": "builds",
    "program": "programs",
    "devices": "devices",
    "own-folder": "own_folder",
}

_SWITCHES: dict[NeedKind, str] = {"local-sockets": "local_sockets", "commands": "commands"}
_SWITCHES["unconfined"] = "unconfined"
# What is granted up to an amount, and how that is read.
_AMOUNTS: dict[NeedKind, Callable[[str], int | None]] = {"memory": read_size, "time": read_time}
_FOR_ALL: tuple[NeedKind, ...] = ("packages", "build", "setting", "local-sockets")


def split_setting(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=value`; the value is "" if only a name is asked for."""
    name, _, value = text.partition("=")
    return name, value


def with_setting(settings: tuple[str, ...], setting: str) -> tuple[str, ...]:
    """Add `NAME=value` to settings, replacing another value of the same name."""
    name = setting.partition("=")[0]
    return tuple(sorted({*(s for s in settings if s.partition("=")[0] != name), setting}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What was granted to the skill `skill` in the folder `home` with this content, and by whom.

    `tools` are those that an approver allowed to run without being asked again. With `commands`, it
    is also for what an agent writes to be run for the skill. `manifest` lists the files of the
    folder, to show what changed; it is empty for more than 10,000 files.
    """

    skill: str
    home: str  # without links
    digest: str
    secrets: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()  # NAME=value
    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()  # packages that may be built from their source
    programs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    own_folder: tuple[str, ...] = ()  # entries that it may make in its own folder, and keep
    memory: str = ""  # a size, as in `4GiB`
    time: str = ""  # how long a call may take, as in `2h`
    local_sockets: bool = False
    tools: tuple[str, ...] = ()
    commands: bool = False
    unconfined: bool = False
    when: str = ""  # UTC
    by: str = ""
    manifest: Manifest = field(default_factory=dict, repr=False)

    def covers(self, need: Need) -> bool:  # noqa: C901, PLR0911 - one for each kind
        """Tell whether a need is granted. A path that may be written may be read.

        A variable that is given as a plain value is not needed as a secret, too.
        """
        match need.kind:
            case "secret" | "setting":
                return need.value in self.secrets or self._sets(need.value)
            case "host":
                return any(covers_host(host, need.value) for host in self.hosts)
            case "read":
                return any(covers_path(path, need.value) for path in (*self.read, *self.write))
            case "write":
                return any(covers_path(path, need.value) for path in self.write)
            case "packages":
                return any(covers_package(package, need.value) for package in self.packages)
            case "build":
                return split_package(need.value)[0] in self.builds
            case "program":
                return need.value in self.programs
            case "devices":
                return need.value in self.devices
            case "own-folder":
                return need.value in self.own_folder or (
                    need.value == "." and self.own_folder != ()
                )
            case "memory" | "time":
                return covers_amount(need.kind, getattr(self, need.kind), need.value)
            case "loopback":
                return needs_no_grant(need)
            case "local-sockets" | "commands" | "unconfined":
                return bool(getattr(self, _SWITCHES[need.kind]))

    def _sets(self, wanted: str) -> bool:
        name, given, _ = wanted.partition("=")
        return wanted in self.settings if given else name in dict(map(split_setting, self.settings))

    def with_needs(self, needs: Iterable[Need], tools: Iterable[str] = ()) -> "Grant":
        """Return a grant that covers these needs, too.

        A new version of a package, or a new hash of a program, replaces the earlier one; of two
        sizes of memory, or two times, the larger counts.
        """
        found: dict[str, Any] = {name: getattr(self, name) for name in _LISTS}
        found["tools"] = tuple(sorted({*self.tools, *tools}))
        needs = list(needs)
        packages = [need.value for need in needs if need.kind == "packages"]
        found["packages"] = with_packages(found["packages"], packages)
        for need in needs:
            if need.kind in _SWITCHES:
                found[_SWITCHES[need.kind]] = True
            elif need.kind in _AMOUNTS:
                had = found.get(need.kind, getattr(self, need.kind))
                is_enough = covers_amount(need.kind, had, need.value)
                found[need.kind] = had if is_enough else need.value
            elif need.kind == "program":
                found["programs"] = with_pin(found["programs"], need.value)
            elif need.kind == "setting":
                found["settings"] = with_setting(found["settings"], need.value)
            elif need.kind in _KINDS and need.kind != "packages":
                name = _KINDS[need.kind]
                found[name] = tuple(sorted({*found[name], need.value}))
        return replace(self, **found)


def covers_amount(kind: NeedKind, granted: str, needed: str) -> bool:
    """Tell whether a granted size of memory, or a granted time, is at least the needed one."""
    read = _AMOUNTS[kind]
    most, amount = read(granted), read(needed)
    return most is not None and amount is not None and amount <= most


def missing(needs: Iterable[Need], grant: Grant | None) -> tuple[Need, ...]:
    """Return the needs that are not granted, in order; all of them without a grant."""
    asked = (need for need in needs if not needs_no_grant(need))
    return tuple(need for need in asked if grant is None or not grant.covers(need))


def needs_of(grant: Grant) -> tuple[Need, ...]:
    """Return everything that a grant covers, as needs."""
    given = [
        Need(kind=kind, value=value)
        for kind, name in _KINDS.items()
        for value in getattr(grant, name)
    ]
    amounts = ((kind, getattr(grant, kind)) for kind in _AMOUNTS)
    given += [Need(kind=kind, value=value) for kind, value in amounts if value]
    on = (kind for kind, name in _SWITCHES.items() if getattr(grant, name))
    return (*given, *(Need(kind=kind) for kind in on))


def needs_of_commands(grant: Grant) -> tuple[Need, ...]:
    """Return the part of a grant that holds for commands which an agent writes for the skill.

    They are not under its digest: packages, plain variables and sockets among their own processes
    are for all that is done with the skill, the rest only if the grant names commands. They never
    run unconfined, and never write the own folder of the skill: its tools may run what is there.
    """
    named = (*(kind for kind in _KINDS if kind != "own-folder"), *_AMOUNTS)
    kinds = (*_FOR_ALL, *(named if grant.commands else ()))
    return tuple(need for need in needs_of(grant) if need.kind in kinds)


def grant_as_json(grant: Grant) -> dict[str, Any]:
    """Return the grant for people and programs: everything except the list of files."""
    names = [each.name for each in fields(Grant) if each.name != "manifest"]
    values = {name: getattr(grant, name) for name in names}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def write_grant(grant: Grant) -> bytes:
    """Return the text of the file that stores a grant."""
    files = grant.manifest if len(grant.manifest) <= _MOST_FILES else {}
    manifest = {path: f"{e.kind} {e.mode:o} {e.content}" for path, e in files.items()}
    # ASCII with escapes: the name of a file need not be UTF-8, and must be restored exactly.
    text = json.dumps({"format": _FORMAT} | grant_as_json(grant) | {"files": manifest}, indent=1)
    return f"{text}\n".encode("ascii")


def read_grant(data: bytes) -> Grant:
    """Return the grant in a text; raise ValueError for what `write_grant` did not write."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict) or value.pop("format", None) != _FORMAT:
        raise ValueError("not a grant of this version")
    files = value.pop("files", None)
    kinds = {each.name: each.type for each in fields(Grant) if each.name != "manifest"}
    is_known = _REQUIRED <= value.keys() <= kinds.keys()
    if not is_known or not isinstance(files, dict):
        raise ValueError("fields are missing, or unknown")
    found = {name: _checked(name, item) for name, item in value.items()}
    if not _DIGEST.match(found["digest"]):
        raise ValueError("the digest is not valid")
    return Grant(**found, manifest=_manifest(files))


def _checked(name: str, value: Any) -> Any:
    if name in _SWITCHES.values():
        if isinstance(value, bool):
            return value
    elif name in _LISTS:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
    elif isinstance(value, str):
        return value
    raise ValueError(f"{name} is a {type(value).__name__}")


def _manifest(files: Mapping[str, Any]) -> Manifest:
    return {path: _entry(line) for path, line in files.items()}


def _entry(line: Any) -> DigestEntry:
    if not isinstance(line, str):
        raise ValueError("a file is not described by text")  # noqa: TRY004 - it is not a caller's
    kind, mode, content = line.split(" ", 2)
    if kind not in get_args(DigestEntry.__annotations__["kind"]):
        raise ValueError(f"a file of kind {kind!r:.20}")
    return DigestEntry(kind, int(mode, 8), content)  # type: ignore[arg-type]  # just looked at
