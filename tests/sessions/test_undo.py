from pathlib import Path

import pytest

from skillpouch import SessionManager
from skillpouch.builtins.kept_calls import NothingKeptError, OtherWorkspaceError
from skillpouch.errors import SkillpouchError
from skillpouch.workspace.change_store import ChangeStore
from tests.builtins.keeping import keep


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "a.txt").write_text("before")
    return folder


async def test_a_session_shows_applies_discards_and_undoes_its_calls(workspace: Path) -> None:
    sessions = SessionManager()
    name = await sessions.create_session("s1", workspace=workspace)
    keep(workspace, {"a.txt": "one"}, call_id="90", state="staged", session=name)
    keep(workspace, {"b.txt": "two"}, call_id="91", state="staged", session=name)

    diff = await sessions.diff(name, "90", path="a.txt")
    applied = await sessions.apply(name, "90", ["a.txt"])
    discarded = await sessions.discard(name, "91")
    text = (workspace / "a.txt").read_text()
    undone = await sessions.undo(name)

    assert "+one" in diff
    assert [each.outcome for each in (applied, discarded, undone)] == ["ok"] * 3
    assert (text, (workspace / "a.txt").read_text()) == ("one", "before")
    states = {each.id: each.state for each in await sessions.changes(name)}
    assert (states["90"], states["91"]) == ("undone", "discarded")


async def test_a_session_is_undone_to_its_beginning(workspace: Path) -> None:
    sessions = SessionManager()
    name = await sessions.create_session("s1", workspace=workspace)
    for number in range(3):
        keep(workspace, {"a.txt": str(number)}, call_id=f"9{number}", session=name)

    result = await sessions.undo(name, everything=True)

    assert result.structured["calls"] == ["92", "91", "90"]
    assert (workspace / "a.txt").read_text() == "before"


@pytest.mark.promise("undo-4")
@pytest.mark.parametrize("act", ["undo", "apply", "discard", "diff"])
async def test_a_session_does_not_reach_the_calls_of_another_in_the_same_workspace(
    workspace: Path, act: str
) -> None:
    sessions = SessionManager()
    name = await sessions.create_session("s1", workspace=workspace)
    await sessions.create_session("s2", workspace=workspace)
    state = "applied" if act == "undo" else "staged"
    keep(workspace, {"a.txt": "of the other"}, call_id="90", state=state, session="s2")
    before = (workspace / "a.txt").read_text()

    with pytest.raises(NothingKeptError, match="'90' of this session"):
        await getattr(sessions, act)(name, "90")

    assert (workspace / "a.txt").read_text() == before
    assert await sessions.changes(name) == []
    with pytest.raises(SkillpouchError):
        await sessions.undo(name, everything=True)


@pytest.mark.promise("undo-4")
async def test_a_model_with_tools_to_undo_reaches_its_own_session_only(workspace: Path) -> None:
    sessions = SessionManager(undo_tools=True)
    name = await sessions.create_session("s1", workspace=workspace)
    keep(workspace, {"a.txt": "of the other"}, call_id="90", session="s2")
    keep(workspace, {"b.txt": "its own"}, call_id="91", session=name)

    with pytest.raises(NothingKeptError):
        await sessions.execute(name, "skillpouch.undo", {"call": "90"})
    result = await sessions.execute(name, "skillpouch.undo", {"session": "s2", "calls": 9})

    assert result.structured["calls"] == ["91"]
    assert (workspace / "a.txt").read_text() == "of the other"
    assert not (workspace / "b.txt").exists()


async def test_the_workspace_of_a_session_is_not_that_of_another(tmp_path: Path) -> None:
    sessions = SessionManager(workspaces=tmp_path / "spaces")
    name = await sessions.create_session("s1")
    other = tmp_path / "other"
    other.mkdir()
    keep(other, {"x": "x"}, call_id="90", session=name)

    with pytest.raises(OtherWorkspaceError):
        await sessions.undo(name, "90")

    assert (other / "x").exists()


async def test_with_the_workspace_of_a_session_goes_what_was_kept_of_its_calls(
    tmp_path: Path,
) -> None:
    sessions = SessionManager(workspaces=tmp_path / "spaces")
    name = await sessions.create_session("s1")
    kept = keep(await sessions.workspace(name), {"x": "private"}, call_id="90", session=name)

    await sessions.destroy_session(name)

    assert ChangeStore().get(kept.id).state == "discarded"
    assert not any(path.name == "x" for path in ChangeStore().directory.rglob("*"))
