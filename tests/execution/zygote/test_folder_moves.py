"""A folder of the workspace is renamed in a layer as it is without one."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skillpouch
from skillpouch.execution.command import Ended
from skillpouch.execution.engine import Engine
from skillpouch.execution.zygote_client import probe
from tests.execution.warm_calls import Skill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not probe().overlay, reason="overlayfs cannot be mounted here"),
]
PATHS = [pytest.param(False, id="cold"), pytest.param(True, id="warm")]


@pytest.fixture(params=PATHS)
def warm(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Calls:
    """Runs Python in a layer over the workspace, and in the workspace itself."""

    def __init__(self, engine: Engine, skill: Skill, warm: bool) -> None:
        self._engine = engine
        self._skill = skill
        self._warm = warm

    async def __call__(self, text: str, *, layered: bool = True, **options: Any) -> Ended:
        script = self._skill.write("call", text)
        command = self._skill.command(script, warm=self._warm, **options)
        return await self._engine.run(command, replace(self._skill.confinement, layered=layered))


@pytest.fixture
def calls(engine: Engine, skill: Skill, warm: bool) -> Calls:
    return Calls(engine, skill, warm)


@pytest.fixture
def folder(skill: Skill) -> Path:
    """A folder with files, a link, an inner folder of a strange mode, and its times."""
    top = skill.confinement.workspace / "old"
    inner = top / "inner"
    inner.mkdir(parents=True)
    (top / "file").write_text("text")
    (inner / "deep").write_bytes(b"\0" * 10_000)
    (top / "link").symlink_to("file")
    os.setxattr(inner, "user.word", b"kept")
    inner.chmod(0o555)
    os.utime(inner, ns=(10**18, 10**18))
    return top


SHOW = """
import os
def show(top):
    for folder, names, files in sorted(os.walk(top)):
        for name in ("", *sorted(names + files)):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            text = os.readlink(path) if os.path.islink(path) else ""
            words = os.listxattr(path, follow_symlinks=False)
            print(os.path.relpath(path, top), oct(about.st_mode), about.st_mtime_ns, text, words)
"""


@pytest.mark.parametrize(
    "rename",
    [
        "os.rename('old', 'new')",
        "os.rename(os.path.abspath('old') + '/', os.path.abspath('new'))",
        "here = os.open('.', 0); os.rename('old', 'new', src_dir_fd=here, dst_dir_fd=here)",
        "os.mkdir('new'); os.rename('old', 'new')",
        "os.mkdir('b'); os.chdir('b'); os.rename('../old', '../new'); os.chdir('..')",
        "os.system('mv old new')",
        "os.mkdir('b'); os.rename('old', 'b/old'); os.rename('b/old', 'new')",
    ],
)
async def test_a_renamed_folder_is_the_same_folder(calls: Calls, folder: Path, rename: str) -> None:
    before = {path: path.lstat().st_mtime_ns for path in (folder / "inner", folder / "file")}

    ran = await calls(f"{SHOW}\n{rename}\nshow('new'); print(os.path.lexists('old'))")

    assert ran.stderr.text == ""
    lines = ran.stdout.text.splitlines()
    assert lines[-1] == "False"
    assert f"inner 0o40555 {before[folder / 'inner']}  ['user.word']" in lines
    assert f"file 0o100644 {before[folder / 'file']}  []" in lines
    assert any(line.startswith("link 0o120777") and " file []" in line for line in lines)
    assert (folder / "file").read_text() == "text"  # nothing has reached the workspace


ERRORS = [
    ("os.rename('old', 'full')", errno.ENOTEMPTY),
    ("os.rename('old', 'old/inner/x')", errno.EINVAL),
    ("os.rename('old', 'plain')", errno.ENOTDIR),
    ("os.rename('plain', 'old')", errno.EISDIR),
    ("os.rename('old/inner', 'new')", errno.EACCES),  # its owner may not write it
    ("os.rename('missing', 'new')", errno.ENOENT),
    ("os.rename('old', 'missing/new')", errno.ENOENT),
    ("os.rename('old', '/tmp/new')", errno.EXDEV),
    ("os.rename('old', 'x' * 300)", errno.ENAMETOOLONG),
]


@pytest.mark.parametrize(("rename", "code"), ERRORS)
async def test_what_cannot_be_renamed_fails_as_without_a_layer(
    calls: Calls, folder: Path, rename: str, code: int
) -> None:
    (folder.parent / "full" / "x").mkdir(parents=True)
    (folder.parent / "plain").write_text("")
    text = (
        f"{SHOW}\ntry:\n    {rename}\nexcept OSError as error:\n    print(error.errno)\nshow('.')"
    )

    layered = await calls(text)
    direct = await calls(text, layered=False)

    assert layered.stdout.text.splitlines()[0] == str(code)
    assert layered.stdout.text == direct.stdout.text


async def test_many_threads_rename_many_folders(calls: Calls, folder: Path) -> None:
    for number in range(40):
        (folder.parent / f"f{number}" / "inner").mkdir(parents=True)
        (folder.parent / f"f{number}" / "inner" / "x").write_text(str(number))
    text = """
import os
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    list(pool.map(lambda n: os.rename(f"f{n}", f"g{n}"), range(40)))
print([open(f"g{n}/inner/x").read() for n in range(40)] == [str(n) for n in range(40)])
print([name for name in os.listdir(".") if name.startswith("f")])
"""

    ran = await calls(text)

    assert (ran.stdout.text, ran.stderr.text) == ("True\n[]\n", "")


@pytest.mark.usefixtures("folder")
async def test_git_moves_a_folder(calls: Calls) -> None:
    text = """
import subprocess
run = lambda *words: subprocess.run(("git", "-c", "user.name=n", "-c", "user.email=e", *words),
                                    check=True, capture_output=True, text=True).stdout
run("init", "-q", "."); run("add", "."); run("commit", "-qm", "one"); run("mv", "old", "new")
print(run("status", "--short"))
"""

    ran = await calls(text)

    assert ran.stderr.text == ""
    assert "R  old/file -> new/file" in ran.stdout.text


async def test_a_call_that_is_ended_while_a_folder_moves_leaves_the_workspace_alone(
    calls: Calls, folder: Path
) -> None:
    for number in range(2_000):
        (folder / f"file{number}").write_text("x")
    text = "import os\nwhile True:\n    os.rename('old', 'new'); os.rename('new', 'old')\n"

    ran = await calls(text, limits={"timeout_seconds": 1.0})

    assert ran.outcome == "timed_out"
    assert ran.signal in (signal.SIGTERM, signal.SIGKILL, None)
    assert len(list(folder.iterdir())) == 2_003
    again = await calls("import os; print(sorted(os.listdir()))")
    assert again.stdout.text == "['old']\n"


# Renames folders in a layer, applies that, and undoes it: all as an ordinary user.
AS_NOBODY = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.chdir(sys.argv[1])
os.environ.update(HOME=os.getcwd(), XDG_STATE_HOME=os.getcwd() + "/state")
from skillpouch import SkillManager
os.makedirs("work/old/inner"); open("work/old/inner/file", "w").write("text")
os.chmod("work/old/inner", 0o555)
def tree(top="work"):
    return sorted((os.path.relpath(folder, top), oct(os.stat(folder).st_mode), *sorted(files))
                  for folder, _, files in os.walk(top))
before = tree()
manager = SkillManager(workspace="work", builtins=True, cache=False)
code = "import os; os.rename('old', 'new'); os.mkdir('b'); os.rename('new', 'b/new')"
line = f'python3 -c "{code}"; ls b/new/inner'
result = manager.call("bash", {"command": line})
print(result.outcome, result.stdout.split(), result.writes, result.stderr)
print(tree() != before, sorted({each.change for each in result.changes}))
undone = manager.undo()
print(undone.outcome, undone.conflicts, tree() == before)
"""


def test_an_ordinary_user_renames_folders_applies_and_undoes_that(tmp_path: Path) -> None:
    program = shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""
    library = [path for path in sys.path if path.endswith("site-packages")]
    source = str(Path(skillpouch.__file__).parent.parent)
    if os.geteuid() != 0:
        pytest.skip("all of these tests run as an ordinary user here")
    if subprocess.run([program or "false", "-c", OLD_PYTHON], check=False).returncode:
        pytest.skip("needs a Python that an ordinary user can run")
    for folder in tmp_path.parents[:3]:
        folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)

    ran = subprocess.run(
        [program, "-c", AS_NOBODY, str(tmp_path)],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join([source, *library])},
        capture_output=True,
        check=False,
        text=True,
    )

    assert ran.stdout.splitlines() == [
        "ok ['file'] undoable ",
        "True ['renamed']",
        "ok () True",
    ], ran.stderr


OLD_PYTHON = """
import os, sys
os.setuid(65534)
sys.exit(sys.version_info < (3, 11) or not os.access(sys.executable, os.X_OK))
"""
