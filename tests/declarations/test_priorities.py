"""Which declaration counts, what fills its gaps, and how arguments will arrive."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, Tool
from skillpouch.signatures.argv import ArgvArgument

WriteSkill = Callable[..., Path]
Read = Callable[..., dict[str, Tool]]

HANDLER = '"""From the script."""\n\ndef handler(args):\n    return args\n'
ARGPARSE = (
    '"""From the script."""\nimport argparse\n'
    "parser = argparse.ArgumentParser()\n"
    "parser.add_argument('--city', required=True)\n"
    "parser.add_argument('--days', type=int)\n"
    "args = parser.parse_args()\n"
)
PRINTS = '"""From the script."""\nprint(1)\n'
CITY = {"city": {"type": "string"}}


@pytest.fixture
def read(write_skill: WriteSkill) -> Read:
    def write_and_read(
        script: str = PRINTS,
        *,
        manifest: Any = None,
        tools_json: Any = None,
        frontmatter: Any = None,
        name: str = "run.py",
    ) -> dict[str, Tool]:
        files = {f"scripts/{name}": script}
        if manifest is not None:
            files["scripts/manifest.yml"] = json.dumps({"tools": [manifest]})
        if tools_json is not None:
            files["tools.json"] = json.dumps([tools_json])
        tools = "" if frontmatter is None else f"tools: {json.dumps([frontmatter])}\n"
        home = write_skill(front=f"name: demo\ndescription: Does it.\n{tools}", files=files)
        manager = SkillManager(home.parent, cache=False)
        return {tool.id: tool for tool in manager.get_skill_tools("demo")}

    return write_and_read


MANIFEST = {"name": "m", "script": "run.py", "description": "From the manifest."}
TOOLS_JSON = {"name": "j", "script": "scripts/run.py", "description": "From tools.json."}
FRONTMATTER = {"name": "f", "script": "scripts/run.py", "description": "From the frontmatter."}


def test_the_manifest_counts_before_every_other_declaration(read: Read) -> None:
    tools = read(manifest=MANIFEST, tools_json=TOOLS_JSON, frontmatter=FRONTMATTER)

    assert [(t.id, t.description) for t in tools.values()] == [("demo.m", "From the manifest.")]


@pytest.mark.parametrize(
    ("where", "entry", "expected"),
    [
        ("tools_json", TOOLS_JSON, ("demo.j", "From tools.json.", "tools.json")),
        ("frontmatter", FRONTMATTER, ("demo.f", "From the frontmatter.", "frontmatter")),
        ("manifest", MANIFEST, ("demo.m", "From the manifest.", "manifest")),
    ],
)
def test_a_declaration_replaces_the_script_that_was_discovered(
    read: Read, where: str, entry: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    [tool] = read(**{where: entry}).values()

    assert (tool.id, tool.description, tool.declared_in) == expected
    assert (tool.kind, tool.runs.path.name) == ("script", "run.py")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "path", ["./scripts/run.py", "scripts//run.py", "scripts/./run.py", "scripts/../scripts/run.py"]
)
def test_a_declaration_replaces_its_script_however_the_path_is_spelt(read: Read, path: str) -> None:
    assert list(read(tools_json=TOOLS_JSON | {"script": path})) == ["demo.j"]


def test_two_declarations_may_share_a_script(write_skill: WriteSkill) -> None:
    entries = [TOOLS_JSON, TOOLS_JSON | {"name": "k"}]
    home = write_skill(files={"scripts/run.py": PRINTS, "tools.json": json.dumps(entries)})

    tools = SkillManager(home.parent).get_skill_tools("demo")

    assert [tool.id for tool in tools] == ["demo.j", "demo.k"]


def test_a_replaced_declaration_is_on_record(write_skill: WriteSkill) -> None:
    home = write_skill(
        files={
            "scripts/run.py": PRINTS,
            "scripts/manifest.yml": json.dumps({"tools": [MANIFEST]}),
            "tools.json": json.dumps([TOOLS_JSON]),
        }
    )
    manager = SkillManager(home.parent)
    manager.get_skill_tools("demo")

    assert [problem.severity for problem in manager.problems] == ["info"]


@pytest.mark.parametrize("where", ["manifest", "frontmatter"])
def test_a_description_that_is_not_declared_is_read_from_the_script(read: Read, where: str) -> None:
    script = {"manifest": "run.py", "frontmatter": "scripts/run.py"}[where]

    [tool] = read(**{where: {"name": "x", "script": script}}).values()

    assert tool.description == "From the script."


def test_a_description_the_manifest_leaves_out_comes_from_tools_json_before_the_script(
    read: Read,
) -> None:
    tools = read(manifest={"name": "m", "script": "run.py"}, tools_json=TOOLS_JSON)

    assert [(t.id, t.description) for t in tools.values()] == [("demo.m", "From tools.json.")]


def test_a_description_that_nobody_gives_comes_from_the_file_name(read: Read) -> None:
    assert read("print(1)\n")["demo.run"].description == "Execute run"


def test_a_schema_that_is_not_declared_is_read_from_the_script(read: Read) -> None:
    [tool] = read(ARGPARSE, manifest=MANIFEST).values()

    assert list(tool.input_schema["properties"]) == ["city", "days"]
    assert (tool.convention, tool.read_by) == ("argv", "argparse")


def test_a_declared_schema_counts_before_what_the_script_says(read: Read) -> None:
    entry = TOOLS_JSON | {"parameters": {"city": {"type": "string", "enum": ["Bern"]}}}

    [tool] = read(ARGPARSE, tools_json=entry).values()

    assert tool.input_schema["properties"] == {"city": {"type": "string", "enum": ["Bern"]}}


def test_a_handler_is_called_as_a_handler_whoever_declares_it(read: Read) -> None:
    [tool] = read(HANDLER, tools_json=TOOLS_JSON | {"parameters": CITY}).values()

    assert tool.convention == "handler"


def test_a_discovered_handler_is_a_handler(read: Read) -> None:
    assert read(HANDLER)["demo.run"].convention == "handler"


def test_a_main_that_nobody_calls_is_called_with_its_arguments(read: Read) -> None:
    tool = read('"""Says."""\ndef main(text: str, times: int = 1) -> str:\n    return text\n')

    assert tool["demo.run"].convention == "main"
    assert tool["demo.run"].input_schema["required"] == ["text"]


def test_an_argparse_script_gets_flags_even_when_tools_json_types_it(read: Read) -> None:
    [tool] = read(ARGPARSE, tools_json=TOOLS_JSON | {"parameters": CITY}).values()

    assert tool.convention == "argv"


@pytest.mark.parametrize(("name", "text"), [("run.sh", "cat\n"), ("run.rb", "puts 1\n")])
def test_a_script_of_another_language_in_tools_json_gets_json_on_stdin(
    read: Read, name: str, text: str
) -> None:
    entry = TOOLS_JSON | {"script": f"scripts/{name}", "parameters": CITY}

    [tool] = read(text, tools_json=entry, name=name).values()

    assert tool.convention == "stdin"


def test_parameters_of_a_manifest_are_positionals_in_order(read: Read) -> None:
    parameters = [{"name": "b", "type": "string"}, {"name": "a", "type": "integer"}]

    [tool] = read("import sys\n", manifest=MANIFEST | {"parameters": parameters}).values()

    assert tool.convention == "argv"
    assert tool.runs.plan is not None  # type: ignore[union-attr]
    assert [(part.name, part.flag) for part in tool.runs.plan] == [  # type: ignore[union-attr]
        ("b", None),
        ("a", None),
    ]
    assert all(isinstance(part, ArgvArgument) for part in tool.runs.plan)  # type: ignore[union-attr]


def test_a_script_that_says_nothing_takes_any_data_on_stdin(read: Read) -> None:
    tool = read("import sys\nprint(sys.stdin.read())\n")["demo.run"]

    assert (list(tool.input_schema["properties"]), tool.convention) == (["data"], "stdin")


def test_a_script_seen_to_read_its_argv_takes_a_list_of_words(read: Read) -> None:
    tool = read("import sys\nprint(sys.argv[1:])\n")["demo.run"]

    assert tool.input_schema["properties"]["args"]["type"] == "array"
    assert tool.input_schema["properties"]["args"]["items"] == {"type": "string"}
    assert tool.convention == "argv"


def test_a_group_that_works_without_a_command_is_a_tool_beside_its_commands(read: Read) -> None:
    script = (
        "import click\n@click.group(invoke_without_command=True)\n@click.option('--all')\n"
        "def cli(all): ...\n@cli.command()\ndef add(): ...\ncli()\n"
    )

    assert set(read(script)) == {"demo.run", "demo.run.add"}


def test_one_tool_per_sub_command(read: Read) -> None:
    script = (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "commands = parser.add_subparsers()\n"
        "add = commands.add_parser('add', help='Adds.')\nadd.add_argument('item')\n"
        "commands.add_parser('list', help='Lists.')\nparser.parse_args()\n"
    )

    tools = read(script)

    assert {tool.id: tool.name for tool in tools.values()} == {
        "demo.run.add": "demo__run__add",
        "demo.run.list": "demo__run__list",
    }


def test_a_declared_script_with_sub_commands_is_the_one_tool_that_is_declared(read: Read) -> None:
    script = (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "commands = parser.add_subparsers()\ncommands.add_parser('add')\nparser.parse_args()\n"
    )

    assert list(read(script, tools_json=TOOLS_JSON)) == ["demo.j"]


def test_a_declared_name_over_a_discovered_one_renames_the_discovered_script(
    write_skill: WriteSkill,
) -> None:
    stub = {"name": "run", "description": "A stub."}
    home = write_skill(files={"scripts/run.py": PRINTS, "tools.json": json.dumps([stub])})
    manager = SkillManager(home.parent)

    tools = {tool.id: tool.kind for tool in manager.get_skill_tools("demo")}

    assert tools["demo.run"] == "stub"
    assert sorted(tools.values()) == ["script", "stub"]
    assert [problem.severity for problem in manager.problems] == ["info"]


@pytest.mark.parametrize("script", ["scripts/absent.py", "../outside.py", "scripts/notes.txt"])
@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("tools.json", '[\n{"name": "ok", "description": "d"},\n%s\n]', 3),
        ("scripts/manifest.yml", "tools:\n- name: ok\n  script: run.py\n- %s\n", 4),
        ("scripts/manifest.yaml", "tools:\n- name: ok\n  script: run.py\n- %s\n", 4),
        ("SKILL.md", "---\nname: demo\ndescription: d\ntools:\n- name: ok\n- %s\n---\n", 6),
    ],
)
def test_a_script_that_cannot_be_used_is_reported_where_it_is_declared(
    write_skill: WriteSkill, file: str, text: str, line: int, script: str
) -> None:
    entry = json.dumps({"name": "bad", "description": "d", "script": script})
    home = write_skill(
        files={"scripts/run.py": PRINTS, "scripts/notes.txt": "", file: text % entry}
    )
    manager = SkillManager(home.parent, cache=False)

    tools = [tool.id for tool in manager.get_skill_tools("demo")]

    assert "demo.ok" in tools
    assert "demo.bad" not in tools
    errors = [problem for problem in manager.problems if problem.severity == "error"]
    assert [(problem.path, problem.line) for problem in errors] == [(str(home / file), line)]
