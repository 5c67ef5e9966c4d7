"""What a policy says holds at the front door: rules, approvers, modes, limits, the journal."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Limits, Policy, SkillManager, ToolExecutor, tool
from skillpouch.errors import CallDeniedError, SandboxUnavailableError, ToolRestrictionError
from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.store import JournalError, JournalWarning
from skillpouch.policy import Answer, Condition, Equals, LimitRule, Present, Question, Rule
from skillpouch.trust.grants import Grants
from tests.malicious.conftest import Grant, MakeManager

pytestmark = pytest.mark.slow

RUN = {
    "scripts/run.py": "def main(n: int = 0, force: bool = False) -> str:\n"
    "    open('ran', 'a').write('x')\n    return f'{n} {force}'\n",
    "scripts/hang.sh": "sleep 30\n",
    "scripts/pipe.sh": "cat\n",
}
ALLOW = Rule(verdict="allow", tools=["*"])
ASK = Rule(verdict="ask", tools=["bad.run"], name="asking")
DENY = Rule(verdict="deny", tools=["bad.*"], name="denying")


def ran(workspace: Path) -> int:
    file = workspace / "ran"
    return len(file.read_text()) if file.exists() else 0


def yes(_: Question) -> bool:
    return True


@pytest.mark.promise("call-8")
@pytest.mark.parametrize("rules", [[DENY, ASK, ALLOW], [ALLOW, ASK, DENY], [ASK, DENY, ALLOW]])
def test_deny_beats_ask_and_allow_and_nobody_is_asked(
    rules: list[Rule], manager_of: MakeManager, workspace: Path
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    manager = manager_of(RUN, policy=Policy(rules=rules), approver=approve)

    with pytest.raises(CallDeniedError, match="rule 'denying' denies it"):
        manager.call("bad.run")

    assert (asked, ran(workspace)) == ([], 0)


@pytest.mark.promise("call-8")
@pytest.mark.parametrize("rules", [[ASK, ALLOW], [ALLOW, ASK]])
def test_ask_beats_allow(rules: list[Rule], manager_of: MakeManager, workspace: Path) -> None:
    manager = manager_of(RUN, policy=Policy(rules=rules))

    with pytest.raises(CallDeniedError, match="rule 'asking' asks about it"):
        manager.call("bad.run")

    assert ran(workspace) == 0


async def _async_yes(_: Question) -> bool:
    return True


def _raise(_: Question) -> bool:
    raise LookupError("nobody home")


def _hang(_: Question) -> bool:
    threading.Event().wait(20)
    return True


async def _async_hang(_: Question) -> bool:
    await asyncio.sleep(20)
    return True


APPROVERS: dict[str, tuple[Any, str]] = {
    "sync yes": (yes, ""),
    "async yes": (_async_yes, ""),
    "an answer": (lambda _: Answer(yes=True), ""),
    "no": (lambda _: False, "the approver said no"),
    "raises": (_raise, "the approver failed: LookupError"),
    "hangs": (_hang, "nobody answered within"),
    "async hangs": (_async_hang, "nobody answered within"),
    "a lie of text": (lambda _: "yes", "not a bool or an Answer"),
    "a lie of one": (lambda _: 1, "not a bool or an Answer"),
    "nothing": (lambda _: None, "not a bool or an Answer"),
    "nobody": (None, "there is nobody to ask"),
}


@pytest.mark.promise("pol-9")
@pytest.mark.parametrize("name", APPROVERS)
def test_only_a_yes_lets_a_call_run(name: str, manager_of: MakeManager, workspace: Path) -> None:
    approver, reason = APPROVERS[name]
    policy = Policy(rules=[ASK], answer_seconds=0.3)
    manager = manager_of(RUN, policy=policy, approver=approver)

    if not reason:
        assert manager.call("bad.run").outcome == "ok"
    else:
        with pytest.raises(CallDeniedError, match=reason):
            manager.call("bad.run")

    assert ran(workspace) == (not reason)


@pytest.mark.parametrize(("remember", "times"), [("once", 3), ("session", 1), ("always", 1)])
def test_a_yes_lasts_as_long_as_it_was_said_for(
    remember: Any, times: int, manager_of: MakeManager, state: Path
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True, remember=remember)

    manager = manager_of(RUN, policy=Policy(rules=[ASK]), approver=approve)
    for number in range(3):
        manager.call("bad.run", {"n": number})
    again = SkillManager(*manager.roots, workspace=state.parent.parent / "w", policy=Policy())
    grant = Grants().for_skill(again.get_skill("bad"))

    assert len(asked) == times
    assert (grant is not None and grant.tools == ("bad.run",)) is (remember == "always")
    with JournalReader(state) as reader:
        said = [(entry.decision, entry.approved_by) for entry in reader.after(Query())]
    assert said[0] == ("approved", "the approver")
    assert said[2] == ("approved", "the approver" if times == 3 else "an earlier approval")


def test_a_yes_for_a_session_does_not_answer_another_question(manager_of: MakeManager) -> None:
    asked: list[tuple[str, ...]] = []
    forced = Rule(
        verdict="ask",
        tools=["bad.run"],
        name="forcing",
        when=[Condition(argument="force", test=Equals(True))],
    )

    def approve(question: Question) -> Answer:
        asked.append(question.reasons)
        return Answer(yes=not question.arguments.get("force"), remember="session")

    manager = manager_of(RUN, policy=Policy(rules=[ASK, forced]), approver=approve)
    manager.call("bad.run")

    with pytest.raises(CallDeniedError):
        manager.call("bad.run", {"force": True})

    assert len(asked) == 2


@pytest.mark.promise("pol-2")
def test_a_strict_policy_asks_before_the_first_use_whatever_its_rules_allow(
    manager_of: MakeManager, grant: Grant
) -> None:
    manager = manager_of(RUN, policy=Policy(mode="strict", rules=[ALLOW]))

    with pytest.raises(CallDeniedError) as caught:
        manager.call("bad.run")
    grant(manager)

    assert "was approved yet" in str(caught.value)
    assert "skillpouch trust bad" in caught.value.hint
    assert manager.call("bad.run").outcome == "ok"


def test_trusting_gives_what_is_declared_and_not_what_scripts_read(
    manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECLARED_KEY", "hunter2hunter2")
    monkeypatch.setenv("READ_KEY", "sesamesesame")
    script = "import os\nprint(os.environ.get('DECLARED_KEY'), os.environ.get('READ_KEY'))\n"
    front = "metadata: {skillpouch: {secrets: [DECLARED_KEY]}}\n"
    manager = manager_of({"scripts/see.py": script}, front, policy=Policy.trusting())

    assert manager.call("bad.see").stdout == "[redacted DECLARED_KEY] None\n"


def test_limits_of_a_policy_hold_and_those_of_a_project_only_lower(
    manager_of: MakeManager, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "skillpouch.toml").write_text("[[limits]]\ntimeout_seconds = 0.3\n")
    monkeypatch.chdir(workspace)
    lowered = manager_of(RUN).call("bad.hang")
    (workspace / "skillpouch.toml").write_text("[[limits]]\ntimeout_seconds = 25\n")
    kept = SkillManager(
        workspace.parent / "skills", workspace=workspace, limits=Limits(timeout_seconds=0.4)
    ).call("bad.hang")
    rule = LimitRule(tools=["bad.*"], values={"timeout_seconds": 0.2})
    own = SkillManager(
        workspace.parent / "skills", workspace=workspace, policy=Policy(limits=[rule])
    ).call("bad.hang")

    times = [result.timeout_seconds for result in (lowered, kept, own)]
    assert times == [0.3, 0.4, 0.2]


def test_allowed_tools_are_advice_when_the_policy_says_so(
    manager_of: MakeManager, state: Path
) -> None:
    manager = manager_of(RUN, "allowed-tools: Read\n")
    advised = SkillManager(
        *manager.roots,
        workspace=manager.roots[0].parent / "workspace",
        policy=Policy(allowed_tools="advice"),
    )

    with pytest.raises(ToolRestrictionError):
        manager.call("bad.run")

    assert advised.call("bad.run").outcome == "ok"
    with JournalReader(state) as reader:
        assert [entry.outcome for entry in reader.after(Query())] == ["denied", "ok"]


def test_a_protection_that_the_policy_requires_is_not_given_up(
    manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of(RUN, policy=Policy(require={"fs"}), sandbox="off")

    with pytest.raises(SandboxUnavailableError):
        manager.call("bad.run")

    assert ran(workspace) == 0


@contextmanager
def unwritable(state: Path) -> Iterator[None]:
    """A place where no journal can be: the folder is a file."""
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("in the way")
    try:
        yield
    finally:
        state.unlink()


@pytest.mark.promise("call-9")
def test_with_a_required_journal_that_cannot_be_written_nothing_runs(
    manager_of: MakeManager, workspace: Path, state: Path
) -> None:
    policy = Policy(require_journal=True)
    manager = manager_of(RUN, policy=policy, journal=False)
    tools = [manager.get_tool("bad.run")]
    executor = ToolExecutor(
        tools,
        policy=policy,
        journal=Journal(state),
        grants=Grants(workspace),
        workspace=workspace,
    )

    with unwritable(state):
        with pytest.raises((JournalError, CallDeniedError)):
            manager.call("bad.run")
        with pytest.raises(JournalError):
            executor.execute_sync("bad.run")

    assert ran(workspace) == 0


def test_without_that_a_journal_that_cannot_be_written_is_one_warning(
    manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of(RUN)
    place = workspace.parent / "journal"
    tools = [manager.get_tool("bad.run")]
    executor = ToolExecutor(tools, workspace=workspace, journal=Journal(place))

    with unwritable(place), pytest.warns(JournalWarning) as warned:
        outcomes = [executor.execute_sync("bad.run").outcome for _ in range(2)]

    assert (outcomes, len(warned)) == (["ok", "ok"], 1)


@pytest.mark.promise("pol-1")
def test_a_destructive_function_asks_too() -> None:
    done: list[str] = []

    @tool(effects=("destructive",))
    def wipe(path: str) -> str:
        done.append(path)
        return "gone"

    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    with pytest.raises(CallDeniedError, match="cannot be restored"):
        ToolExecutor([wipe]).execute_sync("wipe", {"path": "/x"})
    result = ToolExecutor([wipe], approver=approve).execute_sync("wipe", {"path": "/y"})

    assert (result.content, done) == ("gone", ["/y"])
    assert asked[0].arguments == {"path": "/y"}
    assert "wipe" in asked[0].runs


@pytest.mark.parametrize("given", [{"n": "7"}, {"n": 7}, {"data": {"n": 7}}])
def test_rules_see_the_arguments_that_the_tool_gets(
    given: Any, manager_of: MakeManager, workspace: Path
) -> None:
    seven = Rule(verdict="deny", when=[Condition(argument="n", test=Equals(7))])
    manager = manager_of(RUN, policy=Policy(rules=[seven]))

    try:
        content = manager.call("bad.run", given).content
    except CallDeniedError:
        content = "denied"
    except Exception as error:  # noqa: BLE001 - arguments that do not fit never get there
        content = type(error).__name__

    assert content in ("denied", "InvalidArgumentsError")
    assert ran(workspace) == 0


@pytest.mark.promise("call-10")
def test_rules_about_arguments_are_not_evaded_through_standard_input(
    manager_of: MakeManager, state: Path
) -> None:
    force = Rule(
        verdict="deny",
        tools=["bad.pipe"],
        when=[Condition(argument="data.force", test=Equals(True))],
    )
    manager = manager_of(RUN, policy=Policy(rules=[force]))

    with pytest.raises(CallDeniedError):
        manager.call("bad.pipe", {"data": {"force": True}})
    with pytest.raises(CallDeniedError):
        manager.call("bad.pipe", {"data": {}}, stdin='{"force": true}')

    assert manager.call("bad.pipe", {"data": {}}, stdin='{"force": false}').outcome == "ok"
    with JournalReader(state) as reader:
        last = list(reader.after(Query()))[-1]
    assert '{"force": false}' in str(last.arguments)


SPELLINGS: list[Any] = [
    {"data": {"force": True}},
    {"force": True},
    {"data": '{"force": true}'},
    {"data": '\n {"force": true}'},
    '{"force": true}',
    {"data": '{"force": true, "force": false}'},
    {"data": [{"force": True}]},
    {"data": [[{"force": True}]]},
    {"data": '[{"force": true}]'},
    {"data": '\ufeff{"force": true}'},
    {"data": "--force=true"},
    {"data": ["--force", "true"]},
    {"data": {"force": "true"}},
]


@pytest.mark.promise("call-10")
@pytest.mark.parametrize("given", SPELLINGS, ids=str)
def test_rules_about_arguments_see_what_a_script_is_given_in_every_spelling(
    given: Any, manager_of: MakeManager
) -> None:
    force = Rule(
        verdict="deny",
        tools=["bad.pipe"],
        when=[Condition(argument="data.force", test=Equals(True))],
    )
    manager = manager_of(RUN, policy=Policy(rules=[force]))

    with pytest.raises(CallDeniedError):
        manager.call("bad.pipe", given)

    assert manager.call("bad.pipe", {"data": '{"force": false}'}).stdout == '{"force": false}'


@pytest.mark.promise("call-10")
def test_rules_about_arguments_see_the_input_of_programs_and_inline_scripts(
    manager_of: MakeManager,
) -> None:
    force = Rule(verdict="deny", when=[Condition(argument="force", test=Equals(True))])
    properties = {"force": {"type": "boolean"}}
    declared = [
        {
            "name": "inline",
            "description": "d",
            "parameters": {"type": "object", "properties": properties},
            "backend": {"type": "script", "interpreter": "sh", "script": "cat"},
        },
        {
            "name": "binary",
            "description": "d",
            "parameters": {"type": "object", "properties": properties},
            "backend": {"type": "binary", "path": "/bin/cat"},
        },
    ]
    front = f"tools: {json.dumps(declared)}\n"
    manager = manager_of({}, front=front, policy=Policy(rules=[force]))

    for name in ("bad.inline", "bad.binary"):
        for stdin in ('{"force": true}', '\ufeff{"force": true}', '{"force": true}{}', "[1]"):
            with pytest.raises(CallDeniedError):
                manager.call(name, {"force": False}, stdin=stdin)
        assert manager.call(name, {}, stdin='{"force": false}').stdout == '{"force": false}'


@pytest.mark.promise("call-10")
def test_rules_about_arguments_see_the_defaults_of_those_left_out(
    manager_of: MakeManager,
) -> None:
    conditions = [
        Condition(argument="n", test=Equals(0)),
        Condition(argument="force", test=Present()),
    ]
    rules = [Rule(verdict="deny", when=[condition]) for condition in conditions]
    manager = manager_of(RUN, policy=Policy(rules=rules))

    with pytest.raises(CallDeniedError):
        manager.call("bad.run")
    # What was not given is not present, whatever the script takes instead.
    assert manager.call("bad.run", {"n": 1}).content == "1 False"


@pytest.mark.promise("call-10")
@pytest.mark.parametrize("pattern", ["bad__run", "bad__*", "bad.run"])
@pytest.mark.parametrize("name", ["bad.run", "bad__run", "run"])
def test_a_rule_refuses_by_id_and_by_wire_name_whatever_the_tool_is_called_by(
    pattern: str, name: str, manager_of: MakeManager
) -> None:
    manager = manager_of(RUN, policy=Policy(rules=[Rule(verdict="deny", tools=[pattern])]))

    with pytest.raises(CallDeniedError):
        manager.call(name)


@pytest.mark.promise("call-10")
def test_a_rule_allows_by_id_only() -> None:
    @tool(effects=("destructive",))
    def wipe() -> str:
        return "gone"

    renamed = replace(wipe, id="controls.wipe")
    allowing = [
        Policy(rules=[Rule(verdict="allow", tools=[name])]) for name in ("wipe", "controls.*")
    ]

    with pytest.raises(CallDeniedError):
        ToolExecutor([renamed], policy=allowing[0]).execute_sync("controls.wipe")
    result = ToolExecutor([renamed], policy=allowing[1]).execute_sync("controls.wipe")

    assert result.content == "gone"
