"""Kitbag's own tools from the command line."""

from base64 import b64decode
from pathlib import Path

from tests.cli.conftest import Kitbag

PNG = b"\x89PNG\r\n\x1a\n...."


def test_a_file_is_read(kitbag: Kitbag, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("hello\n")

    ran = kitbag("call", "read", "file_path=f.txt")

    assert (ran.code, ran.out, ran.err) == (0, "     1\thello\n", "")


def test_a_wrong_name_of_an_argument_names_the_right_one(kitbag: Kitbag) -> None:
    ran = kitbag("call", "read", "path=f.txt")

    assert ran.code == 2
    assert "did you mean 'file_path'?" in ran.err


def test_a_failure_is_exit_1_and_a_path_outside_exit_3(kitbag: Kitbag) -> None:
    assert kitbag("call", "read", "file_path=none").code == 1
    assert kitbag("call", "read", "file_path=../secret").code == 3


def test_bash_and_grep_run(kitbag: Kitbag, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("hello\n")

    assert kitbag("call", "bash", "command=cat f.txt; exit 3").code == 1
    assert kitbag("call", "grep", "pattern=h.llo").out == "f.txt:1:hello\n"


def test_an_image_is_in_the_json(kitbag: Kitbag, tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(PNG)

    (attachment,) = kitbag("call", "read", "file_path=p", "--json").json["attachments"]

    assert (attachment["name"], attachment["type"]) == ("p", "image/png")
    assert b64decode(attachment["data"]) == PNG


def test_one_of_them_is_shown(kitbag: Kitbag) -> None:
    ran = kitbag("show", "edit", "--json")

    assert ran.json["runs"] == {"name": "edit"}
    assert kitbag("show", "edit").out.startswith("edit\n")
