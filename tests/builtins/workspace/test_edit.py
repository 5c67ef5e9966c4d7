import stat
from pathlib import Path

import pytest

from skillpouch.errors import InvalidArgumentsError
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow


def test_one_place_is_changed_and_shown(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("".join(f"line {n}\n" for n in range(1, 10)))
    (workspace / "f").chmod(0o640)

    result = use("edit", file_path="f", old_string="line 5\n", new_string="five\nand a half\n")

    assert (workspace / "f").read_text().splitlines()[3:7] == [
        "line 4",
        "five",
        "and a half",
        "line 6",
    ]
    assert stat.S_IMODE((workspace / "f").stat().st_mode) == 0o640
    assert result.content == (
        "changed f:\n@@ line 2 @@\n line 2\n line 3\n line 4\n"
        "-line 5\n+five\n+and a half\n line 6\n line 7\n line 8"
    )


def test_several_places_are_listed_and_nothing_changes(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("x = 1\ny = 2\nx = 1\n")

    result = use("edit", file_path="f", old_string="x = 1", new_string="x = 2")

    assert (result.outcome, result.code) == ("failed", "conflict")
    assert "2 times in 'f', not 1:\n  line 1: x = 1\n  line 3: x = 1" in result.content
    assert (workspace / "f").read_text() == "x = 1\ny = 2\nx = 1\n"


def test_places_that_overlap_are_several(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("aaa\n")

    assert use("edit", file_path="f", old_string="aa", new_string="b").code == "conflict"


def test_replace_all_changes_every_place(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("a b a b a\n")

    wrong = use(
        "edit",
        file_path="f",
        old_string="a",
        new_string="c",
        replace_all=True,
        expected_replacements=2,
    )
    right = use("edit", file_path="f", old_string="a", new_string="c", replace_all=True)

    assert wrong.code == "conflict"
    assert (workspace / "f").read_text() == "c b c b c\n"
    assert right.structured["replacements"] == 3


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("def greet( name ):", "only the white space differs"),
        ("     2\t    return name", "it contains line numbers"),
        ("DEF GREET", "only upper and lower case differ"),
        ("def great(name):", "the nearest is line 1: 'def greet(name):'"),
        ("zzzz", "nothing in the file resembles it"),
        ("pay", "invisible characters there"),
    ],
)
def test_what_is_not_there_says_what_was_probably_meant(
    wanted: str, said: str, use: Use, workspace: Path
) -> None:
    (workspace / "f").write_text("def greet(name):\n    return name\np\u200bay\n")

    result = use("edit", file_path="f", old_string=wanted, new_string="x")

    assert result.code == "not_found"
    assert said in result.content


def test_an_empty_or_unchanged_text_is_refused(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("abc")

    with pytest.raises(InvalidArgumentsError):
        use("edit", file_path="f", old_string="", new_string="x")
    assert use("edit", file_path="f", old_string="a", new_string="a").code == "invalid_argument"
    assert (workspace / "f").read_text() == "abc"


def test_a_file_that_changed_since_it_was_read_is_left_alone(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("one\n")
    use("read", file_path="f")
    (workspace / "f").write_text("somebody else's one\n")

    stale = use("edit", file_path="f", old_string="one", new_string="two")

    assert stale.code == "conflict"
    assert (workspace / "f").read_text() == "somebody else's one\n"
    use("read", file_path="f")
    assert use("edit", file_path="f", old_string="one", new_string="two").outcome == "ok"
    assert use("edit", file_path="f", old_string="two", new_string="three").outcome == "ok"


def test_a_dry_run_changes_nothing(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("one\n")

    result = use("edit", file_path="f", old_string="one", new_string="two", dry_run=True)

    assert result.content == "f would change:\n@@ line 1 @@\n-one\n+two"
    assert (workspace / "f").read_text() == "one\n"
    assert result.files == ()


def test_line_ends_and_mark_are_kept(use: Use, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")

    use("edit", file_path="f", old_string="one\ntwo", new_string="1\n2\n2.5")

    assert (workspace / "f").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2.5\r\nthree\r\n"


def test_utf_16_and_bytes_that_are_no_text_are_kept(use: Use, workspace: Path) -> None:
    (workspace / "wide").write_bytes("ein\r\nzwei\r\n".encode("utf-16"))
    (workspace / "odd").write_bytes(b"caf\xe9\nname\n")

    use("edit", file_path="wide", old_string="zwei", new_string="drei")
    use("edit", file_path="odd", old_string="name", new_string="näme")

    assert (workspace / "wide").read_bytes().decode("utf-16") == "ein\r\ndrei\r\n"
    assert (workspace / "odd").read_bytes() == b"caf\xe9\nn\xc3\xa4me\n"


def test_a_binary_or_missing_file_is_not_edited(use: Use, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"a\0b")

    assert use("edit", file_path="f", old_string="a", new_string="c").code == "unsupported"
    assert use("edit", file_path="g", old_string="a", new_string="c").code == "not_found"
    assert [path.name for path in workspace.iterdir()] == ["f"]
