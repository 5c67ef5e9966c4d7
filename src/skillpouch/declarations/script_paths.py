"""A path that a declaration names, followed inside its skill and nowhere else."""

from pathlib import PurePosixPath
from posixpath import normpath

from skillpouch.signatures.languages import EXTENSIONS
from skillpouch.untrusted_files import CannotReadError, require_inside


def find_script(home: str, written: str) -> str:
    """Return the path, relative to the skill, of the script that a declaration names."""
    if "\0" in written or "\\" in written:
        raise CannotReadError("invalid", "it is not a path with forward slashes")
    path = normpath(written)
    if path.startswith(("/", "..")) or path == ".":
        raise CannotReadError("outside", "it leads outside the skill")
    require_inside(f"{home}/{path}", home)
    if PurePosixPath(path).suffix.lower() not in EXTENSIONS:
        known = " ".join(EXTENSIONS)
        raise CannotReadError("language", f"its extension is not one of {known}")
    return path
