"""How tools are named: ids for people and records, wire names for models."""

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TypeVar
from unicodedata import normalize

from kitbag.languages import EXTENSIONS

# What OpenAI and Anthropic accept; hosts may add prefixes of their own.
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_SEPARATORS = re.compile(r"[.:/]")
_LONGEST = 64
_Value = TypeVar("_Value")
_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9_]")
_KEPT = 55  # 55 characters, an underscore and 8 hex digits make 64


def script_tool_name(path: str) -> str:
    """Return the tool name of a script below `scripts/`: `utils/parse.py` → `utils-parse`."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    if parts and parts[0] == "scripts":
        parts = parts[1:]
    if not parts:
        return ""
    *folders, last = parts
    stem = PurePosixPath(last)
    return "-".join([*folders, stem.stem if stem.suffix.lower() in EXTENSIONS else last])


def tool_id(skill: str, tool: str) -> str:
    """Return the canonical name of a tool, the same in every record and at every door."""
    return f"{skill}.{tool}"


def argument_variable(name: str) -> str:
    """Return the environment variable that holds an argument: `chunk-size` → TOOL_ARG_CHUNK_SIZE.

    Every shell can read it. Two names may want the same one.
    """
    return f"TOOL_ARG_{_NOT_IN_VARIABLES.sub('_', name.upper())}"


def is_wire_name(name: str) -> bool:
    """Tell whether every model provider accepts `name` as it is."""
    return 0 < len(name) <= _LONGEST and _ILLEGAL.search(name) is None


def wire_name(skill: str, tool: str, *, declared: bool) -> str:
    """Return the name a model sees.

    A declared name is kept when it is legal. Everything else becomes `skill__tool`; when that is
    too long, or could stand for two different ids, a hash of the id keeps it unique.
    """
    if declared and is_wire_name(tool):
        return tool
    return qualified_wire_name(skill, tool)


def skill_wire_name(skill: str) -> str:
    """Return the name by which a model is shown a skill as if it were a tool."""
    if is_wire_name(skill):
        return skill
    plugin, _, name = skill.rpartition(":")
    joined = _SEPARATORS.sub("__", skill)
    if plugin and is_wire_name(joined) and "__" not in skill:
        return joined
    return hashed_wire_name(plugin or "skill", name)


def qualified_wire_name(skill: str, tool: str) -> str:
    """Return `skill__tool`, or the hashed form when that is too long or ambiguous."""
    joined = _joined(skill, tool)
    legal = _legal(joined)
    if len(legal) <= _LONGEST and legal in (joined, f"_{joined}") and "__" not in skill:
        return legal
    return hashed_wire_name(skill, tool)


def hashed_wire_name(skill: str, tool: str, attempt: int = 0) -> str:
    """Return a legal name that no other id has: its beginning and a hash of the id."""
    hashed = tool_id(skill, tool) + (f"#{attempt}" if attempt else "")
    digest = sha256(hashed.encode(errors="surrogatepass")).hexdigest()
    return f"{_legal(_joined(skill, tool))[:_KEPT]}_{digest[:8]}"


def _joined(skill: str, tool: str) -> str:
    return f"{_SEPARATORS.sub('__', skill)}__{_SEPARATORS.sub('__', tool)}"


def _legal(joined: str) -> str:
    legal = _ILLEGAL.sub("_", joined)
    return legal if legal[0].isalpha() or legal[0] == "_" else f"_{legal}"


def in_any_form(named: Mapping[str, _Value], name: str) -> _Value | None:
    """Return what has a name, also when either is spelt with letters and accents apart (NFD)."""
    if name in named or name.isascii():
        return named.get(name)
    wanted = normalize("NFC", name)
    same = (named[each] for each in list(named) if normalize("NFC", each) == wanted)
    return next(same, None)
