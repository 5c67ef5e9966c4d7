"""Checks skills: loads them as an agent would, then looks at every file in them."""

import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from skillpouch.checks.secrets import find_secrets
from skillpouch.checks.strict import skill_md_problems, tools_json_problems
from skillpouch.declarations.packages.declared_files import DeclaredFiles, RequirementRefusedError
from skillpouch.declarations.packages.pyproject import read_project
from skillpouch.declarations.skill_tools import read_skill_tools
from skillpouch.discovery.discovery import Discovered, find_skills
from skillpouch.discovery.index import Index
from skillpouch.discovery.walk import is_skipped_folder
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem, Severity
from skillpouch.signatures.shebang import language_of
from skillpouch.skills import Skill
from skillpouch.text import find_hidden
from skillpouch.tools import Script, Tool
from skillpouch.untrusted_files import (
    DECLARATION_BYTES,
    CannotReadError,
    read_inside,
    read_skill_text,
)

_BOM = "\ufeff"
_PAGE_BREAK = "\x0c"  # old source code separates sections with it: harmless
# Soft hyphens come with text copied from a document: worth reporting, but not an attack.
_MILD = frozenset("\u00ad")
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f")
_RIGHT_TO_LEFT = frozenset(("R", "AL"))
_ESCAPE_STARTS = frozenset("\x1b\x9b\x90\x98\x9d\x9e\x9f")

_TAG_BLOCK = range(0xE0000, 0xE0080)
_TAG_PRINTABLE = range(0x20, 0x7F)

_LINES_AT_MOST = 100
_NAMED_AT_MOST = 6
_SPELLED_AT_MOST = 200


def find_hidden_text(path: str, text: str) -> list[Problem]:
    """Return one problem per line that hides text; after a hundred, one for all other lines."""
    by_line = _hidden_by_line(text)
    reported = dict(islice(by_line.items(), _LINES_AT_MOST))
    right_to_left = _lines_written_right_to_left(text, reported)
    problems = [
        _problem(path, number, _severity(pieces, number in right_to_left), _message(pieces))
        for number, pieces in reported.items()
    ]
    if len(by_line) > len(reported):
        more = len(by_line) - len(reported)
        next_line = next(islice(by_line, len(reported), None))
        problems.append(_problem(path, next_line, "warning", f"{more:,} more lines hide text"))
    return problems


def _problem(path: str, line: int, severity: Severity, message: str) -> Problem:
    return Problem(path=path, code="hidden-text", severity=severity, message=message, line=line)


def _hidden_by_line(text: str) -> dict[int, list[str]]:
    by_line: dict[int, list[str]] = {}
    line, counted = 1, 0
    for place, piece in find_hidden(text):
        line += text.count("\n", counted, place)
        counted = place
        if seen := _without_harmless(piece, first=place == 0):
            by_line.setdefault(line, []).append(seen)
    return by_line


def _without_harmless(piece: str, *, first: bool) -> str:
    if first:
        piece = piece.removeprefix(_BOM)
    return piece.replace(_PAGE_BREAK, "")


def _lines_written_right_to_left(text: str, by_line: dict[int, list[str]]) -> set[int]:
    marked = {
        n for n, pieces in by_line.items() if not _DIRECTION_MARKS.isdisjoint("".join(pieces))
    }
    if not marked:
        return set()
    lines = text.split("\n")
    return {
        number
        for number in marked
        if any(
            unicodedata.bidirectional(char) in _RIGHT_TO_LEFT and char.isalpha()
            for char in lines[number - 1]
        )
    }


def _severity(pieces: list[str], right_to_left: bool) -> Severity:
    mild = _MILD | _DIRECTION_MARKS if right_to_left else _MILD
    return "info" if mild.issuperset("".join(pieces)) else "warning"


def _message(pieces: list[str]) -> str:
    escapes = sum(_is_escape(piece) for piece in pieces)
    characters = "".join(piece for piece in pieces if not _is_escape(piece))
    tags = [char for char in characters if ord(char) in _TAG_BLOCK]
    others = Counter(char for char in characters if ord(char) not in _TAG_BLOCK)
    parts = [_times(_name(char), count) for char, count in others.most_common(_NAMED_AT_MOST)]
    if len(others) > _NAMED_AT_MOST:
        parts.append(f"{len(others) - _NAMED_AT_MOST} other kinds")
    if escapes:
        parts.append(_times("terminal escape", escapes))
    if tags:
        parts.append(_times("tag character", len(tags)) + _spelling(tags))
    count = escapes + len(characters)
    noun = "character" if count == 1 else "characters"
    return f"{count} hidden {noun}: {', '.join(parts)}; remove what a reader cannot see"


def _is_escape(piece: str) -> bool:
    return piece[0] in _ESCAPE_STARTS


def _name(char: str) -> str:
    name = unicodedata.name(char, "control").lower()
    return f"U+{ord(char):04X} {name}"


def _times(what: str, count: int) -> str:
    return what if count == 1 else f"{what} ({count} times)"


def _spelling(tags: list[str]) -> str:
    codes = (ord(tag) - _TAG_BLOCK.start for tag in tags[:_SPELLED_AT_MOST])
    spelled = "".join(chr(code) for code in codes if code in _TAG_PRINTABLE)
    return f" that spell {spelled!r}" if spelled else ""


def find_shadowed_modules(path: str, name: str) -> list[Problem]:
    """Check the Python file at `path`, which its neighbours import as the module `name`."""
    if name not in sys.stdlib_module_names:
        return []
    # The interpreter looks for its built-in modules before it looks in any folder.
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


def find_windows_line_ends(path: str, data: bytes) -> list[Problem]:
    """Check the shell script at `path`: a shell takes the end of each such line for a word."""
    if language_of(path) != "shell" or not data.partition(b"\n")[0].endswith(b"\r"):
        return []
    message = "Windows line ends (CRLF), with which shells do not run it; save it with Unix ones"
    return [
        Problem(path=path, code="windows-line-ends", severity="warning", message=message, line=1)
    ]


_MOST_FILES = 512
_MOST_BYTES = 1024 * 1024


def check_files(home: Path) -> list[Problem]:
    """Check every text file of a skill, up to a limit; binary files are not searched."""
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
    if path.endswith("/pyproject.toml"):
        problems += _check_project(path, home)
    if path.startswith(f"{home}/scripts/") and path.endswith(".py"):
        problems += find_shadowed_modules(path, Path(path).stem)
    try:
        data = read_inside(path, home, _MOST_BYTES).data
    except CannotReadError:
        return problems
    if b"\0" in data:
        return problems
    problems += find_windows_line_ends(path, data)
    text = data.decode("utf-8", "replace")
    return [*problems, *find_secrets(path, text), *find_hidden_text(path, text)]


def _check_project(path: str, home: str) -> list[Problem]:
    """Report packages of a pyproject.toml that are not taken, and why."""
    try:
        project = read_project(DeclaredFiles(home), Path(path))
        notice = project.notice if project else ""
    except RequirementRefusedError as error:
        notice = error.reason
    if not notice:
        return []
    return [Problem(path=path, code="packages-not-read", severity="warning", message=notice)]


def _files(home: str) -> Iterator[str]:
    for folder, folders, files in os.walk(home):
        if folder != home and any(name.lower() == "skill.md" for name in files):
            folders.clear()  # another skill, which is checked by itself
            continue
        folders[:] = sorted(name for name in folders if not is_skipped_folder(name))
        yield from (f"{folder}/{name}" for name in sorted(files))


# They explain how a tool was made, and nobody has to mend anything.
_EXPLANATIONS = frozenset({"reads-no-input", "script-named", "described-by-text"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found: how many skill files, how many load, and every problem."""

    found: int
    loaded: int
    skipped: int
    tools: int
    problems: tuple[Problem, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left to mend."""
        return all(problem.code in _EXPLANATIONS for problem in self.problems)


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
    problems = [*read.problems, *_without_input(read.tools), *check_files(skill.home)]
    if strict:
        problems += _strict(skill)
    return len(read.tools), problems


def _without_input(tools: Sequence[Tool]) -> list[Problem]:
    """Say which scripts are shown without parameters, since they read none."""
    message = "shown without parameters: no word of it reads its command line or standard input"
    return [
        Problem(path=tool.runs.file, code="reads-no-input", severity="info", message=message)
        for tool in tools
        if isinstance(tool.runs, Script) and tool.runs.takes_nothing
    ]


def _strict(skill: Skill) -> list[Problem]:
    manifest = f"{skill.home}/tools.json"
    problems: list[Problem] = []
    # An unreadable file is already reported, and most skills have no tools.json.
    with suppress(CannotReadError):
        raw = read_skill_text(skill.file).data
        problems += skill_md_problems(skill.file, raw, skill.home.name)
    with suppress(CannotReadError):
        problems += tools_json_problems(
            manifest, read_inside(manifest, str(skill.home), DECLARATION_BYTES).data
        )
    return problems


def _same_names(parts: Sequence[Discovered]) -> list[Problem]:
    """Report every skill that a later one of the same name would hide."""
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
