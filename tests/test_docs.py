"""Every code block of README and docs runs, parses, or names a make target that exists."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillpouch.declarations.strict_yaml import load

REPOSITORY = Path(__file__).parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
# Frameworks whose pins exclude ours; tests/recipes runs these pages where they are installed.
ELSEWHERE = {REPOSITORY / "docs/integrations/google-adk.md"}
NAMES = [page.relative_to(REPOSITORY).as_posix() for page in PAGES]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALLING = ("python3 -m venv", ". .venv/bin/activate", "pip install")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder in which the commands of a page can be run: the examples are there."""
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(300)  # frameworks take long to import on a busy machine
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_python_of_a_page_runs(page: Path, workplace: Path) -> None:
    program = "\n".join(blocks(page, "python") if page not in ELSEWHERE else ())

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=workplace, capture_output=True, check=False
    )

    assert ran.returncode == 0, ran.stderr.decode()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_commands_of_a_page_run(page: Path, workplace: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))

    for words in commands(page):
        line = shlex.join(words)
        if words[0] == "make":
            assert set(words[1:]) <= targets, line
        elif not line.startswith(_INSTALLING):
            assert words[0].endswith("skillpouch"), line
            ran = subprocess.run(
                [sys.executable, "-m", "skillpouch", *words[1:]],
                cwd=workplace,
                capture_output=True,
                check=False,
            )
            assert ran.returncode == 0, f"{line}\n{ran.stderr.decode()}"


def commands(page: Path) -> Iterator[list[str]]:
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield shlex.split(line[2:], comments=True)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_block_imports_what_it_uses(page: Path) -> None:
    imported: set[str] = set()

    for block in blocks(page, "python"):
        tree = ast.parse(block)
        own = {name.asname or name.name.partition(".")[0] for name in _imports(tree)}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not (used & imported) - own - _assigned(tree), "copied alone, it does not run"
        imported |= own


def _imports(tree: ast.AST) -> Iterator[ast.alias]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from node.names


def _assigned(tree: ast.AST) -> set[str]:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def test_the_site_holds_pages_and_no_programs() -> None:
    docs = REPOSITORY / "docs"

    assert {path.suffix for path in docs.rglob("*") if path.is_file()} == {".md"}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_data_on_a_page_parses(page: Path) -> None:
    for text in blocks(page, "json"):
        json.loads(text)
    for text in blocks(page, "yaml"):
        assert load(text).value


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) < 120


def test_the_command_line_page_says_what_the_commands_say() -> None:
    program = "import runpy; print(runpy.run_path('.ci/make_reference.py')['reference'](), end='')"

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, check=True
    )

    assert (REPOSITORY / "docs/reference/cli.md").read_text() == ran.stdout.decode()
