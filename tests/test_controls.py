"""The rules of the controls: what was said is used, what was not is found at the first call."""

from pathlib import Path

import pytest

from skillpouch import Policy, ToolExecutor, tool
from skillpouch.controls import Controls
from skillpouch.environment import config_directory, state_directory
from skillpouch.errors import CallDeniedError, PolicyFileError
from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import Started
from skillpouch.journal.store import JournalError
from skillpouch.policy import Rule


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

    result = ToolExecutor([greet], controls=Controls(policy=Policy())).execute_sync(
        "greet", {"who": "A"}
    )

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

    ToolExecutor([greet], controls=Controls())

    state = state_directory()
    assert state is not None
    assert not state.exists()


def test_no_journal_records_nothing() -> None:
    ToolExecutor([greet], controls=Controls(journal=False)).execute_sync("greet", {"who": "Ada"})

    assert recorded() == []


def test_a_policy_that_requires_the_journal_has_the_last_word() -> None:
    controls = Controls(journal=False, policy=Policy(require_journal=True))

    ToolExecutor([greet], controls=controls).execute_sync("greet", {"who": "Ada"})

    assert recorded() == ["greet ok"]


def test_a_journal_that_was_given_is_used_and_required_when_the_policy_says_so(
    tmp_path: Path,
) -> None:
    own = Journal(tmp_path / "own")
    ToolExecutor([greet], controls=Controls(journal=own)).execute_sync("greet", {"who": "Ada"})
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
