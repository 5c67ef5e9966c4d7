"""What a machine lacks before a tool could run, said before anybody calls it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, Tool

WriteSkill = Callable[..., Path]
Read = Callable[..., list[Tool]]


@pytest.fixture
def read(write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read a skill's tools on a machine that has only the programs named."""

    def write_and_read(
        front: str = "", files: dict[str, str] | None = None, programs: tuple[str, ...] = ()
    ) -> list[Tool]:
        bin_folder = tmp_path / "bin"
        bin_folder.mkdir()
        for name in programs:
            (bin_folder / name).write_text("#!/bin/sh\n")
            (bin_folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(bin_folder))
        home = write_skill(front=f"name: demo\ndescription: Does it.\n{front}", files=files)
        manager = SkillManager(home.parent, cache=False, policy=Policy.trusting())
        return manager.get_skill_tools("demo")

    return write_and_read


def missing(read: Read, **what: object) -> str:
    [tool] = read(**what)
    assert tool.ready == (not tool.missing)
    return " ".join(tool.missing)


@pytest.mark.parametrize(
    ("script", "program"),
    [
        *(("run.sh", "bash"), ("run.js", "node"), ("run.rb", "ruby")),
        *(("run.pl", "perl"), ("run.ts", "node"), ("run.zsh", "zsh"), ("run.mjs", "node")),
    ],
)
def test_a_script_needs_the_interpreter_of_its_language(
    read: Read, script: str, program: str
) -> None:
    assert program in missing(read, files={f"scripts/{script}": "run\n"})


@pytest.mark.parametrize(
    ("script", "program"),
    [("run.sh", "bash"), ("run.js", "node"), ("run.rb", "ruby")],
)
def test_a_script_whose_interpreter_is_there_is_ready(
    read: Read, script: str, program: str
) -> None:
    files = {f"scripts/{script}": "run\n"}

    assert missing(read, files=files, programs=(program,)) == ""


def test_an_inline_script_needs_exactly_its_interpreter(read: Read) -> None:
    front = "tools: [{name: x, backend: {type: script, interpreter: zsh, script: 'echo'}}]\n"

    assert "zsh" in missing(read, front=front, programs=("bash", "sh"))


@pytest.mark.parametrize("path", ["jq", "/opt/nowhere/jq"])
def test_a_binary_must_be_there(read: Read, path: str) -> None:
    assert path in missing(read, front=f"tools: [{{name: x, bin: {path}}}]\n")


def test_a_binary_on_the_path_is_ready(read: Read) -> None:
    assert missing(read, front="tools: [{name: x, bin: jq}]\n", programs=("jq",)) == ""


def test_requests_and_stubs_need_no_program(read: Read) -> None:
    front = "tools: [{name: x}, {name: y, backend: {type: http, url: https://example.com}}]\n"

    assert [tool.ready for tool in read(front)] == [True, True]


@pytest.mark.parametrize("vendor", ["openclaw", "clawdbot", "anything"])
def test_programs_that_a_skill_requires_are_looked_up_whatever_the_vendor_key(
    read: Read, vendor: str
) -> None:
    front = f"metadata: {{{vendor}: {{requires: {{bins: [ffmpeg, sox]}}}}}}\ntools: [{{name: x}}]\n"

    words = missing(read, front=front, programs=("sox",))

    assert "ffmpeg" in words
    assert "sox" not in words


@pytest.mark.parametrize("name", ["uv", "python", "pip"])
@pytest.mark.parametrize("key", ["bins", "anyBins"])
def test_a_program_that_commands_for_a_skill_get_answered_is_not_missing(
    read: Read, key: str, name: str
) -> None:
    front = f"metadata: {{v: {{requires: {{{key}: [{name}]}}}}}}\ntools: [{{name: x}}]\n"

    assert missing(read, front=front) == ""


def test_requirements_may_stand_at_the_top(read: Read) -> None:
    front = "requires: {bins: [ffmpeg]}\ntools: [{name: x}]\n"

    assert "ffmpeg" in missing(read, front=front)


@pytest.mark.parametrize(("programs", "ready"), [((), False), (("npm",), True), (("bun",), True)])
def test_of_alternatives_one_is_enough(read: Read, programs: tuple[str, ...], ready: bool) -> None:
    front = "metadata: {v: {requires: {anyBins: [npm, bun]}}}\ntools: [{name: x}]\n"

    words = missing(read, front=front, programs=programs)

    assert (words == "") == ready
    assert ready or ("npm" in words and "bun" in words)


@pytest.mark.parametrize(
    "front",
    [
        "metadata: {v: {requires: {env: [DEMO_API_KEY]}}}\n",
        "requires: {env: [DEMO_API_KEY]}\n",
        "requires: {env: DEMO_API_KEY}\n",
    ],
)
def test_a_variable_that_a_skill_requires_and_nobody_set_is_missing(
    read: Read, monkeypatch: pytest.MonkeyPatch, front: str
) -> None:
    monkeypatch.delenv("DEMO_API_KEY", raising=False)

    assert "DEMO_API_KEY" in missing(read, front=f"{front}tools: [{{name: x}}]\n")


def test_a_variable_that_is_set_is_not_missing_and_its_value_is_never_shown(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_API_KEY", "hunter2")
    front = "requires: {env: [DEMO_API_KEY]}\ntools: [{name: x}]\n"

    [tool] = read(front)

    assert (tool.missing, "hunter2" in repr(tool)) == ((), False)


@pytest.mark.parametrize("value", ["7", "[]", "[[x]]", "{a: b}", "''", "~", "[7, ~]"])
@pytest.mark.parametrize("key", ["bins", "anyBins", "env"])
def test_requirements_of_an_odd_shape_are_ignored(read: Read, key: str, value: str) -> None:
    front = f"metadata: {{v: {{requires: {{{key}: {value}}}}}}}\ntools: [{{name: x}}]\n"

    assert missing(read, front=front) == ""


@pytest.mark.parametrize("metadata", ["7", "[]", "text", "{v: 7}", "{v: {requires: 7}}", "~"])
def test_metadata_of_an_odd_shape_is_ignored(read: Read, metadata: str) -> None:
    assert missing(read, front=f"metadata: {metadata}\ntools: [{{name: x}}]\n") == ""


def test_a_program_with_a_path_in_its_name_is_no_way_to_look_around(read: Read) -> None:
    front = 'requires: {bins: ["../../../bin/sh", "a\\0b", "sh -c id"]}\ntools: [{name: x}]\n'

    assert len(read(front)) == 1


def test_readiness_is_about_now_not_about_when_it_was_read(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_skill(files={"scripts/run.rb": "puts 1\n"})
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    before = SkillManager(home.parent).get_skill_tools("demo")

    (tmp_path / "bin/ruby").write_text("#!/bin/sh\n")
    (tmp_path / "bin/ruby").chmod(0o755)
    after = SkillManager(home.parent).get_skill_tools("demo")

    assert [tool.ready for tool in (*before, *after)] == [False, True]


TYPED = "export default (args: { n?: number }): number => args.n ?? 2;\n"


def test_a_typescript_handler_is_ready_only_where_node_runs_it(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    manager = SkillManager(write_skill(files={"scripts/typed.ts": TYPED}).parent)
    (tmp_path / "work").mkdir()

    tool = manager.get_tool("demo.typed")
    result = SkillManager(*manager.roots, workspace=tmp_path / "work").call("demo.typed", {"n": 3})

    assert tool.ready == (result.outcome == "ok"), (tool.missing, result.content)
    if not tool.ready:
        said = "node 22.18 or newer, which runs TypeScript, is not installed"
        assert tool.missing == (said,)
