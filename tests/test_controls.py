"""Controls: what was given is used, what was not is found at the first call."""

from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

from skillpouch import Limits, Policy, SessionManager, SkillManager, ToolExecutor, tool
from skillpouch.controls import Controls
from skillpouch.environment import config_directory, state_directory
from skillpouch.errors import CallDeniedError, PolicyFileError, SkillpouchError
from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import Started
from skillpouch.journal.store import JournalError
from skillpouch.needs import Need
from skillpouch.policy import Rule
from skillpouch.trust.grants import Grants


@tool
def greet(who: str) -> str:
    """Greet somebody."""
    return f"Hello {who}"


def write_user_policy(text: str) -> None:
    folder = config_directory()
    assert folder is not None
    folder.mkdir(parents=True)
    (folder / "policy.toml").write_text(text)


def recorded() -> list[str]:
    with JournalReader(state_directory()) as reader:
        return [f"{entry.tool} {entry.outcome}" for entry in reader.after(Query())]


def test_without_a_policy_the_users_is_read() -> None:
    write_user_policy('[[rules]]\nverdict = "deny"\ntools = ["greet"]\n')

    with pytest.raises(CallDeniedError):
        ToolExecutor([greet]).execute_sync("greet", {"who": "Ada"})

    assert recorded() == ["greet denied"]


def test_a_policy_that_was_said_is_used_instead() -> None:
    write_user_policy('[[rules]]\nverdict = "deny"\ntools = ["greet"]\n')

    result = ToolExecutor([greet], policy=Policy()).execute_sync("greet", {"who": "A"})

    assert result.content == "Hello A"


@pytest.mark.parametrize("how", ["path", "function"])
def test_the_file_of_the_project_tightens(how: str, tmp_path: Path) -> None:
    (tmp_path / "skillpouch.toml").write_text('[[rules]]\nverdict = "deny"\ntools = ["greet"]\n')
    controls = Controls(project=tmp_path if how == "path" else lambda: tmp_path)

    with pytest.raises(CallDeniedError):
        ToolExecutor([greet], controls=controls).execute_sync("greet", {"who": "Ada"})


def test_a_policy_with_a_mistake_lets_nothing_run() -> None:
    write_user_policy("rules = 1\n")

    with pytest.raises(PolicyFileError):
        ToolExecutor([greet]).execute_sync("greet", {"who": "Ada"})


def test_nothing_is_read_or_opened_before_the_first_call() -> None:
    write_user_policy("rules = 1\n")

    ToolExecutor([greet])

    state = state_directory()
    assert state is not None
    assert not state.exists()


def test_no_journal_records_nothing() -> None:
    ToolExecutor([greet], journal=False).execute_sync("greet", {"who": "Ada"})

    assert recorded() == []


def test_a_policy_that_requires_the_journal_has_the_last_word() -> None:
    controls = Controls(journal=False, policy=Policy(require_journal=True))

    ToolExecutor([greet], controls=controls).execute_sync("greet", {"who": "Ada"})

    assert recorded() == ["greet ok"]


def test_a_journal_that_was_given_is_used_and_required_when_the_policy_says_so(
    tmp_path: Path,
) -> None:
    own = Journal(tmp_path / "own")
    ToolExecutor([greet], journal=own).execute_sync("greet", {"who": "Ada"})
    own.close()
    required = Policy(require_journal=True)
    (tmp_path / "blocked").write_text("in the way")
    blocked = Controls(journal=Journal(tmp_path / "blocked"), policy=required)

    with pytest.raises(JournalError):
        ToolExecutor([greet], controls=blocked).execute_sync("greet", {"who": "Ada"})

    with JournalReader(tmp_path / "own") as reader:
        assert [entry.tool for entry in reader.after(Query())] == ["greet"]
    assert recorded() == []


def test_a_required_journal_stays_the_same_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path, required=True)

    assert journal.as_required() is journal
    assert Journal(tmp_path).as_required().started(Started(tool="x")) == 1


def test_the_session_is_on_record_and_told_to_the_secrets() -> None:
    rules = [Rule(verdict="allow", tools=["*"])]
    controls = Controls(policy=Policy(rules=rules), session="s-1")

    ToolExecutor([greet], controls=controls).execute_sync("greet", {"who": "Ada"})

    with JournalReader(state_directory()) as reader:
        (entry,) = reader.after(Query(session="s-1"))
    assert entry.approved_by == "rule 'allow *' allows it"


OF_MANAGERS = {"session", "project", "roots"}


@pytest.mark.parametrize("kind", [SkillManager, SessionManager, ToolExecutor])
def test_all_that_run_tools_take_the_same_parameters(kind: type) -> None:
    names = {each.name for each in fields(Controls)} - OF_MANAGERS
    own = {"workspaces"} if kind is SessionManager else set()

    taken = set(signature(kind).parameters)

    assert {"controls", "builtins"} | own <= taken
    assert names - taken == ({"workspace"} if kind is SessionManager else set())


@pytest.mark.parametrize("kind", [SkillManager, SessionManager, ToolExecutor])
def test_controls_and_single_parameters_do_not_mix(kind: type) -> None:
    with pytest.raises(
        ValueError, match="so is policy=, limits=: pass policy=, limits= to Controls"
    ):
        kind(controls=Controls(), policy=Policy.strict(), limits=Limits(timeout_seconds=5))


@pytest.mark.parametrize("kind", [SkillManager, SessionManager, ToolExecutor])
@pytest.mark.parametrize("wrong", [{"sandbox": "maybe"}, {"require": ["moat"]}])
def test_what_is_wrong_with_controls_is_raised_at_once(kind: type, wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"moat|maybe") as refused:
        kind(**wrong)

    if isinstance(refused.value, SkillpouchError):
        assert refused.value.hint == "install the package that does; there are on, off"


async def test_one_object_controls_a_manager_its_sessions_and_an_executor(tmp_path: Path) -> None:
    denied = Policy(rules=[Rule(verdict="deny", tools=["greet"])])
    own = Journal(tmp_path / "own")
    controls = Controls(policy=denied, journal=own, workspace=tmp_path)
    sessions = SessionManager([greet], controls=controls)
    await sessions.create_session("s")
    manager = SkillManager(tmp_path, controls=controls)
    manager.source.put_own([greet])

    for call in (
        ToolExecutor([greet], controls=controls).execute("greet", {"who": "Ada"}),
        sessions.execute("s", "greet", {"who": "Ada"}),
        manager.acall("greet", {"who": "Ada"}),
    ):
        with pytest.raises(CallDeniedError):
            await call

    own.close()
    with JournalReader(tmp_path / "own") as reader:
        assert [entry.session for entry in reader.after(Query())] == ["", "s", ""]
    assert recorded() == []


def test_a_workspace_is_where_it_was_when_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    manager = SkillManager(workspace="here", builtins=True, journal=False)

    monkeypatch.chdir(tmp_path / "there")
    manager.call("write", {"file_path": "note", "content": "kept"})

    assert (tmp_path / "here" / "note").read_text() == "kept"


def test_what_is_read_only_stays_so_for_every_tool_of_a_manager(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("as it was")
    manager = SkillManager(
        workspace=tmp_path, read_only=[tmp_path / "kept"], builtins=True, journal=False
    )

    result = manager.call("write", {"file_path": "kept", "content": "changed"})

    assert result.outcome != "ok"
    assert (tmp_path / "kept").read_text() == "as it was"


@pytest.mark.parametrize("kind", [str, Path])
def test_one_path_is_read_only_as_a_list_with_it_is(tmp_path: Path, kind: type) -> None:
    assert Controls(read_only=kind(tmp_path)).read_only == (tmp_path,)


def test_a_policy_for_each_session_and_one_for_all_do_not_mix() -> None:
    controls = Controls(policy=Policy.strict())

    with pytest.raises(ValueError, match="both policy= and the policy of controls= are given"):
        SessionManager(controls=controls, policy=lambda _: None)

    SessionManager(controls=Controls(), policy=lambda _: Policy.strict())


def test_grants_that_are_given_say_what_is_ready(tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "asking"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: asking\ndescription: Asks.\nmetadata:\n  skillpouch:\n"
        "    hosts: [example.org]\n---\n"
    )
    (skill / "scripts" / "go.sh").write_text("#!/bin/bash\necho gone\n")
    own = Grants(tmp_path / "grants")

    def ready() -> bool:
        manager = SkillManager(tmp_path / "skills", grants=own, journal=False)
        return manager.get_tool("asking.go").ready

    before = ready()
    own.grant(
        SkillManager(tmp_path / "skills").get_skill("asking"),
        [Need(kind="host", value="example.org")],
        by="owner",
    )

    assert (before, ready()) == (False, True)
