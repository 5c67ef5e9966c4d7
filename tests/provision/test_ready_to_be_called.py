"""`ready` is never "yes" where a call would be denied, however the tool is asked for."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, Tool
from skillpouch.discovery.index import is_settled
from skillpouch.errors import CallDeniedError, PolicyFileError
from skillpouch.needs import Need
from skillpouch.policy.conditions import Condition, Equals
from skillpouch.policy.rules import Rule
from skillpouch.trust.grants import Grants
from skillpouch.untrusted_files import stamp_of
from tests.conftest import WriteSkill

PRINTS = {"scripts/b.py": "print(1)\n"}
BLOCK = '# /// script\n# dependencies = ["requests==2.32.0"]\n# ///\nprint(1)\n'
FETCHES = '[{"name": "b", "description": "d", "url": "https://api.example/x"}]'
DESTROYS = '[{"name": "b", "description": "d", "script": "scripts/b.py", "effects": %s}]'


def _front(words: str) -> str:
    return f"name: demo\ndescription: d\n{words}\n"


def _ask(manager: SkillManager) -> list[Tool]:
    """Return the tool `demo.b` in all ways in which a program may ask for it."""
    return [
        manager.get_tool("demo.b"),
        *manager.get_skill_tools("demo"),
        *(tool for tool in manager.tools if tool.skill),
        *(tool for tool in manager.executor.tools if tool.skill),
    ]


def _settle(home: Path) -> None:
    """Wait until the index keeps what it reads of a skill."""
    while not all(is_settled(stamp_of(each.stat())) for each in (home, *home.rglob("*"))):
        time.sleep(0.01)


DENIED = {
    "a secret": (_front("metadata: {skillpouch: {secrets: [K_1]}}"), PRINTS, "secret K_1"),
    "a host": (_front("metadata: {skillpouch: {hosts: [a.example]}}"), PRINTS, "host a.example"),
    "a path": (_front("metadata: {skillpouch: {read: [/srv/data]}}"), PRINTS, "reading /srv/data"),
    "a package": (_front(""), {"scripts/b.py": BLOCK}, "package requests==2.32.0"),
    "a listed package": (
        _front(""),
        {**PRINTS, "requirements.txt": "requests==2.32.0\n"},
        "package requests==2.32.0",
    ),
    "an address": (_front(""), {"tools.json": FETCHES}, "host api.example"),
    "no confinement": (
        _front("metadata: {skillpouch: {unconfined: true}}"),
        PRINTS,
        "unconfined running",
    ),
    "Bash": (_front("allowed-tools: [Read]"), PRINTS, "`allowed-tools` of demo leaves out Bash"),
    "a yes to destruction": (
        _front(""),
        {**PRINTS, "tools.json": DESTROYS % '["destructive"]'},
        "it can destroy",
    ),
    "hosts for the network": (
        _front(""),
        {**PRINTS, "tools.json": DESTROYS % '["network"]'},
        "it uses the network",
    ),
}


@pytest.mark.parametrize("cache", [False, True], ids=["anew", "from the index"])
@pytest.mark.parametrize(("front", "files", "said"), DENIED.values(), ids=DENIED)
def test_a_tool_that_would_be_denied_is_not_ready_and_says_why(
    write_skill: WriteSkill, front: str, files: dict[str, str], said: str, cache: bool
) -> None:
    home = write_skill(front=front, files=files)
    if cache:
        _settle(home)
        _ = SkillManager(home.parent).tools

    manager = SkillManager(home.parent, cache=cache)

    for tool in _ask(manager):
        assert not tool.ready
        assert said in "; ".join(tool.missing)
    with pytest.raises(CallDeniedError):
        manager.call("demo.b")


def _rule(words: str) -> Callable[[Path], Policy]:
    def of(home: Path) -> Policy:
        there = {"path": [str(home)]} if "here" in words else {}
        when = [Condition(argument="who", test=Equals("x"))] if "when" in words else []
        needs = ["packages:*"] if "packages" in words else []
        verdict = words.partition(" ")[0]
        rule = Rule(verdict=verdict, skills=["demo"], when=when, needs=needs, **there)  # type: ignore[arg-type]
        return Policy(rules=[rule])

    return of


@pytest.mark.parametrize(
    ("policy", "ready"),
    [
        (_rule("deny"), False),
        (_rule("deny here"), False),
        (_rule("ask"), False),
        (_rule("deny packages"), True),  # it needs none
        (_rule("deny when"), True),  # other arguments are not refused
        (lambda _: Policy.strict(), False),
        (lambda _: Policy.trusting(), True),
    ],
    ids=["deny", "deny here", "ask", "deny packages", "deny some", "strict", "trusting"],
)
def test_rules_that_hold_whatever_the_arguments_count(
    write_skill: WriteSkill, policy: Callable[[Path], Policy], ready: bool
) -> None:
    home = write_skill(files=PRINTS)
    manager = SkillManager(home.parent, cache=False, policy=policy(home))

    assert [tool.ready for tool in _ask(manager)] == [ready] * 4


def test_a_rule_of_the_users_own_file_counts(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = write_skill(files=PRINTS)
    config = tmp_path / "config"
    (config / "skillpouch").mkdir(parents=True)
    text = '[[rules]]\nverdict = "deny"\nskills = ["demo"]\nreason = "not here"\n'
    (config / "skillpouch" / "policy.toml").write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))

    denied = SkillManager(home.parent, cache=False).get_tool("demo.b")
    (config / "skillpouch" / "policy.toml").write_text("mode = 1\n")
    broken = SkillManager(home.parent, cache=False)

    assert denied.missing == ("rule 'deny demo' denies it: not here",)
    assert "policy.toml cannot be used" in broken.get_tool("demo.b").missing[0]
    with pytest.raises(PolicyFileError):
        broken.call("demo.b")


def test_what_a_policy_gives_or_somebody_is_asked_for_is_not_missing(
    write_skill: WriteSkill,
) -> None:
    front = _front("metadata: {skillpouch: {secrets: [K_1]}}")
    home = write_skill(front=front, files=PRINTS)

    given = SkillManager(home.parent, cache=False, policy=Policy.trusting())
    asked = SkillManager(home.parent, cache=False, approver=lambda _: True)

    assert given.get_tool("demo.b").ready
    assert asked.get_tool("demo.b").ready


def test_a_grant_makes_a_tool_ready_until_the_skill_changes(write_skill: WriteSkill) -> None:
    home = write_skill(files={"scripts/b.py": BLOCK})
    manager = SkillManager(home.parent, cache=False)
    need = Need(kind="packages", value="requests==2.32.0")

    Grants().grant(manager.get_skill("demo"), [need])
    granted = [tool.ready for tool in _ask(manager)]
    (home / "SKILL.md").write_text("---\nname: demo\ndescription: other\n---\n")
    changed = [tool.ready for tool in _ask(manager)]

    assert (granted, changed) == ([True] * 4, [False] * 4)


def test_a_need_that_comes_or_goes_is_seen_through_the_index(write_skill: WriteSkill) -> None:
    home = write_skill(files={**PRINTS, "requirements.txt": "requests==2.32.0\n"})
    listed = home / "requirements.txt"
    seen = []
    for text in ("requests==2.32.0\n", "# none\n", "requests==2.31.0\n"):
        listed.write_text(text)
        _settle(home)
        seen += [SkillManager(home.parent).get_skill_tools("demo")[0].missing for _ in range(2)]

    before, after = (f"package requests==2.{minor}.0 is not granted" for minor in (32, 31))
    assert seen == [(before,), (before,), (), (), (after,), (after,)]
