"""What a skill asks for, and where: all its files are read for it, none of them is run."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from skillpouch.needs import Need, NeedKind
from skillpouch.net.hosts import host_of_url
from skillpouch.signatures.languages import language_of, source_text
from skillpouch.signatures.standard_variables import is_standard
from skillpouch.skills import Skill
from skillpouch.tools import Binary, Http, Script, Tool
from skillpouch.trust.asks_in_body import variables_in_body
from skillpouch.trust.asks_in_frontmatter import asks_in_frontmatter
from skillpouch.trust.grantable import is_variable
from skillpouch.untrusted_files import (
    SCRIPT_BYTES,
    CannotReadError,
    read_inside,
    read_skill_text,
)

# What every call has anyway: see `base_environment`, and what Skillpouch says about the call.
_GIVEN = frozenset({"PATH", "HOME", "LANG", "TERM", "TZ", "NO_COLOR"})
_OURS = ("TOOL_ARG", "SKILL_", "SKILLPOUCH_")


@dataclass(slots=True)
class _Asked:
    """Collects needs; one that is asked for in several places is one need with all of them."""

    places: dict[tuple[NeedKind, str], dict[str, None]] = field(default_factory=dict)
    declared: set[tuple[NeedKind, str]] = field(default_factory=set)

    def add(self, kind: NeedKind, value: str, asked_in: str, *, declared: bool = True) -> None:
        if kind == "secret" and (not is_variable(value) or needs_no_grant(value)):
            return
        self.places.setdefault((kind, value), {})[asked_in] = None
        if declared:
            self.declared.add((kind, value))

    def needs(self) -> tuple[Need, ...]:
        return tuple(
            Need(
                kind=kind,
                value=value,
                declared=(kind, value) in self.declared,
                asked_in=", ".join(places),
            )
            for (kind, value), places in self.places.items()
        )


def needs_no_grant(name: str) -> bool:
    """Tell whether a variable is there for every tool, or is done without everywhere."""
    return name in _GIVEN or name.startswith(_OURS) or is_standard(name)


def asks_of(
    skill: Skill, tools: Iterable[Tool], *, only_declared: bool = False
) -> tuple[Need, ...]:
    """Return everything that a skill and its tools ask for; packages are `package_asks`.

    `declared` is what the skill says itself: in its frontmatter, in its declared tools, in its
    section `## Configuration`. What only its scripts read is not; with `only_declared` scripts are
    not searched for it.
    """
    asked = _Asked()
    for need in asks_in_frontmatter(skill):
        asked.add(need.kind, need.value, need.asked_in)
    described = _described(_text(skill.file))
    by_skill = {name for kind, name in asked.places if kind == "secret"}
    by_skill.update(name for name, _ in described)
    for tool in tools:
        _ask_for_tool(tool, skill, asked, by_skill if only_declared else tool.variables)
    for name, line in described:
        asked.add("secret", name, f"{Path(skill.file).name}:{line} (## Configuration)")
    return asked.needs()


def _ask_for_tool(tool: Tool, skill: Skill, asked: _Asked, searched: Collection[str]) -> None:
    declared_in = _declared_in(tool, skill)
    match tool.runs:
        case Script(file=file):
            names = [name for name in tool.variables if name in searched]
            _ask_for_script(names, file, str(skill.home), asked)
            return
        case Http(url=url) | Binary(url=str(url)):
            _ask_for_host(url, declared_in, asked)
        case Binary(url=Mapping() as urls):
            # All of them: what is granted to a skill is the same on every machine.
            for url in urls.values():
                _ask_for_host(url, declared_in, asked)
        case _:
            pass
    for name in tool.variables:
        asked.add("secret", name, declared_in)


def _ask_for_host(url: str, declared_in: str, asked: _Asked) -> None:
    if host := host_of_url(url):
        asked.add("host", host, declared_in)


def _ask_for_script(names: list[str], file: str, home: str, asked: _Asked) -> None:
    if not names:
        return
    path = os.path.relpath(file, home)
    try:
        text = source_text(read_inside(file, home, SCRIPT_BYTES).data, language_of(file))
    except CannotReadError:
        text = ""
    for name in names:
        asked.add("secret", name, f"{path}{_line_of(name, text)}", declared=False)


def _line_of(name: str, text: str) -> str:
    found = re.search(rf"\b{re.escape(name)}\b", text)
    return "" if found is None else f":{text[: found.start()].count(chr(10)) + 1}"


def _declared_in(tool: Tool, skill: Skill) -> str:
    file = tool.declared_in if tool.declared_in == "tools.json" else Path(skill.file).name
    return f"{file} (tool {tool.id.removeprefix(f'{tool.skill}.')})"


@lru_cache(maxsize=1)  # asked for each tool of a skill in turn
def _described(text: bytes) -> tuple[tuple[str, int], ...]:
    return tuple(variables_in_body(text))


def _text(file: str) -> bytes:
    try:
        return read_skill_text(file).data
    except CannotReadError:
        return b""  # it was there when the skill was found
