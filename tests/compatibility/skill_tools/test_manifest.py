"""Skill Tools §5 and the registration of §7: `tools.json`, field by field and rule by rule."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, Tool

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

SKILL_MD = "---\nname: count-words\ndescription: Counts words\n---\nUse `count_words`.\n"
HANDLER_JS = """export default async function handler(args) {
  const { text } = args;
  const words = text.trim().split(/\\s+/).filter(Boolean);
  return { count: words.length };
}
"""
GOOD = {"name": "count_words", "description": "Counts the words of a text"}


def manager_with(write_files: WriteFiles, manifest: Any, **scripts: str) -> SkillManager:
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    files = {"count-words/SKILL.md": SKILL_MD, "count-words/tools.json": text}
    for stem, source in scripts.items():
        files[f"count-words/scripts/{stem}.js"] = source
    manager = SkillManager(write_files(files))
    manager.discover()
    return manager


def tools_of(manager: SkillManager) -> list[Tool]:
    return manager.get_skill_tools("count-words")


def manifest_problems(manager: SkillManager) -> list[str]:
    return [
        problem.message for problem in manager.problems if str(problem.path).endswith("tools.json")
    ]


def test_the_schema_example_becomes_one_typed_tool(write_files: WriteFiles) -> None:
    manifest = """[
      {
        "name": "tool_name",
        "description": "What the tool does",
        "script": "scripts/tool_name.js",
        "parameters": {
          "param1": {
            "type": "string",
            "description": "Description of param1"
          },
          "param2": {
            "type": "number",
            "description": "Description of param2"
          }
        }
      }
    ]"""
    manager = manager_with(write_files, manifest, tool_name=HANDLER_JS)

    [tool] = tools_of(manager)

    assert (tool.id, tool.name, tool.skill, tool.description, tool.kind) == (
        "count-words.tool_name",
        "tool_name",
        "count-words",
        "What the tool does",
        "script",
    )
    assert tool.input_schema["type"] == "object"
    assert tool.input_schema["properties"] == {
        "param1": {"type": "string", "description": "Description of param1"},
        "param2": {"type": "number", "description": "Description of param2"},
    }
    assert tool.input_schema["required"] == ["param1", "param2"]
    assert manifest_problems(manager) == []


@pytest.mark.parametrize("missing", ["name", "description"])
def test_a_tool_without_name_or_description_is_skipped_with_a_warning(
    write_files: WriteFiles, missing: str
) -> None:
    entry = {"name": "other_tool", "description": "Another tool"}
    del entry[missing]
    manager = manager_with(write_files, [entry, GOOD])

    tools = tools_of(manager)

    assert [tool.name for tool in tools] == ["count_words"]
    assert any(missing in message for message in manifest_problems(manager))


@pytest.mark.parametrize("name", ["Count_Words", "1st_tool", "count words", "count.words"])
def test_a_name_outside_the_pattern_is_reported(write_files: WriteFiles, name: str) -> None:
    bad = {"name": name, "description": "Counts"}
    manager = manager_with(write_files, [bad, {"name": "good_tool", "description": "Is good"}])

    tools = tools_of(manager)

    assert "good_tool" in {tool.name for tool in tools}
    assert any(name in message for message in manifest_problems(manager))


# `^[a-z][a-z0-9_]*$` cannot hold for hyphens: real files have them, and every model takes them
# (notes/skills-in-the-wild.md §6).
@pytest.mark.parametrize("name", ["count_words", "c", "count2", "count-words-in-text"])
def test_a_declared_name_is_sent_to_the_model_as_declared(
    write_files: WriteFiles, name: str
) -> None:
    manager = manager_with(write_files, [{"name": name, "description": "Counts"}])

    [tool] = tools_of(manager)

    assert (tool.id, tool.name) == (f"count-words.{name}", name)


def test_a_tool_without_a_script_is_a_stub(write_files: WriteFiles) -> None:
    manager = manager_with(write_files, [GOOD])

    [tool] = tools_of(manager)

    assert (tool.name, tool.description, tool.kind, tool.convention) == (
        "count_words",
        "Counts the words of a text",
        "stub",
        None,
    )


def test_a_tool_without_parameters_takes_none(write_files: WriteFiles) -> None:
    manager = manager_with(write_files, [GOOD])

    [tool] = tools_of(manager)

    assert tool.input_schema["type"] == "object"
    assert tool.input_schema.get("properties", {}) == {}
    assert tool.input_schema.get("required", []) == []


@pytest.mark.parametrize("kind", ["string", "number", "boolean", "object", "array"])
def test_a_parameter_has_any_of_the_five_types(write_files: WriteFiles, kind: str) -> None:
    parameter = {"type": kind, "description": "A value"}
    manager = manager_with(write_files, [GOOD | {"parameters": {"value": parameter}}])

    [tool] = tools_of(manager)

    assert tool.input_schema["properties"] == {"value": parameter}
    assert tool.input_schema["required"] == ["value"]


def test_a_parameter_may_list_its_values(write_files: WriteFiles) -> None:
    parameter = {"type": "string", "description": "Unit", "enum": ["words", "lines"]}
    manager = manager_with(write_files, [GOOD | {"parameters": {"unit": parameter}}])

    [tool] = tools_of(manager)

    assert tool.input_schema["properties"] == {"unit": parameter}


def test_only_a_parameter_marked_optional_may_be_left_out(write_files: WriteFiles) -> None:
    plain = {"type": "string", "description": "A value"}
    parameters = {
        "unmarked": plain,
        "optional": plain | {"optional": True},
        "required": plain | {"optional": False},
    }
    manager = manager_with(write_files, [GOOD | {"parameters": parameters}])

    [tool] = tools_of(manager)

    assert tool.input_schema["required"] == ["unmarked", "required"]
    # `optional` is the manifest's word and no keyword of JSON Schema: the model never sees it.
    assert tool.input_schema["properties"] == dict.fromkeys(parameters, plain)


def test_a_manifest_that_is_not_json_is_reported_and_costs_only_its_tools(
    write_files: WriteFiles,
) -> None:
    manager = manager_with(write_files, '[{"name": "count_words",')

    assert tools_of(manager) == []
    assert manager.get_skill("count-words").description == "Counts words"
    assert len(manifest_problems(manager)) == 1


def test_a_single_tool_that_is_not_in_an_array_is_no_manifest(write_files: WriteFiles) -> None:
    manager = manager_with(write_files, GOOD)

    assert tools_of(manager) == []
    assert len(manifest_problems(manager)) == 1


# "The manifest MUST be an array" cannot hold alone: every tools.json found in the wild is an
# object around one (notes/skills-in-the-wild.md §6), so that form is read as well.
def test_an_array_may_stand_under_the_key_tools(write_files: WriteFiles) -> None:
    manager = manager_with(write_files, {"tools": [GOOD]})

    assert [tool.name for tool in tools_of(manager)] == ["count_words"]


def test_an_empty_array_declares_no_tools(write_files: WriteFiles) -> None:
    manager = manager_with(write_files, [])

    assert tools_of(manager) == []
    assert [skill.name for skill in manager.list_skills()] == ["count-words"]


def test_a_name_used_twice_in_one_manifest_is_reported_and_the_first_stays(
    write_files: WriteFiles,
) -> None:
    again = GOOD | {"description": "Counts them again"}
    manager = manager_with(write_files, [GOOD, again])

    tools = tools_of(manager)

    assert [tool.description for tool in tools] == ["Counts the words of a text"]
    assert any("count_words" in message for message in manifest_problems(manager))


# "Use the tool from the last-loaded skill" alone would let one skill silently stand in for
# another: Skillpouch keeps the other reachable as `skill__tool`, and reports it.
def test_of_two_skills_with_one_tool_name_the_last_loaded_keeps_it(
    write_files: WriteFiles,
) -> None:
    root = write_files(
        {
            "first/alpha/SKILL.md": "---\nname: alpha\ndescription: Alpha\n---\nText\n",
            "first/alpha/tools.json": json.dumps([GOOD]),
            "second/beta/SKILL.md": "---\nname: beta\ndescription: Beta\n---\nText\n",
            "second/beta/tools.json": json.dumps([GOOD]),
        }
    )
    manager = SkillManager(root / "first", root / "second")
    manager.discover()

    names = {tool.id: tool.name for tool in manager.tools}

    assert names == {"beta.count_words": "count_words", "alpha.count_words": "alpha__count_words"}
    reports = [problem.message for problem in manager.problems if "count_words" in problem.message]
    assert any("alpha" in message for message in reports)
    assert any("beta" in message for message in reports)


def test_a_script_outside_the_skill_is_refused_and_its_neighbour_stays(
    write_files: WriteFiles,
) -> None:
    bad = {"name": "evil", "description": "Reaches out", "script": "../outside.js"}
    manager = manager_with(write_files, [bad, GOOD | {"script": "scripts/ok.js"}], ok=HANDLER_JS)
    (manager.get_skill("count-words").home.parent / "outside.js").write_text(HANDLER_JS)

    tools = tools_of(manager)

    assert [tool.name for tool in tools if tool.kind == "script"] == ["count_words"]
    assert any("../outside.js" in message for message in manifest_problems(manager))
