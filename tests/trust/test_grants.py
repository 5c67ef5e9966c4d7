"""Grants: for one skill, in one folder, with exactly these bytes."""

import mmap
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch import Skill, SkillManager
from skillpouch.discovery.digest import snapshot_of
from skillpouch.discovery.index import is_settled
from skillpouch.needs import Need
from skillpouch.trust.errors import (
    GrantRefusedError,
    GrantStoreError,
    SkillChangedError,
    UngrantedError,
)
from skillpouch.trust.grant import Grant, missing, needs_of, needs_of_commands
from skillpouch.trust.grants import Grants, user_name
from skillpouch.trust.review import PathChange, review_skill
from skillpouch.untrusted_files import stamp_of
from tests.conftest import WriteSkill
from tests.trust.conftest import HOST, SECRET, MakeSkill

FILES = {"scripts/run.py": "print(1)\n", "data/a.txt": "a"}
Act = Callable[[Path], object]


def found(home: Path, name: str = "demo") -> Skill:
    return SkillManager(home.parent, cache=False).get_skill(name)


def test_a_skill_has_what_it_was_granted(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill(files=FILES)
    before = grants.for_skill(skill)

    made = grants.grant(skill, [SECRET, HOST], by="ada", tools=["demo.run"])

    assert before is None
    assert grants.for_skill(skill) == made == Grants().for_skill(skill)
    assert made == Grant(
        skill="demo",
        home=os.path.realpath(skill.home),
        digest=skill.digest,
        secrets=("API_KEY",),
        hosts=("api.example.com",),
        tools=("demo.run",),
        when=made.when,
        by="ada",
        manifest=snapshot_of(skill.home).manifest,
    )
    assert made.when.endswith("Z")


def test_without_a_name_the_grant_is_by_whoever_runs_skillpouch(
    make_skill: MakeSkill, grants: Grants
) -> None:
    assert grants.grant(make_skill(), [SECRET]).by == user_name()
    assert user_name(4_000_000_001) == "user 4000000001"


def test_a_second_grant_adds_to_the_first(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])

    grants.grant(skill, [HOST, Need(kind="unconfined")])

    assert missing([SECRET, HOST, Need(kind="unconfined")], grants.for_skill(skill)) == ()


def test_a_grant_after_a_change_holds_nothing_of_the_one_before(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill(files=FILES)
    grants.grant(skill, [SECRET])
    (skill.home / "new.txt").write_text("x")

    made = grants.grant(skill, [HOST])

    assert needs_of(made) == (HOST,)


@pytest.mark.promise("grant-1")
@pytest.mark.parametrize(
    "change",
    [
        lambda home: (home / "scripts/run.py").write_text("print(2)\n"),
        lambda home: (home / "data/a.txt").write_text("b"),
        lambda home: (home / "data/a.txt").unlink(),
        lambda home: (home / "data/a.txt").rename(home / "data/b.txt"),
        lambda home: (home / "data/new").write_text(""),
        lambda home: (home / "empty").mkdir(),
        lambda home: (home / "link").symlink_to("data/a.txt"),
        lambda home: (home / "scripts/run.py").chmod(0o755),
        lambda home: (home / "scripts").chmod(0o750),
        lambda home: home.chmod(0o750),
        lambda home: (home / "SKILL.md").write_text("---\nname: demo\ndescription: D.\n---\n"),
        lambda home: (home / ".git").mkdir(),
        lambda home: (home / "scripts/__pycache__").mkdir(),
        lambda home: os.mkfifo(home / "pipe"),
    ],
)
def test_any_change_of_a_skill_ends_its_grants(
    make_skill: MakeSkill, grants: Grants, change: Act
) -> None:
    skill = make_skill(files=FILES)
    grants.grant(skill, [SECRET])
    assert grants.for_skill(skill) is not None

    change(skill.home)

    assert grants.for_skill(skill) is None
    assert Grants().for_skill(found(skill.home)) is None


@pytest.mark.promise("grant-1")
def test_a_change_that_leaves_size_and_date_as_they_were_ends_the_grant(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill(files=FILES)
    script = skill.home / "scripts/run.py"
    os.utime(script, (1, 1))
    grants.grant(skill, [SECRET])
    assert grants.for_skill(skill) is not None

    script.write_text("print(2)\n")
    os.utime(script, (1, 1))

    assert grants.for_skill(skill) is None


def test_what_becomes_again_what_it_was_is_granted_again(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill(files=FILES)
    grants.grant(skill, [SECRET])
    (skill.home / "data/a.txt").write_text("b")
    assert grants.for_skill(skill) is None

    (skill.home / "data/a.txt").write_text("a")

    assert grants.for_skill(skill) is not None


@pytest.mark.promise("grant-3")
def test_a_copy_elsewhere_inherits_nothing(
    make_skill: MakeSkill, grants: Grants, tmp_path: Path
) -> None:
    skill = make_skill(files=FILES)
    grants.grant(skill, [SECRET])
    copy = tmp_path / "clone" / "demo"
    shutil.copytree(skill.home, copy)

    other = found(copy)

    assert other.digest == skill.digest
    assert grants.for_skill(other) is None


@pytest.mark.promise("grant-3")
def test_another_skill_of_the_same_name_inherits_nothing(
    write_skill: WriteSkill, grants: Grants
) -> None:
    one, other = (found(write_skill("demo", root=root)) for root in ("one", "other"))

    grants.grant(one, [SECRET])

    assert grants.for_skill(other) is None
    assert grants.for_skill(replace(one, name="plugin:demo")) is None


def test_a_skill_seen_through_a_link_is_the_same_skill(
    make_skill: MakeSkill, grants: Grants, tmp_path: Path
) -> None:
    skill = make_skill(files=FILES)
    grants.grant(skill, [SECRET])
    (tmp_path / "linked").symlink_to("skills")

    assert grants.for_skill(found(tmp_path / "linked" / "demo")) is not None


def test_a_link_that_leads_to_another_folder_leads_to_other_grants(
    write_skill: WriteSkill, grants: Grants, tmp_path: Path
) -> None:
    one, other = (write_skill("demo", root=root) for root in ("one", "other"))
    (tmp_path / "current").symlink_to("one")
    skill = found(tmp_path / "current" / "demo")
    grants.grant(skill, [SECRET])
    assert grants.for_skill(skill) is not None

    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("other")

    assert grants.for_skill(skill) is None
    assert one != other


@pytest.mark.promise("grant-2")
def test_nothing_in_a_skill_or_a_project_is_a_grant(
    make_skill: MakeSkill,
    grants: Grants,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skill = make_skill(
        "demo",
        "name: demo\ndescription: d\ngrants: {secrets: [API_KEY]}\n"
        "metadata: {skillpouch: {secrets: [API_KEY], granted: true, trust: all,"
        " unconfined: true}}\n",
        files={"skillpouch.toml": '[grants]\nsecrets = ["API_KEY"]\n'},
    )
    grants.grant(skill, [SECRET])
    (record,) = folder.glob("*.json")
    for place in (skill.home, skill.home.parent, tmp_path):
        for below in (
            "grants",
            ".skillpouch/grants",
            "skillpouch/grants",
            ".local/state/skillpouch/grants",
        ):
            (place / below).mkdir(parents=True)
            shutil.copy(record, place / below)
    (tmp_path / "skillpouch.toml").write_text('[grants.demo]\nsecrets = ["API_KEY"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", ".")  # relative: not a state directory
    record.unlink()

    for each in (Grants(), grants):
        assert each.for_skill(skill) is None
        assert each.list() == []


def test_a_revoked_skill_has_nothing(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill()
    grants.grant(skill, [SECRET])

    assert grants.revoke(skill)
    assert not grants.revoke(skill)
    assert (grants.for_skill(skill), grants.list()) == (None, [])


def test_every_grant_is_listed(write_skill: WriteSkill, grants: Grants) -> None:
    for name in ("b", "a"):
        grants.grant(found(write_skill(name), name), [SECRET])

    assert [grant.skill for grant in grants.list()] == ["a", "b"]


def test_what_changed_is_shown_file_by_file(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill(files=FILES | {"tool.sh": "echo\n", "old": ""})
    (skill.home / "link").symlink_to("old")
    grants.grant(skill, [SECRET])
    (skill.home / "scripts/run.py").write_text("print(2)\n")
    (skill.home / "tool.sh").chmod(0o755)
    (skill.home / "old").unlink()
    (skill.home / "new").write_text("")
    (skill.home / "link").unlink()
    (skill.home / "link").symlink_to("new")
    (skill.home / "data/a.txt").unlink()
    (skill.home / "data/a.txt").mkdir()

    review = review_skill(skill, list, grants, lambda _tool: ())

    assert review.grant is None
    assert review.changes == (
        PathChange("data/a.txt", "changed", "file → folder"),
        PathChange("link", "link", "old → new"),
        PathChange("new", "added"),
        PathChange("old", "removed"),
        PathChange("scripts/run.py", "changed"),
        PathChange("tool.sh", "mode", "644 → 755"),
    )


def test_a_yes_counts_only_for_what_was_seen(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill(files=FILES)
    seen = snapshot_of(skill.home)
    (skill.home / "scripts/run.py").write_text("print('evil')\n")

    with pytest.raises(SkillChangedError, match="demo changed while it was reviewed"):
        grants.grant(skill, [SECRET], seen=seen)

    assert grants.for_skill(skill) is None


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (Need(kind="secret", value="A B"), "it is not the name of an environment variable"),
        (Need(kind="secret", value="*"), "it is not the name of an environment variable"),
        (Need(kind="host", value="https://a.com/"), "'https://a.com/' has no valid port"),
        (Need(kind="read", value="data"), "it is not an absolute path"),
        (Need(kind="write", value="/a\0"), "it is not an absolute path"),
        (Need(kind="packages", value="-e ."), "it is not the name of a package"),
        (Need(kind="packages", value="a @ https://evil"), "it is not the name of a package"),
    ],
)
def test_what_cannot_be_understood_is_not_granted(
    make_skill: MakeSkill, grants: Grants, need: Need, reason: str
) -> None:
    with pytest.raises(GrantRefusedError) as caught:
        grants.grant(make_skill(), [SECRET, need])

    assert (caught.value.need, caught.value.reason) == (need, reason)
    assert grants.list() == []


@pytest.mark.promise("grant-8")
@pytest.mark.parametrize(
    "below", ["", "skillpouch", "skillpouch/grants", "skillpouch/grants/x", "../.."]
)
def test_no_grant_lets_a_tool_write_the_grants(
    make_skill: MakeSkill, grants: Grants, below: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder.parent.parent)
    for path in (folder.parent.parent / below, tmp_path / "link" / below, Path("/")):
        with pytest.raises(GrantRefusedError):
            grants.grant(
                make_skill(root=str(len(str(path)))), [Need(kind="write", value=str(path))]
            )


@pytest.mark.promise("grant-8")
def test_no_grant_lets_a_tool_write_the_policy(
    make_skill: MakeSkill, grants: Grants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    skill = make_skill()

    for path in ("config", "config/skillpouch", "config/skillpouch/policy.toml"):
        with pytest.raises(GrantRefusedError, match="Skillpouch's settings are kept in"):
            grants.grant(skill, [Need(kind="write", value=f"{tmp_path}/{path}")])

    assert grants.grant(skill, [Need(kind="write", value=f"{tmp_path}/config/other")]).write


def test_a_path_is_kept_as_it_really_is(
    make_skill: MakeSkill, grants: Grants, tmp_path: Path
) -> None:
    skill = make_skill()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    made = grants.grant(skill, [Need(kind="write", value=f"{tmp_path}/link/../link/x")])

    assert made.write == (f"{os.path.realpath(tmp_path)}/real/x",)
    assert made.covers(Need(kind="read", value=f"{tmp_path}/real/x/y"))


def test_a_pinned_package_takes_the_place_of_its_name(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill()
    grants.grant(skill, [Need(kind="packages", value="PyYAML")])

    made = grants.grant(skill, [Need(kind="packages", value="pyyaml==6.0.3")])

    assert made.packages == ("pyyaml==6.0.3",)
    assert made.covers(Need(kind="packages", value="PyYAML"))
    assert not made.covers(Need(kind="packages", value="pyyaml==5"))
    assert not made.covers(Need(kind="packages", value="npm:pyyaml"))


def test_an_ungranted_need_names_the_command_that_grants_it() -> None:
    needs = [SECRET, HOST, Need(kind="read", value="/a b"), Need(kind="unconfined")]

    error = UngrantedError("weather", needs)

    assert (error.code, error.skill, error.needs) == ("ungranted", "weather", tuple(needs))
    assert error.hint == (
        "run `skillpouch trust weather --secret API_KEY --host api.example.com"
        " --read '/a b' --unconfined`"
    )
    assert str(error) == (
        "weather was not granted secret API_KEY, host api.example.com, reading /a b,"
        " unconfined running"
    )


def test_consent_for_the_machine_is_given_and_withdrawn(grants: Grants) -> None:
    assert grants.consent() is None

    given = grants.give_consent(by="ada")

    assert grants.consent() == given
    assert grants.withdraw_consent()
    assert (grants.consent(), grants.withdraw_consent()) == (None, False)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"when": 1, "by": 2, "machine": 3}', b"[" * 99_999]
)
def test_a_damaged_consent_is_none(grants: Grants, folder: Path, data: bytes) -> None:
    grants.give_consent()
    (folder / "unconfined.json").write_bytes(data)

    assert grants.consent() is None


def test_consent_counts_on_the_machine_where_it_was_given(
    grants: Grants, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants.give_consent()

    monkeypatch.setattr("platform.node", lambda: "another")

    assert grants.consent() is None


def test_two_threads_that_grant_at_once_lose_nothing(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill()
    names = [f"KEY_{number}" for number in range(12)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: grants.grant(skill, [Need(kind="secret", value=name)]), names))

    grant = grants.for_skill(skill)
    assert grant is not None
    assert set(grant.secrets) == set(names)


def test_a_file_where_the_folder_should_be_is_an_error(
    make_skill: MakeSkill, grants: Grants, folder: Path
) -> None:
    skill = make_skill()
    folder.parent.mkdir(parents=True, mode=0o700)
    folder.write_text("")

    for act in (grants.for_skill, grants.revoke, lambda skill: grants.grant(skill, [SECRET])):
        with pytest.raises(GrantStoreError):
            act(skill)


def test_without_a_home_nothing_is_granted_and_nothing_can_be(
    make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = make_skill()
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    grants = Grants()

    assert (grants.for_skill(skill), grants.list(), grants.consent()) == (None, [], None)
    assert not grants.revoke(skill)
    with pytest.raises(GrantStoreError, match="there is no home"):
        grants.grant(skill, [SECRET])


@pytest.mark.promise("grant-1")
def test_bytes_that_change_through_a_shared_mapping_end_a_grant(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill(files=FILES)
    script = skill.home / "scripts/run.py"
    with script.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[6:7] = b"1"  # from now on the page is dirty: later writes leave no trace
        os.utime(script, ns=(1, 1))
        wait_until_settled(script)
        grants.grant(skill, [SECRET])
        assert grants.for_skill(skill) is not None
        before = script.stat()

        mapped[6:7] = b"2"

        now = script.stat()
        assert (now.st_mtime_ns, now.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
        assert grants.for_skill(skill) is None


def wait_until_settled(file: Path) -> None:
    while not is_settled(stamp_of(file.stat()), time.time_ns()):
        time.sleep(0.02)


@pytest.mark.promise("shell-2")
def test_commands_have_packages_and_settings_of_a_grant_and_the_rest_only_if_it_names_them(
    make_skill: MakeSkill, grants: Grants
) -> None:
    skill = make_skill(files=FILES)
    given = [
        Need(kind="secret", value="API_KEY"),
        Need(kind="setting", value="MODE=fast"),
        Need(kind="host", value="api.example.com"),
        Need(kind="packages", value="requests"),
        Need(kind="unconfined"),
    ]

    some = grants.grant(skill, given)
    more = grants.grant(skill, [Need(kind="commands")])

    assert {need.kind for need in needs_of_commands(some)} == {"setting", "packages"}
    assert {need.kind for need in needs_of_commands(more)} == {
        *("secret", "setting", "host", "packages"),
    }
    assert Need(kind="commands") in needs_of(more)


PROFILES = (
    Need(kind="devices", value="gpu"),
    Need(kind="memory", value="4GiB"),
    Need(kind="local-sockets"),
)


def test_profiles_are_granted_kept_and_taken_back(make_skill: MakeSkill, grants: Grants) -> None:
    skill = make_skill()
    grants.grant(skill, [Need(kind="memory", value="2 gb"), Need(kind="local-sockets")])
    grants.grant(skill, [*PROFILES, Need(kind="memory", value="3GiB")])

    found = grants.for_skill(skill)

    assert found is not None
    assert needs_of(found) == PROFILES
    assert missing([*PROFILES, Need(kind="memory", value="1536MiB")], found) == ()
    more = Need(kind="memory", value="5GiB")
    assert missing([more, Need(kind="loopback")], found) == (more,)


@pytest.mark.parametrize(
    "need", [Need(kind="memory", value="much"), Need(kind="devices", value="disk")]
)
def test_a_profile_that_does_not_exist_is_not_granted(
    make_skill: MakeSkill, grants: Grants, need: Need
) -> None:
    with pytest.raises(GrantRefusedError):
        grants.grant(make_skill(), [need])
