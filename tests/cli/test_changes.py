import json
from pathlib import Path

import pytest

from skillpouch.environment import state_directory
from tests.builtins.keeping import keep
from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

CHANGES: dict[str, str | None] = {"a.txt": "one\n2\n", "b.txt": None, "new/c.txt": "c\n"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder in which the command runs."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_text("b\n")
    return tmp_path


def test_what_is_kept_is_listed_with_the_next_step(skillpouch: Skillpouch, here: Path) -> None:
    keep(here, {"a.txt": "1"}, call_id="7")
    keep(here, CHANGES, call_id="8", state="staged", session="s1")

    plain, found = skillpouch("changes"), skillpouch("changes", "--json").json["changes"]
    of_session = skillpouch("changes", "--session", "s1", "--json").json["changes"]

    rows = [line.split("\t") for line in plain.out.splitlines()]
    assert [[row[0], row[2], row[3], row[5]] for row in rows] == [
        ["8", "demo.write", "staged", "apply 8, discard 8"],
        ["7", "demo.write", "applied", "undo 7"],
    ]
    assert rows[1][4] == "changed: a.txt"
    assert rows[0][4].endswith(" and 1 more")
    assert [(each["call"], each["state"], each["total"]) for each in found] == [
        ("8", "staged", 3),
        ("7", "applied", 1),
    ]
    assert [each["call"] for each in of_session] == ["8"]


def test_nothing_kept_is_no_error(skillpouch: Skillpouch) -> None:
    ran = skillpouch("changes")

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "nothing is kept of calls in this workspace\n"


def test_a_diff_is_the_result_of_its_command(skillpouch: Skillpouch, here: Path) -> None:
    keep(here, CHANGES, call_id="8", state="staged")

    whole, one = skillpouch("diff", "8"), skillpouch("diff", "8", "--path", "a.txt")
    found = skillpouch("diff", "8", "--json").json

    assert (whole.code, whole.err) == (0, "")
    assert "-two\n+2\n" in whole.out
    assert "c.txt" in whole.out
    assert "c.txt" not in one.out
    assert (found["call"], found["state"], found["diff"]) == ("8", "staged", whole.out)
    assert {each["path"] for each in found["changes"]} == {"a.txt", "b.txt", "new/c.txt"}


def test_a_staged_call_is_applied_in_parts_and_undone(skillpouch: Skillpouch, here: Path) -> None:
    keep(here, CHANGES, call_id="8", state="staged")

    part = skillpouch("apply", "8", "a.txt")
    partly = ((here / "a.txt").read_text(), (here / "b.txt").exists())
    rest = skillpouch("apply", "8")
    whole = ((here / "new/c.txt").read_text(), (here / "b.txt").exists())
    undone = skillpouch("undo")

    assert (part.code, part.out.splitlines()[0]) == (0, "applied call 8 of demo.write: 1 change")
    assert partly == ("one\n2\n", True)
    assert (rest.code, whole) == (0, ("c\n", False))
    assert undone.code == 0
    assert (here / "b.txt").read_text() == "b\n"
    assert (here / "a.txt").read_text() == "one\ntwo\n"
    assert "takes this back" in undone.err


def test_conflicts_are_named_one_per_line_and_exit_with_1(
    skillpouch: Skillpouch, here: Path
) -> None:
    keep(here, CHANGES, call_id="8")
    (here / "a.txt").write_text("mine")
    (here / "b.txt").write_text("mine, too")

    ran = skillpouch("undo", "8")

    assert ran.code == 1
    left = [line for line in ran.out.splitlines() if line.startswith("left alone: ")]
    assert [line.split(": ")[1] for line in left] == ["a.txt", "b.txt"]
    assert (here / "a.txt").read_text() == "mine"
    assert not (here / "new").exists()


def test_calls_and_sessions_are_undone_together(skillpouch: Skillpouch, here: Path) -> None:
    for number in range(5):
        keep(here, {"a.txt": str(number)}, call_id=f"{number + 1}", session="s1")

    two = skillpouch("undo", "--calls", "2", "--json").json
    text = (here / "a.txt").read_text()
    all_of_it = skillpouch("undo", "--session", "s1", "--json").json

    assert (two["structured"]["calls"], text) == (["5", "4"], "2")
    assert all_of_it["structured"]["calls"] == ["3", "2", "1"]
    assert (here / "a.txt").read_text() == "one\ntwo\n"


def test_an_undo_is_undone_by_its_number(skillpouch: Skillpouch, here: Path) -> None:
    keep(here, CHANGES, call_id="8")
    undone = skillpouch("undo", "--json").json

    ran = skillpouch("undo", undone["call_id"])

    assert ran.code == 0
    assert (here / "a.txt").read_text() == "one\n2\n"
    journal = skillpouch("journal", "--json").json["calls"]
    assert [(each["tool"], each["outcome"]) for each in journal] == [("skillpouch.undo", "ok")] * 2


def test_a_discarded_call_is_gone(skillpouch: Skillpouch, here: Path) -> None:
    keep(here, CHANGES, call_id="8", state="staged")

    ran, again = skillpouch("discard", "8"), skillpouch("apply", "8")

    assert (ran.code, ran.out) == (0, "discarded call 8 of demo.write: 3 changes\n")
    assert again.code == 2
    assert "nothing of it is kept" in again.err


@pytest.mark.parametrize(
    ("words", "said", "step"),
    [
        (["undo", "99"], "no changes are kept of a call '99'", "skillpouch journal"),
        (["diff", "../x"], "no changes are kept of a call '../x'", "skillpouch journal"),
        (["undo"], "no call in", "skillpouch changes"),
        (["undo", "--session", "no"], "no call of session 'no'", "skillpouch changes"),
        (["apply", "7"], "it is applied already", "skillpouch undo 7"),
        (["discard", "7"], "it is applied already", "skillpouch undo 7"),
        (["undo", "8"], "it is staged", "skillpouch apply 8"),
        (["apply", "8", "other"], "'other' is not among the changes", "skillpouch diff 8"),
        (["undo", "7", "--calls", "2"], "not both", ""),
    ],
)
def test_a_wrong_call_says_the_next_step(
    skillpouch: Skillpouch, here: Path, words: list[str], said: str, step: str
) -> None:
    if "7" in words or "8" in words:
        keep(here, {"a.txt": "1"}, call_id="7")
        keep(here, {"b.txt": "1"}, call_id="8", state="staged")

    ran = skillpouch(*words)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert step in ran.err


def test_a_call_of_another_workspace_names_it(skillpouch: Skillpouch, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    keep(other, {"x": "x"}, call_id="7")

    ran, right = skillpouch("undo", "7"), skillpouch("undo", "7", "--workspace", other)

    assert (ran.code, ran.out) == (2, "")
    assert f"hint: name it: --workspace {other}" in ran.err
    assert right.code == 0
    assert not (other / "x").exists()


def test_a_store_that_cannot_be_used_could_not_be_started(skillpouch: Skillpouch) -> None:
    state = state_directory()
    assert state is not None
    state.mkdir(parents=True)
    (state / "changes").write_text("no folder")

    for words in (["changes"], ["undo"], ["diff", "7"], ["apply", "7"]):
        ran = skillpouch(*words)
        assert (ran.code, ran.out) == (4, ""), words
        assert ran.err.startswith("error: ")


def test_the_journal_names_what_undoes_a_call(skillpouch: Skillpouch, here: Path) -> None:
    keep(here, CHANGES, call_id="8", state="staged")
    skillpouch("apply", "8")

    shown = skillpouch("journal", "show", "1").out
    (entry,) = map(json.loads, skillpouch("journal", "export").out.splitlines())

    assert "undo:         skillpouch undo 8" in shown
    assert (entry["tool"], entry["call_id"], entry["changes_total"]) == ("skillpouch.apply", "8", 3)


def test_a_preview_changes_nothing_and_shows_what_it_would(
    skillpouch: Skillpouch, here: Path
) -> None:
    ran = skillpouch("call", "write", "file_path=a.txt", "content=three\n", "--preview")
    before = (here / "a.txt").read_text()
    applied = skillpouch("apply", "1")

    assert ran.code == 0
    assert "a.txt" in ran.out
    assert "+three" not in ran.out
    assert "-one\n-two\n+three\n" in ran.err
    assert "staged as call 1: `skillpouch apply 1` or `skillpouch discard 1`" in ran.err
    assert (before, applied.code, (here / "a.txt").read_text()) == ("one\ntwo\n", 0, "three\n")


def test_a_preview_for_programs_has_changes_and_diff(skillpouch: Skillpouch, here: Path) -> None:
    ran = skillpouch(
        "call", "write", "file_path=n.txt", "content=three", "--preview", "--json"
    ).json

    assert (ran["writes"], ran["call_id"], ran["outcome"]) == ("staged", "1", "ok")
    assert [(each["path"], each["change"]) for each in ran["changes"]] == [("n.txt", "created")]
    assert "+three" in ran["diff"]
    assert not (here / "n.txt").exists()


def test_a_preview_of_a_call_that_changes_nothing_says_so(
    skillpouch: Skillpouch, here: Path, write_skill: WriteSkill
) -> None:
    write_skill("demo", files={"scripts/look.sh": "cat a.txt\n"})

    ran = skillpouch("call", "demo.look", "--preview", "--root", here / "skills")

    assert (ran.code, ran.out) == (0, "one\ntwo\n")
    assert "it changes nothing" in ran.err
    assert skillpouch("changes").out == ""


def test_a_script_is_previewed_and_undone(
    skillpouch: Skillpouch, here: Path, write_skill: WriteSkill
) -> None:
    write_skill("demo", files={"scripts/wipe.sh": "rm a.txt b.txt; echo done\n"})

    ran = skillpouch("call", "demo.wipe", "--preview", "--root", here / "skills")
    before = sorted(path.name for path in here.glob("*.txt"))
    applied = skillpouch("apply", "1")
    after = sorted(path.name for path in here.glob("*.txt"))
    undone = skillpouch("undo")

    assert (ran.code, ran.out) == (0, "done\n")
    assert (before, applied.code, after) == (["a.txt", "b.txt"], 0, [])
    assert (undone.code, (here / "b.txt").read_text()) == (0, "b\n")
