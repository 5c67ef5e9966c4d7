"""A grant: what one skill may have, for as long as not a byte of it changes."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from skillpouch.discovery.digest import Entry, Manifest
from skillpouch.needs import Need, NeedKind
from skillpouch.net.hosts import covers_host
from skillpouch.trust.packages import covers_package, with_packages
from skillpouch.trust.paths import covers_path
from skillpouch.trust.programs import with_pin

_FORMAT = 1
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
# More files than a person compares; the digest still covers them all.
_MOST_FILES = 10_000
_LISTS = ("secrets", "hosts", "read", "write", "packages", "programs", "tools")
_KINDS: dict[NeedKind, str] = {
    "secret": "secrets",
    "host": "hosts",
    "read": "read",
    "write": "write",
    "packages": "packages",
    "program": "programs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What was granted to the skill `skill` in the folder `home` with this content, and by whom.

    `tools` are those that an approver lets run without being asked again. `manifest` is what the
    folder held, to show what changed; it is empty for folders of more than 10,000 files.
    """

    skill: str
    home: str  # without links
    digest: str
    secrets: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    unconfined: bool = False
    when: str = ""  # UTC
    by: str = ""
    manifest: Manifest = field(default_factory=dict, repr=False)

    def covers(self, need: Need) -> bool:  # noqa: PLR0911 - one for each kind
        """Tell whether a need is granted. A path that may be written may be read."""
        match need.kind:
            case "secret":
                return need.value in self.secrets
            case "host":
                return any(covers_host(host, need.value) for host in self.hosts)
            case "read":
                return any(covers_path(path, need.value) for path in (*self.read, *self.write))
            case "write":
                return any(covers_path(path, need.value) for path in self.write)
            case "packages":
                return any(covers_package(package, need.value) for package in self.packages)
            case "program":
                return need.value in self.programs
            case "unconfined":
                return self.unconfined

    def with_needs(self, needs: Iterable[Need], tools: Iterable[str] = ()) -> "Grant":
        """Return a grant that covers these, too.

        Of one package, and of one address of a program, what is named last counts.
        """
        lists: dict[str, Any] = {name: getattr(self, name) for name in _LISTS}
        lists["tools"] = tuple(sorted({*self.tools, *tools}))
        unconfined = self.unconfined
        needs = list(needs)
        packages = [need.value for need in needs if need.kind == "packages"]
        lists["packages"] = with_packages(lists["packages"], packages)
        for need in needs:
            if need.kind == "unconfined":
                unconfined = True
            elif need.kind == "program":
                lists["programs"] = with_pin(lists["programs"], need.value)
            elif need.kind != "packages":
                name = _KINDS[need.kind]
                lists[name] = tuple(sorted({*lists[name], need.value}))
        return replace(self, unconfined=unconfined, **lists)


def missing(needs: Iterable[Need], grant: Grant | None) -> tuple[Need, ...]:
    """Return the needs that are not granted, in order; all of them without a grant."""
    return tuple(need for need in needs if grant is None or not grant.covers(need))


def needs_of(grant: Grant) -> tuple[Need, ...]:
    """Return what a grant gives, as needs."""
    given = [
        Need(kind=kind, value=value)
        for kind, name in _KINDS.items()
        for value in getattr(grant, name)
    ]
    return (*given, Need(kind="unconfined")) if grant.unconfined else tuple(given)


def grant_as_json(grant: Grant) -> dict[str, Any]:
    """Return the grant as people and programs are shown it: all but the list of files."""
    names = [each.name for each in fields(Grant) if each.name != "manifest"]
    values = {name: getattr(grant, name) for name in names}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def write_grant(grant: Grant) -> bytes:
    """Return the text that is kept."""
    files = grant.manifest if len(grant.manifest) <= _MOST_FILES else {}
    manifest = {path: f"{e.kind} {e.mode:o} {e.content}" for path, e in files.items()}
    # ASCII: a file's name need not be text, and has to come back as it was.
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
    if value.keys() != kinds.keys() or not isinstance(files, dict):
        raise ValueError("fields are missing, or unknown")
    found = {name: _checked(name, item) for name, item in value.items()}
    if not _DIGEST.match(found["digest"]):
        raise ValueError("digest is not one")
    return Grant(**found, manifest=_manifest(files))


def _checked(name: str, value: Any) -> Any:
    if name == "unconfined":
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


def _entry(line: Any) -> Entry:
    if not isinstance(line, str):
        raise ValueError("a file is not described by text")  # noqa: TRY004 - it is not a caller's
    kind, mode, content = line.split(" ", 2)
    if kind not in get_args(Entry.__annotations__["kind"]):
        raise ValueError(f"a file of kind {kind!r:.20}")
    return Entry(kind, int(mode, 8), content)  # type: ignore[arg-type]  # just looked at
