"""Every name that a package lists can be imported, and no files need each other to be loaded."""

import ast
import graphlib
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SOURCE / "skillpouch").rglob("*.py"))
}
PACKAGES = [name for name, path in FILES.items() if path.name == "__init__.py"]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_every_name_that_it_lists(name: str) -> None:
    package = importlib.import_module(name)

    for public in getattr(package, "__all__", ()):
        assert hasattr(package, public), public


def test_no_files_need_each_other_to_be_loaded() -> None:
    # Such files can be imported in one order and not in the other.
    needs = {name: _needed(path) - {name} for name, path in FILES.items()}

    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError, which names the files


def _needed(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skillpouch"):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else str(node.module) for name in names}
    return found
