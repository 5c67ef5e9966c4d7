"""Every text file of a skill, looked at for secrets, hidden text and names that shadow modules."""

import os
from collections.abc import Iterator
from pathlib import Path

from skillpouch.checks.hidden_text import find_hidden_text
from skillpouch.checks.secrets import find_secrets
from skillpouch.checks.shadowed_modules import find_shadowed_modules
from skillpouch.discovery.walk import is_skipped_folder
from skillpouch.problems import Problem
from skillpouch.untrusted_files import CannotReadError, read_inside

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
