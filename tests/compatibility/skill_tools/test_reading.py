"""Skill Tools §1, §4, §6, §7 and §9: the layout of a skill, where skills are found, what is valid.

§5 has a file of its own; delivering arguments, results, errors and secrets (§6), dynamic tools (§8)
and the stub's answer are about running and listed in README.md beside this file.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

COUNT_WORDS_MD = "---\nname: count-words\ndescription: Counts words\n---\nUse `count_words`.\n"
COUNT_WORDS_JSON = json.dumps(
    [
        {
            "name": "count_words",
            "description": "Counts the words of a text",
            "script": "scripts/count_words.js",
            "parameters": {"text": {"type": "string", "description": "The text"}},
        }
    ]
)
HANDLER_JS = """export default async function handler(args) {
  const { text } = args;
  const words = text.trim().split(/\\s+/).filter(Boolean);
  return { count: words.length };
}
"""
HANDLER_PY = """def handler(args):
    text = args.get("text", "")
    words = text.split()
    return {"count": len(words)}
"""
HANDLER_PY_WITH_MAIN_BLOCK = """import json, sys

def handler(args):
    work_dir = args.get("__workDir")
    text = args.get("text", "")
    words = text.split()
    return {"count": len(words)}

if __name__ == "__main__":
    args = json.loads(sys.argv[1]) if len(sys.argv) > 1 else json.load(sys.stdin)
    print(json.dumps(handler(args)))
"""
COUNT_WORDS = {
    "count-words/SKILL.md": COUNT_WORDS_MD,
    "count-words/tools.json": COUNT_WORDS_JSON,
    "count-words/scripts/count_words.js": HANDLER_JS,
}


def skill_md(name: str, description: str = "Does its work") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\nRead this first.\n"


def discovered(*roots: Path) -> SkillManager:
    manager = SkillManager(*roots)
    manager.discover()
    return manager


def test_count_words_is_registered_once_under_its_declared_name(write_files: WriteFiles) -> None:
    manager = discovered(write_files(COUNT_WORDS))

    tools = manager.tools

    # One tool, not two: the declaration replaces the script found in scripts/.
    assert [(tool.id, tool.name, tool.kind, tool.convention) for tool in tools] == [
        ("count-words.count_words", "count_words", "script", "handler")
    ]
    assert manager.problems == []


@pytest.mark.parametrize(
    ("script", "source", "convention"),
    [
        ("scripts/count_words.js", HANDLER_JS, "handler"),
        ("scripts/count_words.py", HANDLER_PY, "handler"),
        ("scripts/count_words.py", HANDLER_PY_WITH_MAIN_BLOCK, "handler"),
        ("scripts/count_words.sh", "#!/bin/bash\ncat\n", "stdin"),
        ("handlers/count_words.py", HANDLER_PY, "handler"),
    ],
    ids=["javascript", "python", "python-with-main-block", "shell", "outside-scripts"],
)
def test_the_extension_says_how_a_handler_is_called_wherever_it_lies(
    write_files: WriteFiles, script: str, source: str, convention: str
) -> None:
    manifest = [{"name": "count_words", "description": "Counts", "script": script}]
    root = write_files(
        {
            "count-words/SKILL.md": COUNT_WORDS_MD,
            "count-words/tools.json": json.dumps(manifest),
            f"count-words/{script}": source,
        }
    )

    [tool] = discovered(root).get_skill_tools("count-words")

    assert (tool.name, tool.kind, tool.convention) == ("count_words", "script", convention)


def test_a_script_path_means_the_skill_folder_and_not_the_working_directory(
    write_files: WriteFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_files({f"skills/{name}": text for name, text in COUNT_WORDS.items()})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    manager = discovered(root / "skills")

    assert [tool.kind for tool in manager.tools] == ["script"]
    assert manager.problems == []


def test_one_skill_may_declare_several_tools(write_files: WriteFiles) -> None:
    names = ["count_words", "count_lines", "count_letters"]
    manifest = [{"name": name, "description": f"Does {name}"} for name in names]
    root = write_files(
        {"count-words/SKILL.md": COUNT_WORDS_MD, "count-words/tools.json": json.dumps(manifest)}
    )

    tools = discovered(root).get_skill_tools("count-words")

    assert sorted(tool.name for tool in tools) == sorted(names)


def test_a_tools_json_that_is_not_at_the_root_of_the_skill_declares_nothing(
    write_files: WriteFiles,
) -> None:
    root = write_files(
        {
            "count-words/SKILL.md": COUNT_WORDS_MD,
            "count-words/scripts/tools.json": COUNT_WORDS_JSON,
            "count-words/assets/tools.json": COUNT_WORDS_JSON,
        }
    )

    assert discovered(root).get_skill_tools("count-words") == []


@pytest.mark.parametrize("name", ["a", "count-words", "v2-tools-3", "x" * 64])
def test_a_name_that_follows_the_rules_is_not_reported(write_files: WriteFiles, name: str) -> None:
    manager = discovered(write_files({f"{name}/SKILL.md": skill_md(name)}))

    assert [skill.name for skill in manager.list_skills()] == [name]
    assert manager.problems == []


# "MUST follow the naming rules" cannot be a reason to lose a skill: half of the public skills
# break some rule (notes/skills-in-the-wild.md §1). They load, and the rule is reported.
@pytest.mark.parametrize(
    "name", ["Count-Words", "count_words", "count--words", "-count", "count-", "x" * 65]
)
def test_a_name_that_breaks_a_rule_is_loaded_and_reported(
    write_files: WriteFiles, name: str
) -> None:
    root = write_files({f"{name}/SKILL.md": skill_md(name)})

    manager = discovered(root)

    assert len(manager.list_skills()) == 1
    assert [problem for problem in manager.problems if str(root / name) in str(problem.path)]


# "The directory name MUST match the `name` field": reported, and the frontmatter wins.
def test_a_name_that_differs_from_its_directory_is_loaded_and_reported(
    write_files: WriteFiles,
) -> None:
    root = write_files({"folder/SKILL.md": skill_md("count-words")})

    manager = discovered(root)

    assert [(skill.name, skill.home) for skill in manager.list_skills()] == [
        ("count-words", root / "folder")
    ]
    assert any("folder" in problem.message for problem in manager.problems)


def test_the_recommended_directories_are_the_default_and_later_ones_override(
    write_files: WriteFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = ["skills", ".opencode/skills", ".claude/skills", ".agents/skills"]
    own = {
        f"{folder}/own-{place}/SKILL.md": skill_md(f"own-{place}")
        for place, folder in enumerate(folders)
    }
    shared = {f"{folder}/shared/SKILL.md": skill_md("shared", folder) for folder in folders}
    monkeypatch.chdir(write_files(own | shared))

    manager = discovered()

    assert sorted(skill.name for skill in manager.list_skills()) == [
        "own-0",
        "own-1",
        "own-2",
        "own-3",
        "shared",
    ]
    assert manager.get_skill("shared").description == ".agents/skills"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_of_one_skill_in_several_directories_the_later_overrides_and_is_reported(
    write_files: WriteFiles, count: int
) -> None:
    folders = ["skills", ".opencode/skills", ".claude/skills", ".agents/skills"][:count]
    root = write_files(
        {f"{folder}/shared/SKILL.md": skill_md("shared", folder) for folder in folders}
    )

    manager = discovered(*(root / folder for folder in folders))

    assert [(skill.description, skill.home) for skill in manager.list_skills()] == [
        (folders[-1], root / folders[-1] / "shared")
    ]
    assert len([problem for problem in manager.problems if "shared" in problem.message]) == (
        count - 1
    )


def test_an_instruction_only_skill_stays_valid(write_files: WriteFiles) -> None:
    manager = discovered(write_files({"plain/SKILL.md": skill_md("plain")}))

    skill = manager.load_skill("plain")

    assert (skill.name, skill.description) == ("plain", "Does its work")
    assert skill.body.strip() == "Read this first."
    assert manager.get_skill_tools("plain") == []
    assert manager.problems == []


def test_tools_json_adds_tools_and_leaves_the_instructions_alone(write_files: WriteFiles) -> None:
    manager = discovered(write_files(COUNT_WORDS))

    skill = manager.load_skill("count-words")

    assert (skill.name, skill.description) == ("count-words", "Counts words")
    assert skill.body.strip() == "Use `count_words`."


def test_a_skill_may_provide_tools_and_consume_others(write_files: WriteFiles) -> None:
    consumes = COUNT_WORDS_MD.replace("\n---\n", "\nallowed-tools: Bash(git:*) Read\n---\n", 1)
    root = write_files(COUNT_WORDS | {"count-words/SKILL.md": consumes})

    manager = discovered(root)

    metadata = manager.get_skill("count-words").metadata
    assert list(metadata.allowed_tools or ()) == ["Bash(git:*)", "Read"]
    assert [tool.name for tool in manager.tools] == ["count_words"]


# Declared tools are the skill's own: without Bash only discovered scripts are restricted.
def test_allowed_tools_without_bash_says_nothing_about_declared_tools(
    write_files: WriteFiles,
) -> None:
    consumes = COUNT_WORDS_MD.replace("\n---\n", "\nallowed-tools: Read\n---\n", 1)
    manager = discovered(write_files(COUNT_WORDS | {"count-words/SKILL.md": consumes}))

    assert [tool.name for tool in manager.tools] == ["count_words"]
    assert manager.problems == []


@pytest.mark.parametrize("needs", ["Requires Python 3.10+", "Requires network access"])
def test_the_compatibility_of_a_skill_is_shown(write_files: WriteFiles, needs: str) -> None:
    root = write_files(
        {"s/SKILL.md": f"---\nname: s\ndescription: Says it\ncompatibility: {needs}\n---\nText\n"}
    )

    shown = subprocess.run(
        [Path(sys.executable).with_name("skillpouch"), "list", "--root", root, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )

    assert [skill["compatibility"] for skill in json.loads(shown.stdout)["skills"]] == [needs]
