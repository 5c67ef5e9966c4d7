"""Skillpouch's own tools from the command line."""

from base64 import b64decode
from pathlib import Path

import pytest

from tests.cli.conftest import Skillpouch

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n...."


def test_a_file_is_read(skillpouch: Skillpouch, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("hello\n")

    ran = skillpouch("call", "read", "file_path=f.txt")

    assert (ran.code, ran.out, ran.err) == (0, "     1\thello\n", "")


def test_a_wrong_name_of_an_argument_names_the_right_one(skillpouch: Skillpouch) -> None:
    ran = skillpouch("call", "read", "path=f.txt")

    assert ran.code == 2
    assert "did you mean 'file_path'?" in ran.err


def test_a_failure_is_exit_1_and_a_path_outside_exit_3(skillpouch: Skillpouch) -> None:
    assert skillpouch("call", "read", "file_path=none").code == 1
    assert skillpouch("call", "read", "file_path=../secret").code == 3


def test_bash_and_grep_run(skillpouch: Skillpouch, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("hello\n")

    assert skillpouch("call", "bash", "command=cat f.txt; exit 3").code == 1
    assert skillpouch("call", "grep", "pattern=h.llo").out == "f.txt:1:hello\n"


def test_an_image_is_in_the_json(skillpouch: Skillpouch, tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(PNG)

    (attachment,) = skillpouch("call", "read", "file_path=p", "--json").json["attachments"]

    assert (attachment["name"], attachment["type"]) == ("p", "image/png")
    assert b64decode(attachment["data"]) == PNG


def test_one_of_them_is_shown(skillpouch: Skillpouch) -> None:
    ran = skillpouch("show", "edit", "--json")

    assert ran.json["runs"] == {"name": "edit"}
    assert skillpouch("show", "edit").out.startswith("edit\n")
