"""Calls with a layer over their workspace: what they write goes there, and nowhere else."""

import asyncio
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.calls import CallLayers
from skillpouch.execution.command import Command, Ended, PreforkSpec, Prestarted
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.layers import layer_folders, why_direct
from skillpouch.execution.zygote_client import probe, why_no_layer
from skillpouch.limits import Limits
from skillpouch.workspace.changes import read_changes
from tests.execution.warm_calls import Skill, sandboxes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not probe().overlay, reason="no overlay can be mounted here"),
]

# Waits for its call, then runs the script in its first argument.
WAITS = """
printf r >&4; IFS= read -r job <&4 || exit 0
read='import json, sys; print(json.loads(sys.argv[1])["env"]["RUN"])'
eval "$(/usr/bin/python3 -c "$read" "$job")"
printf '%d\\n' $? >&4; read -r _ <&4
"""
Run = Callable[..., Awaitable["Layered"]]


class Layered:
    """A call that has ended, and what it changed."""

    def __init__(self, ended: Ended, taken: list[Path]) -> None:
        self.ended = ended
        self.said = ended.stdout.text
        self.layers = taken

    @property
    def changed(self) -> dict[str, str]:
        """The content of each file in its layer; that of a deleted one is "deleted"."""
        return {
            str(path.relative_to(top)): "deleted" if path.is_char_device() else path.read_text()
            for top in self.layers
            for path in sorted(top.rglob("*"))
            if not path.is_dir()
        }


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def cold(workspace: Path, script: str) -> Command:
    env = {"PATH": "/usr/bin:/bin"}
    return Command(argv=("/bin/bash", "-c", script), env=env, cwd=workspace)


def waiting(workspace: Path, script: str) -> Command:
    env = {"PATH": "/usr/bin:/bin"}
    argv = ("/bin/bash", "-c", WAITS)
    prestarted = Prestarted(argv=argv, env=tuple(env.items()), cwd=workspace)
    told = {**env, "RUN": script}
    return Command(argv=("/bin/false",), env=told, cwd=workspace, answers=True, warm=prestarted)


def forked(workspace: Path, script: str) -> Command:
    skill = Skill(home=workspace.parent / "skill", workspace=workspace)
    text = "import subprocess, sys\nsys.exit(subprocess.call(['/bin/bash', '-c', sys.argv[1]]))\n"
    return skill.command(skill.write("run", text), script)


WAYS = {"cold": cold, "prestarted": waiting, "preforked": forked}
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def run(engine: Engine, workspace: Path) -> Run:
    async def call(script: str, way: str = "cold", **options: Any) -> Layered:
        command = WAYS[way](workspace, script)
        command = replace(command, limits=Limits(**options.pop("limits", {})))
        command = replace(command, background=options.pop("background", False))
        skill = Skill(home=workspace.parent / "skill", workspace=workspace)
        base = skill.confinement if way == "preforked" else Confinement(workspace=workspace)
        confinement = replace(base, layered=True, **options)
        ended = await engine.run(command, confinement)
        return Layered(ended, command.layers)

    return call


@pytest.mark.promise("layer-1")
@every_way
async def test_what_a_call_writes_goes_to_its_layer_and_the_workspace_stays(
    run: Run, workspace: Path, way: str
) -> None:
    (workspace / "changed").write_text("before")
    (workspace / "deleted").write_text("before")
    (workspace / "folder").mkdir()

    script = "echo -n after > changed; rm deleted; echo -n new > folder/new; cat changed; ls"
    for _ in range(3):  # in a new sandbox, and in one that was used
        ended = await run(script, way)

        assert ended.said == "afterchanged\nfolder\n"
        assert ended.ended.protections["writes"] == "overlay"
        assert ended.changed == {"changed": "after", "deleted": "deleted", "folder/new": "new"}
        assert (workspace / "changed").read_text() == "before"
        assert names_in(workspace) == ["changed", "deleted", "folder"]
        assert not list((workspace / "folder").iterdir())


@every_way
async def test_a_call_that_writes_nothing_has_no_layer(run: Run, way: str) -> None:
    for _ in range(3):
        ended = await run("cat nothing 2>&1; true", way)

        assert (ended.ended.outcome, ended.layers) == ("ok", [])


@pytest.mark.promise("layer-2")
@every_way
async def test_a_call_sees_the_workspace_as_it_is_when_it_starts(
    run: Run, workspace: Path, way: str
) -> None:
    look = "for name in changed replaced removed added; do cat $name 2>&1; done; ls; ls deep; true"
    (workspace / "changed").write_text("1\n")
    (workspace / "replaced").write_text("1\n")
    (workspace / "removed").write_text("1\n")
    (workspace / "deep").mkdir()
    first = await run(look, way)

    (workspace / "changed").write_text("two\n")
    (workspace / "new").write_text("two\n")
    (workspace / "new").rename(workspace / "replaced")
    (workspace / "removed").unlink()
    (workspace / "added").write_text("2\n")
    (workspace / "deep" / "added").write_text("2\n")
    second = await run(look, way)
    (workspace / "added").unlink()
    (workspace / "deep" / "added").unlink()
    (workspace / "deep").rmdir()
    (workspace / "deep").symlink_to("changed")
    third = await run(look, way)

    missing = "cat: {}: No such file or directory\n".format
    assert first.said == f"1\n1\n1\n{missing('added')}changed\ndeep\nremoved\nreplaced\n"
    seen = f"two\ntwo\n{missing('removed')}"
    assert second.said == f"{seen}2\nadded\nchanged\ndeep\nreplaced\nadded\n"
    assert third.said == f"{seen}{missing('added')}changed\ndeep\nreplaced\ndeep\n"
    assert first.layers == second.layers == third.layers == []


@every_way
async def test_a_call_sees_nothing_of_what_the_call_before_it_wrote(run: Run, way: str) -> None:
    wrote = await run("mkdir -p a/b; echo -n x > a/b/c; cat a/b/c", way)

    looked = await run("cat a/b/c 2>/dev/null; ls -A", way)

    assert (wrote.said, looked.said) == ("x", "")


async def test_a_sandbox_serves_the_next_call_though_the_last_one_wrote(run: Run) -> None:
    await run("echo x > a; mkdir b; rm -rf b")
    (first,) = sandboxes()

    await run("echo x > a")

    assert sandboxes() == [first]


async def borrow(engine: Engine, command: Command) -> tuple[Path, Callable[[bool], None]]:
    """Run a command that changes much; return the folder that is lent, and what ends the loan."""
    borrowed = replace(command, layers=CallLayers())
    confinement = Confinement(workspace=command.cwd, layered=True)
    if isinstance(command.warm, PreforkSpec):
        home = command.cwd.parent / "skill"
        skill = Skill(home=home, workspace=command.cwd)
        confinement = replace(skill.confinement, layered=True)
    await engine.run(borrowed, confinement)
    assert isinstance(borrowed.layers, CallLayers)
    ((folder, end_loan),) = borrowed.layers.lent.items()
    assert borrowed.layers == [folder]
    return folder, end_loan


MANY = "for n in {1..30}; do echo $n > made-$n; done; rm old; ls | wc -l"


@pytest.mark.promise("layer-2")
@every_way
async def test_a_sandbox_lends_a_layer_with_much_in_it_and_goes_on_when_it_is_back(
    engine: Engine, run: Run, workspace: Path, tmp_path: Path, way: str
) -> None:
    (workspace / "old").write_text("x")
    for number in range(3):
        folder, end_loan = await borrow(engine, WAYS[way](workspace, MANY))
        assert len(names_in(folder)) == 31
        meanwhile = await run("ls", way)  # in another sandbox, or a later one
        (tmp_path / f"taken-{number}").mkdir()
        for each in list(folder.iterdir()):
            each.rename(tmp_path / f"taken-{number}" / each.name)
        end_loan(True)

        after = await run("ls; echo -n x > one", way)

        assert (meanwhile.said, after.said, after.changed) == ("old\n", "old\n", {"one": "x"})


async def test_a_sandbox_whose_layer_does_not_come_back_ends(
    engine: Engine, run: Run, workspace: Path
) -> None:
    (workspace / "old").write_text("x")
    folder, end_loan = await borrow(engine, cold(workspace, MANY))
    (first,) = sandboxes()

    end_loan(False)
    after = await run("ls")

    assert after.said == "old\n"
    assert first not in sandboxes()
    assert len(names_in(folder)) == 31  # it is still whoever's took it


async def test_a_lent_layer_stays_when_the_engine_ends(workspace: Path) -> None:
    (workspace / "old").write_text("x")
    async with Engine() as engine:
        folder, end_loan = await borrow(engine, cold(workspace, MANY))
    assert len(names_in(folder)) == 31

    end_loan(True)
    await asyncio.sleep(0)

    assert not folder.exists()  # returned to a sandbox that is gone


@pytest.mark.promise("layer-3")
async def test_calls_at_the_same_time_do_not_see_each_other(
    run: Run, workspace: Path, tmp_path: Path
) -> None:
    between = tmp_path / "between"
    between.mkdir()
    os.mkfifo(between / "here")
    os.mkfifo(between / "there")
    # Each waits until the other has written.
    script = f"echo -n {{}} > mine; cd {between}; {{}}; cd {workspace}; ls; cat mine"
    first = script.format("one", "echo > here; read _ < there")
    second = script.format("two", "read _ < here; echo > there")

    one, two = await asyncio.gather(
        run(first, writable=(between,)), run(second, writable=(between,))
    )

    assert (one.said, two.said) == ("mine\none", "mine\ntwo")
    assert (one.changed["mine"], two.changed["mine"]) == ("one", "two")
    assert not (workspace / "mine").exists()


@every_way
async def test_what_a_call_wrote_before_its_time_was_up_is_there(run: Run, way: str) -> None:
    ended = await run("echo -n x > a; sleep 60", way, limits={"timeout_seconds": 1.5})

    assert (ended.ended.outcome, ended.changed) == ("timed_out", {"a": "x"})


async def test_what_a_cancelled_call_wrote_is_there(engine: Engine, workspace: Path) -> None:
    command = cold(workspace, "echo -n x > a; echo written; sleep 60")
    written = asyncio.Event()

    running = asyncio.ensure_future(
        engine.run(
            command, Confinement(workspace=workspace, layered=True), lambda *_: written.set()
        )
    )
    await written.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert [(folder / "a").read_text() for folder in command.layers] == ["x"]


async def test_what_a_call_wrote_is_there_when_its_sandbox_was_killed(
    engine: Engine, workspace: Path
) -> None:
    command = cold(workspace, "echo -n x > a; echo written; sleep 60")
    written = asyncio.Event()

    running = asyncio.ensure_future(
        engine.run(
            command, Confinement(workspace=workspace, layered=True), lambda *_: written.set()
        )
    )
    await written.wait()
    for sandbox in sandboxes():
        os.kill(sandbox, 9)
    ended = await running

    assert ended.outcome == "killed"
    assert [(folder / "a").read_text() for folder in command.layers] == ["x"]


async def test_a_background_command_has_a_layer(run: Run, workspace: Path) -> None:
    ended = await run("echo -n x > a", background=True)

    assert (ended.changed, names_in(workspace)) == ({"a": "x"}, [])


@pytest.mark.promise("layer-4")
@every_way
async def test_read_only_paths_stay_and_the_folders_around_them_are_layered(
    run: Run, workspace: Path, way: str
) -> None:
    hooks = workspace / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "kept").write_text("x")
    inside = {"readable": (hooks,), "writable": (workspace / ".git",)}
    script = """
    echo y > .git/hooks/kept; touch .git/hooks/new; mv .git gone; mv .git/hooks .git/gone
    echo -n z > .git/config; ls -A .git .git/hooks
    """

    for _ in range(2):
        ended = await run(f"({script}) 2>/dev/null", way, **inside)

        assert ended.said == ".git:\nconfig\nhooks\n\n.git/hooks:\nkept\n"
        assert ended.changed == {".git/config": "z"}
    assert [path.name for path in sorted(workspace.rglob("*"))] == [".git", "hooks", "kept"]


async def test_a_changed_root_is_a_change(run: Run, workspace: Path) -> None:
    ended = await run("chmod 700 .")
    after = await run("stat -c %a .")

    (taken,) = ended.layers
    assert stat.S_IMODE(taken.stat().st_mode) == 0o700
    assert after.said == f"{stat.S_IMODE(workspace.stat().st_mode):o}\n" != "700\n"


async def test_the_root_has_the_mode_times_and_attributes_of_the_workspace(
    run: Run, workspace: Path
) -> None:
    os.setxattr(workspace, "user.of", b"workspace")
    script = "stat -c '%a %Y' .; python3 -c 'import os; print(os.getxattr(\".\", \"user.of\"))'"
    for mode, seconds in ((0o755, 5), (0o755, 1_000_000), (0o711, 7)):
        workspace.chmod(mode)
        os.utime(workspace, (seconds, seconds))

        for _ in range(3):
            ended = await run(f"{script}; touch made; rm made")

            assert ended.said == f"{mode:o} {seconds}\nb'workspace'\n"
            assert ended.layers == []


FORGES = """
import os
for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.whiteout"):
    for folder in ("folder", "."):
        try:
            os.setxattr(folder, name, b"y")
        except OSError:
            pass
print(os.listdir("folder"))
"""


@pytest.mark.promise("layer-3")
async def test_a_program_cannot_forge_what_an_overlay_notes(run: Run, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "folder" / "kept").write_text("x")

    forged = await run(f"{shlex.join(['/usr/bin/python3', '-c', FORGES])}; rm -r folder/none")
    after = await run("/usr/bin/python3 -c 'import os; print(os.listxattr(\".\"))'")

    assert (forged.said, after.said) == ("['kept']\n", "[]\n")
    noted = {"user.overlay.opaque", "user.overlay.redirect", "user.overlay.whiteout"}
    for taken in forged.layers:
        assert noted.isdisjoint(os.listxattr(taken / "folder"))


@pytest.mark.promise("layer-3")
@pytest.mark.parametrize("in_user_namespace", [True, False])
async def test_a_forged_note_moves_no_folder(workspace: Path, in_user_namespace: bool) -> None:
    if not in_user_namespace and os.geteuid() != 0:
        pytest.skip("only root has namespaces without a user namespace")
    (workspace / ".git/hooks").mkdir(parents=True)
    forge = "import os; os.mkdir('x'); os.setxattr('x', 'user.overlay.redirect', b'/.git/hooks')"
    command = Command(argv=("/usr/bin/python3", "-c", forge), env={}, cwd=workspace)
    machine = replace(probe(), user_namespace=in_user_namespace)
    since_ns = time.time_ns()

    async with Engine(machine=machine) as engine:
        ended = await engine.run(command, Confinement(workspace=workspace, layered=True))

    assert ended.outcome == "ok"
    (layer,) = command.layers
    found = read_changes(layer, workspace, since_ns)
    assert [(each.change, each.path) for each in found.files] == [("created", "x/")]


async def test_a_taken_layer_has_the_times_of_the_workspace_and_of_its_files(
    run: Run, workspace: Path
) -> None:
    (workspace / "a").write_text("a")
    (workspace / "a").chmod(0o640)
    os.utime(workspace / "a", (5, 6))
    os.utime(workspace, (5, 6))

    ended = await run("chmod 600 a; touch -d @7 b")

    (taken,) = ended.layers
    assert (taken / "a").stat().st_mtime == 6
    assert stat.S_IMODE((taken / "a").stat().st_mode) == 0o600
    assert (taken / "b").stat().st_mtime == 7


async def test_a_read_only_workspace_needs_no_layer(run: Run) -> None:
    ended = await run("touch a; true", workspace_read_only=True)

    assert ended.ended.protections["writes"] == "direct"
    assert (ended.layers, "Read-only" in ended.ended.stderr.text) == ([], True)


async def test_without_confinement_a_call_writes_directly_and_says_so(
    run: Run, workspace: Path
) -> None:
    ended = await run("echo -n x > a", sandbox="off")

    assert (ended.ended.protections["writes"], ended.layers) == ("direct", [])
    assert (workspace / "a").read_text() == "x"


async def test_a_machine_without_overlays_writes_directly_and_says_so(workspace: Path) -> None:
    command = cold(workspace, "echo -n x > a")
    async with Engine(machine=replace(probe(), overlay=False)) as engine:
        ended = await engine.run(command, Confinement(workspace=workspace, layered=True))

    assert (ended.protections["writes"], command.layers) == ("direct", [])
    assert (workspace / "a").read_text() == "x"


async def test_why_a_workspace_can_have_no_layer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    reasons = (("overlay", "not offered by this kernel"),)
    without = replace(probe(), overlay=False, reasons=reasons)
    assert await why_no_layer(workspace) == ""
    assert why_direct(workspace, without, tmp_path).endswith("not offered by this kernel")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "workspace"))
    assert "is inside the workspace" in await why_no_layer(workspace)


async def test_a_long_name_with_colons_is_no_problem(engine: Engine, tmp_path: Path) -> None:
    workspace = tmp_path / "a:b\\c,d" / ("x" * 200) / ("y" * 100)
    workspace.mkdir(parents=True)
    command = cold(workspace, "echo -n x > a; ls")

    ended = await engine.run(command, Confinement(workspace=workspace, layered=True))

    assert (ended.stdout.text, Layered(ended, command.layers).changed) == ("a\n", {"a": "x"})


async def test_layers_are_removed_with_their_sandboxes(workspace: Path) -> None:
    folder = Path(layer_folders().path)
    command = cold(workspace, "echo x > a")
    async with Engine() as engine:
        await engine.run(command, Confinement(workspace=workspace, layered=True))
        assert len([name for name in names_in(folder) if name.isdigit()]) == 1

    left = [name for name in names_in(folder) if name != "lock"]
    assert left == [path.name for path in command.layers]


KILLED = """
import asyncio, os, sys
from pathlib import Path
from skillpouch.execution.layers import layer_folders
Path(layer_folders().path, "kept").write_text("x")
print(layer_folders().path, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["killed", "ended"])
def test_what_a_process_left_is_removed_and_what_a_living_one_has_is_not(end: str) -> None:
    mine = Path(layer_folders().path)
    command = [sys.executable, "-c", KILLED, end]
    left = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    assert Path(left).exists() == (end == "killed")

    again = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    assert left
    assert left != again
    assert not Path(left).exists()
    assert mine.exists()


MOUNTED = """
import asyncio, json, os, sys
from pathlib import Path
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.zygote import kernel
from skillpouch.execution.zygote_client import why_no_layer

top, where = Path(sys.argv[1]), sys.argv[2]
workspace, state = top / "workspace", top / "state"
try:
    kernel.unshare(kernel.NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
except OSError:
    sys.exit("cannot mount")
for name in ("workspace", "state", "lower", "upper", "work"):
    (top / name).mkdir()
if where in ("tmpfs", "state"):
    kernel.mount("tmpfs", str(workspace if where == "tmpfs" else state), "tmpfs", 0)
elif where == "overlay":
    kernel.mount("tmpfs", str(top / "upper"), "tmpfs", 0)
    for name in ("upper", "work"):
        (top / "upper" / name).mkdir()
    folders = f"lowerdir={top}/lower,upperdir={top}/upper/upper,workdir={top}/upper/work"
    kernel.mount("overlay", str(workspace), "overlay", 0, folders)
(workspace / "kept").write_text("before")
(workspace / "inside").mkdir()
if where == "nested":
    kernel.mount("tmpfs", str(workspace / "inside"), "tmpfs", 0)
    (workspace / "inside" / "seen").write_text("seen")

async def calls():
    said = []
    async with Engine() as engine:
        for number in range(2):
            (workspace / "kept").write_text(f"before {number}")
            script = "cat kept; echo -n after > kept; rm -rf inside; ls"
            env = {"PATH": "/usr/bin:/bin"}
            command = Command(argv=("/bin/bash", "-c", script), env=env, cwd=workspace)
            ended = await engine.run(command, Confinement(workspace=workspace, layered=True))
            said.append((ended.stdout.text, ended.protections["writes"], len(command.layers)))
    return said

os.environ["XDG_STATE_HOME"] = str(state)
why = asyncio.run(why_no_layer(workspace))
said = asyncio.run(calls()) if not why else []
print(json.dumps((why, said, (workspace / "kept").read_text(), (workspace / "inside").exists())))
"""


def in_mounts(folder: Path, where: str) -> Any:
    command = [sys.executable, "-c", MOUNTED, str(folder), where]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot mount" in ran.stderr:
        pytest.skip("this machine lets nobody mount")
    return json.loads(ran.stdout)


@pytest.mark.promise("layer-1")
@pytest.mark.parametrize("where", ["tmpfs", "overlay", "state"])
def test_a_workspace_may_be_on_another_file_system_than_its_layers(
    tmp_path: Path, where: str
) -> None:
    why, said, kept, is_inside = in_mounts(tmp_path, where)

    assert why == ""
    assert said == [["before 0kept\n", "overlay", 1], ["before 1kept\n", "overlay", 1]]
    assert (kept, is_inside) == ("before 1", True)


def test_a_workspace_with_other_file_systems_inside_has_no_layer(tmp_path: Path) -> None:
    why, said, _, _ = in_mounts(tmp_path, "nested")

    inside = tmp_path / "workspace" / "inside"
    assert why == f"another file system is mounted inside the workspace, at {inside}"
    assert said == []


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node")
async def test_a_waiting_node_sees_the_workspace_as_it_is_when_its_call_starts(
    tmp_path: Path, workspace: Path
) -> None:
    scripts = tmp_path / "skills" / "demo" / "scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\n")
    look = "const fs = require('fs'); console.log(fs.readdirSync('.').join(), fs.existsSync('a'),"
    look += " fs.readFileSync('kept', 'utf8')); fs.writeFileSync('kept', 'after');"
    (scripts / "look.js").write_text(look)
    manager = SkillManager(tmp_path / "skills", workspace=workspace)

    seen = []
    for number in range(6):
        (workspace / "kept").write_text(str(number))
        if number % 2:
            (workspace / "a").write_text("a")
        else:
            (workspace / "a").unlink(missing_ok=True)
        result = await manager.acall("demo.look", writes="staged")
        await manager.adiscard(result)
        seen.append(result.stdout)

    assert seen == [
        f"{'a,' if number % 2 else ''}kept {'true' if number % 2 else 'false'} {number}\n"
        for number in range(6)
    ]
    assert (workspace / "kept").read_text() == "5"


async def test_the_sandbox_of_a_call_that_wrote_much_serves_the_next_one(
    tmp_path: Path, workspace: Path
) -> None:
    scripts = tmp_path / "skills" / "demo" / "scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\n")
    (scripts / "many.sh").write_text(f"# Write many files.\n{MANY}; echo $1 > made-1\n")
    (workspace / "old").write_text("old")
    manager = SkillManager(tmp_path / "skills", workspace=workspace)

    first = await manager.acall("demo.many", "one")
    served = sandboxes()
    (workspace / "old").write_text("old")
    second = await manager.acall("demo.many", "two")

    assert (first.stdout, second.stdout) == ("30\n", "30\n")
    assert sandboxes() == served
    assert [each.path for each in second.changes] == sorted(["made-1", "old"])
    assert (workspace / "made-1").read_text() == "two\n"
    assert (await manager.aundo(second)).conflicts == ()
    assert (workspace / "made-1").read_text() == "one\n"
    assert (workspace / "old").read_text() == "old"
