"""How tools and parameters are named: for people and records, and safely for models."""

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, TypeVar
from unicodedata import normalize

from skillpouch.runtime.memoize import by_identity
from skillpouch.signatures.languages import EXTENSIONS

# What OpenAI and Anthropic accept; hosts may add prefixes of their own.
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_SEPARATORS = re.compile(r"[.:/]")
_LONGEST = 64
_Value = TypeVar("_Value")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")  # Anthropic's rule, the strictest
_NOT_IN_PARAMETERS = re.compile(r"[^A-Za-z0-9_.-]+")
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


def model_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an input schema as models are shown it: every parameter has a name they can say."""
    return _shown(schema) or schema


@by_identity
def _shown(schema: dict[str, Any]) -> dict[str, Any] | None:
    safe = {real: said for said, real in real_names(schema).items()}
    if not safe:
        return None
    properties = schema["properties"]
    return {
        **schema,
        "properties": {
            safe.get(name, name): _explained(name, each) if name in safe else each
            for name, each in properties.items()
        },
        **(
            {"required": [safe.get(name, name) for name in schema["required"]]}
            if isinstance(schema.get("required"), list)
            else {}
        ),
    }


def _explained(name: str, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    said = schema.get("description")
    return {**schema, "description": f"{name}: {said}" if said else name}


@by_identity
def real_names(schema: dict[str, Any]) -> dict[str, str]:
    """Return safe spelling → name of each parameter whose name a model provider would refuse."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    found: dict[str, str] = {}
    for name in properties:
        if not _PARAMETER.match(name):
            safe = _NOT_IN_PARAMETERS.sub("_", normalize("NFKD", name)).strip("_")
            if not _PARAMETER.match(safe) or safe in properties or safe in found:
                digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
                safe = f"{safe[:_KEPT] or 'p'}_{digest[:8]}"
            found[safe] = name
    return found


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
