"""What this machine lacks before a tool could run: interpreters and programs, looked up once."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from shutil import which
from typing import Any

from skillpouch.environment import is_set, search_path
from skillpouch.signatures.shebang import DEBIAN_PACKAGES, TYPESCRIPT_NODE
from skillpouch.skills import Skill
from skillpouch.tools import BACKEND, External, Tool

# Programs of Python that commands for a skill call, and that Skillpouch answers itself: with its
# own Python, and with the packages that were granted.
ANSWERED = ("python", "python3", "pip", "pip3", "uv", "uvx", "pipx")


class InstalledPrograms:
    """Remembers which programs are installed, for the lifetime of one manager."""

    def __init__(
        self, path: str | None = None, runs_typescript: Callable[[], bool] = lambda: True
    ) -> None:
        self._search = search_path() if path is None else path
        self._runs_typescript = runs_typescript  # asks the installed Node
        self.has = cache(self._looks)

    def _looks(self, name: str) -> bool:
        if name == TYPESCRIPT_NODE:
            return self.has("node") and self._runs_typescript()
        if name.startswith(BACKEND):
            from skillpouch.runtime.entry_points import BACKENDS, is_provided

            return is_provided(BACKENDS, name.removeprefix(BACKEND))
        return which(name, path=self._search) is not None

    def missing(self, tool: Tool) -> list[str]:
        """Say which interpreter or binary a tool lacks."""
        needs = tool.needs
        if not needs or any(map(self.has, needs)):
            return []
        if isinstance(tool.runs, External):
            # Imported here, because most tools lack nothing.
            from skillpouch.declarations.backends import not_provided

            return [not_provided(tool.runs)]
        return [_not_installed(needs[0])]

    def missing_for_skill(self, skill: Skill) -> list[str]:
        """Say which required binaries and variables of a skill are missing."""
        return list(self._required(skill))

    def _answers(self, name: str) -> bool:
        return name in ANSWERED or self.has(name)

    def _required(self, skill: Skill) -> Iterable[str]:
        for requires in requirements(skill):
            binaries = _names(requires.get("bins"))
            yield from (_not_installed(name) for name in binaries if not self._answers(name))
            any_of = _names(requires.get("anyBins"))
            if any_of and not any(map(self._answers, any_of)):
                yield f"{' or '.join(any_of)} is not installed"
            variables = _names(requires.get("env"))
            yield from (
                f"{name} is not set: export {name}=…" for name in variables if not is_set(name)
            )


def requirements(skill: Skill) -> list[Mapping[str, Any]]:
    """Return the `requires` mappings of a skill, under whichever vendor key they are."""
    front = skill.metadata.frontmatter
    metadata = front.get("metadata")
    vendors = metadata.values() if isinstance(metadata, dict) else ()
    places = [front, *(vendor for vendor in vendors if isinstance(vendor, dict))]
    found = [place.get("requires") for place in places]
    return [requires for requires in found if isinstance(requires, dict)]


def _not_installed(name: str) -> str:
    package = DEBIAN_PACKAGES.get(name)
    command = f": apt install {package}" if package else ""
    return f"{name} is not installed{command}"


def _names(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str) and item]
