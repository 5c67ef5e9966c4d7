"""docs/architecture.md names only what exists, and every part of the tree."""

import ast
import re
from pathlib import Path

from tests.test_repository import PAGE as ORDER

REPOSITORY = Path(__file__).parent.parent
SOURCE = REPOSITORY / "src" / "skillpouch"
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text()
QUOTED = set(re.findall(r"`([^`\n]+)`", PAGE.replace("```", "")))


def test_every_file_and_folder_that_the_page_names_exists() -> None:
    named = {text for text in QUOTED if re.fullmatch(r"[\w./]+(\.py|\.md|/)|[\w]+/[\w/]+", text)}
    places = (SOURCE, REPOSITORY, *(SOURCE / part for part in ("execution", "builtins", "servers")))

    missing = {text for text in named if not any((place / text).exists() for place in places)}

    assert len(named) > 100
    assert missing == set()


def test_every_file_in_the_pictures_exists() -> None:
    pictures = "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))
    named = set(re.findall(r"[\w/]+\.py", pictures))
    folders = [path for path in SOURCE.rglob("*") if path.is_dir()]

    missing = {text for text in named if not any((folder / text).exists() for folder in folders)}
    missing -= {text for text in named if (SOURCE / text).exists()}

    assert missing == set()


def test_every_class_and_function_that_the_page_names_exists() -> None:
    classes = {text for text in QUOTED if re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z]+)*", text)}
    functions = {text.removesuffix("()") for text in QUOTED if re.fullmatch(r"\w+\(\)", text)}
    defined = {name for file in SOURCE.rglob("*.py") for name in _defined_in(file)}

    assert len(classes) > 30
    assert (classes | functions) - defined == set()


def test_the_table_of_packages_is_the_order_of_imports() -> None:
    table = PAGE.partition("## The packages")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    parts = [name for cell in cells for name in re.findall(r"`(\w+)(?:\.py|/)`", cell)]

    assert parts == [*ORDER, "__main__"]


def test_whatever_is_reset_after_a_fork_is_on_the_page() -> None:
    table = PAGE.partition("## Process-wide state")[2].partition("\n## ")[0]
    resetting = [
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if "register_at_fork" in file.read_text()
    ]

    assert [path for path in resetting if f"`{path}`" not in table] == []


def _defined_in(file: Path) -> set[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, kinds)}
