"""Checking skills: loading them as an agent would, then looking at every file they hold."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillpouch.checks.hidden_text import find_hidden_text
from skillpouch.checks.secrets import find_secrets
from skillpouch.checks.strict import skill_md_problems, tools_json_problems
from skillpouch.declarations.skill_tools import read_skill_tools
from skillpouch.discovery.discovery import Discovered, find_skills
from skillpouch.discovery.index import Index
from skillpouch.discovery.walk import is_skipped_folder
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem
from skillpouch.skills import Skill
from skillpouch.untrusted_files import (
    DECLARATION_BYTES,
    CannotReadError,
    read_inside,
    read_skill_text,
)


def find_shadowed_modules(path: str, name: str) -> list[Problem]:
    """Check the Python file at `path`, which its neighbours import as the module `name`."""
    if name not in sys.stdlib_module_names:
        return []
    # The interpreter looks for the modules it has built in before it looks at any folder.
    if name in sys.builtin_module_names:
        consequence = f"no script can import it: `import {name}` always finds the built-in module"
    else:
        consequence = (
            f"`import {name}` in this folder finds this file, "
            "and every library that needs the real module breaks"
        )
    return [
        Problem(
            path=path,
            code="shadows-stdlib",
            severity="warning",
            message=f"named like the standard library module '{name}': {consequence}; rename it",
        )
    ]


_MOST_FILES = 512
_MOST_BYTES = 1024 * 1024


def check_files(home: Path) -> list[Problem]:
    """Look at every text file of a skill, up to a bound; a binary file is not text."""
    problems: list[Problem] = []
    for number, path in enumerate(_files(str(home))):
        if number >= _MOST_FILES:
            message = f"only the first {_MOST_FILES} files were looked at"
            problems.append(
                Problem(path=str(home), code="too-many-files", severity="info", message=message)
            )
            break
        problems += _check_file(path, str(home))
    return problems


def _check_file(path: str, home: str) -> list[Problem]:
    problems: list[Problem] = []
    if path.startswith(f"{home}/scripts/") and path.endswith(".py"):
        problems += find_shadowed_modules(path, Path(path).stem)
    try:
        data = read_inside(path, home, _MOST_BYTES).data
    except CannotReadError:
        return problems
    if b"\0" in data:
        return problems
    text = data.decode("utf-8", "replace")
    return [*problems, *find_secrets(path, text), *find_hidden_text(path, text)]


def _files(home: str) -> Iterator[str]:
    for folder, folders, files in os.walk(home):
        if folder != home and any(name.lower() == "skill.md" for name in files):
            folders.clear()  # a skill of its own
            continue
        folders[:] = sorted(name for name in folders if not is_skipped_folder(name))
        yield from (f"{folder}/{name}" for name in sorted(files))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found: how many skill files, how many load, and every problem."""

    found: int
    loaded: int
    skipped: int
    tools: int
    problems: tuple[Problem, ...]


def check_skills(
    paths: Sequence[Path], strict: bool, progress: Callable[[int, int], None]
) -> Checked:
    """Check every skill file below the paths, shadowed ones too. Nothing is run or remembered."""
    roots = [path if path.is_dir() else path.parent for path in paths]
    boundaries = [os.path.realpath(root) for root in roots]
    absolute = dict.fromkeys(str(root.absolute()) for root in roots)
    parts = [find_skills(root, boundaries, Index(None)) for root in absolute]
    skills = [skill for part in parts for skill in part.skills]
    problems = [problem for part in parts for problem in part.problems]
    problems += _same_names(parts)
    tools = 0
    for number, skill in enumerate(skills):
        progress(number, len(skills))
        count, noticed = _check_skill(skill, strict)
        tools += count
        problems += noticed
    return Checked(
        found=sum(part.found for part in parts),
        loaded=len(skills),
        skipped=sum(part.skipped for part in parts),
        tools=tools,
        problems=tuple(dict.fromkeys(problems)),
    )


def _check_skill(skill: Skill, strict: bool) -> tuple[int, list[Problem]]:
    try:
        read = read_skill_tools(skill)
    except SkillUnreadableError as error:
        problem = Problem(
            path=skill.file, code="skill-unreadable", severity="error", message=error.reason
        )
        return 0, [problem]
    problems = [*read.problems, *check_files(skill.home)]
    if strict:
        problems += _strict(skill)
    return len(read.tools), problems


def _strict(skill: Skill) -> list[Problem]:
    manifest = f"{skill.home}/tools.json"
    problems: list[Problem] = []
    # What cannot be read is already on record, and no tools.json is the usual case.
    with suppress(CannotReadError):
        raw = read_skill_text(skill.file).data
        problems += skill_md_problems(skill.file, raw, skill.home.name)
    with suppress(CannotReadError):
        problems += tools_json_problems(
            manifest, read_inside(manifest, str(skill.home), DECLARATION_BYTES).data
        )
    return problems


def _same_names(parts: Sequence[Discovered]) -> list[Problem]:
    """Name every skill that a later one of the same name would hide."""
    problems: list[Problem] = []
    names: dict[str, Skill] = {}
    for part in parts:
        for skill in part.skills:
            earlier = names.get(skill.name)
            if earlier is not None:
                message = f"skill {skill.name!r} at {skill.file} would be used instead of this one"
                problems.append(
                    Problem(
                        path=earlier.file,
                        code="skill-shadowed",
                        severity="warning",
                        message=message,
                    )
                )
            names[skill.name] = skill
    return problems
