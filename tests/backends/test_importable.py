"""What a skill's scripts can import: modules of its folder, and still the standard library."""

import textwrap
from pathlib import Path

import pytest

from skillpouch import SkillManager, ToolResult
from tests.conftest import WriteSkill

WARM, COLD = "", "#!/usr/bin/env -S python3 -X dev\n"  # with such an option a fresh Python runs it
HELPERS = {
    "scripts/lib/__init__.py": "",
    "scripts/lib/words.py": "GREETING = 'hello'\n",
    "core/names.py": "NAME = 'Ada'\n",
}
HANDLER = "def handler(args):\n    return say()\n"
MAIN_BLOCK = "if __name__ == '__main__':\n    print(say())\n"


def called(
    write_skill: WriteSkill, tmp_path: Path, files: dict[str, str], tool: str = "demo.tool"
) -> ToolResult:
    (tmp_path / "work").mkdir(exist_ok=True)
    root = write_skill(files={**HELPERS, **files}).parent
    result = SkillManager(root, workspace=tmp_path / "work", cache=False).call(tool)

    assert result.outcome == "ok", result.content
    return result


@pytest.mark.parametrize("end", [HANDLER, MAIN_BLOCK], ids=["handler", "main block"])
@pytest.mark.parametrize("first", [WARM, COLD], ids=["warm", "cold"])
@pytest.mark.parametrize(
    "imports",
    [
        "from scripts.lib.words import GREETING\nfrom core.names import NAME",
        "from .lib.words import GREETING\nimport scripts.lib\nfrom core.names import NAME",
        "from lib.words import GREETING\nimport core.names\nNAME = core.names.NAME",
    ],
    ids=["by its folder", "relative", "by its scripts"],
)
def test_a_script_imports_from_the_folder_of_its_skill(
    write_skill: WriteSkill, tmp_path: Path, imports: str, first: str, end: str
) -> None:
    script = f"{first}{imports}\n\ndef say():\n    return GREETING + ' ' + NAME\n\n{end}"

    result = called(write_skill, tmp_path, {"scripts/tool.py": script})

    assert result.content == "hello Ada"
    assert result.warm is (first == WARM)


@pytest.mark.parametrize("end", [HANDLER, MAIN_BLOCK], ids=["handler", "main block"])
@pytest.mark.parametrize("first", [WARM, COLD], ids=["warm", "cold"])
def test_a_script_of_a_package_imports_relatively(
    write_skill: WriteSkill, tmp_path: Path, first: str, end: str
) -> None:
    script = (
        f"{first}from .near import NEAR\nfrom ..lib.words import GREETING\n"
        f"\ndef say():\n    return GREETING + NEAR\n\n{end}"
    )
    files = {"scripts/pkg/tool.py": script, "scripts/pkg/near.py": "NEAR = '!'\n"}

    result = called(write_skill, tmp_path, files, "demo.pkg-tool")

    assert (result.content, result.warm) == ("hello!", first == WARM)


# A skill with files of these names at its root.
STANDARD = ("json/__init__.py", "http.py", "email/__init__.py", "argparse.py", "logging.py")


@pytest.mark.parametrize("first", [WARM, COLD], ids=["warm", "cold"])
def test_the_folder_of_a_skill_hides_no_standard_module(
    write_skill: WriteSkill, tmp_path: Path, first: str
) -> None:
    script = textwrap.dedent("""\
        import argparse, email, http, json, logging, os, subprocess, sys
        from core.names import NAME

        MODULES = (argparse, email, http, json, logging)
        if __name__ == "__main__":
            home = os.environ["SKILL_BASE_DIR"]
            print([m.__name__ for m in MODULES if m.__file__.startswith(home)])
            code = "import http, json; print(http.__file__, json.__file__)"
            said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            print(said.stdout.count(home), said.stderr, NAME)
        """)
    planted = dict.fromkeys(STANDARD, "raise SystemExit('not the standard module')\n")

    result = called(write_skill, tmp_path, {"scripts/tool.py": first + script, **planted})

    assert result.stdout == "[]\n0  Ada\n"
    assert result.warm is (first == WARM)


def test_commands_of_a_script_run_modules_of_the_skill(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    shell = "# Say.\npython3 -m scripts.lib.tell one\n"
    tell = "import sys\nfrom .words import GREETING\nprint(GREETING, __package__, sys.argv[1:])\n"

    result = called(write_skill, tmp_path, {"scripts/tool.sh": shell, "scripts/lib/tell.py": tell})

    assert result.stdout == "hello scripts.lib ['one']\n"


def test_a_package_named_scripts_that_is_installed_does_not_hide_that_of_the_skill(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    code = textwrap.dedent("""\
        import sys
        sys.path.append(sys.argv[1])
        import scripts, scripts.lib.words
        print(scripts.lib.words.GREETING, hasattr(scripts, "INSTALLED"))
        """)
    shell = f"# Say.\npython3 -c '{code}' \"$SKILL_BASE_DIR/installed\"\n"
    files = {"scripts/tool.sh": shell, "installed/scripts/__init__.py": "INSTALLED = 1\n"}

    assert called(write_skill, tmp_path, files).stdout == "hello False\n"


def test_a_project_named_scripts_comes_first_where_it_is_run(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    project = tmp_path / "work" / "scripts"
    project.mkdir(parents=True)
    (project / "__init__.py").write_text("")
    (project / "build.py").write_text("print('the project')\n")

    files = {"scripts/tool.sh": "# Say.\npython3 -m scripts.build\n"}

    assert called(write_skill, tmp_path, files).stdout == "the project\n"


def test_the_start_of_the_machine_s_own_python_still_runs(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    """The file by which a skill becomes importable replaces no `sitecustomize` of others."""
    files = {
        "scripts/tool.py": COLD + "import sitecustomize, sys\nprint(sitecustomize.OWN)\n",
        "scripts/sitecustomize.py": "OWN = 'ours'\n",
    }

    assert called(write_skill, tmp_path, files).stdout == "ours\n"
