"""Finds what a skill asks for, and where, by reading its files; nothing is run."""

import os
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from skillpouch.declarations.frontmatter import cut
from skillpouch.declarations.strict_yaml import YamlPath, lines_of
from skillpouch.environment import home_directory, is_set
from skillpouch.limits import DECLARED_SECONDS, read_size, size_text, time_text
from skillpouch.needs import Need, NeedKind
from skillpouch.net.hosts import HostError, host_of_url, read_host
from skillpouch.secrets.shapes import is_named_like_a_secret, is_setting
from skillpouch.signatures.shebang import language_of, source_text
from skillpouch.signatures.signature import is_standard
from skillpouch.skills import Skill
from skillpouch.tools import Binary, External, Http, Script, Tool
from skillpouch.trust.grant import is_below
from skillpouch.trust.grantable import is_variable
from skillpouch.untrusted_files import (
    SCRIPT_BYTES,
    CannotReadError,
    read_inside,
    read_skill_text,
)

_HEADING = re.compile(r"[ ]{0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_FENCE = re.compile(r"[ ]{0,3}(```+|~~~+)")
# `API_KEY`, `$API_KEY` or `API_KEY=…` between backticks.
_NAMED = re.compile(r"`\$?\{?([A-Z][A-Z0-9_]+)\}?(?:=[^`]*)?`")
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)]|\|)\s*(?:\*\*)?`")
# On its line: "`MAX_ROWS`: how many (optional, 100 by default)".
_OPTIONAL = re.compile(r"\b(?:optional|defaults?)\b", re.IGNORECASE)
# In a block of commands or of settings: `export API_KEY=…`, `API_KEY=…`.
_ASSIGNED = re.compile(r"\s*(?:export\s+|set\s+)?([A-Z][A-Z0-9_]+)=")


def variables_in_body(raw: bytes) -> Iterator[tuple[str, int]]:
    """Return the variables in the section `## Configuration`, each with its line in the file.

    Those that it calls optional are left out.
    """
    if b"configuration" not in raw.lower():  # most have no such section
        return
    parts = cut(raw)
    body = parts.raw_body.decode("utf-8", "replace")
    whole = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    first = whole.count(b"\n") - parts.raw_body.count(b"\n") + 1
    for line, text, fenced in _section(body):
        if fenced:
            found = _ASSIGNED.match(text)
            names = [found[1]] if found else []
        else:
            names = [name for name in _NAMED.findall(text) if "_" in name or _BULLET.match(text)]
        if names and not _OPTIONAL.search(text):
            yield from ((name, first + line) for name in names)


def _section(body: str) -> Iterator[tuple[int, str, bool]]:
    """Return the lines below the heading, up to the next heading of the same or a higher level."""
    rank, fence = 0, ""
    for number, text in enumerate(body.split("\n")):
        edge = _FENCE.match(text)
        if edge and (not fence or edge[1].startswith(fence)):
            fence = "" if fence else edge[1]
            continue
        heading = None if fence else _HEADING.match(text)
        if heading is not None:
            depth = len(heading[1])
            if heading[2].strip().lower() == "configuration":
                rank = rank or depth
            elif rank and depth <= rank:
                rank = 0
        elif rank:
            yield number, text, bool(fence)


_OWN: dict[str, NeedKind] = {"secrets": "secret", "settings": "setting", "hosts": "host"}
_OWN |= {"read": "read", "write": "write", "devices": "devices", "own-folder": "own-folder"}
_FLAGS: tuple[NeedKind, ...] = ("local-sockets", "loopback", "unconfined")
_LISTS = ("env", "requiredEnv", "required_env", "credentials")
_NAME_KEYS = ("env", "name", "key", "variable", "var")
# A list of credentials also names services and accounts; only names in capitals are variables.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,}\Z")

_Found = Iterator[tuple[NeedKind, str, str, YamlPath]]  # kind, value, what it is called, place


def asks_in_frontmatter(skill: Skill) -> Iterator[Need]:
    """Return what the frontmatter asks for, each with its line if that is known."""
    found = list(_asks(skill.metadata.frontmatter))
    if not found:
        return
    lines, file = _lines(skill.file), Path(skill.file).name
    for asked, written, called, place in found:
        kind, value = asked, _spelt(asked, written, skill)
        if kind == "read" and is_below(value, str(skill.home)):
            continue  # every skill reads its own files
        if kind == "write" and is_below(value, str(skill.home)):
            kind, value = "own-folder", os.path.relpath(value, skill.home)
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
    for plain in _FLAGS:
        if block.get(plain) is True:
            yield plain, "", "metadata.skillpouch", ("metadata", "skillpouch", plain)
    memory = block.get("memory")
    if isinstance(memory, str | int) and not isinstance(memory, bool):
        yield "memory", str(memory), "metadata.skillpouch", ("metadata", "skillpouch", "memory")


def _de_facto(block: Mapping[str, Any], at: YamlPath) -> _Found:
    requires = block.get("requires")
    if isinstance(requires, dict):
        for name, place in _variables(requires.get("env")):
            yield kind_of(name), name, "requires.env", (*at, "requires", "env", *place)
    for key in ("primaryEnv", *_LISTS):
        for name, place in _variables(block.get(key)):
            yield kind_of(name), name, key, (*at, key, *place)


def kind_of(name: str) -> NeedKind:
    """Return the kind of need that a variable of this name is, where nobody says which."""
    return "setting" if is_setting(name) else "secret"


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
    if kind == "memory":
        size = read_size(value)
        return value if size is None else size_text(size)
    return value


def _path(value: str, home: str) -> str:
    """Return an absolute path for a grant: `~` is the user's home, else below the skill."""
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


# Variables that every call has: those of `base_environment`, and those that describe the call.
_GIVEN = frozenset({"PATH", "HOME", "LANG", "TERM", "TZ", "NO_COLOR"})
_OURS = ("TOOL_ARG", "SKILL_", "SKILLPOUCH_")
_VARIABLES: tuple[NeedKind, ...] = ("secret", "setting")


@dataclass(slots=True)
class _Asked:
    """Collects needs; a need that is asked for in several places becomes one, with all places."""

    places: dict[tuple[NeedKind, str], dict[str, None]] = field(default_factory=dict)
    declared: set[tuple[NeedKind, str]] = field(default_factory=set)
    defaults: set[str] = field(default_factory=set)  # settings for which a script has a value

    def add(self, kind: NeedKind, value: str, asked_in: str, *, declared: bool = True) -> None:
        if kind in _VARIABLES and (not is_variable(value) or needs_no_grant(value)):
            return
        self.places.setdefault((kind, value), {})[asked_in] = None
        if declared:
            self.declared.add((kind, value))

    def kind(self, name: str) -> NeedKind:
        """Return the kind of a variable: as its skill declares it, else by default or name."""
        declared = (kind for kind in _VARIABLES if (kind, name) in self.places)
        return next(declared, "setting" if name in self.defaults else kind_of(name))

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
    """Tell whether a variable is set for every tool, or is a standard one that no tool requires."""
    return name in _GIVEN or name.startswith(_OURS) or is_standard(name)


def settings_withheld(read: Iterable[str], given: Container[str]) -> list[str]:
    """Return those of them that are no secrets by their names: none is proposed without need."""
    return [name for name in withheld(read, given) if not is_named_like_a_secret(name)]


def withheld(read: Iterable[str], given: Container[str]) -> list[str]:
    """Return those of the variables that a script reads that are set here and not given to it."""
    return [
        name
        for name in dict.fromkeys(read)
        if name not in given and is_set(name) and not needs_no_grant(name)
    ]


def asks_of(skill: Skill, tools: Iterable[Tool]) -> tuple[Need, ...]:
    """Return everything that a skill and its tools ask for, except packages: see `package_asks`.

    A need is `declared` if the frontmatter, a declared tool or the section `## Configuration` names
    it. Variables that only scripts read are not declared.
    """
    return _AskingSkill(skill).asks(tools)


def declared_asks_of_each(skill: Skill, tools: Iterable[Tool]) -> Iterator[tuple[Need, ...]]:
    """Return for each tool what it and its skill ask for, without what only scripts read."""
    each = tuple(tools)
    if each:  # for most skills, which have none, SKILL.md is not read again
        asking = _AskingSkill(skill)
        yield from (asking.asks([tool], only_declared=True) for tool in each)


class _AskingSkill:
    def __init__(self, skill: Skill) -> None:
        self._skill = skill
        self._front = tuple(asks_in_frontmatter(skill))
        self._described = tuple(variables_in_body(_text(skill.file)))

    def asks(self, tools: Iterable[Tool], *, only_declared: bool = False) -> tuple[Need, ...]:
        asked = _Asked()
        for need in self._front:
            asked.add(need.kind, need.value, need.asked_in)
        by_skill = {name for kind, name in asked.places if kind in _VARIABLES}
        by_skill.update(name for name, _ in self._described)
        for tool in tools:
            _ask_for_tool(tool, self._skill, asked, by_skill if only_declared else tool.variables)
        for name, line in self._described:
            if name in asked.defaults:  # the script goes on without it
                continue
            place = f"{Path(self._skill.file).name}:{line} (## Configuration)"
            asked.add(asked.kind(name), name, place)
        return asked.needs()


def _ask_for_tool(tool: Tool, skill: Skill, asked: _Asked, searched: Collection[str]) -> None:
    seconds = (tool.timeout_ms or 0) / 1000
    if seconds > DECLARED_SECONDS:
        asked.add("time", time_text(seconds), _time_declared_in(tool, skill))
    if isinstance(tool.runs, Script):
        names = [name for name in tool.variables if name in searched]
        _ask_for_script(names, tool.runs.file, str(skill.home), asked)
        return
    declared_in = _declared_in(tool, skill)
    match tool.runs:
        case Http(url=url) | Binary(url=str(url)):
            _ask_for_host(url, declared_in, asked)
        case Binary(url=Mapping() as urls):
            # The addresses of all platforms: a grant is the same on every machine.
            for url in urls.values():
                _ask_for_host(url, declared_in, asked)
        case External():
            asked.add("unconfined", "", declared_in)
        case _:
            pass
    for name in tool.variables:
        asked.add(asked.kind(name), name, declared_in)


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
    asked.defaults |= {name for name in names if has_plain_default(name, text)}
    for name in names:
        where = f"{path}{line_of(name, text)}"
        asked.add(asked.kind(name), name, where, declared=False)


def has_default(name: str, text: str) -> bool:
    """`${X:-50}`, `os.environ.get("X", "50")`, `process.env.X || 50`, `ENV.fetch("X", 50)`."""
    quoted = rf"[\"']{name}[\"']"
    default = rf"\$\{{{name}:?[-=]|\(\s*{quoted}\s*,|\b{name}\s*(?:\|\||\?\?)"
    default += rf"|{quoted}\s*[\])]\s*(?:\|\||\?\?|or\b)"
    return re.search(default, text) is not None


def has_plain_default(name: str, text: str) -> bool:
    """Tell whether a text has a value for a variable that is no secret by its name."""
    return not is_named_like_a_secret(name) and has_default(name, text)


# `$HOME/.lamp/x`, `"~/.lamp"`, `Path.home() / ".lamp" / "x"`, `join(homedir(), ".lamp")`: up to two
# names, of which the first begins with a dot.
_IN_HOME = re.compile(
    r"(?:\$HOME|\$\{HOME\}|[\"' =(]~)/(\.local/\w+/\w[\w.-]*|\.\w[\w.-]*(?:/\w[\w.-]*)?)"
    r"|(?:Path\.home\(\)|homedir\(\))\s*[/,]\s*[\"'](\.\w[\w.-]*(?:/\w[\w.-]*)?)[\"'/]"
    r"(?:\s*[/,]\s*[\"'](\w[\w.-]*)[\"'])?"
)
# Folders of many programs, where keys are kept, and settings of the shell and of package tools.
_NEVER_PROPOSED = re.compile(
    r"\.(?:config|cache|local(?:/\w+)?|\w*rc|(?:ssh|gnupg|aws|azure|docker|kube|pki)(?:/.*)?"
    r"|netrc|git-credentials)"
)
_COMMENT = re.compile(r"^[ \t]*(?:#|//|\*).*$", re.MULTILINE)
_OF_HOME = re.compile(r"\bhome\(\)|\bhomedir\(\)|expanduser|\$\{?HOME\b")
_SHARED = (".cache", ".config", ".local/share", ".local/state")
_JOINED = re.compile(r"(?:/|join\([^)\n]*,)\s*[\"']([A-Za-z0-9][\w.-]+)[\"']")
_MOST_JOINED = 100


def paths_in_home(tool: Tool) -> list[str]:
    """Return the paths below the user's home that a script names, relative to it."""
    if not isinstance(tool.runs, Script) or not tool.home:
        return []
    try:
        data = read_inside(tool.runs.file, tool.home, SCRIPT_BYTES).data
    except CannotReadError:
        return []
    return home_paths_in(source_text(data, language_of(tool.runs.file)))


def never_proposed(path: str) -> bool:
    """Tell whether a path below the home holds keys, or is of many programs."""
    return _NEVER_PROPOSED.fullmatch(path) is not None


def home_paths_in(code: str) -> list[str]:
    """Return the paths below a home that a text names, relative to it."""
    found: dict[str, None] = {}
    code = _COMMENT.sub("", code)
    for whole, first, second in _IN_HOME.findall(code):
        path = whole or "/".join(filter(None, (first, second)))
        if not _NEVER_PROPOSED.fullmatch(path):
            found[path] = None
    found |= dict.fromkeys(_made_of_parts(code))
    return [path for path in found if not any(is_below(path, other) for other in found)]


def _made_of_parts(code: str) -> Iterator[str]:
    """Yield paths in folders of many programs whose last part is joined to what holds the first.

    `base = home / ".cache"`, and later `base / "lamp"`: only those that the user's home has.
    """
    home = home_directory()
    if home is None or not _OF_HOME.search(code):
        return
    folders = [each for each in _SHARED if re.search(rf"[\"'/]{re.escape(each)}[\"'/]", code)]
    names = dict.fromkeys(_JOINED.findall(code)) if folders else {}
    for name in islice(names, _MOST_JOINED):
        yield from (f"{each}/{name}" for each in folders if (home / each / name).exists())


def line_of(name: str, text: str) -> str:
    """Return `:12` for a variable that a text names in line 12; "" if it does not."""
    found = re.search(rf"\b{re.escape(name)}\b", text)
    return "" if found is None else f":{text[: found.start()].count(chr(10)) + 1}"


def _time_declared_in(tool: Tool, skill: Skill) -> str:
    # Imported here: few tools declare so much time.
    from skillpouch.declarations.declared import SKILL_TIMEOUT, DeclarationError, read_skill_timeout

    try:
        is_of_skill = tool.timeout_ms == read_skill_timeout(skill.metadata.frontmatter)
    except DeclarationError:
        is_of_skill = False
    if not is_of_skill:
        return _declared_in(tool, skill)
    line = _lines(skill.file).get(SKILL_TIMEOUT)
    file = Path(skill.file).name
    return f"{file}:{line} (metadata.skillpouch)" if line else "metadata.skillpouch"


def _declared_in(tool: Tool, skill: Skill) -> str:
    file = tool.declared_in if tool.declared_in == "tools.json" else Path(skill.file).name
    return f"{file} (tool {tool.id.removeprefix(f'{tool.skill}.')})"


def _text(file: str) -> bytes:
    try:
        return read_skill_text(file).data
    except CannotReadError:
        return b""  # it was removed after the skill was found
