"""Binary tools: which file runs, with which words, and how it is held."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, ToolExecutor
from skillpouch.errors import CommandStartError, InvalidArgumentsError, UnsafeScriptError
from skillpouch.needs import Need
from skillpouch.tools import Binary, Tool
from skillpouch.trust.errors import UngrantedError
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]
SHOW = '#!/bin/sh\nprintf "[%s]" "$@"\n'


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(
        backend: dict[str, Any],
        properties: dict[str, Any] | None = None,
        *,
        files: dict[str, str] | None = None,
        **options: Any,
    ) -> SkillManager:
        (tmp_path / "workspace").mkdir(exist_ok=True)
        schema = {"type": "object", "properties": properties or {}}
        backend = {"type": "binary", **backend}
        tool = {"name": "x", "description": "d", "backend": backend, "parameters": schema}
        front = f"name: demo\ndescription: d\ntools: {json.dumps([tool])}\n"
        home = write_skill(front=front, files={"bin/show": SHOW, **(files or {})})
        (home / "bin/show").chmod(0o755)
        root = home.parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False, **options)

    return make


TEXTS = {"a": {"type": "string"}, "b": {"type": "string"}}


@pytest.mark.parametrize(
    "value", ["x y", "x --flag", "", "it's", '"', "$(id) `id` ; rm", "${b}", "a\nb", "ü*?"]
)
def test_an_argument_is_one_word_whatever_it_holds(value: str, manager_of: MakeManager) -> None:
    manager = manager_of({"path": "bin/show", "args_template": "--in ${a} end"}, TEXTS)

    result = manager.call("x", {"a": value, "b": "expanded"})

    assert result.stdout == f"[--in][{value}][end]"


def test_the_seeds_binary_example_runs(manager_of: MakeManager) -> None:
    template = "--input ${input_file} --output ${output_file}"
    names = {"input_file": {"type": "string"}, "output_file": {"type": "string"}}
    manager = manager_of({"path": "bin/show", "args_template": template}, names)

    result = manager.call("x", {"input_file": "in.txt", "output_file": "out.txt"})

    assert result.stdout == "[--input][in.txt][--output][out.txt]"
    assert result.timeout_seconds == 60


def test_a_value_that_would_be_a_flag_is_refused_before_anything_runs(
    manager_of: MakeManager,
) -> None:
    manager = manager_of({"path": "bin/show", "args_template": "${a}"}, TEXTS)

    with pytest.raises(InvalidArgumentsError, match="would be taken for a flag") as caught:
        manager.call("x", {"a": "--output=/etc/passwd"})

    assert "put -- before ${a}" in caught.value.hint


@pytest.mark.parametrize(
    "schema", [{"enum": ["-l", "-a"]}, {"type": "array", "items": {"enum": ["-l"]}}]
)
def test_a_listed_value_may_begin_with_a_dash(
    schema: dict[str, Any], manager_of: MakeManager
) -> None:
    manager = manager_of({"path": "bin/show", "args_template": "${a}"}, {"a": schema})
    value = ["-l"] if "items" in schema else "-l"

    assert manager.call("x", {"a": value}).stdout == "[-l]"


def test_without_a_template_arguments_come_by_environment_and_stdin(
    manager_of: MakeManager,
) -> None:
    script = '#!/bin/sh\necho "$# $TOOL_ARG_A"; cat\n'
    manager = manager_of({"path": "bin/show"}, TEXTS, files={"bin/show": script})

    assert manager.call("x", {"a": "x y"}).stdout == '0 x y\n{"a": "x y"}'


def test_with_a_template_stdin_is_empty_or_the_callers(manager_of: MakeManager) -> None:
    manager = manager_of({"path": "cat", "args_template": "-"})

    assert manager.call("x", {}).stdout == ""
    assert manager.call("x", {}, stdin="mine").stdout == "mine"


def test_a_failing_binary_keeps_its_exit_code_and_stderr(manager_of: MakeManager) -> None:
    result = manager_of({"path": "ls", "args_template": "/nope"}).call("x", {})

    assert (result.outcome, result.exit_code) == ("failed", 2)
    assert "/nope" in result.stderr


def test_death_by_signal_is_named(manager_of: MakeManager) -> None:
    manager = manager_of({"path": "bin/show"}, files={"bin/show": "#!/bin/sh\nkill -9 $$\n"})

    result = manager.call("x", {})

    assert (result.exit_code, result.signal) == (None, 9)


@pytest.mark.promise("bin-1")
def test_a_binary_is_confined_like_a_script(manager_of: MakeManager, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    script = (
        f"#!/bin/sh\ncat {tmp_path}/secret || echo unseen\n"
        "touch made && echo writes\ntouch $SKILL_BASE_DIR/x || echo read-only\n"
    )
    manager = manager_of({"path": "bin/show"}, files={"bin/show": script})

    result = manager.call("x", {})

    assert result.stdout == "unseen\nwrites\nread-only\n"
    assert [file.path for file in result.files] == ["made"]


def test_a_program_is_called_by_its_own_name(manager_of: MakeManager, tmp_path: Path) -> None:
    if shutil.which("unxz") is None:
        pytest.skip("xz is not installed")
    manager = manager_of({"path": "unxz", "args_template": "-k f.xz"})
    (tmp_path / "workspace/f").write_text("packed")
    subprocess.run(["xz", tmp_path / "workspace/f"], check=True)

    assert manager.call("x", {}).outcome == "ok"
    assert (tmp_path / "workspace/f").read_text() == "packed"


def test_a_program_that_is_not_installed_is_named(manager_of: MakeManager) -> None:
    with pytest.raises(CommandStartError, match="no-such-program: it is not installed"):
        manager_of({"path": "no-such-program"}).call("x", {})


@pytest.mark.promise("bin-2")
def test_a_program_in_the_workspace_is_never_found(
    manager_of: MakeManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = manager_of({"path": "planted"})
    planted = tmp_path / "workspace/planted"
    planted.write_text("#!/bin/sh\necho evil\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f".:{tmp_path}/workspace:/usr/bin:/bin")

    with pytest.raises(CommandStartError, match="not installed"):
        manager.call("x", {})


@pytest.mark.promise("bin-2")
def test_an_absolute_path_into_the_workspace_is_refused(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    manager = manager_of({"path": str(tmp_path / "workspace/planted")})
    shutil.copy("/bin/ls", tmp_path / "workspace/planted")

    with pytest.raises(UnsafeScriptError, match="inside the workspace"):
        manager.call("x", {})


@pytest.mark.promise("bin-3")
def test_a_file_of_the_user_is_run_only_when_it_was_granted(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    own = tmp_path / "own/tool"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\necho mine\n")
    own.chmod(0o755)
    manager = manager_of({"path": str(own)})

    with pytest.raises(UngrantedError) as caught:
        manager.call("x", {})

    assert f"skillpouch trust demo --read {own}" in caught.value.hint
    Grants().grant(manager.get_skill("demo"), [Need(kind="read", value=str(own))], by="test")
    assert manager.call("x", {}).stdout == "mine\n"


def test_a_path_that_leaves_the_skill_is_refused(manager_of: MakeManager, tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    shutil.copy("/bin/ls", tmp_path / "skills/outside")

    with pytest.raises(UnsafeScriptError, match="outside the skill"):
        manager_of({"path": "../outside"}).call("x", {})


def test_a_missing_or_unfit_file_says_why(manager_of: MakeManager, tmp_path: Path) -> None:
    manager = manager_of({"path": "bin/show"})
    file = tmp_path / "skills/demo/bin/show"

    file.chmod(0o644)
    with pytest.raises(CommandStartError, match="not executable") as caught:
        manager.call("x", {})
    assert caught.value.hint == f"chmod +x {file}"
    file.chmod(0o4755)
    with pytest.raises(UnsafeScriptError, match="setuid"):
        manager.call("x", {})
    file.unlink()
    with pytest.raises(CommandStartError, match="no such file"):
        manager.call("x", {})
    file.mkdir()
    with pytest.raises(UnsafeScriptError, match="not a regular file"):
        manager.call("x", {})


def test_an_absolute_path_into_the_skill_is_the_skills_own(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    path = tmp_path / "skills/demo/bin/show"

    result = manager_of({"path": str(path), "args_template": "a"}).call("x", {})

    assert result.stdout == "[a]"


async def test_a_binary_of_no_folder_needs_a_program_of_the_machine(tmp_path: Path) -> None:
    def tool(runs: Binary) -> Tool:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return Tool(id="s.t", name="t", skill="s", description="", input_schema=schema, runs=runs)

    with pytest.raises(CommandStartError, match="has no folder"):
        await ToolExecutor([tool(Binary(path="bin/x"))], workspace=tmp_path).execute("t")
    with pytest.raises(CommandStartError, match="neither `path` nor `url`"):
        await ToolExecutor([tool(Binary())], workspace=tmp_path).execute("t")
    ran = await ToolExecutor([tool(Binary(path="pwd"))], workspace=tmp_path).execute("t")
    assert ran.content == str(tmp_path)
