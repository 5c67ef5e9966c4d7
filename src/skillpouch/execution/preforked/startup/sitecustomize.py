"""Runs at the start of every Python that a skill's tool starts: makes the skill importable.

Python finds this file by PYTHONPATH. The folder of the skill itself must not be there: PYTHONPATH
comes before the standard library, and a `json.py` or `email/` of the skill would replace the
standard module for every program. So the folder is added here, as the last one.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BOOTSTRAP = "importlib_bootstrap.py"  # the main file of a prefork server
_SCRIPTS = "scripts"


class SkillScripts:
    """Finds `scripts` in the skill before a package of that name that happens to be installed."""

    def __init__(self, root: str, finder: Any) -> None:
        self._root = root
        self._finder = finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _SCRIPTS or path is not None:
            return None
        return self._finder.find_spec(name, [*_before_library(sys.path), self._root], target)


def _before_library(folders: list[str]) -> list[str]:
    """Return the folders that Python searches before its library, such as that of the script."""
    library = os.path.dirname(os.__file__)
    place = folders.index(library) if library in folders else len(folders)
    return [folder for folder in folders[:place] if not folder.endswith(".zip")]


def package_of(file: str, root: str) -> str:
    """Return the package that a script of the skill is in, "" if it needs none.

    Only a script with relative imports needs one: they work under `python -m scripts.x`, but not
    under `python scripts/x.py`, PEP 366.
    """
    inside = file[len(root) + 1 :].split("/")[:-1] if file.startswith(root + "/") else []
    if not inside or not all(part.isidentifier() for part in inside):
        return ""
    try:
        with open(file, "rb") as source:
            return ".".join(inside) if b"from ." in source.read() else ""
    except OSError:
        return ""  # Python itself will report it


def make_importable(root: str) -> None:
    """Add the folder of a skill as the last one to search for modules."""
    if root in sys.path:
        return
    sys.path.append(root)
    for place, finder in enumerate(sys.meta_path):
        if getattr(finder, "__name__", "") == "PathFinder":
            sys.meta_path.insert(place, SkillScripts(root, finder))
            return


def add_packages(environment: str) -> None:
    """Add the packages that the call was granted, after those that this Python has itself.

    A script may make an environment of its own, and start the Python in it: what it would install
    there is already here, and `pip` counts it as installed.
    """
    version = "python%d.%d" % sys.version_info[:2]
    folder = os.path.join(environment, "lib", version, "site-packages")
    if environment and folder not in sys.path and os.path.isdir(folder):
        sys.path.append(folder)


def start() -> None:
    """Prepare this interpreter, and run the `sitecustomize` that it would have run otherwise."""
    here = os.path.dirname(__file__)
    sys.path[:] = [folder for folder in sys.path if folder != here]
    root = os.environ.get("SKILL_BASE_DIR", "")
    file = sys.argv[0] if getattr(sys, "argv", None) else ""
    # A prefork server loads modules first, and must not take any of them from the skill.
    if root and os.path.basename(file) != _BOOTSTRAP:
        add_packages(os.environ.get("SKILLPOUCH_PACKAGES", ""))
        make_importable(root)
        package = package_of(os.path.abspath(file), root)
        if package:
            sys.modules["__main__"].__package__ = package
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ImportError as error:
        if getattr(error, "name", "") != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)


if __name__ == "sitecustomize":
    start()
