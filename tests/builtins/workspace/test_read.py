from pathlib import Path

import pytest

from skillpouch.results import Attachment
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


def test_lines_have_numbers(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("one\n\nthree")

    result = use("read", file_path="f")

    assert result.content == "     1\tone\n     2\t\n     3\tthree"
    assert result.structured == {
        "path": "f",
        "first_line": 1,
        "lines": 3,
        "total_lines": 3,
        "next_offset": None,
    }
    assert dict(result.protections) == {"fs": "openat"}


def test_a_part_says_where_to_go_on(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("".join(f"{n}\n" for n in range(1, 11)))

    result = use("read", file_path="f", offset=3, limit=2)

    assert result.content == "     4\t4\n     5\t5\n[lines 4 to 5 of 10; go on with offset 5]"
    assert (result.truncated, result.structured["next_offset"]) == (True, 5)


@pytest.mark.parametrize(
    ("data", "offset", "said"),
    [
        (b"", 0, "[the file is empty]"),
        (b"a\nb\n", 2, "[the file has 2 lines: offset 2 is past its end]"),
        (b"a\nb", 9, "[the file has 2 lines: offset 9 is past its end]"),
    ],
)
def test_nothing_to_show_says_why(
    data: bytes, offset: int, said: str, use: Use, workspace: Path
) -> None:
    (workspace / "f").write_bytes(data)

    assert use("read", file_path="f", offset=offset).content == said


def test_a_long_line_is_cut_between_characters(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("é" * 5000 + "\n" + "漢" * 100_000 + "\nend\n")

    first, second, third = use("read", file_path="f").content.split("\n")

    assert first == f"     1\t{'é' * 2000} [... 6,000 bytes left out ...]"
    assert second == f"     2\t{'漢' * 2000} [... 294,000 bytes left out ...]"
    assert third == "     3\tend"


def test_all_pages_together_are_the_file(use: Use, workspace: Path) -> None:
    lines = [f"line {n} {'x' * (n % 90)}" for n in range(5000)]
    (workspace / "f").write_text("\n".join(lines) + "\n")
    seen = list[str]()
    offset: int | None = 0

    while offset is not None:
        result = use("read", file_path="f", offset=offset)
        assert len(result.content.encode()) <= 101_000
        seen += [row.split("\t")[1] for row in result.content.split("\n") if "\t" in row]
        offset = result.structured["next_offset"]

    assert seen == lines


def test_a_binary_file_is_refused(use: Use, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"\x7fELF\0\0\0")

    result = use("read", file_path="f")

    assert (result.outcome, result.code, result.exit_code) == ("failed", "unsupported", 1)
    assert "binary, 7 bytes" in result.content


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_mark_tells_the_encoding(encoding: str, use: Use, workspace: Path) -> None:
    (workspace / "f").write_bytes("Grüße\r\nzwei\r\n".encode(encoding))

    assert use("read", file_path="f").content == "     1\tGrüße\n     2\tzwei"


def test_an_encoding_can_be_named(use: Use, workspace: Path) -> None:
    (workspace / "f").write_bytes("Grüße\n".encode("latin-1"))

    assert use("read", file_path="f", encoding="latin-1").content == "     1\tGrüße"
    assert use("read", file_path="f").content == "     1\tGr��e"
    assert use("read", file_path="f", encoding="klingon").code == "invalid_argument"
    assert use("read", file_path="f", encoding="base64").code == "invalid_argument"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_attached_by_what_it_is_and_not_by_its_name(
    data: bytes, kind: str, use: Use, workspace: Path
) -> None:
    (workspace / "picture.txt").write_bytes(data)

    result = use("read", file_path="picture.txt")

    assert result.attachments == (Attachment(name="picture.txt", type=kind, data=data),)
    assert result.content == f"picture.txt: {kind}, {len(data)} bytes"
    assert repr(data) not in repr(result)


def test_a_huge_image_is_refused(use: Use, workspace: Path) -> None:
    with (workspace / "p.png").open("wb") as file:
        file.write(PNG)
        file.truncate(6 * 1024 * 1024)

    assert use("read", file_path="p.png").code == "unsupported"


def test_a_missing_file_names_what_was_probably_meant(use: Use, workspace: Path) -> None:
    (workspace / "src").mkdir()
    (workspace / "src" / "settings.py").write_text("")

    result = use("read", file_path="src/setings.py")

    assert (result.code, result.exit_code) == ("not_found", 1)
    assert result.content.endswith("hint: did you mean 'src/settings.py'?")


def test_a_folder_is_for_ls(use: Use, workspace: Path) -> None:
    (workspace / "src").mkdir()

    assert use("read", file_path="src").content == "'src' is a folder\nhint: `ls` lists it"


def test_characters_that_are_not_seen_are_left_out_and_said(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("pay\u202e\u200bme\x1b[31m\rnow\n")

    result = use("read", file_path="f")

    assert result.content == ("     1\tpayme\\rnow\n[invisible characters were left out]")
