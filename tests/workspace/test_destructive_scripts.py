"""Thirty scripts that destroy a workspace: after each, `undo` gives back exactly what was there."""

import os
import socket
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

# What every script has at hand. It never leaves the workspace, which is its current folder.
HEAD = """
import os, random, shutil, stat, subprocess, sys
from pathlib import Path

def files():
    found = [p for p in sorted(Path(".").rglob("*")) if ".git" not in p.parts
             and stat.S_ISREG(p.lstat().st_mode)]
    for p in found:
        if not p.stat().st_mode & stat.S_IWUSR: p.chmod(p.stat().st_mode | stat.S_IWUSR)
    return found

def git(*words):
    given = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@y", "GIT_COMMITTER_NAME": "x",
             "GIT_COMMITTER_EMAIL": "x@y", "HOME": "/tmp", "PATH": os.environ["PATH"]}
    subprocess.run(["git", "-c", "safe.directory=*", *words], check=True, env=given,
                   stdout=subprocess.DEVNULL)

"""

SCRIPTS = {
    "delete_all_files": "for p in files(): p.unlink()",
    "delete_recursively": """
for p in list(Path(".").iterdir()):
    if p.name != ".git":
        shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()
""",
    "encrypt_in_place": """
for p in files():
    data = p.read_bytes()
    mode = stat.S_IMODE(p.stat().st_mode)
    p.chmod(0o600)
    with open(p, "r+b") as f:
        f.write(bytes(b ^ 0x5A for b in data))
    p.chmod(mode)
""",
    "encrypt_to_a_new_name": """
for p in files():
    Path(f"{os.fspath(p)}.locked").write_bytes(bytes(b ^ 0x5A for b in p.read_bytes()))
    p.unlink()
Path("READ_ME_TO_PAY.txt").write_text("pay")
""",
    "truncate": "for p in files(): os.truncate(p, 0)",
    "truncate_by_half": "for p in files(): os.truncate(p, p.stat().st_size // 2)",
    "overwrite_with_zeros": """
for p in files():
    with open(p, "r+b") as f:
        f.write(bytes(p.stat().st_size))
""",
    "overwrite_with_random": """
for p in files():
    p.write_bytes(os.urandom(p.stat().st_size + 7))
""",
    "rewrite_history": """
git("checkout", "-q", "--orphan", "other")
git("commit", "-q", "--allow-empty", "-m", "nothing ever happened")
git("branch", "-D", "main")
git("reflog", "expire", "--expire=now", "--all")
git("gc", "-q", "--prune=now")
""",
    "reset_hard": """
git("reset", "-q", "--hard", "HEAD~1")
git("clean", "-qfdx")
""",
    "remove_git": """
for p in sorted(Path(".git").rglob("*"), reverse=True):
    try:
        p.rmdir() if p.is_dir() and not p.is_symlink() else p.unlink()
    except OSError:
        pass  # hooks and config are read-only for tools
""",
    "add_a_remote": """
Path(".git/remotes").mkdir()
Path(".git/remotes/origin").write_text("URL: https://evil.invalid/x.git\\n")
""",
    "swap_two_files": """
os.rename("docs/a.txt", "t"); os.rename("docs/b.txt", "docs/a.txt"); os.rename("t", "docs/b.txt")
""",
    "swap_two_folders": """
os.rename("docs", "t"); os.rename("data", "docs"); os.rename("t", "data")
""",
    "swap_two_folders_by_copying": """
shutil.copytree("docs", "t", symlinks=True); shutil.rmtree("docs")
shutil.copytree("data", "docs", symlinks=True); shutil.rmtree("data")
shutil.move("t", "data")
""",
    "rename_everything": """
for n, p in enumerate(files()):
    p.rename(p.with_name(f"{n:04}"))
""",
    "chmod_everything": """
for p in files(): p.chmod(0o777)
Path("docs").chmod(0o700)
""",
    "clear_executable_bits": """
for p in files(): p.chmod(p.stat().st_mode & 0o666)
""",
    "take_all_permissions": "for p in files(): p.chmod(0)",
    "replace_files_by_links": """
for p in files():
    p.unlink(); p.symlink_to("/etc/passwd")
""",
    "replace_a_folder_by_a_link": """
shutil.rmtree("docs"); os.symlink("data", "docs")
os.unlink("docs/blob.bin")
""",
    "link_files_together": """
# All names become one file, which is then written through the last of them.
found = files()
for p in found[1:]:
    p.unlink(); os.link(found[0], p)
with open(found[-1], "r+b") as f: f.write(b"one for all")
""",
    "write_through_a_hard_link": """
os.link("docs/a.txt", "other-name")
with open("other-name", "r+b") as f: f.write(b"ruined")
os.unlink("other-name")
with open("data/twin-1", "r+b") as f: f.write(b"ruined")
""",
    "change_times": """
for p in files(): os.utime(p, ns=(1, 1))
os.utime("docs", ns=(1, 1)); os.utime("links/dangling", ns=(1, 1), follow_symlinks=False)
""",
    "change_attributes": """
for p in files():
    os.setxattr(p, "user.owner", b"nobody"); os.setxattr(p, "user.new", b"x" * 100)
if "user.kind" in os.listxattr("docs"): os.removexattr("docs", "user.kind")
""",
    "fill_the_disk": """
os.makedirs("full")
block = os.urandom(1024 * 1024)
for n in range(24): Path(f"full/{n}").write_bytes(block)
Path("docs/a.txt").write_bytes(block)
""",
    "sparse_bomb": """
for name in ("bomb", "docs/a.txt", "data/blob.bin"):
    with open(name, "ab") as f: f.truncate(128 * 1024 * 1024)
""",
    "many_tiny_files": """
for d in range(30):
    os.makedirs(f"docs/many/{d}")
    for n in range(100): Path(f"docs/many/{d}/{n}").write_text("x")
""",
    "names_that_are_no_text": r"""
for name in (b"\xff\xfe", b"new\nline", b"tab\t", b"-rf", b" ", b"\x1b[31m", "\u202ebidi".encode()):
    os.mkdir(b"docs/" + name)
    with open(b"docs/" + name + b"/" + name, "wb") as f: f.write(name)
for p in os.listdir(b"odd"):
    if os.path.isfile(b"odd/" + p): os.rename(b"odd/" + p, b"odd/renamed" + p)
""",
    "nest_deeply": """
here = os.open(".", os.O_RDONLY)
for n in range(300):
    os.mkdir("deep", dir_fd=here)
    below = os.open("deep", os.O_RDONLY, dir_fd=here); os.close(here); here = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
for p in files():
    if p.parts[0] == "nested": p.unlink()
""",
    "move_into_a_new_folder": """
os.makedirs("loot/inner")
for n, p in enumerate(files()):
    if p.parts[0] != "loot": shutil.move(p, f"loot/inner/{n}")
for d in ("docs", "data"): shutil.rmtree(d)
""",
    "append_to_everything": """
for p in files():
    with open(p, "ab") as f: f.write(b"\\n<script>evil()</script>")
""",
    "alter_documents": """
for p in files():
    if p.suffix in (".txt", ".md", ".csv"):
        p.write_bytes(p.read_bytes().replace(b"1", b"7").replace(b"pay", b"owe"))
""",
    "replace_a_folder_by_a_file": """
shutil.rmtree("docs"); Path("docs").write_text("gone")
shutil.rmtree("nested"); Path("nested").write_text("gone")
""",
    "replace_a_file_by_a_folder": """
for p in ("docs/a.txt", "data/blob.bin", "run.sh"):
    os.unlink(p); os.makedirs(f"{p}/x/y"); Path(f"{p}/x/y/z").write_text("z")
""",
    "special_files": """
os.unlink("docs/a.txt"); os.mkfifo("docs/a.txt"); os.mkfifo("docs/pipe")
os.unlink("fifo"); Path("fifo").write_text("a file now")
""",
    "everything_at_once": """
random.seed(7)
found = files()
random.shuffle(found)
for n, p in enumerate(found):
    match n % 7:
        case 0: p.unlink()
        case 1: p.write_bytes(b"x" * n)
        case 2: p.rename(p.with_name(p.name + ".moved"))
        case 3: p.chmod(0o111)
        case 4: p.unlink(); p.symlink_to("/dev/null")
        case 5: p.unlink(); p.mkdir(); (p / "in").write_text("in")
        case _: os.utime(p, (5, 5))
shutil.rmtree("links"); Path("links").write_text("x")
os.rmdir("empty"); os.mkdir("empty"); Path("empty/no-more").write_text("x")
""",
}
QUICK = ("delete_recursively", "encrypt_to_a_new_name", "rewrite_history", "move_into_a_new_folder")


def scripts(quick: Sequence[str]) -> list[Any]:
    """Return the names of all scripts; those that are not quick are marked."""
    marks = {name: [] if name in quick else [pytest.mark.exhaustive] for name in SCRIPTS}
    return [pytest.param(name, marks=marks[name]) for name in SCRIPTS]


@dataclass(frozen=True)
class Found:
    """All that one entry of a tree is, apart from when its inode was changed or read."""

    kind: int
    mode: int
    owner: tuple[int, int]
    size: int
    mtime_ns: int
    target: str
    attributes: tuple[tuple[str, bytes], ...]
    sha256: str
    names: tuple[bytes, ...]  # of the same file, inside the tree


def tree(root: Path) -> dict[bytes, Found]:
    """Return everything that can be seen of a tree, by its path below the root."""
    top = os.fsencode(root)
    paths = [top]
    for folder, folders, others in os.walk(top):
        paths += [folder + b"/" + name for name in (*folders, *others)]
    names: dict[tuple[int, int], list[bytes]] = {}
    for path in paths:
        status = os.lstat(path)
        names.setdefault((status.st_dev, status.st_ino), []).append(os.path.relpath(path, top))
    return {os.path.relpath(path, top): found(path, names) for path in sorted(paths)}


def found(path: bytes, names: dict[tuple[int, int], list[bytes]]) -> Found:
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    is_file = kind == stat.S_IFREG
    return Found(
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        owner=(status.st_uid, status.st_gid),
        size=status.st_size if is_file else 0,
        mtime_ns=status.st_mtime_ns,
        target=str(Path(os.fsdecode(path)).readlink()) if kind == stat.S_IFLNK else "",
        attributes=attributes_of(path),
        sha256=hash_of(path) if is_file else "",
        names=tuple(sorted(names[status.st_dev, status.st_ino])),
    )


# PermissionError: a script took all permissions away, and the tests do not run as root.


def attributes_of(path: bytes) -> tuple[tuple[str, bytes], ...]:
    names = sorted(os.listxattr(path, follow_symlinks=False))
    try:
        return tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in names)
    except PermissionError:
        return tuple((name, b"") for name in names)


def hash_of(path: bytes) -> str:
    try:
        return sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest()
    except PermissionError:
        return ""


def git(folder: Path, *words: str) -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c", "HOME": str(folder)}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c", "PATH": os.environ["PATH"]}
    subprocess.run(["git", *words], cwd=folder, check=True, env=who, stdout=subprocess.DEVNULL)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with some of everything that a filesystem holds."""
    root = tmp_path / "workspace"
    for folder in ("docs/inner", "data", "links", "empty", "odd", "nested/a/b/c"):
        (root / folder).mkdir(parents=True)
    write_files(root)
    write_special_files(root)
    make_repository(root)
    os.setxattr(root / "docs/a.txt", "user.owner", b"Ada")
    os.setxattr(root / "docs", "user.kind", b"documents")
    for number, path in enumerate(sorted(root.rglob("*"))):
        os.utime(path, ns=(10**18, 10**18 + number * 1_000_000_007), follow_symlinks=False)
    os.utime(root, ns=(10**18, 10**18 - 123_456_789))
    return root


def write_files(root: Path) -> None:
    for number in range(12):
        (root / f"docs/{number}.md").write_text(f"# Page {number}\n\npay 1{number} each\n" * 20)
    (root / "docs/a.txt").write_text("the first text 1\n")
    (root / "docs/b.txt").write_text("the second text 2\n")
    (root / "docs/inner/table.csv").write_text("name,amount\nAda,100\n")
    (root / "nested/a/b/c/leaf.txt").write_text("leaf")
    (root / "data/blob.bin").write_bytes(bytes(range(256)) * 300)
    (root / "data/nothing").write_bytes(b"")
    (root / "data/twin-1").write_text("one file with two names")
    (root / "data/twin-2").hardlink_to(root / "data/twin-1")
    with (root / "data/sparse").open("wb") as file:
        file.seek(3_000_000)
        file.write(b"end")
    (root / "run.sh").write_text("#!/bin/sh\necho run\n")
    (root / "run.sh").chmod(0o755)
    (root / "docs/b.txt").chmod(0o440)


def write_special_files(root: Path) -> None:
    (root / "links/relative").symlink_to("../docs/a.txt")
    (root / "links/folder").symlink_to("../docs")
    (root / "links/dangling").symlink_to("nowhere/at all")
    for name in (b"\xff\xfe", b"new\nline", b"quo'te\"", "é".encode()):
        Path(os.fsdecode(os.fsencode(root / "odd") + b"/" + name)).write_bytes(name)
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(root, os.O_RDONLY)  # the whole path may be too long for an address
        listener.bind(f"/proc/self/fd/{folder}/socket")
        os.close(folder)


def make_repository(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "docs", "run.sh")
    git(root, "commit", "-q", "-m", "first")
    (root / "docs/a.txt").write_text("the first text 11\n")
    git(root, "commit", "-q", "-a", "-m", "second")


@pytest.mark.promise("undo-1")
@pytest.mark.parametrize("name", scripts(QUICK))
def test_undo_restores_all_that_a_destructive_script_changed(
    name: str, workspace: Path, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("wreck", files={f"scripts/{name}.py": HEAD + SCRIPTS[name]})
    manager = SkillManager(
        tmp_path / "skills", workspace=workspace, approver=lambda _question: True
    )
    before = tree(workspace)

    result = manager.call(f"wreck.{name}")

    assert (result.outcome, result.writes) == ("ok", "undoable"), result.stderr
    wrecked = tree(workspace)
    assert wrecked != before
    undone = manager.undo(result)
    assert (undone.outcome, undone.conflicts) == ("ok", ()), undone.content
    assert differences(before, tree(workspace)) == ""


@pytest.mark.promise("undo-2")
@pytest.mark.parametrize("name", ["encrypt_to_a_new_name", *scripts(())[-1:]])
def test_an_undo_can_be_undone(
    name: str, workspace: Path, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("wreck", files={f"scripts/{name}.py": HEAD + SCRIPTS[name]})
    manager = SkillManager(
        tmp_path / "skills", workspace=workspace, approver=lambda _question: True
    )
    manager.call(f"wreck.{name}")
    wrecked = tree(workspace)
    undone = manager.undo()

    redone = manager.undo(undone)

    assert (redone.outcome, redone.conflicts) == ("ok", ()), redone.content
    assert differences(wrecked, tree(workspace)) == ""


@pytest.mark.promise("undo-3")
@pytest.mark.parametrize("name", scripts(QUICK[:2]))
def test_a_staged_call_changes_nothing_until_it_is_applied(
    name: str, workspace: Path, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("wreck", files={f"scripts/{name}.py": HEAD + SCRIPTS[name]})
    manager = SkillManager(
        tmp_path / "skills", workspace=workspace, approver=lambda _question: True
    )
    before = tree(workspace)

    result = manager.call(f"wreck.{name}", writes="staged")

    assert (result.outcome, result.writes) == ("ok", "staged"), result.stderr
    assert differences(before, tree(workspace)) == ""
    applied = manager.apply(result)
    assert (applied.outcome, applied.conflicts) == ("ok", ()), applied.content
    assert tree(workspace) != before
    manager.undo(result)
    assert differences(before, tree(workspace)) == ""


def differences(one: dict[bytes, Found], other: dict[bytes, Found]) -> str:
    """Return what is not the same in both, a line each."""
    lines = []
    for path in sorted(one.keys() | other.keys()):
        was, now = one.get(path), other.get(path)
        if was is None or now is None:
            lines.append(f"{path!r} is {'new' if was is None else 'gone'}")
            continue
        for field in fields(was):
            pair = getattr(was, field.name), getattr(now, field.name)
            if pair[0] != pair[1]:
                lines.append(f"{path!r}: {field.name} was {pair[0]!r}, is {pair[1]!r}")
    return "\n".join(lines)
