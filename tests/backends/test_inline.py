"""Inline scripts: program text of a declaration, in every interpreter that may run it."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from skillpouch import SkillManager, ToolExecutor
from skillpouch.errors import CommandStartError, InterpreterMissingError
from skillpouch.tools import InlineScript, Tool
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]
TEXTS = {
    "bash": 'echo "$TOOL_ARG_A_B $(cat)"',
    "sh": 'echo "$TOOL_ARG_A_B $(cat)"',
    "zsh": 'echo "$TOOL_ARG_A_B $(cat)"',
    "python": "import os, sys; print(os.environ['TOOL_ARG_A_B'], sys.stdin.read())",
    "python3": "import os, sys; print(os.environ['TOOL_ARG_A_B'], sys.stdin.read())",
    "node": "console.log(process.env.TOOL_ARG_A_B, require('fs').readFileSync(0, 'utf8'))",
    "ruby": "puts ENV['TOOL_ARG_A_B'] + ' ' + STDIN.read",
    "perl": 'print "$ENV{TOOL_ARG_A_B} ", <STDIN>, "\\n"',
}


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(
        interpreter: str, text: str, *names: str, files: dict[str, str] | None = None, **more: Any
    ) -> SkillManager:
        (tmp_path / "workspace").mkdir()
        backend = {"type": "script", "interpreter": interpreter, "script": text, **more}
        schema = {"type": "object", "properties": {name: {} for name in names}}
        tool = {"name": "x", "description": "d", "backend": backend, "parameters": schema}
        front = f"name: demo\ndescription: d\ntools: {json.dumps([tool])}\n"
        root = write_skill(front=front, files=files).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False)

    return make


@pytest.mark.parametrize("interpreter", TEXTS)
def test_every_interpreter_reads_its_arguments_from_variables_and_stdin(
    interpreter: str, manager_of: MakeManager
) -> None:
    if not which(interpreter) and not interpreter.startswith("python"):
        pytest.skip(f"{interpreter} is not installed")
    given = {"a-b": "ü $(id) 'x'"}

    result = manager_of(interpreter, TEXTS[interpreter], "a-b").call("x", given)

    assert result.content == f"{given['a-b']} {json.dumps(given, ensure_ascii=False)}"


def test_the_seeds_chunk_text_example_gives_its_chunks(manager_of: MakeManager) -> None:
    text = (
        "import os\nimport json\n\nargs = json.loads(os.environ.get('TOOL_ARGS', '{}'))\n"
        "text = args.get('text', '')\nchunk_size = int(args.get('chunk_size', 1000))\n"
        "chunks = [text[i:i+chunk_size] for i in range(0, len(text), chunk_size)]\n"
        "for i, chunk in enumerate(chunks):\n    print(f'Chunk {i+1}: {len(chunk)} chars')\n"
    )
    manager = manager_of("python3", text, "text", "chunk_size")

    assert manager.call("x", {"text": "a" * 5, "chunk_size": 3}).content == (
        "Chunk 1: 3 chars\nChunk 2: 2 chars"
    )
    assert manager.call("x", {"text": "abc"}).content == "Chunk 1: 3 chars"


def test_a_command_that_reads_stdin_does_not_swallow_the_script(manager_of: MakeManager) -> None:
    result = manager_of("bash", "cat > /dev/null\necho second line").call("x", {})

    assert result.content == "second line"


def test_what_the_caller_gives_on_stdin_replaces_the_arguments(manager_of: MakeManager) -> None:
    assert manager_of("sh", "cat").call("x", {}, stdin="mine").content == "mine"


def test_interpreter_args_come_before_the_script(manager_of: MakeManager) -> None:
    manager = manager_of("bash", "false\necho not reached", interpreter_args=["-e", "-u"])

    result = manager.call("x", {})

    assert (result.exit_code, result.stdout) == (1, "")


def test_arguments_that_want_one_variable_get_none(manager_of: MakeManager) -> None:
    manager = manager_of("bash", "env | grep ^TOOL_ | sort", "a-b", "a_b", "c")

    result = manager.call("x", {"a-b": "1", "a_b": "2", "c": "3"})

    assert result.content == (
        'TOOL_ARGS={"a-b": "1", "a_b": "2", "c": "3"}\nTOOL_ARGS_OMITTED=TOOL_ARG_A_B\nTOOL_ARG_C=3'
    )


def test_a_large_argument_is_named_as_omitted_and_stands_in_a_file(
    manager_of: MakeManager,
) -> None:
    text = 'echo "$TOOL_ARGS_OMITTED $TOOL_ARG_N $(wc -c < "$TOOL_ARGS_FILE") $(wc -c)"'

    result = manager_of("bash", text, "big", "n").call("x", {"big": "x" * 200_000, "n": 7})

    size = len(json.dumps({"big": "x" * 200_000, "n": 7}))
    assert result.content == f"TOOL_ARGS TOOL_ARG_BIG 7 {size} {size}"


@pytest.mark.promise("inline-1")
def test_a_script_cannot_change_its_own_file_or_write_its_skill(manager_of: MakeManager) -> None:
    text = (
        'echo evil >> "$0" || echo kept\n'
        'rm -f "$0" || echo still there\n'
        'touch "$SKILL_BASE_DIR/x" || echo read-only\n'
    )

    result = manager_of("bash", text).call("x", {})

    assert result.stdout == "kept\nstill there\nread-only\n"


@pytest.mark.promise("inline-1")
def test_the_text_of_one_skill_is_out_of_sight_for_another(
    manager_of: MakeManager, write_skill: WriteSkill, tmp_path: Path
) -> None:
    path = Path(manager_of("bash", 'echo "$0"').call("x", {}).content)
    backend = {"type": "script", "interpreter": "bash", "script": f"cat {path} || echo unseen"}
    tool = {"name": "y", "description": "d", "backend": backend}
    front = f"name: other\ndescription: d\ntools: {json.dumps([tool])}\n"
    root = write_skill("other", front=front, root="others").parent

    result = SkillManager(root, workspace=tmp_path / "workspace", cache=False).call("y", {})

    assert (path.is_file(), result.stdout) == (True, "unseen\n")


def test_a_file_that_was_tampered_with_holds_its_text_again(manager_of: MakeManager) -> None:
    manager = manager_of("bash", 'echo "$0"')
    path = Path(manager.call("x", {}).content)
    path.chmod(0o600)
    path.write_text("echo tampered")

    assert manager.call("x", {}).content == str(path)
    assert path.read_text() == 'echo "$0"'


def test_python_text_is_served_warm_and_imports_from_scripts(manager_of: MakeManager) -> None:
    text = "from helper import word\nprint(word)"
    manager = manager_of("python3", text, files={"scripts/helper.py": "word = 'sibling'\n"})

    results = [manager.call("x", {}) for _ in range(2)]

    assert [result.content for result in results] == ["sibling", "sibling"]
    assert results[1].warm or results[1].cold_because


def test_inline_scripts_may_take_sixty_seconds(manager_of: MakeManager) -> None:
    manager = manager_of("sh", "true")

    assert manager.get_skill_tools("demo")[0].timeout_ms == 60_000
    assert manager.call("x", {}).timeout_seconds == 60


def test_the_declared_timeout_ends_it(manager_of: MakeManager) -> None:
    result = manager_of("sh", "sleep 60", timeout_ms=300).call("x", {})

    assert (result.outcome, result.exit_code) == ("timed_out", 124)


def _bare(interpreter: str) -> Tool:
    runs = InlineScript(interpreter=interpreter, text="pwd")
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    return Tool(id="s.t", name="t", skill="s", description="", input_schema=schema, runs=runs)


async def test_an_interpreter_that_is_not_on_the_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandStartError, match="inline scripts cannot use it") as caught:
        await ToolExecutor([_bare("bsh")], workspace=tmp_path).execute("t")

    assert caught.value.hint.startswith("did you mean 'bash'")


async def test_an_interpreter_that_is_not_installed_is_named(tmp_path: Path) -> None:
    if which("zsh"):
        pytest.skip("zsh is installed")

    with pytest.raises(InterpreterMissingError, match="cannot start zsh"):
        await ToolExecutor([_bare("zsh")], workspace=tmp_path).execute("t")


@pytest.mark.parametrize("interpreter", ["sh", "python3"])
async def test_a_tool_without_a_folder_runs_in_the_workspace(
    interpreter: str, tmp_path: Path
) -> None:
    text = "pwd" if interpreter == "sh" else "import os; print(os.getcwd())"
    runs = InlineScript(interpreter=interpreter, text=text)
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool = Tool(id="s.t", name="t", skill="s", description="", input_schema=schema, runs=runs)

    result = await ToolExecutor([tool], workspace=tmp_path).execute("t")

    assert result.content == str(tmp_path)
