"""What this machine lacks before a tool could run: interpreters and binaries, looked up once."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

from kitbag.environment import search_path
from kitbag.languages import Language
from kitbag.skills import Skill
from kitbag.tools import Binary, InlineScript, Script, Tool

_INTERPRETERS: dict[Language, tuple[str, ...]] = {
    "python": ("python3", "python"),
    "shell": ("bash", "sh"),
    "javascript": ("node",),
    "typescript": ("node", "bun", "tsx"),
    "ruby": ("ruby",),
    "perl": ("perl",),
}


class Machine:
    """Remembers which executables are there, for as long as one manager lives."""

    def __init__(self, path: str | None = None) -> None:
        search = search_path() if path is None else path
        self.has = cache(lambda name: which(name, path=search) is not None)

    def missing(self, tool: Tool, skill: Skill) -> tuple[str, ...]:
        """Say what is missing, in words: `node is not installed`."""
        lacking = [*self._interpreter(tool), *self._required(skill)]
        return tuple(f"{name} is not installed" for name in dict.fromkeys(lacking))

    def _interpreter(self, tool: Tool) -> Iterable[str]:
        match tool.runs:
            case Script(language=language, path=path):
                names = ("zsh",) if path.suffix == ".zsh" else _INTERPRETERS[language]
            case InlineScript(interpreter=interpreter):
                names = (interpreter,)
            case Binary(path=str(path)) if "/" not in path or Path(path).is_absolute():
                names = (path,)
            case _:
                return ()
        return () if any(map(self.has, names)) else (names[0],)

    def _required(self, skill: Skill) -> Iterable[str]:
        for requires in requirements(skill):
            yield from (name for name in _names(requires.get("bins")) if not self.has(name))
            any_of = _names(requires.get("anyBins"))
            if any_of and not any(map(self.has, any_of)):
                yield " or ".join(any_of)


def requirements(skill: Skill) -> list[Mapping[str, Any]]:
    """Return the `requires` mappings of a skill, whichever vendor key they stand under."""
    front = skill.metadata.frontmatter
    metadata = front.get("metadata")
    vendors = metadata.values() if isinstance(metadata, dict) else ()
    places = [front, *(vendor for vendor in vendors if isinstance(vendor, dict))]
    found = [place.get("requires") for place in places]
    return [requires for requires in found if isinstance(requires, dict)]


def _names(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str) and item]
