"""A skill's digest: the same for the same files, another after any change at all."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.discovery.digest import DigestEntry, digest_of, manifest_of
from skillpouch.discovery.index import is_settled
from skillpouch.errors import SkillUnreadableError
from skillpouch.untrusted_files import stamp_of

WriteSkill = Callable[..., Path]
Change = Callable[[Path], object]

FILES = {"scripts/run.py": "print(1)\n", "data/a.txt": "a", "data/b.txt": "b"}


def digest(home: Path) -> str:
    return SkillManager(home.parent, cache=False).get_skill("demo").digest


def test_a_copy_elsewhere_has_the_same_digest(write_skill: WriteSkill, tmp_path: Path) -> None:
    home = write_skill(files=FILES)
    copy = tmp_path / "elsewhere" / "demo"
    shutil.copytree(home, copy)

    assert digest(copy) == digest(home)
    assert len(digest(home)) == 64


def test_a_new_date_is_no_change(write_skill: WriteSkill) -> None:
    home = write_skill(files=FILES)
    before = digest(home)
    os.utime(home / "scripts/run.py", (1, 1))

    assert digest(home) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda home: (home / "scripts/run.py").write_text("print(2)\n"),
        lambda home: (home / "SKILL.md").write_bytes(
            (home / "SKILL.md").read_bytes().replace(b"\n", b"\r\n")
        ),
        lambda home: (home / "data/a.txt").rename(home / "data/c.txt"),
        lambda home: (home / "data/a.txt").write_text(""),
        lambda home: (home / "data/a.txt").unlink(),
        lambda home: (home / "data/new").write_text(""),
        lambda home: (home / "empty").mkdir(),
        lambda home: (home / "scripts/run.py").chmod(0o755),
        lambda home: (home / "data/link").symlink_to("a.txt"),
        lambda home: (home / ".hidden").write_text("x"),
        lambda home: (home / "data").rename(home / "Data"),
        lambda home: os.mkfifo(home / "pipe"),
        lambda home: (home / "data").chmod(0o700),
        lambda home: (home / "scripts/run.py").chmod(0o4755),
        lambda home: home.chmod(0o711),
        lambda home: (home / ".git").mkdir(),
        lambda home: (home / "scripts/__pycache__").mkdir(),
        lambda home: (home / "node_modules").symlink_to("/usr"),
    ],
)
def test_any_change_gives_another_digest(write_skill: WriteSkill, change: Change) -> None:
    home = write_skill(files=FILES)
    before = digest(home)

    change(home)

    assert digest(home) != before


@pytest.mark.parametrize("wait", [False, True])
def test_what_is_remembered_is_never_older_than_the_files(
    write_skill: WriteSkill, wait: bool
) -> None:
    home = write_skill(files=FILES)
    file = home / "data/a.txt"
    seen = []
    for letter in "abcab":  # the same size, within one tick of the clock or after it
        file.write_text(letter)
        if wait:
            until_settled(file)
        seen += [digest_of(home), digest_of(home)]

    a, b, c = seen[0], seen[2], seen[4]
    assert seen == [a, a, b, b, c, c, a, a, b, b]
    assert len({a, b, c}) == 3


def until_settled(file: Path) -> None:
    while not is_settled(stamp_of(file.stat())):
        time.sleep(0.01)


def test_a_folder_put_in_the_place_of_another_is_not_taken_for_it(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill(files=FILES)
    until_settled(home)
    before = digest_of(home)
    other = write_skill(files=FILES | {"data/a.txt": "x"}, root="other")
    home.rename(tmp_path / "aside")
    other.rename(home)

    assert digest_of(home) != before


def test_the_manifest_says_what_each_path_is(write_skill: WriteSkill) -> None:
    home = write_skill(files={"run.sh": "echo\n"})
    (home / "run.sh").chmod(0o755)
    (home / "link").symlink_to("run.sh")
    (home / "empty").mkdir(mode=0o700)

    manifest = dict(manifest_of(home))

    assert manifest.pop(".").kind == "folder"
    assert manifest.pop("SKILL.md").kind == "file"
    assert manifest == {
        "run.sh": DigestEntry("file", 0o755, sha256(b"echo\n").hexdigest()),
        "link": DigestEntry("link", 0o777, "run.sh"),
        "empty": DigestEntry("folder", 0o700),
    }


def test_a_folder_without_end_is_an_error(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_skill(files=FILES)
    with (home / "huge").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    monkeypatch.setattr("skillpouch.discovery.digest._MOST_BYTES", 16 * 1024 * 1024)

    with pytest.raises(SkillUnreadableError, match="more than 16,777,216 bytes"):
        digest_of(home)

    (home / "huge").unlink()
    monkeypatch.setattr("skillpouch.discovery.digest._MOST_ENTRIES", 3)
    with pytest.raises(SkillUnreadableError, match="more than 3 files"):
        digest_of(home)


def test_two_files_that_swap_their_contents_are_a_change(write_skill: WriteSkill) -> None:
    home = write_skill(files=FILES)
    before = digest(home)
    (home / "data/a.txt").write_text("b")
    (home / "data/b.txt").write_text("a")

    assert digest(home) != before


def test_a_link_that_leads_elsewhere_is_a_change(write_skill: WriteSkill) -> None:
    home = write_skill(files=FILES)
    (home / "link").symlink_to("data/a.txt")
    before = digest(home)
    (home / "link").unlink()
    (home / "link").symlink_to("data/b.txt")

    assert digest(home) != before


def test_line_ends_in_names_and_links_cannot_make_two_folders_look_alike(
    write_skill: WriteSkill,
) -> None:
    one, other = (write_skill(root=root) for root in ("one", "other"))
    (one / "a").symlink_to("X")
    (one / "y\nb").mkdir()
    (other / "a").symlink_to("X\ny")
    (other / "b").mkdir()

    assert digest(one) != digest(other)


def test_what_a_linked_skill_file_says_is_part_of_the_digest(tmp_path: Path) -> None:
    page = tmp_path / "shared.md"
    page.write_text("---\nname: demo\ndescription: One.\n---\nHarmless.\n")
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/SKILL.md").symlink_to("../shared.md")
    before = digest(tmp_path / "demo")

    page.write_text("---\nname: demo\ndescription: One.\n---\nHarmful.\n")

    assert digest(tmp_path / "demo") != before


def test_a_pipe_or_a_socket_in_the_folder_is_not_waited_for(write_skill: WriteSkill) -> None:
    home = write_skill(files=FILES)
    os.mkfifo(home / "scripts/pipe.py")

    assert len(digest(home)) == 64


def test_a_link_to_a_folder_above_does_not_loop(write_skill: WriteSkill) -> None:
    home = write_skill(files=FILES)
    (home / "data/up").symlink_to("..")

    assert len(digest(home)) == 64


def test_the_digest_of_a_skill_that_is_kept_stays_what_it_was(write_skill: WriteSkill) -> None:
    home = write_skill(files=FILES)
    skill = SkillManager(home.parent).load_skill("demo")
    before = skill.digest
    (home / "data/a.txt").write_text("changed")

    assert skill.digest == before


def test_a_new_discovery_sees_the_new_digest(write_skill: WriteSkill) -> None:
    home = write_skill(files=FILES)
    manager = SkillManager(home.parent)
    before = manager.get_skill("demo").digest
    (home / "data/a.txt").write_text("z")

    manager.discover()

    assert manager.get_skill("demo").digest != before


AS_NOBODY = """
import json, os, sys
import skillpouch.declarations.skill_md, skillpouch.discovery.digest  # later out of sight
from skillpouch import SkillpouchError, SkillManager
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    answer = SkillManager(sys.argv[1], cache=False).get_skill("demo").digest
except SkillpouchError as error:
    answer = error.code
print(json.dumps(answer))
"""


@pytest.mark.parametrize("closed", ["secret.txt", "folder"])
def test_what_cannot_be_read_is_an_error_of_skillpouch_and_no_digest(closed: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "demo"
        (home / "folder").mkdir(parents=True)
        (home / "SKILL.md").write_text("---\nname: demo\ndescription: Does it.\n---\n")
        (home / "secret.txt").write_text("secret")
        Path(name).chmod(0o755)
        (home / closed).chmod(0)

        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, name], capture_output=True, check=False, text=True
        )
        (home / closed).chmod(0o755)

        assert (done.stderr, json.loads(done.stdout)) == ("", "skill_unreadable")
