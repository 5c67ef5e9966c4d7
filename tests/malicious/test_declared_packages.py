"""Packages that a skill declares: nothing is fetched before somebody said yes to each by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.errors import CallDeniedError
from skillpouch.needs import Need
from skillpouch.policy import Rule
from skillpouch.policy.approval import Question
from skillpouch.provision.packages.lookup import environment_for
from skillpouch.trust.errors import UngrantedError
from tests.conftest import WriteSkill
from tests.malicious.conftest import Grant, MakeManager
from tests.provision.packages.conftest import registry as registry  # noqa: PLC0414 - a fixture
from tests.provision.packages.conftest import script_at
from tests.provision.packages.conftest import with_uv as with_uv  # noqa: PLC0414 - a fixture
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.usefixtures("with_uv")]

BLOCK = '# /// script\n# dependencies = ["quokka>=1,<3"]\n# ///\n'
USE = '"""Use it."""\nimport quokka\n\nprint(quokka.VERSION)\n'
NODE = "import { version } from 'quokka';\n\n/** Say it. */\nexport default () => version;\n"
INLINE = {"type": "script", "interpreter": "python3", "script": BLOCK + USE}
TOOLS = json.dumps([{"name": "use", "description": "Use it.", "backend": INLINE}])

# How a skill can declare a package: files, frontmatter, and the need as people are shown it.
DECLARED: dict[str, tuple[dict[str, str], str, str]] = {
    "script block": ({"scripts/use.py": BLOCK + USE}, "", "quokka<3,>=1"),
    "requirements.txt": (
        {"scripts/use.py": USE, "requirements.txt": "Quokka == 2.0; python_version > '3'\n"},
        "",
        "quokka==2.0",
    ),
    "package.json": (
        {"scripts/use.mjs": NODE, "package.json": '{"dependencies": {"quokka": ">=1 <3"}}'},
        "",
        "npm:quokka@>=1 <3",
    ),
    "peer": (
        {
            "scripts/use.mjs": NODE,
            "package.json": '{"dependencies": {"a": "1"}, "peerDependencies": {"quokka": "2.0.0"}}',
        },
        "",
        "npm:quokka@2.0.0",
    ),
    "alias": (
        {"scripts/use.mjs": NODE, "package.json": '{"dependencies": {"ws": "npm:quokka@^2"}}'},
        "",
        "npm:quokka@^2",
    ),
    "override": (
        {
            "scripts/use.mjs": NODE,
            "package.json": '{"dependencies": {"a": "1"}, "overrides": {"b": "npm:quokka@^2"}}',
        },
        "",
        "npm:quokka@^2",
    ),
    "inline": ({}, f"tools: {TOOLS}\n", "quokka<3,>=1"),
}
forms = pytest.mark.parametrize("form", DECLARED)


def asks_about(*needs: str) -> Policy:
    return Policy(rules=[Rule(verdict="ask", needs=list(needs))])


def denies(*needs: str, mode: Any = "careful") -> Policy:
    return Policy(rules=[Rule(verdict="deny", needs=list(needs))], mode=mode)


def call(manager: SkillManager) -> object:
    return manager.call("bad.use")


@forms
@pytest.mark.promise("call-1")
@pytest.mark.promise("pol-1")
@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy.strict(), asks_about("packages"), denies("packages")],
    ids=["careful", "strict", "ask", "deny"],
)
def test_nothing_that_is_declared_is_fetched_without_a_yes(
    registry: Registry, manager_of: MakeManager, form: str, policy: Policy
) -> None:
    files, front, shown = DECLARED[form]
    manager = manager_of(files, front, policy=policy)

    with pytest.raises(CallDeniedError) as caught:
        call(manager)

    assert registry.asked == []
    if policy.rules and policy.rules[0].verdict == "deny":
        return
    assert f"it needs the package {shown} (asked in " in str(caught.value)
    assert "skillpouch trust bad --package " in caught.value.hint


@forms
@pytest.mark.promise("pol-3")
@pytest.mark.parametrize("needs", ["packages", "packages:*quokka", "packages:*QUOKKA*"])
def test_a_rule_that_denies_packages_holds_against_trust_and_grants(
    registry: Registry, manager_of: MakeManager, grant: Grant, form: str, needs: str
) -> None:
    files, front, shown = DECLARED[form]
    manager = manager_of(files, front, policy=denies(needs, mode="trusting"))
    grant(manager, packages=[shown])

    with pytest.raises(CallDeniedError, match="denies it"):
        call(manager)

    assert registry.asked == []


@forms
@pytest.mark.promise("call-1")
def test_the_question_names_the_package_its_version_and_its_file(
    registry: Registry, manager_of: MakeManager, form: str
) -> None:
    files, front, shown = DECLARED[form]
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    with pytest.raises(CallDeniedError):
        call(manager_of(files, front, approver=refuse))

    need = next(need for need in asked[0].needs if "quokka" in need.value)
    assert (need.kind, need.value, need.declared) == ("packages", shown, True)
    assert need.asked_in
    assert registry.asked == []


@pytest.mark.promise("call-1")
@pytest.mark.parametrize("by", ["approver", "grant", "name alone", "trusting"])
@pytest.mark.parametrize("form", ["script block", "requirements.txt", "inline"])
def test_a_yes_a_grant_or_trust_in_declarations_installs_what_is_declared(
    registry: Registry, manager_of: MakeManager, grant: Grant, form: str, by: str
) -> None:
    registry.add_wheel("quokka", "2.0")
    files, front, shown = DECLARED[form]
    options: dict[str, Any] = {"approver": lambda _: True} if by == "approver" else {}
    options |= {"policy": Policy.trusting()} if by == "trusting" else {}
    manager = manager_of(files, front, **options)
    if by in ("grant", "name alone"):
        grant(manager, packages=[shown if by == "grant" else "Quokka"])

    result = manager.call("bad.use")

    assert result.content == "2.0"


@pytest.mark.promise("call-1")
@pytest.mark.parametrize("given", [(), ("quokka",), ("quokka==1.0", "wombat==2")])
async def test_nothing_is_installed_for_a_script_but_what_was_given_to_it(
    registry: Registry, write_skill: WriteSkill, given: tuple[str, ...]
) -> None:
    """As when the file grows between the yes and the call."""
    listed = "quokka==1.0\nwombat==1.0\n"
    home = write_skill(files={"scripts/use.py": USE, "requirements.txt": listed})

    with pytest.raises(UngrantedError, match=r"demo was not granted package .*wombat==1\.0"):
        await environment_for(script_at(home, "scripts/use.py"), str(home), packages=given)

    assert registry.asked == []


@pytest.mark.promise("def-1")
@pytest.mark.parametrize("policy", [Policy(), Policy.trusting()], ids=["careful", "trusting"])
@pytest.mark.parametrize("persistent", [False, True])
def test_the_code_of_define_tool_brings_no_packages(
    registry: Registry, tmp_path: Path, policy: Policy, persistent: bool
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "skills").mkdir()
    manager = SkillManager(
        tmp_path / "skills", workspace=tmp_path / "work", define_tools=True, policy=policy
    )
    code = f"{BLOCK}\n\ndef handler(args):\n    import quokka\n    return 1\n"
    given = {"name": "fetch", "description": "Fetch.", "code": code, "persistent": persistent}

    result = manager.call("define_tool", given)

    assert "such a tool has no packages" in result.content
    assert "fetch" not in [tool.name for tool in manager.tools]
    assert registry.asked == []


@pytest.mark.promise("call-1")
def test_each_script_is_given_the_packages_that_it_declares_itself(
    registry: Registry, manager_of: MakeManager, grant: Grant
) -> None:
    alone = "def handler(args):\n    import sys\n    return sys.prefix\n"
    other = BLOCK.replace(">=1,<3", "==1") + USE
    files = {"scripts/use.py": BLOCK + USE, "scripts/old.py": other, "scripts/alone.py": alone}
    manager = manager_of(files)
    grant(manager, packages=["quokka<3,>=1", "quokka==1"])

    assert isinstance(manager.call("bad.alone").structured, str)
    assert registry.asked == []


def test_needs_of_packages_are_told_one_by_one(manager_of: MakeManager) -> None:
    listed = "b>2; python_version<'3.12'\nb>3; python_version>='3.12'\na[x,y]\n"
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    files = {"scripts/use.py": "import b\nb.run()\n", "requirements.txt": listed}
    with pytest.raises(CallDeniedError):
        call(manager_of(files, approver=refuse))

    assert asked[0].needs == (
        Need(kind="packages", value="a[x,y]", asked_in="requirements.txt"),
        Need(kind="packages", value="b", asked_in="requirements.txt (b>2, b>3)"),
    )
