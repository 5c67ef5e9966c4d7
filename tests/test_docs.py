"""Every code block of README and docs runs, parses, or names a make target that exists."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillpouch.declarations.strict_yaml import load

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
# Frameworks whose pins exclude ours; tests/recipes runs these pages where they are installed.
ELSEWHERE = {REPOSITORY / "docs/integrations/google-adk.md"}
NAMES = [page.relative_to(REPOSITORY).as_posix() for page in PAGES]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROTOCOL = "skillpouch.servers.grpc.v1"  # made from the .proto, which is its reference
_PREPARING = ("python3 -m venv", ". .venv/bin/activate")
_EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder in which the commands of a page can be run: the examples are there."""
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.timeout(300)  # frameworks take long to import on a busy machine
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_python_of_a_page_runs(page: Path, workplace: Path) -> None:
    program = "\n".join(blocks(page, "python") if page not in ELSEWHERE else ())

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=workplace, capture_output=True, check=False
    )

    assert ran.returncode == 0, ran.stderr.decode()


def test_pages_import_only_what_the_reference_describes() -> None:
    reference = (REPOSITORY / "docs/reference/api.md").read_text()
    described = re.findall(r"^(?:##+ |\| )`(\w+)`", reference, re.MULTILINE)

    imported = {(name, page.name) for page in PAGES for name in imported_from_skillpouch(page)}

    assert {each for each in imported if each[0] not in described} == set()


def imported_from_skillpouch(page: Path) -> Iterator[str]:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and is_described(str(node.module)):
                yield from (alias.name for alias in node.names)


def is_described(module: str) -> bool:
    return module.startswith("skillpouch") and not module.startswith(_PROTOCOL)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_commands_of_a_page_run(page: Path, workplace: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))

    for words in commands(page):
        line = shlex.join(words)
        if words[0] == "make":
            assert set(words[1:]) <= targets, line
        elif words[:2] == ["pip", "install"]:
            _check_what_is_installed(words[2:])
        elif not line.startswith(_PREPARING):
            assert words[0].endswith("skillpouch"), line
            ran = subprocess.run(
                [sys.executable, "-m", "skillpouch", *words[1:]],
                cwd=workplace,
                capture_output=True,
                check=False,
            )
            assert ran.returncode == 0, f"{line}\n{ran.stderr.decode()}"


def _check_what_is_installed(words: list[str]) -> None:
    found = re.fullmatch(r"(?:path/to/skillpouch|\.)(?:\[([a-z,-]+)\])?", words[0])
    assert found, f"not from a checkout: {words[0]}"
    assert set((found[1] or "all").split(",")) <= set(_EXTRAS), words[0]


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


@pytest.mark.parametrize(("page", "made_by"), [("cli.md", "reference"), ("api.md", "api")])
def test_a_generated_page_says_what_the_code_says(page: str, made_by: str) -> None:
    program = f"import runpy; print(runpy.run_path('.ci/make_reference.py')['{made_by}'](), end='')"

    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, check=True
    )

    assert (REPOSITORY / "docs/reference" / page).read_text() == ran.stdout.decode()


# Nobody owns the name on a package index yet: who installs it from there runs somebody else's code.
_FROM_AN_INDEX = re.compile(
    r"""
    \b(?:pip3?|pipx|uv|poetry|conda)\s+(?:[\w-]+\s+)*?(?:install|add|run)\s+
        (?:[^`\n]*[\ \t'"])?['"]?skillpouch\b(?!/|\.\w)
    | \buvx\s+['"]?skillpouch\b
    | (?<![\w/.-])skillpouch\[[a-z]  # an extra of the bare name
    """,
    re.VERBOSE,
)
# All but tests, and pyproject.toml, whose extras name each other.
_TOLD = ("src/**/*", "docs/**/*", "examples/**/*", "bench/**/*", ".ci/*", "*.md", "Makefile")


def test_nobody_is_told_to_install_the_name_from_an_index() -> None:
    found_by = [path for pattern in _TOLD for path in REPOSITORY.glob(pattern)]
    files = [path for path in found_by if path.is_file() and "__pycache__" not in path.parts]

    for path in files:
        told = _FROM_AN_INDEX.findall(path.read_text(errors="replace"))
        assert told == [], path


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("$ pip install skillpouch", True),
        ("pip install skillpouch.", True),
        ("`pip install\nskillpouch`", True),
        ("pip3 install -U 'skillpouch[mcp]'", True),
        ("python -m pip install 'skillpouch>=0.1' smolagents", True),
        ("pip install smolagents skillpouch", True),
        ("uv tool install skillpouch", True),
        ("uv add skillpouch", True),
        ("pipx run skillpouch list", True),
        ("uvx skillpouch", True),
        ("it needs `skillpouch[bash]`", True),
        ("pip install .", False),
        ("pip install -e '.[dev]'", False),
        ("pip install path/to/skillpouch smolagents", False),
        ("pip install 'path/to/skillpouch[mcp]'\n$ skillpouch serve mcp", False),
        ("pip install 'mcp>=2,<3'", False),
        ("after `pip install .`, `skillpouch` is a command", False),
        ("[tool.skillpouch]", False),
    ],
)
def test_what_an_installation_from_an_index_looks_like(text: str, *, is_refused: bool) -> None:
    assert bool(_FROM_AN_INDEX.search(text)) == is_refused
