"""Finds the program that runs a script: its real file, not a shim."""

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from shutil import which

from skillpouch.environment import home_directory, search_path
from skillpouch.errors import InterpreterMissingError
from skillpouch.execution.zygote_client import this_python
from skillpouch.signatures.shebang import DEBIAN_PACKAGES
from skillpouch.tools import Script

# extension → programs that can run it, the best first
_BY_EXTENSION: dict[str, tuple[str, ...]] = {
    ".sh": ("bash", "sh"),
    ".bash": ("bash",),
    ".zsh": ("zsh",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".cjs": ("node",),
    ".ts": ("node",),
    ".rb": ("ruby",),
    ".pl": ("perl",),
}
# A shebang may choose among shells; for everything else the extension decides.
_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_MOST_LINKS = 40  # as many as the kernel follows: path_resolution(7)


def _links_of(program: str) -> tuple[Path, ...]:
    """Return the symbolic links of a program's path in order, and at the end its file."""
    found = [Path(program)]
    while found[-1].is_symlink() and len(found) <= _MOST_LINKS:
        found.append(found[-1].parent / found[-1].readlink())
    return tuple(found)


def _own_homes(file: Path) -> frozenset[Path]:
    found = {Path(sys.prefix), Path(sys.base_prefix), file.resolve().parent}
    return frozenset(found | {path.resolve() for path in found})


# Looked up at import, before any tool has run: a tool that can change a link could otherwise choose
# which folders are shown to it.
_OWN_LINKS = _links_of(this_python())
_OWN_HOMES = _own_homes(_OWN_LINKS[-1])


@cache
def interpreter_for(script: Script) -> tuple[str, ...]:
    """Return the program and its options that run a script."""
    shebang = script.shebang
    name = shebang[0].rpartition("/")[2] if shebang else ""
    if script.language == "python":
        options = shebang[1:] if name.startswith("python") else ()
        return (this_python(), *options)
    names = _BY_EXTENSION[script.path.suffix.lower()]
    if script.language == "shell" and name in _SHELLS and find_program(name):
        return (find_program(name), *shebang[1:])
    found = next(filter(None, map(find_program, names)), "")
    if not found:
        raise InterpreterMissingError(names, DEBIAN_PACKAGES[names[0]])
    return (found, *(shebang[1:] if name in names else ()))


@cache
def find_program(name: str) -> str:
    """Return the real path of a program, "" when there is none. Shims are skipped.

    Version managers put scripts of the same name first on PATH; these need a home folder and a
    shell.
    """
    for folder in search_path().split(os.pathsep):
        # A relative entry would lead into the workspace, which tools write.
        found = which(name, path=folder) if os.path.isabs(folder) else None
        if found and not _is_script(found):
            return str(Path(found).resolve())
    return ""


def _is_script(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True  # a file that cannot be read is skipped like a shim


@cache
def homes_of(program: str) -> tuple[Path, ...]:
    """Return the folders that a program needs to see besides those of the system.

    That is the folder it is installed in; for a program directly in a home folder, only its file.
    """
    if program == this_python():
        return _without_system(_OWN_HOMES, program, _OWN_LINKS)
    folder = Path(program).parent
    return _without_system({folder.parent if folder.name == "bin" else Path(program)}, program)


def _without_system(
    homes: Iterable[Path], program: str, links: tuple[Path, ...] = ()
) -> tuple[Path, ...]:
    shown = {Path(program) if _is_personal(path) else path for path in homes}
    # A link with `..` in its path may be in another folder than its path suggests.
    shown |= {link for link in links if ".." in link.parts or shown.isdisjoint(link.parents)}
    return tuple(sorted(path for path in shown if not _is_system(path)))


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(system) for system in ("/usr", "/bin", "/lib", "/sbin"))


def _is_personal(path: Path) -> bool:
    """Tell whether a folder is a home, contains one, or is the `.local` of one."""
    home = home_directory()
    if home is None:
        return path == Path("/")
    homes = {home, home.resolve()}
    return any(each.is_relative_to(path) or path == each / ".local" for each in homes)
