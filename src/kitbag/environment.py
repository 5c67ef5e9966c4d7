"""What the process environment says: the one file that reads it."""

import os
from pathlib import Path

_USER_SKILLS = (".claude/skills", ".agents/skills")
_PROJECT_SKILLS = ("skills", ".opencode/skills", ".claude/skills", ".agents/skills")


def cache_directory() -> Path:
    """Return where what can be made again is kept (`XDG_CACHE_HOME`, else `~/.cache`)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "kitbag"


def default_roots(project: Path | None = None) -> list[Path]:
    """Return the folders that are searched when none are named, later ones overriding earlier."""
    named = os.environ.get("KITBAG_PATH", "")
    if named:
        return [Path(part).expanduser() for part in named.split(os.pathsep) if part]
    here = project or Path.cwd()
    user = [Path.home() / part for part in _USER_SKILLS]
    return [*user, *(here / part for part in _PROJECT_SKILLS)]


def search_path() -> str:
    """Return where executables are looked for."""
    return os.environ.get("PATH", os.defpath)
