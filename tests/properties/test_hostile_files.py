"""Files that are no files, bombs and foreign encodings, wherever Skillpouch looks for text."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager

pytestmark = pytest.mark.slow

Make = Callable[[Path], object]

SKILL = "---\nname: {name}\ndescription: It helps.\n---\n\nDo it.\n"
PLACES = [
    *("SKILL.md", "tools.json", "scripts/manifest.yml", ".claude-plugin/plugin.json"),
    *("scripts/run.py", "scripts/run.sh", "scripts/run.js"),
]
BOMB = "a0: &a0 [lol, lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("victim", "zz-neighbour"):
        (root / name / "scripts").mkdir(parents=True)
        (root / name / "SKILL.md").write_text(SKILL.format(name=name))
        (root / name / "scripts/ok.sh").write_text("echo ok\n")
    (root / "victim/.claude-plugin").mkdir()
    return root


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 200 * 1024 * 1024)


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def listen(path: Path) -> None:
    # Through a relative name: a socket's path may have 107 characters only.
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


MAKES: dict[str, Make] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": listen,
    "a loop": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a pipe": link_to_pipe,
    "200 MB": sparse,
    "nothing": Path.touch,
    "NUL bytes": lambda path: path.write_bytes(b"\0" * 500),
    "text with NUL bytes": lambda path: path.write_bytes(b"---\nname: a\0b\n---\n\0text\n"),
    "UTF-16": lambda path: path.write_bytes(SKILL.encode("utf-16")),
    "UTF-32": lambda path: path.write_bytes(SKILL.encode("utf-32")),
    "Latin-1": lambda path: path.write_bytes("---\nname: é\n---\ncafé\n".encode("latin-1")),
    "a lone surrogate": lambda path: path.write_text('[{"name": "\\ud800"}]'),
    "an anchors bomb": lambda path: path.write_text(BOMB),
    "a bomb in frontmatter": lambda path: path.write_text(f"---\n{BOMB}---\n"),
    "no line ends": lambda path: path.write_text("x" * 900_000),
    "only line ends": lambda path: path.write_text("\n" * 900_000),
    "an endless key": lambda path: path.write_text("---\n" + "k" * 60_000 + ": v\n---\n"),
    "many keys": lambda path: path.write_text("---\n" + "k: v\n" * 12_000 + "---\n"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", MAKES)
def test_no_kind_of_file_stops_a_skill_or_its_neighbour(root: Path, place: str, what: str) -> None:
    path = root / "victim" / place
    path.unlink(missing_ok=True)
    MAKES[what](path)
    manager = SkillManager(root, cache=False)

    tools = {tool.id.rpartition(":")[2] for tool in manager.tools}

    assert "zz-neighbour.ok" in tools
    if place != "SKILL.md":
        assert "victim.ok" in tools
    for skill in manager.list_skills():
        assert manager.invoke_skill(skill.name)
        assert what == "200 MB" or skill.digest


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "what", ["a pipe", "a folder", "a socket", "a loop", "200 MB", "NUL bytes", "UTF-16"]
)
def test_what_cannot_be_read_is_on_record_under_its_path(root: Path, place: str, what: str) -> None:
    path = root / "victim" / place
    path.unlink(missing_ok=True)
    MAKES[what](path)
    manager = SkillManager(root, cache=False)
    tools = [tool.id for tool in manager.tools]

    problems = [problem for problem in manager.problems if problem.path == str(path)]

    is_script = place.startswith("scripts/run")
    if not (is_script and what == "a folder"):  # a folder is searched, whatever its name
        assert problems or any(tool.endswith(".run") for tool in tools)
    assert all(problem.message and problem.code for problem in problems)


AS_NOBODY = """
import json, os, sys
from skillpouch import SkillManager
SkillManager(sys.argv[1], cache=False).tools
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
manager = SkillManager(sys.argv[1], cache=False)
tools = [tool.id for tool in manager.tools]
print(json.dumps([tools, [problem.path for problem in manager.problems]]))
"""


def test_files_that_may_not_be_read_are_on_record_and_lose_no_neighbour() -> None:
    with tempfile.TemporaryDirectory() as name:
        for number, place in enumerate(PLACES):
            home = Path(name) / f"skill-{number}"
            (home / "scripts").mkdir(parents=True)
            (home / ".claude-plugin").mkdir()
            (home / "SKILL.md").write_text(SKILL.format(name=f"skill-{number}"))
            (home / "scripts/ok.sh").write_text("echo ok\n")
            (home / place).touch()
            (home / place).chmod(0)
        Path(name).chmod(0o755)

        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, name], capture_output=True, check=False, text=True
        )

        assert done.stderr == ""
        tools, problems = json.loads(done.stdout)
        assert tools == [f"skill-{number}.ok" for number in range(1, len(PLACES))]
        closed = {f"{name}/skill-{number}/{place}" for number, place in enumerate(PLACES)}
        assert closed == set(problems)


SURROGATE = '"\\ud800 and \\udfff"'


@pytest.mark.parametrize(
    "entry",
    [
        f'{{"name": "x", "description": {SURROGATE}}}',
        f'{{"name": "x", "description": "d", "parameters": {{{SURROGATE}: {{}}}}}}',
        f'{{"name": "x", "description": "d", "parameters": {{"a": {{"enum": [{SURROGATE}]}}}}}}',
        f'{{"name": {SURROGATE}, "description": "d"}}',
        f'{{"name": "x", "description": "d", "http": {{"url": "https://a.b/", "x": {SURROGATE}}}}}',
    ],
)
def test_half_a_character_never_reaches_a_model(root: Path, entry: str) -> None:
    good = '{"name": "good", "description": "Is good."}'
    (root / "victim/tools.json").write_text(f"[{entry}, {good}]")
    manager = SkillManager(root)

    tools = manager.tools

    assert "victim.good" in [tool.id for tool in tools]
    for tool in tools:
        shown = [tool.id, tool.name, tool.description, tool.input_schema]
        assert json.dumps(shown, ensure_ascii=False).encode()
    for problem in manager.problems:
        assert problem.message.encode()


def test_a_schema_nested_as_deep_as_json_allows_is_a_tool_or_a_problem(root: Path) -> None:
    for number, depth in enumerate((60, 200, 450, 900)):
        schema = '{"type": "object", "properties": {"a": ' * depth + "{}" + "}}" * depth
        entry = f'{{"name": "deep_{number}", "description": "d", "parameters": {schema}}}'
        (root / "victim/tools.json").write_text(f"[{entry}]")
        manager = SkillManager(root)

        tools = [tool.id for tool in manager.get_skill_tools("victim")]

        assert "victim.ok" in tools
        assert len(tools) == 2 or any(p.severity == "error" for p in manager.problems)


def test_a_hundred_bad_entries_are_reported_each_with_its_line(root: Path) -> None:
    text = "[\n" + ",\n".join(['{"name": "x y", "description": "d"}'] * 100)
    (root / "victim/tools.json").write_text(f'{text},\n{{"name": "good", "description": "d"}}\n]')
    manager = SkillManager(root, cache=False)

    tools = [tool.id for tool in manager.get_skill_tools("victim")]

    assert "victim.good" in tools
    assert [problem.line for problem in manager.problems] == list(range(2, 102))


@pytest.mark.timeout(100)
@pytest.mark.parametrize("place", ["tools.json", "scripts/manifest.yml", "SKILL.md"])
def test_the_lines_of_very_many_bad_entries_are_found_without_reading_again_for_each(
    root: Path, place: str
) -> None:
    entries = '{"name": "good", "description": "d", "script": "scripts/ok.sh"}' + ", {}" * 12_000
    texts = {
        "tools.json": f"[{entries}]",
        "scripts/manifest.yml": f"tools: [{entries}]\n",
        "SKILL.md": f"---\nname: victim\ndescription: d\ntools: [{entries}]\n---\n",
    }
    (root / "victim" / place).write_text(texts[place])
    manager = SkillManager(root, cache=False)

    tools = [tool.id for tool in manager.get_skill_tools("victim")]

    assert tools == ["victim.good"]
    assert manager.problems


SLOW: dict[str, tuple[str, str]] = {
    "a module path": ("scripts/run.py", "import " + ".".join(["a"] * 40_000) + "\n"),
    "declarations": (
        "tools.json",
        json.dumps([{"name": f"t{n}", "description": "d"} for n in range(15_000)]),
    ),
    "keys to save": ("SKILL.md", "---\nx: [\n" + "  name:\n" * 7_500 + "---\nText.\n"),
    "blocks to save": ("SKILL.md", "---\nx: [\n" + " name: |\n" * 7_000 + "---\nText.\n"),
    "fences": ("SKILL.md", "---\nname: victim\n---\n" + "```\n\n" * 150_000),
    "headings": ("SKILL.md", "---\nname: victim\n---\n" + "# a\n\n" * 150_000),
    "parentheses": ("SKILL.md", f"---\nname: victim\nallowed-tools: {'(' * 60_000}\n---\nText.\n"),
    "patterns": (
        "SKILL.md",
        "---\nname: victim\ndescription: d\nmetadata: {skillpouch: {scripts: {include: ["
        + ",".join(["'**/**/**/*.py'"] * 3_000)
        + "]}}}\n---\n",
    ),
}


@pytest.mark.timeout(100)
@pytest.mark.parametrize("what", SLOW)
def test_a_file_made_to_be_slow_is_not(root: Path, what: str) -> None:
    place, text = SLOW[what]
    (root / "victim" / place).write_text(text)
    if place == "SKILL.md":  # its size is bounded: several of them show what one costs
        for number in range(4):
            (root / f"victim-{number}").mkdir()
            (root / f"victim-{number}" / place).write_text(text)

    tools = [tool.id for tool in SkillManager(root, cache=False).tools]

    assert "zz-neighbour.ok" in tools
