"""Any bytes in any file: tools or a problem, never another error, never a lost neighbour."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillpouch import SkillManager, ToolRegistry
from skillpouch.tools import Script, Stub, Tool, wire_name

pytestmark = pytest.mark.slow

SKILL = b"---\nname: victim\ndescription: Suffers.\ntools:\n  - name: own\n---\n\nRun it.\n"
FILES = {
    "SKILL.md": SKILL,
    "tools.json": b'[{"name": "declared", "description": "Is.", "parameters": {"a": {}}}]',
    "scripts/manifest.yml": b"tools:\n  - name: listed\n    script: run.py\n    parameters: [a]\n",
    ".claude-plugin/plugin.json": b'{"name": "plugged"}',
    "scripts/run.py": b'"""Doc."""\nimport argparse\np = argparse.ArgumentParser()\n'
    b"p.add_argument('--n', type=int, default=1)\np.parse_args()\n",
    "scripts/run.sh": b"#!/bin/bash\n# Says.\nwhile getopts 'ab:' o; do case $o in a) ;; esac done",
    "scripts/run.js": b"/** Says.\n * @param {string} a */\nexport default async (args) => args.a;",
    "scripts/run.ts": b"export default function f(a: {x: string; y?: number[]}) { return a }\n",
    "scripts/run.rb": b"=begin\nSays.\n=end\nputs ARGV[0]\n",
    "scripts/run.pl": b"=head1 NAME\n\nsays\n\n=cut\nprint $ARGV[0];\n",
}
NEIGHBOUR = SKILL.replace(b"victim", b"zz-neighbour")
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
HOSTILE = [
    *(b"\n", b"---\n", b": ", b"- ", b"[", b"{", b'"', b"'", b"\\", b"&a ", b"*a", b"!!x ", b"#"),
    *(b"\t", b"\r", b"\0", b"\xff", b"\\ud800", b"\xe2\x80\xae", b"null", b"1e999", b"${x}", b"`"),
]
A_FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a good skill, and a skill `victim` whose files are all good so far."""
    root = tmp_path / "root"
    write(root / "victim", FILES)
    write(root / "zz-neighbour", {"SKILL.md": NEIGHBOUR, "scripts/run.sh": b"echo\n"})
    return root


def write(home: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)


def check(root: Path) -> SkillManager:
    """Ask for everything there is, and hold the answers against what is promised of all."""
    manager = SkillManager(root, cache=False)
    tools = manager.tools
    assert {"zz-neighbour.own", "zz-neighbour.run"} <= {tool.id for tool in tools}
    for skill in manager.list_skills():
        assert manager.invoke_skill(skill.name, "argument")
        for tool in manager.get_skill_tools(skill.name):
            check_tool(tool, skill.home)
    assert len({tool.name for tool in tools}) == len({tool.id for tool in tools}) == len(tools)
    told = {problem.path for problem in manager.problems if problem.severity == "error"}
    assert manager.skipped <= len(told)
    assert manager.found == len(list(root.glob("*/SKILL.md")))
    for problem in manager.problems:
        assert problem.path.startswith(str(root))
        assert CODE.fullmatch(problem.code)
        assert problem.severity in ("error", "warning", "info")
        assert problem.message
        assert problem.line is None or problem.line >= 1
    return manager


def check_tool(tool: Tool, home: Path) -> None:
    assert LEGAL.fullmatch(tool.name)
    # What a model is sent must be JSON, and text that can be encoded.
    json.dumps([tool.id, tool.description, tool.input_schema], ensure_ascii=False).encode()
    assert tool.input_schema["type"] == "object"
    if isinstance(tool.runs, Script):
        assert os.path.realpath(tool.runs.path).startswith(f"{os.path.realpath(home)}/")
        assert tool.runs.path.is_file()


def mutations(valid: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes of any kind, and valid content with a piece replaced by something hostile."""
    pieces = st.binary(max_size=8) | st.sampled_from(HOSTILE)
    spots = st.integers(0, len(valid))

    def put(at: int, length: int, piece: bytes, times: int) -> bytes:
        return valid[:at] + piece * times + valid[at + length :]

    return st.binary(max_size=200) | st.builds(
        put, spots, st.integers(0, 9), pieces, st.integers(0, 4)
    )


@pytest.mark.parametrize("name", FILES)
@A_FEW
@given(data=st.data())
def test_any_bytes_in_any_file_give_tools_or_a_problem(
    root: Path, name: str, data: st.DataObject
) -> None:
    (root / "victim" / name).write_bytes(data.draw(mutations(FILES[name])))

    check(root)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "properties", "a", "$ref"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
KEYS = ["name", "description", "script", "parameters", "input_schema", "backend", "url", "bin"]
ENTRIES = st.dictionaries(
    st.sampled_from([*KEYS, "http", "timeout_ms", "effects", "entry", "command", "args", "type"]),
    JSON_VALUES,
)


@A_FEW
@given(entry=ENTRIES)
def test_any_entry_declares_a_tool_or_is_a_problem_in_every_kind_of_declaration(
    root: Path, entry: dict[str, object]
) -> None:
    named = {"name": "odd", "description": "Odd.", "script": "scripts/run.py"} | entry
    text = json.dumps({"tools": [named, {"name": "good", "description": "Good."}]})
    (root / "victim/tools.json").write_text(text)
    (root / "victim/scripts/manifest.yml").write_text(text)
    (root / "victim/SKILL.md").write_text(
        f"---\nname: victim\ndescription: Suffers.\ntools: {json.dumps([named])}\n---\nText.\n"
    )

    manager = check(root)

    assert "good" in {tool.id.rpartition(".")[2] for tool in manager.tools}


PATHS = st.lists(
    st.sampled_from(["..", ".", "", "scripts", "run.py", "out.py", "~", "\\", "\0", "*", "link"]),
    min_size=1,
    max_size=6,
).map("/".join)


@A_FEW
@given(path=PATHS | st.text(max_size=12), key=st.sampled_from(["script", "entry", "command"]))
def test_no_text_in_a_skill_makes_a_path_leave_its_home(root: Path, path: str, key: str) -> None:
    for outside in (root.parent, root):
        (outside / "out.py").write_text("print('out')\n")
    link = root / "victim/link"
    if not link.is_symlink():
        link.symlink_to(root.parent)
    entry = {"name": "way_out", "description": "Leaves.", key: path}
    selection = {"skillpouch": {"scripts": {"include": [path, f"{path}/*.py"]}}}
    (root / "victim/tools.json").write_text(json.dumps([entry]))
    (root / "victim/scripts/manifest.yml").write_text(json.dumps({"tools": [entry]}))
    (root / "victim/SKILL.md").write_text(
        "---\nname: victim\ndescription: Suffers.\n"
        f"tools: {json.dumps([entry])}\nmetadata: {json.dumps(selection)}\n---\nText.\n"
    )

    check(root)


NAMES = st.text(st.sampled_from("ab_.:-é "), min_size=1, max_size=6) | st.sampled_from(
    ["read", "bash", "a__read", "a__b", "x" * 70, "p:a", "a.b", "b__c"]
)


@A_FEW
@given(st.lists(st.tuples(NAMES, NAMES, st.booleans()), max_size=12))
def test_wire_names_are_legal_and_unique_and_lead_back(names: list[tuple[str, str, bool]]) -> None:
    registry = ToolRegistry()
    for skill, name, declared in names:
        registry.register(
            Tool(
                id=f"{skill}.{name}",
                name=wire_name(skill, name, declared=declared),
                skill=skill,
                description="",
                input_schema={},
                runs=Stub(skill=skill),
            )
        )

    wires = {tool.id: tool.name for tool in registry}

    assert len(set(wires.values())) == len(wires)
    assert all(LEGAL.fullmatch(wire) for wire in wires.values())
    assert all(registry.get(wire).id == tool_id for tool_id, wire in wires.items())


NESTS = [
    *("[", "{", "(", '{"a":', "[{", "- ", "a: {", "`${", '"$(', "$((", "<", "/*", "'", "x.", "-"),
    *("not ", "lambda: ", "a+", "if a: pass\nel", "f'{", "<<A\n", "=begin\n", ": '\n", "=pod\n"),
]


@pytest.mark.parametrize("name", FILES)
def test_thousands_of_brackets_or_of_anything_else_are_no_way_in(root: Path, name: str) -> None:
    size = 20_000 if name.startswith("scripts/run") else 60_000  # readers of code are slower
    for number, piece in enumerate(NESTS):
        nest = piece * (size // len(piece))
        front = f"---\nname: nest-{number}\ndescription: Suffers.\nx: {nest}\n---\n\nText.\n"
        text = front if name == "SKILL.md" else nest
        head = SKILL.replace(b"victim", b"nest-%d" % number)
        write(root / f"nest-{number}", {"SKILL.md": head} | {name: text.encode()})

    manager = check(root)

    assert manager.found == len(NESTS) + 2
