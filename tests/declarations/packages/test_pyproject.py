"""A pyproject.toml declares packages; what only code would know is reported, not guessed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch import SkillManager
from skillpouch.checks.report import check_files
from skillpouch.declarations.packages.declared_files import (
    DeclaredFiles,
    RequirementRefusedError,
)
from skillpouch.declarations.packages.needs import PythonNeeds, declared_needs
from skillpouch.declarations.packages.pyproject import ProjectPackages, read_project
from skillpouch.tools import Script
from tests.conftest import WriteSkill


def read(text: str, tmp_path: Path) -> ProjectPackages | None:
    path = tmp_path / "pyproject.toml"
    return read_project(DeclaredFiles(str(tmp_path), {str(path): text}), path)


def names(text: str, tmp_path: Path) -> list[str]:
    found = read(text, tmp_path)
    assert found is not None
    return [str(each) for each in found.requirements]


def needs(home: Path, script: str = "scripts/x.py") -> PythonNeeds:
    found = declared_needs(
        Script(file=str(home / script), language="python", convention="stdin"), str(home)
    )
    assert isinstance(found, PythonNeeds)
    return found


CIRCLE = 'dependencies = ["a[x]"]\n[project.optional-dependencies]\nx = ["a[x]"]\n'
PROJECT = """
[project]
name = "Report-Tools"
requires-python = ">=3.10"
dependencies = ["pandas>=2", "PyYAML", "report_tools[pdf]"]

[project.optional-dependencies]
pdf = ["pypdf", "report-tools[fonts]"]
fonts = ["fonttools"]
web = ["flask"]

[dependency-groups]
dev = ["pytest"]
charts = ["plotly", {include-group = "base"}]
base = ["numpy"]
"""


def test_the_dependencies_of_a_project_count_and_no_others(tmp_path: Path) -> None:
    assert names(PROJECT, tmp_path) == ["pandas>=2", "pyyaml", "pypdf", "fonttools"]


def test_extras_and_groups_count_when_the_skill_names_them(tmp_path: Path) -> None:
    chosen = '\n[tool.skillpouch]\nextras = ["web"]\ngroups = ["Charts"]\n'

    assert names(PROJECT + chosen, tmp_path)[4:] == ["flask", "plotly", "numpy"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[dependency-groups]\nrun = ["lamp"]\ndev = ["pytest"]\n', ["lamp"]),
        ('[dependency-groups]\ndev = ["pytest"]\n', []),
        ('[dependency-groups]\na = ["lamp"]\nb = ["bulb"]\n', []),
        (
            '[dependency-groups]\na = ["lamp"]\nb = ["bulb"]\n[tool.uv]\ndefault-groups = ["b"]\n',
            ["bulb"],
        ),
    ],
)
def test_without_a_project_the_one_group_that_is_not_for_development_counts(
    text: str, found: list[str], tmp_path: Path
) -> None:
    assert names(text, tmp_path) == found


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ('[project]\nname = "x"\ndynamic = ["dependencies"]\n', "are dynamic"),
        ('[tool.poetry.dependencies]\nlamp = "^1"\n', "tool.poetry.dependencies are not read"),
        ('[dependency-groups]\na = ["lamp"]\nb = ["bulb"]\n', "groups a, b"),
    ],
)
def test_what_is_not_taken_is_reported_and_not_guessed(
    text: str, notice: str, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "import lamp\n", "pyproject.toml": text})

    (problem,) = check_files(home)

    assert (problem.code, problem.severity) == ("packages-not-read", "warning")
    assert notice in problem.message
    script = Script(file=str(home / "scripts/x.py"), language="python", convention="stdin")
    assert declared_needs(script, str(home)) is None


@pytest.mark.promise("dep-1")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[project]\ndependencies = ["lamp @ https://e.com/x.whl"]\n', "is an address"),
        ('[project]\ndependencies = ["./lamp"]\n', "is a local path"),
        ('[project]\ndependencies = "lamp"\n', "not a list of texts"),
        ('[project]\ndependencies = ["lamp"]\n[tool.uv.sources]\nLamp = {git = "x"}\n', "sources"),
        ('[project]\ndependencies = ["lamp"]\n[[tool.uv.index]]\nurl = "https://e.com"\n', "index"),
        ('[project]\ndependencies = ["lamp"]\n[tool.uv]\nfind-links = ["x"]\n', "find-links"),
        ('[dependency-groups]\na = [{include-group = "a"}]\n', "include each other"),
        ('[dependency-groups]\na = [{other = "a"}]\n', "cannot be read"),
        ('[project]\nname = "a"\n[tool.skillpouch]\ngroups = ["no"]\n', "no dependency group 'no'"),
        ('[project]\nname = "a"\n[tool.skillpouch]\nextras = ["no"]\n', "no extra 'no'"),
        ('[project]\nname = "a"\n' + CIRCLE, "include each other"),
        ('[project]\nname = "a"\nrequires-python = 3\n', "requires-python is not text"),
        ("[project\n", "not valid TOML"),
    ],
)
def test_what_is_no_package_by_name_is_refused_with_the_reason(
    text: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(RequirementRefusedError, match=reason):
        read(text, tmp_path)


def test_an_index_for_other_packages_is_no_choice_of_this_skill(tmp_path: Path) -> None:
    text = (
        '[project]\ndependencies = ["lamp"]\n[tool.uv.sources]\ntorch = {index = "gpu"}\n'
        '[[tool.uv.index]]\nname = "gpu"\nurl = "https://e.com"\nexplicit = true\n'
    )

    assert names(text, tmp_path) == ["lamp"]


def test_a_file_of_settings_for_other_tools_declares_nothing(tmp_path: Path) -> None:
    assert read("[tool.ruff]\nline-length = 100\n", tmp_path) is None
    assert read('[tool.black]\ntarget = "projects"\n', tmp_path) is None


def test_the_nearest_file_counts_and_requirements_before_a_project(
    write_skill: WriteSkill,
) -> None:
    near = write_skill(
        "near",
        files={
            "scripts/x.py": "",
            "scripts/pyproject.toml": '[project]\nname = "x"\ndependencies = ["lamp"]\n',
            "requirements.txt": "bulb\n",
        },
    )
    both = write_skill(
        "both",
        files={
            "scripts/x.py": "",
            "pyproject.toml": PROJECT,
            "requirements.txt": "pandas==2.2.0\n",
        },
    )

    assert needs(near).names == ("lamp",)
    assert needs(both).names == ("pandas==2.2.0",)
    assert needs(both).requires_python == ">=3.10"


def test_a_tool_asks_for_what_a_project_declares(write_skill: WriteSkill) -> None:
    home = write_skill(
        files={"scripts/x.py": "import lamp\n\nlamp.light()\n", "pyproject.toml": PROJECT}
    )

    asks = SkillManager(home.parent).get_tool("demo.x").asks

    assert {(need.kind, need.value, need.asked_in) for need in asks} == {
        ("packages", value, "pyproject.toml")
        for value in ("pandas>=2", "pyyaml", "pypdf", "fonttools")
    }


@given(text=st.text() | st.text().map(lambda text: f"[project]\ndependencies = [{text!r}]\n"))
def test_any_text_gives_a_value_or_a_refusal(text: str) -> None:
    path = Path("/skill/pyproject.toml")
    try:
        found = read_project(DeclaredFiles("/skill", {str(path): text}), path)
    except RequirementRefusedError:
        return
    assert found is None or isinstance(found, ProjectPackages)
