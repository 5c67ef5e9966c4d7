"""The folder of grants: private, whole after a crash, right with several writers."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillpouch.needs import Need
from skillpouch.trust.errors import GrantStoreError
from skillpouch.trust.grant import Grant, read_grant, write_grant
from skillpouch.trust.grants import Grants
from tests.trust.conftest import HOST, SECRET, MakeSkill

without_deadline = settings(deadline=None)


def record_of(folder: Path) -> Path:
    (record,) = [each for each in folder.iterdir() if each.suffix == ".json"]
    return record


def test_only_the_user_can_read_what_is_kept(
    make_skill: MakeSkill, grants: Grants, folder: Path
) -> None:
    grants.grant(make_skill(), [SECRET])

    modes = [path.stat().st_mode & 0o777 for path in (folder.parent, folder, record_of(folder))]

    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.promise("grant-6")
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_record_that_others_may_write_is_refused(
    make_skill: MakeSkill, grants: Grants, folder: Path, mode: int
) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])
    record_of(folder).chmod(mode)

    with pytest.raises(GrantStoreError, match="others may write it") as caught:
        Grants().for_skill(skill)

    assert caught.value.hint.endswith(f"chmod go-w {record_of(folder)}")


@pytest.mark.promise("grant-6")
@pytest.mark.parametrize("which", ["folder", "parent", "above"])
def test_a_folder_that_others_may_write_is_refused(
    make_skill: MakeSkill, grants: Grants, folder: Path, which: str
) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])
    place = {"folder": folder, "parent": folder.parent, "above": folder.parent.parent}[which]
    place.chmod(0o777)

    for act in (Grants().for_skill, Grants().revoke, lambda _: Grants().list()):
        with pytest.raises(GrantStoreError, match="may write"):
            act(skill)
    with pytest.raises(GrantStoreError, match="may write"):
        Grants().grant(skill, [HOST])
    place.chmod(0o700)
    assert Grants().for_skill(skill) is not None


@pytest.mark.promise("grant-6")
def test_a_folder_that_becomes_open_is_noticed_by_who_knew_it(
    make_skill: MakeSkill, grants: Grants, folder: Path
) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])
    assert grants.for_skill(skill) is not None

    folder.chmod(0o777)

    with pytest.raises(GrantStoreError, match="others may write it"):
        grants.for_skill(skill)


@pytest.mark.promise("grant-6")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("which", ["record", "folder"])
def test_what_belongs_to_somebody_else_is_refused(
    make_skill: MakeSkill, grants: Grants, folder: Path, which: str
) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])
    os.chown(record_of(folder) if which == "record" else folder, 65534, 65534)

    with pytest.raises(GrantStoreError, match="it belongs to "):
        Grants().for_skill(skill)


@pytest.mark.promise("grant-6")
def test_a_link_or_a_pipe_is_no_record(make_skill: MakeSkill, grants: Grants, folder: Path) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])
    record = record_of(folder)
    record.rename(folder / "elsewhere")
    record.symlink_to("elsewhere")
    with pytest.raises(GrantStoreError):
        Grants().for_skill(skill)
    record.unlink()
    os.mkfifo(record)

    with pytest.raises(GrantStoreError, match="not a regular file"):
        Grants().for_skill(skill)


def damaged(record: Path) -> list[bytes]:
    whole = record.read_bytes()
    value = json.loads(whole)
    return [
        b"",
        whole[:-20],
        b"\0" * len(whole),
        b"[" * 100_000,
        b"\xff" + whole,
        json.dumps(value | {"format": 2}).encode(),
        json.dumps(value | {"hosts": "*"}).encode(),
        json.dumps(value | {"unconfined": 1}).encode(),
        json.dumps(value | {"digest": "x"}).encode(),
        json.dumps(value | {"more": []}).encode(),
        json.dumps(value | {"files": {"a": "file"}}).encode(),
        json.dumps(value | {"files": {"a": 1}}).encode(),
        json.dumps(value | {"files": {"a": "door 1 x"}}).encode(),
        json.dumps(value | {"home": "/somewhere/else"}).encode(),
        json.dumps(value | {"skill": "\ud800"}).encode(),
    ]


@pytest.mark.promise("grant-6")
@pytest.mark.parametrize("number", range(15))
def test_a_damaged_record_grants_nothing_and_is_set_aside(
    make_skill: MakeSkill,
    grants: Grants,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])
    record = record_of(folder)
    content = damaged(record)[number]
    record.write_bytes(content)

    with caplog.at_level(logging.WARNING, "skillpouch"):
        answers = [grants.for_skill(skill), Grants().for_skill(skill), *Grants().list()]

    assert answers == [None, None]
    (aside,) = folder.glob("*.damaged-*")
    assert aside.read_bytes() == content
    (said,) = [line.message for line in caplog.records]
    assert said.startswith("a damaged grant is ignored: ")
    assert said.endswith(str(aside))
    assert grants.grant(skill, [HOST]).hosts == ("api.example.com",)


def test_a_record_copied_to_another_skills_place_grants_nothing(
    make_skill: MakeSkill, grants: Grants, folder: Path
) -> None:
    one, other = make_skill("one"), make_skill("other")
    grants.grant(other, [SECRET])
    place = record_of(folder)
    grants.revoke(other)
    grants.grant(one, [SECRET])
    record_of(folder).rename(place)

    assert Grants().for_skill(other) is None


@without_deadline
@given(st.binary(max_size=200))
def test_any_bytes_are_a_grant_or_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what it says depends on the bytes
        read_grant(data)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.builds(
        Grant,
        skill=st.text(),
        home=st.text(),
        digest=st.text("0123456789abcdef", min_size=64, max_size=64),
        secrets=st.lists(st.text(), max_size=3).map(tuple),
        hosts=st.lists(st.text(), max_size=3).map(tuple),
        unconfined=st.booleans(),
    )
)
def test_a_grant_is_read_as_it_was_written(grant: Grant) -> None:
    assert read_grant(write_grant(grant)) == grant


def test_a_name_that_is_no_text_comes_back_as_it_was(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill()
    Path(f"{skill.home}/\udcff\udcfe").touch()

    made = grants.grant(skill, [SECRET])

    assert Grants().for_skill(skill) == made
    assert "\udcff\udcfe" in made.manifest


def test_a_reader_sees_what_another_process_granted(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill()
    seen = []
    for name in ("A", "B", "C", "D"):
        Grants().grant(skill, [Need(kind="secret", value=name)])
        grant = grants.for_skill(skill)
        seen.append(grant.secrets if grant else ())
    Grants().revoke(skill)

    assert seen == [("A",), ("A", "B"), ("A", "B", "C"), ("A", "B", "C", "D")]
    assert grants.for_skill(skill) is None


ADD = """
import sys
from skillpouch import SkillManager
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
skill = SkillManager(sys.argv[1], cache=False).get_skill("demo")
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    Grants().grant(skill, [Need(kind="secret", value=f"{sys.argv[2]}_{number}")])
    print(number, flush=True)
"""


def adder(root: Path, letter: str, times: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ADD, str(root), letter, str(times)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_two_processes_that_grant_at_once_lose_nothing(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill()
    processes = [adder(skill.home.parent, letter, 15) for letter in "ABC"]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate(timeout=60)

    grant = grants.for_skill(skill)

    assert grant is not None
    assert set(grant.secrets) == {f"{letter}_{n}" for letter in "ABC" for n in range(15)}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_granter_that_is_killed_leaves_a_whole_record(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill()
    for turn in range(8):
        process = adder(skill.home.parent, f"T{turn}", 1_000)
        go(process)
        assert process.stdout
        told = [int(process.stdout.readline()) for _ in range(turn + 1)]
        process.send_signal(signal.SIGKILL)
        process.communicate()

        grant = grants.for_skill(skill)

        assert grant is not None
        assert {f"T{turn}_{number}" for number in told} <= set(grant.secrets)
    assert Grants().grant(skill, [HOST]).hosts == ("api.example.com",)


def test_who_waits_too_long_is_told(
    make_skill: MakeSkill, grants: Grants, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    skill = make_skill()
    grants.grant(skill, [SECRET])
    monkeypatch.setattr("skillpouch.trust.grants._PATIENCE_SECONDS", 0.05)
    with (folder / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(GrantStoreError, match="another process has kept it locked"):
            grants.grant(skill, [HOST])

        assert grants.for_skill(skill) is not None  # reading waits for nobody
