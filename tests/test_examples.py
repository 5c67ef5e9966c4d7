"""The example skills keep the rules of the format, and every command their pages show works."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent / "examples" / "skills"
HOMES = sorted(page.parent for page in EXAMPLES.rglob("SKILL.md"))

PACKAGES = {
    "bash": "bash",
    "node": "nodejs",
    "perl": "perl",
    "python3": "python3",
    "ruby": "ruby",
}
SYNTAX_CHECKS = {
    ".sh": ("bash", "-n"),
    ".js": ("node", "--check"),
    ".mjs": ("node", "--check"),
    ".cjs": ("node", "--check"),
    ".pl": ("perl", "-c"),
    ".rb": ("ruby", "-c"),
}
SCRIPTS = sorted(
    path
    for home in HOMES
    for path in home.glob("scripts/**/*")
    if path.suffix == ".py" or path.suffix in SYNTAX_CHECKS
)


class Usage(NamedTuple):
    """A `bash` block of a page, and the `text` block right after it: what the commands print."""

    home: Path
    commands: str
    prints: str


def read_usages(home: Path) -> list[Usage]:
    block = r"^```bash\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<prints>.*?)^```\n)?"
    page = (home / "SKILL.md").read_text()
    found = re.finditer(block, page, re.MULTILINE | re.DOTALL)
    return [Usage(home, match["commands"], match["prints"] or "") for match in found]


USAGES = [usage for home in HOMES for usage in read_usages(home)]


def read_frontmatter(home: Path) -> dict[str, Any]:
    _, frontmatter, _ = (home / "SKILL.md").read_text().split("---\n", maxsplit=2)
    loaded: dict[str, Any] = yaml.safe_load(frontmatter)
    return loaded


def require(program: str) -> None:
    if shutil.which(program) is None:
        pytest.fail(f"{program} is missing: apt-get install {PACKAGES[program]}")


def run(command: tuple[str, ...], home: Path) -> subprocess.CompletedProcess[str]:
    # The interpreter that runs the tests comes first, and messages do not depend on the machine.
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": search, "HOME": str(home), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=False
    )


def check_syntax(script: Path, folder: Path) -> None:
    if script.suffix == ".py":
        ast.parse(script.read_text(), filename=str(script))
        return
    program, option = SYNTAX_CHECKS[script.suffix]
    require(program)
    copy = folder / script.name
    if "\nexport " in "\n" + script.read_text():
        # Nothing beside a lone .js file says that it is a module; older versions of Node need that.
        copy = copy.with_suffix(".mjs")
    shutil.copy(script, copy)

    checked = run((program, option, copy.name), folder)

    assert checked.returncode == 0, checked.stderr


def test_there_are_at_least_ten_example_skills() -> None:
    assert len(HOMES) >= 10


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name)
def test_an_example_keeps_the_rules_of_agent_skills(home: Path) -> None:
    frontmatter = read_frontmatter(home)

    assert frontmatter["name"] == home.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", home.name)
    assert 0 < len(frontmatter["description"]) <= 1024
    assert "Use " in frontmatter["description"], "a description says when to use the skill"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_an_example_script_has_no_syntax_error(script: Path, tmp_path: Path) -> None:
    check_syntax(script, tmp_path)


def test_the_scripts_written_in_frontmatter_have_no_syntax_error(tmp_path: Path) -> None:
    suffixes = {"python3": ".py", "bash": ".sh"}
    tools = read_frontmatter(EXAMPLES / "data-processor")["tools"]
    backends = [tool["backend"] for tool in tools if "script" in tool.get("backend", {})]

    for backend in backends:
        script = tmp_path / f"inline{suffixes[backend['interpreter']]}"
        script.write_text(backend["script"])
        check_syntax(script, tmp_path)

    assert [backend["interpreter"] for backend in backends] == ["python3", "bash"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_page_of_a_skill_shows_each_of_its_scripts(script: Path) -> None:
    home = next(parent for parent in script.parents if parent in HOMES)
    page = (home / "SKILL.md").read_text()

    assert script.stem == "__init__" or str(script.relative_to(home)) in page


@pytest.mark.parametrize("usage", USAGES, ids=lambda usage: usage.home.name)
def test_the_commands_a_page_shows_work_and_print_what_it_says(
    usage: Usage, tmp_path: Path
) -> None:
    for program in set(re.findall(r"\b(?:bash|node|perl|python3|ruby)\b", usage.commands)):
        require(program)
    home = shutil.copytree(usage.home, tmp_path / usage.home.name)

    ran = run(("bash", "-euo", "pipefail", "-c", usage.commands), home)

    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", usage.prints)
