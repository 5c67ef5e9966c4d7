"""What one tool needs of all that its skill asks for."""

import json
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, tool
from skillpouch.errors import CallDeniedError
from skillpouch.needs import Need
from skillpouch.trust.call_needs import CallNeeds, skill_of
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

READS = "import os\nprint(os.environ['READ_KEY'])\n"
CONFIGURED = "## Configuration\n\n- `READ_KEY`: a key\n- `OTHER_KEY`: another\n"


def needs_in(home: Path, name: str) -> list[tuple[str, str]]:
    found = SkillManager(home.parent, cache=False).get_tool(name)
    return [(need.kind, need.value) for need in CallNeeds().of(found, "")]


def test_what_only_a_script_reads_is_not_needed(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/a.py": READS})

    assert needs_in(home, "demo.a") == []


def test_a_setting_that_the_instructions_describe_is_needed_by_those_that_read_it(
    write_skill: WriteSkill,
) -> None:
    files = {"scripts/a.py": READS, "scripts/b.py": "print(1)\n"}
    home = write_skill(body=CONFIGURED, files=files)

    assert needs_in(home, "demo.a") == [("secret", "READ_KEY")]
    assert needs_in(home, "demo.b") == []


def test_what_the_head_declares_is_needed_by_every_tool(write_skill: WriteSkill) -> None:
    front = (
        "name: demo\ndescription: d\nmetadata: {skillpouch: {hosts: [a.example], secrets: [K_1]}}\n"
    )
    home = write_skill(front=front, files={"scripts/b.py": "print(1)\n"})

    assert needs_in(home, "demo.b") == [("secret", "K_1"), ("host", "a.example")]


def test_a_declared_tool_needs_what_its_own_declaration_names(write_skill: WriteSkill) -> None:
    declared = [
        {"name": "get", "description": "d", "url": "https://api.example/${env:API_KEY}"},
        {"name": "run", "description": "d", "script": "scripts/b.py"},
    ]
    files = {"tools.json": json.dumps(declared), "scripts/b.py": "print(1)\n"}
    home = write_skill(files=files)

    assert needs_in(home, "demo.run") == []


@pytest.mark.parametrize(
    ("script", "proposed"),
    [
        ("import click, hypothesis\n", []),  # this Python has both
        ("import click, quokka\n", ["click", "quokka"]),  # in an environment there is only quokka
        ("# /// script\n# dependencies = ['quokka']\n# ///\nimport click, quokka\n", ["click"]),
    ],
)
def test_packages_that_are_not_declared_are_proposed_all_at_once(
    script: str, proposed: list[str], write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/a.py": f"{script}print(1)\n"})
    found = SkillManager(home.parent, cache=False).get_tool("demo.a")

    needs = CallNeeds(proposes=True).of(found, "")

    assert [need.value for need in needs if not need.declared] == proposed


def test_an_answer_is_remembered_for_the_content_it_was_given_for(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/b.py": "print(1)\n"})
    found = SkillManager(home.parent, cache=False).get_tool("demo.b")
    needs = CallNeeds()
    before = needs.of(found, "one")
    head = "---\nname: demo\ndescription: d\nmetadata: {skillpouch: {secrets: [K_1]}}\n---\n"
    (home / "SKILL.md").write_text(head)

    assert (before, needs.of(found, "one")) == ((), ())
    assert [need.value for need in needs.of(found, "two")] == ["K_1"]


def test_more_answers_than_are_kept_are_read_again(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillpouch.trust.call_needs._MOST_KNOWN", 1)
    home = write_skill(files={"scripts/b.py": "print(1)\n"})
    found = SkillManager(home.parent, cache=False).get_tool("demo.b")
    needs = CallNeeds()

    assert [needs.of(found, digest) for digest in ("one", "two", "one")] == [(), (), ()]


def test_a_function_needs_nothing() -> None:
    @tool
    def f() -> None: ...

    assert CallNeeds().of(f, "") == ()


def test_a_skill_that_is_gone_or_no_skill_any_more_is_none(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/b.py": "print(1)\n"})
    found = SkillManager(home.parent, cache=False).get_tool("demo.b")
    assert skill_of(found) is not None

    (home / "SKILL.md").write_bytes(b"")
    emptied = skill_of(found)
    (home / "SKILL.md").unlink()

    assert (emptied, skill_of(found)) == (None, None)


def test_a_tool_that_is_looked_at_says_which_grants_it_lacks(write_skill: WriteSkill) -> None:
    front = (
        "name: demo\ndescription: d\nmetadata: {skillpouch: {secrets: [K_1], unconfined: true}}\n"
    )
    home = write_skill(front=front, files={"scripts/b.py": "print(1)\n"})
    manager = SkillManager(home.parent, cache=False, policy=Policy())

    before = manager.get_tool("demo.b")
    Grants().grant(manager.get_skill("demo"), [Need(kind="secret", value="K_1")])
    after = manager.get_tool("demo.b")

    lacking = ("secret K_1 is not granted", "unconfined running is not granted")
    assert (before.ready, before.missing) == (False, lacking)
    assert after.missing == lacking[1:]
    with pytest.raises(CallDeniedError):
        manager.call("demo.b")


def test_grants_that_cannot_be_believed_are_said_and_stop_no_look(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    (state / "skillpouch" / "grants").mkdir(parents=True)
    (state / "skillpouch" / "grants").chmod(0o777)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    front = "name: demo\ndescription: d\nmetadata: {skillpouch: {secrets: [K_1]}}\n"
    home = write_skill(front=front, files={"scripts/b.py": "print(1)\n"})

    (said,) = SkillManager(home.parent, cache=False).get_tool("demo.b").missing

    assert "others may write it" in said
