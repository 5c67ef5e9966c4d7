"""Reads which packages a pyproject.toml declares: PEP 621, and dependency groups, PEP 735."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillpouch.declarations.packages.declared_files import DeclaredFiles, RequirementRefusedError
from skillpouch.declarations.packages.requirements import (
    NotARequirementError,
    Requirement,
    normal_name,
    parse_requirement,
)

# Settings of uv that choose where all packages come from; `sources` and `index` may concern one.
_UV_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index")
_DEVELOPMENT = "dev"  # the group that tools install for whoever develops a project, not for its use
_MOST_PACKAGES = 1_000
_DEEPEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPackages:
    """What a pyproject.toml says about packages; `notice` is why some of it is not taken."""

    requirements: tuple[Requirement, ...] = ()
    requires_python: str = ""
    notice: str = ""


def read_project(files: DeclaredFiles, path: Path) -> ProjectPackages | None:
    """Return what the file declares; None if there is none, or if it is not about packages.

    With a `[project]` table its `dependencies` count, without one the dependency groups. Extras and
    other groups count if `[tool.skillpouch]` names them: `extras`, `groups`.

    Raises:
        RequirementRefusedError: it cannot be read, or asks for more than packages by name.
    """
    text = files.read(path)
    # Most files of this name only have settings of other tools.
    if text is None or not any(word in text for word in ("project", "dependency-groups", "poetry")):
        return None
    import tomllib

    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RequirementRefusedError(str(path), f"it is not valid TOML: {error}") from None
    try:
        return _Reader(table).read()
    except NotARequirementError as error:
        raise RequirementRefusedError(str(path), str(error)) from None


class _Reader:
    def __init__(self, table: dict[str, Any]) -> None:
        self._project = _table(table, "project")
        self._groups = {
            normal_name(name): value for name, value in _table(table, "dependency-groups").items()
        }
        self._tool = _table(table, "tool")
        own = _table(self._tool, "skillpouch")
        self._extras = _texts(own.get("extras"), "tool.skillpouch.extras")
        self._named = _texts(own.get("groups"), "tool.skillpouch.groups")

    def read(self) -> ProjectPackages | None:
        if not (self._project or self._groups):
            return self._of_poetry()
        groups, notice = self._chosen_groups()
        found = [*self._dependencies(), *self._of_extras(self._extras)]
        found += [each for name in groups for each in self._of_group(name)]
        if len(found) > _MOST_PACKAGES:
            raise NotARequirementError(f"{len(found):,} packages are too many")
        self._refuse_sources({each.name for each in found})
        requires = self._project.get("requires-python", "")
        if not isinstance(requires, str):
            raise NotARequirementError("project.requires-python is not text")
        return ProjectPackages(
            requirements=tuple(found),
            requires_python=requires,
            notice=self._dynamic() or notice,
        )

    def _of_poetry(self) -> ProjectPackages | None:
        if "dependencies" not in _table(self._tool, "poetry"):
            return None
        return ProjectPackages(
            notice="tool.poetry.dependencies are not read: write them as [project] dependencies"
        )

    def _dynamic(self) -> str:
        dynamic = _texts(self._project.get("dynamic"), "project.dynamic")
        if "dependencies" not in dynamic:
            return ""
        return (
            "its dependencies are dynamic: only its build backend knows them, and reading runs "
            "nothing; write them as [project] dependencies, or in requirements.txt"
        )

    def _dependencies(self) -> Iterator[Requirement]:
        for text in _texts(self._project.get("dependencies"), "project.dependencies"):
            yield from self._expanded(parse_requirement(text))

    def _expanded(self, requirement: Requirement, depth: int = 0) -> Iterator[Requirement]:
        """Yield a requirement; of the project itself, what its extras name."""
        name = self._project.get("name")
        if not isinstance(name, str) or requirement.name != normal_name(name):
            yield requirement
        else:
            yield from self._of_extras(requirement.extras, depth + 1)

    def _of_extras(self, names: Iterable[str], depth: int = 0) -> Iterator[Requirement]:
        if depth > _DEEPEST:
            raise NotARequirementError("project.optional-dependencies include each other")
        table = _table(self._project, "optional-dependencies")
        extras = {normal_name(name): value for name, value in table.items()}
        for name in names:
            if normal_name(name) not in extras:
                raise NotARequirementError(f"there is no extra {name!r}")
            for text in _texts(extras[normal_name(name)], f"the extra {name!r}"):
                yield from self._expanded(parse_requirement(text), depth)

    def _chosen_groups(self) -> tuple[list[str], str]:
        """Return the groups that are for using the skill, and why others are not taken."""
        if self._named or self._project:
            return self._named, ""
        chosen = _table(self._tool, "uv").get("default-groups")
        if isinstance(chosen, list):
            return _texts(chosen, "tool.uv.default-groups"), ""
        others = [name for name in self._groups if name != _DEVELOPMENT]
        if len(others) == 1:
            return others, ""
        notice = (
            f"it has the dependency groups {', '.join(sorted(self._groups))}, and does not say "
            'which a script needs: write [tool.skillpouch] groups = ["…"]'
        )
        return [], notice if others else ""

    def _of_group(self, name: str, depth: int = 0) -> Iterator[Requirement]:
        entries = self._groups.get(normal_name(name))
        if not isinstance(entries, list):
            raise NotARequirementError(f"there is no dependency group {name!r}")
        if depth > _DEEPEST:
            raise NotARequirementError("dependency groups include each other")
        for entry in entries:
            if isinstance(entry, str):
                yield from self._expanded(parse_requirement(entry))
            elif isinstance(entry, dict) and isinstance(entry.get("include-group"), str):
                yield from self._of_group(entry["include-group"], depth + 1)
            else:
                raise NotARequirementError(f"the dependency group {name!r} cannot be read")

    def _refuse_sources(self, names: set[str]) -> None:
        settings = _table(self._tool, "uv")
        found = [key for key in _UV_SOURCES if key in settings]
        indexes = settings.get("index")
        if isinstance(indexes, list):
            found += ["index"] if not all(map(_is_explicit, indexes)) else []
        sources = {normal_name(name) for name in _table(settings, "sources")}
        found += ["sources"] if sources & names else []
        for key in found if names else ():
            raise NotARequirementError(
                f"tool.uv.{key}: a skill does not choose where packages come from"
            )


def _is_explicit(index: Any) -> bool:
    """Tell whether an index is used only for packages whose source names it."""
    return isinstance(index, dict) and index.get("explicit") is True


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _texts(value: Any, what: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise NotARequirementError(f"{what} is not a list of texts")
    return value
