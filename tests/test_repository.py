"""The shape of the code base: sizes, directions of imports, what an import loads."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skillpouch

REPOSITORY = Path(__file__).parent.parent
SOURCE = REPOSITORY / "src" / "skillpouch"
FILES = sorted(path for path in SOURCE.rglob("*.py") if "_pb2" not in path.name)  # not generated

# In the order in which a skill meets them: a module imports only from lines above its own.
LAYERS = [
    "needs stopwatch languages problems limits errors environment collector hidden_text argv hosts",
    "untrusted_files removal addresses json_values clocks idle_threads outlasting workspace_files",
    "secret_forms literal_search memoize_by_id",
    "redaction",
    "results loop_thread telemetry",
    "redacted_results",
    "journal",
    "signatures templates",
    "names skills tools",
    "http",
    "declarations",
    "plugins walk index digest",
    "records discovery",
    "tool_records readiness fallback_names registry skill_copies skill_versions",
    "added_tools",
    "text_skills",
    "trust",
    "secrets",
    "calls arguments workspace execution policy",
    "backends environments downloads kept_folders",
    "workspace_tools",
    "call_needs call_limits describe_command pinning permit secret_values tape",
    "standing_permits tool_reading",
    "permits",
    "recording notes refusals",
    "controls",
    "function_schema functions executor diagnosis",
    "scripts activation disclosure catalogue checks scaffold",
    "authoring library",
    "watching",
    "own_tools",
    "manager sessions",
    "shell testing",
    "integrations mcp_servers",
    "servers",
    "cli",
]
RANKS = {name: rank for rank, line in enumerate(LAYERS) for name in line.split()}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_at_load(path: Path) -> set[str]:
    """Return the parts of skillpouch that a file imports when it is itself imported."""
    found = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skillpouch."):
            found.add(str(node.module).split(".")[1])
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(file.relative_to(SOURCE)) for file in FILES])
def test_a_file_is_one_idea(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) <= 500
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    assert docstring.splitlines()[0].endswith((".", "?"))


@pytest.mark.parametrize("path", FILES, ids=[str(file.relative_to(SOURCE)) for file in FILES])
def test_imports_go_up_the_page_never_down(path: Path) -> None:
    part = part_of(path)
    if part in ("__init__", "__main__"):
        return

    for other in imports_at_load(path):
        assert RANKS[other] <= RANKS[part], f"{part} imports {other}"


def test_every_part_has_its_place() -> None:
    parts = {part_of(path) for path in FILES} - {"__init__", "__main__"}

    assert parts == set(RANKS)


def test_the_public_names_are_few_and_real() -> None:
    assert len(skillpouch.__all__) <= 22
    for name in skillpouch.__all__:
        assert getattr(skillpouch, name).__name__ == name


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Toolbox'"):
        _ = skillpouch.Toolbox


def test_importing_skillpouch_loads_nothing_heavy() -> None:
    program = "import skillpouch, sys; print(*sys.modules)"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    loaded = set(ran.stdout.decode().split())
    heavy = {"yaml", "click", "rich", "jsonschema_rs", "asyncio", "sqlite3", "dataclasses"}
    frameworks = {"httpx2", "pydantic", "grpc", "mcp", "langchain_core", "bashkit"}
    assert loaded.isdisjoint(heavy | frameworks)


# Which packages an integration is for; pydantic comes with several of them.
FRAMEWORKS = {
    "langchain": {"langchain", "langchain_core", "langgraph"},
    "openai": {"openai"},
    "anthropic": {"anthropic"},
    "pydantic_ai": {"pydantic_ai"},
    "agents": {"agents"},
}


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "integrations").rglob("*.py")), ids=lambda path: path.name
)
def test_no_integration_imports_the_framework_of_another(path: Path) -> None:
    name = path.relative_to(SOURCE / "integrations").parts[0].removesuffix(".py")
    foreign = set().union(*FRAMEWORKS.values()) - FRAMEWORKS.get(name, set())

    assert imported_anywhere(path).isdisjoint(foreign)


def test_nothing_but_integrations_imports_a_framework() -> None:
    frameworks = set().union(*FRAMEWORKS.values())
    others = [path for path in FILES if part_of(path) != "integrations"]

    assert [path for path in others if not imported_anywhere(path).isdisjoint(frameworks)] == []


def imported_anywhere(path: Path) -> set[str]:
    """Return the packages that a file imports, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_finding_skills_loads_nothing_that_reads_scripts() -> None:
    program = (
        "import sys; from skillpouch import SkillManager; SkillManager('examples').list_skills();"
        "print(*sys.modules)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, cwd=REPOSITORY
    )

    assert set(ran.stdout.decode().split()).isdisjoint(
        {
            "skillpouch.signatures.python.reading",
            "docstring_parser",
            "jsonschema_rs",
            "rich",
            "click",
        }
    )


def test_every_promise_has_a_test_and_every_test_its_promise() -> None:
    promised = set(re.findall(r"^\| ([a-z]+-\d+) \|", _text("docs/security.md"), re.MULTILINE))
    tests = "".join(path.read_text() for path in (REPOSITORY / "tests").rglob("*.py"))
    kept = set(re.findall(r'promise\("([a-z]+-\d+)"\)', tests))
    attacks = _text("tests/escapes/attacks.py")
    kept |= set(re.findall(r"\b(?:fs|net|proc|env|limit)-\d+\b", attacks))

    assert kept == promised


def test_every_problem_code_is_on_its_page() -> None:
    page = set(
        re.findall(r"^\| `([a-z0-9-]+)` \|", _text("docs/reference/problems.md"), re.MULTILINE)
    )

    assert problem_codes() == page


_CODE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+\Z")
_REASONS = "absent empty invalid language no-text not-a-file nul-bytes outside too-large unreadable"
_COMPOSED = {
    *(f"skill-{reason}" for reason in _REASONS.split() if reason not in ("invalid", "language")),
    *(f"script-{reason}" for reason in _REASONS.split() if reason not in ("empty", "no-text")),
    *(f"strict-{field}" for field in ("name", "description", "compatibility")),
    *(f"declaration-{reason}" for reason in ("not-a-file", "outside", "too-large", "unreadable")),
}
_REPORTING = {
    "report",
    "_report",
    "_report_at",
    "add",
    "lost",
    "DeclarationError",
    "Problem",
    "_problem",
}


def problem_codes() -> set[str]:
    """Return the codes that the source can report, told by the calls that report."""
    written = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and str(node.value).startswith("strict-"):
                written.add(node.value)
            elif isinstance(node, ast.Call) and _called(node) in _REPORTING:
                words = [*node.args, *(word.value for word in node.keywords if word.arg == "code")]
                written |= {word.value for word in words if isinstance(word, ast.Constant)}
    return {code for code in written if isinstance(code, str) and _CODE.match(code)} | _COMPOSED


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def test_the_version_is_the_one_in_the_package() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "skillpouch", "--version"], capture_output=True, check=True
    )

    assert ran.stdout.decode() == f"skillpouch, version {skillpouch.__version__}\n"


def test_nothing_names_a_machine() -> None:
    for path in [*FILES, *(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md"]:
        assert not re.search(r"/(?:root|work|home/\w+)/", path.read_text()), path


def _text(name: str) -> str:
    return (REPOSITORY / name).read_text()
