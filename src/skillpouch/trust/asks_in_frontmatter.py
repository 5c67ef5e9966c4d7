"""What the head of a SKILL.md asks for: Skillpouch's own block, and the forms people use."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skillpouch.declarations.frontmatter import cut
from skillpouch.declarations.strict_yaml import YamlPath, lines_of
from skillpouch.environment import home_directory
from skillpouch.needs import Need, NeedKind
from skillpouch.net.hosts import HostError, host_of_url, read_host
from skillpouch.skills import Skill
from skillpouch.trust.paths import is_below
from skillpouch.untrusted_files import CannotReadError, read_skill_text

_OWN: dict[str, NeedKind] = {"secrets": "secret", "hosts": "host", "read": "read", "write": "write"}
_LISTS = ("env", "requiredEnv", "required_env", "credentials")
_NAME_KEYS = ("env", "name", "key", "variable", "var")
# A list of credentials also names services and accounts; a variable is written like one.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,}\Z")

_Found = Iterator[tuple[NeedKind, str, str, YamlPath]]  # kind, value, what it is called, place


def asks_in_frontmatter(skill: Skill) -> Iterator[Need]:
    """Return what the frontmatter asks for, each with its line when it is known."""
    found = list(_asks(skill.metadata.frontmatter))
    if not found:
        return
    lines, file = _lines(skill.file), Path(skill.file).name
    for kind, written, called, place in found:
        value = _spelt(kind, written, skill)
        if kind == "read" and is_below(value, str(skill.home)):
            continue  # every skill reads its own files
        line = next((lines[at] for at in _upward(place) if at in lines), 0)
        where = f"{file}:{line} ({called})" if line else called
        yield Need(kind=kind, value=value, asked_in=where)


def _asks(front: Mapping[str, Any]) -> _Found:
    yield from _de_facto(front, ())
    metadata = front.get("metadata")
    for vendor, block in metadata.items() if isinstance(metadata, dict) else ():
        if isinstance(block, dict):
            yield from _de_facto(block, ("metadata", vendor))
            if vendor == "skillpouch":
                yield from _own(block)


def _own(block: Mapping[str, Any]) -> _Found:
    for key, kind in _OWN.items():
        for value, place in _texts(block.get(key)):
            yield kind, value, "metadata.skillpouch", ("metadata", "skillpouch", key, *place)
    if block.get("unconfined") is True:
        yield "unconfined", "", "metadata.skillpouch", ("metadata", "skillpouch", "unconfined")


def _de_facto(block: Mapping[str, Any], at: YamlPath) -> _Found:
    requires = block.get("requires")
    if isinstance(requires, dict):
        for name, place in _variables(requires.get("env")):
            yield "secret", name, "requires.env", (*at, "requires", "env", *place)
    for key in ("primaryEnv", *_LISTS):
        for name, place in _variables(block.get(key)):
            yield "secret", name, key, (*at, key, *place)


def _variables(value: Any) -> Iterator[tuple[str, YamlPath]]:
    """Return the names in a text, a list of texts or of mappings, or a mapping by name."""
    if isinstance(value, dict):
        named = [value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)]
        for name in named or value:
            if _VARIABLE.match(name):
                yield name, () if named else (name,)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from ((name, (position, *at)) for name, at in _variables(item))
    elif isinstance(value, str):
        yield from ((name, ()) for name in re.split(r"[\s,;]+", value) if _VARIABLE.match(name))


def _texts(value: Any) -> Iterator[tuple[str, YamlPath]]:
    if isinstance(value, str) and value.strip():
        yield value.strip(), ()
    elif isinstance(value, list):
        for position, item in enumerate(value):
            if isinstance(item, str) and item.strip():
                yield item.strip(), (position,)


def _spelt(kind: NeedKind, value: str, skill: Skill) -> str:
    if kind == "host":
        try:
            return str(read_host(value))
        except HostError:
            return host_of_url(value) or value  # as it was written: it cannot be granted
    if kind in ("read", "write"):
        return _path(value, str(skill.home))
    return value


def _path(value: str, home: str) -> str:
    """Return a path as a grant has it: `~` is the user's home, others begin in the skill."""
    user = home_directory()
    if user is not None and (value == "~" or value.startswith("~/")):
        value = f"{user}{value[1:]}"
    return os.path.normpath(Path(home, value))


def _lines(file: str) -> dict[YamlPath, int]:
    try:
        parts = cut(read_skill_text(file).data)
    except CannotReadError:
        return {}
    return lines_of(parts.front or "", first_line=parts.first_line)


def _upward(place: YamlPath) -> Iterator[YamlPath]:
    for length in range(len(place), 0, -1):
        yield place[:length]
