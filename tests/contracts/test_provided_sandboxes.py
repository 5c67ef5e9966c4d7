"""A sandbox that another package provides confines calls as far as it says that it does."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch import SkillManager, ToolExecutor
from skillpouch.errors import NotProvidedError, SandboxFailedError, SandboxUnavailableError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.sandboxes import SandboxProvider
from skillpouch.sessions import SessionManager
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill
from tests.contracts.conftest import Install, needs_unshare

pytestmark = pytest.mark.usefixtures("example")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def scripts(write_skill: WriteSkill, **texts: str) -> Path:
    files = {f"scripts/{name}.sh": text for name, text in texts.items()}
    return write_skill("demo", files=files).parent


@pytest.mark.escape
@needs_unshare
def test_a_provided_sandbox_confines_the_calls_of_a_manager(
    write_skill: WriteSkill, work: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("hidden")
    root = scripts(
        write_skill,
        writes='echo made > made.txt; cat "$SKILL_BASE_DIR/SKILL.md" | head -1',
        looks=f"cat {tmp_path}/secret; touch {tmp_path}/escaped; touch $SKILL_BASE_DIR/mine",
    )
    manager = SkillManager(root, workspace=work, sandbox="unshare", require=["fs", "net"])

    wrote, looked = manager.call("demo.writes"), manager.call("demo.looks")

    assert (wrote.outcome, wrote.content) == ("ok", "---")
    assert [file.path for file in wrote.files] == ["made.txt"]
    assert looked.outcome == "failed"
    assert "hidden" not in looked.stdout
    assert not (tmp_path / "escaped").exists()
    assert not (root / "demo/mine").exists()
    assert dict(wrote.protections) == {
        "fs": "mountns",
        "net": "netns",
        "tree": "pidns+subreaper",
        "signals": "pidns",
        "memory": "rlimit_data",
        "processes": "none",
        "syscalls": "none",
        "temp": "private",
        "profiles": "none",
        "writes": "direct",
    }


@pytest.mark.escape
@needs_unshare
def test_everything_that_starts_a_program_is_confined_by_it(
    write_skill: WriteSkill, work: Path
) -> None:
    front = (
        "name: demo\ndescription: Demo.\ntools:\n"
        "  - {name: inline, description: In., backend: {type: script, interpreter: bash, "
        "script: echo inline}}\n"
        "  - {name: program, description: Pro., backend: {type: binary, path: /bin/echo, "
        "args_template: program}}\n"
    )
    files = {"scripts/handler.py": "def handler(args):\n    return 'handler'\n"}
    root = write_skill("demo", front, files=files).parent
    manager = SkillManager(root, workspace=work, sandbox="unshare", builtins=True)

    results = [manager.call(f"demo.{name}") for name in ("inline", "program", "handler")]
    results.append(manager.call("bash", {"command": "echo bash"}))

    assert [result.content for result in results] == ["inline", "program", "handler", "bash"]
    assert {result.protections["fs"] for result in results} == {"mountns"}
    assert {result.warm for result in results} == {False}


def test_a_layer_that_is_required_and_not_provided_keeps_the_call_from_running(
    write_skill: WriteSkill, work: Path
) -> None:
    root = scripts(write_skill, makes="touch made")
    manager = SkillManager(root, workspace=work, sandbox="unshare", require=["syscalls"])

    with pytest.raises(SandboxUnavailableError) as refused:
        manager.call("demo.makes")

    assert refused.value.missing == ("syscalls",)
    assert "the sandbox 'unshare' does not say that it does" in str(refused.value)
    assert not (work / "made").exists()


@pytest.mark.parametrize("kind", [SkillManager, SessionManager, ToolExecutor])
def test_an_unknown_name_says_the_group_and_what_is_installed(kind: type, tmp_path: Path) -> None:
    where = () if kind is ToolExecutor else (tmp_path,)

    with pytest.raises(NotProvidedError) as refused:
        kind(*where, sandbox="bubblewrap")

    assert "'bubblewrap' of the entry points skillpouch.sandboxes" in str(refused.value)
    assert refused.value.known == ("on", "off", "unshare")
    assert "there are on, off, unshare" in refused.value.hint
    assert isinstance(refused.value, ValueError)


class Says:
    """Confines nothing, and says what it is told to."""

    def __init__(self, **changes: object) -> None:
        self.changes = changes

    def confine(self, command: Command) -> Command:
        return replace(command, **self.changes)  # type: ignore[arg-type]


class Raises:
    def confine(self, command: Command) -> Command:
        raise RuntimeError(f"cannot confine {command.argv[0]}")


class Nothing:
    def confine(self, command: Command) -> Command:
        return f"{command.argv}"  # type: ignore[return-value]


BOTH = {"fs": "said", "net": "said"}


async def run_under(provider: SandboxProvider, work: Path, *words: str) -> tuple[str, int | None]:
    command = Command(argv=words or ("/bin/true",), env={}, cwd=work)
    async with Engine(provider=provider) as engine:
        ended = await engine.run(command, Confinement(workspace=work, sandbox="said"))
    return ended.outcome, ended.exit_code


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        (Raises(), "Raises raised RuntimeError: cannot confine /bin/true"),
        (Nothing(), "Nothing returned a str, not a Command"),
        (Says(argv=("true",), protections=BOTH), "without the path of a program"),
        (Says(protections={**BOTH, "everything": "yes"}), "names protections everything"),
        (Says(argv=(Path("/bin/true"),), protections=BOTH), "with PosixPath in place of a text"),
        (Says(env={"A": 0}, protections=BOTH), "with int in place of a text"),
        (Says(argv=None, protections=BOTH), "Says raised TypeError"),
        (Says(protections=None), "Says raised AttributeError"),
    ],
)
async def test_what_a_provider_does_wrong_starts_nothing(
    work: Path, provider: SandboxProvider, reason: str
) -> None:
    with pytest.raises(SandboxFailedError, match=reason):
        await run_under(provider, work)


@pytest.mark.promise("call-13")
async def test_a_provider_that_leaves_files_or_network_open_starts_nothing(work: Path) -> None:
    with pytest.raises(SandboxUnavailableError) as refused:
        await run_under(Says(protections={"fs": "said"}), work, "/usr/bin/touch", "made")

    assert refused.value.missing == ("net",)
    assert not (work / "made").exists()


async def test_a_provider_cannot_take_the_limits_of_a_call_away(work: Path) -> None:
    from skillpouch.limits import Limits

    command = Command(
        argv=("/bin/sleep", "60"), env={}, cwd=work, limits=Limits(timeout_seconds=0.2)
    )
    provider = Says(protections=BOTH, limits=Limits(timeout_seconds=60))
    async with Engine(provider=provider) as engine:
        ended = await engine.run(command, Confinement(workspace=work, sandbox="said"))

    assert ended.outcome == "timed_out"


def test_a_package_cannot_take_the_place_of_our_own(
    install: Install, write_skill: WriteSkill, work: Path
) -> None:
    install("taking", {"skillpouch.sandboxes": {"on": "nothing:Absent", "off": "nothing:Absent"}})
    manager = SkillManager(scripts(write_skill, says="echo said"), workspace=work)

    result = manager.call("demo.says")

    assert result.content == "said"
    assert "mountns" not in result.protections["fs"]
    assert "nothing" not in sys.modules


UNABLE = """
from skillpouch.errors import SandboxUnavailableError

class Unable:
    def confine(self, command):
        raise SandboxUnavailableError(("net",), "it cannot do that")
"""


@pytest.mark.promise("call-13")
def test_the_consent_to_run_unprotected_does_not_take_the_place_of_a_sandbox(
    install: Install, write_skill: WriteSkill, work: Path
) -> None:
    install("unable", {"skillpouch.sandboxes": {"unable": "unable:Unable"}}, {"unable.py": UNABLE})
    root = scripts(write_skill, makes="touch made")
    Grants().give_consent(by="test")

    with pytest.raises(SandboxUnavailableError, match="it cannot do that"):
        SkillManager(root, workspace=work, sandbox="unable").call("demo.makes")

    assert not (work / "made").exists()
