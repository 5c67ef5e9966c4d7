"""The Agent Skills rules: what a SKILL.md must say, and what is made of it when it does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.declarations.skill_md import SkillFile, read_body, read_skill_md
from skillpouch.errors import SkillUnreadableError
from skillpouch.untrusted_files import CannotReadError

Read = Callable[..., SkillFile]

LONG_NAME = "a" * 64


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def write_and_read(
        front: str | None, body: str = "Body text.\n", folder: str = "demo"
    ) -> SkillFile:
        path = tmp_path / folder / "SKILL.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(body if front is None else f"---\n{front}---\n\n{body}")
        return read_skill_md(str(path), folder)

    return write_and_read


def told(file: SkillFile, code: str) -> list[tuple[str, int | None]]:
    return [(p.severity, p.line) for p in file.problems if p.code == code]


@pytest.mark.parametrize("name", ["a", "7zip", "a-b-c", "pdf2text", LONG_NAME])
def test_a_name_within_the_rules_is_kept_without_a_word(read: Read, name: str) -> None:
    file = read(f"name: {name}\ndescription: Does it.\n", folder=name)

    assert (file.name, file.metadata.name, file.problems) == (name, name, ())


@pytest.mark.parametrize(
    "name",
    [
        *("Upper", "-lead", "trail-", "dou--ble", "under_score", "sp ace", "a.b", "a/b", "../up"),
        *("a:b", "naïve", "数据", "emoji-\U0001f600", "a" * 65),
    ],
)
def test_a_name_outside_the_rules_loads_with_a_warning_and_its_line(read: Read, name: str) -> None:
    file = read(f"name: '{name}'\ndescription: Does it.\n")

    assert file.metadata.name == name
    assert told(file, "name-invalid") == [("warning", 2)]


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("My Skill", "my-skill"),
        ("a.b", "a-b"),
        ("../../etc/passwd", "etc-passwd"),
        ("a:b", "a-b"),
        ("!!!", "demo"),
        ("x" * 80, "x" * 64),
        ("数据", "数据"),
    ],
)
def test_the_id_of_an_odd_name_is_a_slug_of_it(read: Read, name: str, identity: str) -> None:
    assert read(f"name: '{name}'\ndescription: Does it.\n").name == identity


def test_a_name_that_differs_from_its_folder_wins_with_a_warning(read: Read) -> None:
    file = read("description: Does it.\nname: other\n", folder="demo")

    assert file.name == "other"
    assert told(file, "name-differs") == [("warning", 3)]


@pytest.mark.parametrize("front", ["", "name:\n", "name: ~\n", "name: ''\n", "name: [ ]\n"])
def test_without_a_name_the_folder_gives_it(read: Read, front: str) -> None:
    file = read(f"{front}description: Does it.\n", folder="from-folder")

    assert (file.name, file.metadata.description) == ("from-folder", "Does it.")


@pytest.mark.parametrize(("written", "name"), [("42", "42"), ("1.5", "1.5"), ("0", "0")])
def test_a_name_that_is_a_number_is_its_text(read: Read, written: str, name: str) -> None:
    assert read(f"name: {written}\ndescription: Does it.\n").metadata.name == name


@pytest.mark.parametrize("front", ["", "description:\n", "description: ~\n", "description: '  '\n"])
def test_a_missing_description_is_the_first_prose_of_the_body(read: Read, front: str) -> None:
    before = "# Title\n\n![badge](x)\n\n<!-- note -->\n\n```sh\nls\n\nls\n```\n\n"
    body = f"{before}First words\nof it.\n\nMore."

    file = read(f"name: demo\n{front}", body)

    assert (file.metadata.description, file.degraded) == ("First words of it.", True)
    assert [severity for severity, _ in told(file, "description-missing")] == ["warning"]


def test_without_prose_the_first_heading_describes(read: Read) -> None:
    assert read("name: demo\n", "## The title\n\n## Another\n").metadata.description == "The title"


def test_prose_right_under_a_heading_is_prose(read: Read) -> None:
    assert read("name: demo\n", "# Title\nSome words.\n").metadata.description == "Some words."


def test_a_description_in_the_body_never_comes_from_the_frontmatter_itself(read: Read) -> None:
    with pytest.raises(CannotReadError) as caught:
        read("name: demo\nlicense: MIT\n", "")

    assert caught.value.code == "no-text"


def test_nothing_between_the_two_lines_is_frontmatter_that_says_nothing(read: Read) -> None:
    file = read("")

    assert (file.name, file.metadata.description, file.degraded) == ("demo", "Body text.", True)


def test_a_degraded_skill_keeps_what_else_its_frontmatter_says(read: Read) -> None:
    file = read("name: demo\nallowed-tools: Read\n")

    assert (file.degraded, file.declarations_lost) == (True, False)
    assert file.metadata.allowed_tools == ("Read",)


@pytest.mark.parametrize(
    ("written", "description"),
    [
        ("[Does it, and more]", "Does it and more"),
        ("\n- Does it\n- and more", "Does it and more"),
        ("|\n  Two\n  lines", "Two\nlines"),
        (">\n  Two\n  lines", "Two lines"),
        ("42", "42"),
        ("'  padded  '", "padded"),
    ],
)
def test_a_description_that_is_a_list_or_a_number_is_text(
    read: Read, written: str, description: str
) -> None:
    file = read(f"name: demo\ndescription: {written}\n")

    assert (file.metadata.description, file.degraded) == (description, False)


def test_a_long_description_loads_in_full_with_a_warning(read: Read) -> None:
    text = "x" * 1025

    file = read(f"name: demo\ndescription: {text}\n")

    assert file.metadata.description == text
    assert told(file, "description-long") == [("warning", 3)]
    assert read(f"name: demo\ndescription: {text[1:]}\n").problems == ()


def test_a_long_compatibility_is_warned_about(read: Read) -> None:
    front = "name: demo\ndescription: Does it.\ncompatibility: {}\n"

    assert told(read(front.format("x" * 501)), "compatibility-long") == [("warning", 4)]
    assert read(front.format("x" * 500)).problems == ()


@pytest.mark.parametrize(
    "nested",
    [
        "metadata:\n  name: demo\n  description: Does it.\n",
        "name: demo\nmetadata:\n  description: Does it.\n",
        "name: ''\ndescription:\nmetadata: {name: demo, description: Does it.}\n",
    ],
)
def test_name_and_description_inside_metadata_are_lifted_with_a_warning(
    read: Read, nested: str
) -> None:
    file = read(nested)

    assert (file.metadata.name, file.metadata.description) == ("demo", "Does it.")
    assert "warning" in [severity for severity, _ in told(file, "key-nested")]


def test_metadata_may_hold_any_json(read: Read) -> None:
    front = "name: demo\ndescription: Does it.\nmetadata: {a: 1, b: [x, {c: null}], d: 1.5}\n"

    file = read(front)

    assert file.metadata.frontmatter["metadata"] == {"a": 1, "b": ["x", {"c": None}], "d": 1.5}
    assert file.problems == ()


def test_unknown_keys_are_kept_as_written_and_are_worth_an_info(read: Read) -> None:
    file = read("name: demo\ndescription: Does it.\nhomepage: x\ntriggers: [a]\n")

    assert file.metadata.frontmatter["homepage"] == "x"
    assert file.metadata.frontmatter["triggers"] == ["a"]
    assert [(p.severity, p.line) for p in file.problems] == [("info", 4)]


@pytest.mark.parametrize(
    ("front", "version"),
    [
        ("version: 1.2.3\n", "1.2.3"),
        ("version: 2\n", "2"),
        ("metadata: {version: '1.0'}\n", "1.0"),
        ("version: '3'\nmetadata: {version: '1.0'}\n", "3"),
        ("version: {a: b}\n", None),
        ("", None),
    ],
)
def test_the_version_stands_at_the_top_or_in_metadata(
    read: Read, front: str, version: str | None
) -> None:
    assert read(f"name: demo\ndescription: Does it.\n{front}").metadata.version == version


@pytest.mark.parametrize("value", ["{a: b}", "[[[x]]]", "true", "!!x", "''"])
@pytest.mark.parametrize("key", ["name", "description", "license", "compatibility"])
def test_values_of_the_wrong_type_never_stop_a_skill(read: Read, key: str, value: Any) -> None:
    fields = {"name": "demo", "description": "Does it."} | {key: value}

    file = read("".join(f"{name}: {text}\n" for name, text in fields.items()))

    assert file.name
    assert file.metadata.description


def test_hidden_characters_are_cleaned_out_of_name_and_description(read: Read) -> None:
    file = read('name: "de\\u200bmo"\ndescription: "Do\\u202es \\e[31mit\\0."\n')

    assert (file.metadata.name, file.metadata.description) == ("demo", "Dos it.")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "empty"),
        (b" \n\t\r\n", "empty"),
        (b"---\n---\n", "no-text"),
        (b"---\nname: demo\0\ndescription: x\n---\n", "nul-bytes"),
        ("---\nname: demo\ndescription: x\n---\n".encode("utf-16"), "nul-bytes"),
        (b"---\nname: demo\ndescription: x\n---\n" + b"x" * 1_048_576, "too-large"),
    ],
)
def test_a_hopeless_file_is_refused_with_its_reason(tmp_path: Path, raw: bytes, code: str) -> None:
    path = tmp_path / "SKILL.md"
    path.write_bytes(raw)

    with pytest.raises(CannotReadError) as caught:
        read_skill_md(str(path), "demo")

    assert (caught.value.code, bool(caught.value.reason)) == (code, True)


def test_a_file_of_one_mebibyte_is_still_read(tmp_path: Path) -> None:
    head = b"---\nname: demo\ndescription: x\n---\n"
    path = tmp_path / "SKILL.md"
    path.write_bytes(head + b"x" * (1_048_576 - len(head)))

    assert read_skill_md(str(path), "demo").name == "demo"
    assert len(read_body(str(path))) == 1_048_576 - len(head)


def test_an_empty_body_is_fine(read: Read, tmp_path: Path) -> None:
    assert read("name: demo\ndescription: Does it.\n", "").problems == ()
    assert read_body(str(tmp_path / "demo/SKILL.md")) == ""


def test_a_body_that_cannot_be_read_any_more_says_so(tmp_path: Path) -> None:
    with pytest.raises(SkillUnreadableError, match="no such file"):
        read_body(str(tmp_path / "SKILL.md"))


PROSE = st.from_regex(r"[A-Z][a-z]{2,9} [a-z]{2,9}[.,!]?", fullmatch=True)
DECORATED = st.one_of(
    PROSE,
    PROSE.map(lambda words: f"- {words}"),
    PROSE.map(lambda words: f"1. {words}"),
    PROSE.map(lambda words: f"**{words}**"),
    PROSE.map(lambda words: f"> {words}"),
    PROSE.map(lambda words: f"| {words} | x |"),
    PROSE.map(lambda words: f"{words}: for it"),
    PROSE.map(lambda words: f"```bash\n{words}\n```"),
    PROSE.map(lambda words: f"<!-- {words} -->\n{words}"),
)


@given(
    st.lists(DECORATED, min_size=1, max_size=6), st.sampled_from(["---\n", "", " ---\n", "-----\n"])
)
def test_a_file_without_blank_lines_keeps_its_head_and_its_text(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], closing: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "SKILL.md"
    text = "\n".join(lines)
    path.write_text(f"---\nname: demo\ndescription: Does it.\ntags:\n- a\n{closing}{text}")

    skill = read_skill_md(str(path), "demo")

    assert (skill.name, skill.metadata.description) == ("demo", "Does it.")
    assert skill.metadata.frontmatter["tags"][:1] == ["a"]
    assert not skill.degraded
    kept = read_body(str(path))
    # Without a closing line, items right after a list are items of that list.
    lost = [line for line in text.split("\n") if line not in kept.split("\n")]
    assert lost == [] if closing else all(line.startswith("- ") for line in lost)


@given(st.lists(DECORATED | PROSE.map(lambda words: f"# {words}"), min_size=1, max_size=6))
def test_a_text_without_blank_lines_or_a_head_is_described_by_itself(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "SKILL.md"
    path.write_text("\n".join(lines))

    description = read_skill_md(str(path), "demo").metadata.description

    assert description
    assert "```" not in description
    assert "<!--" not in description


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("# Title\n## Part\nUse it for X.\n```bash\nls\n```", "Use it for X."),
        ("# Title\n```bash\nls\n```\nUse it for X.", "Use it for X."),
        ("![logo](x.png)\nUse it for X.\nAnd Y.", "Use it for X. And Y."),
        ("<!-- made\nby hand -->\nUse it for X.", "Use it for X."),
        ("# Title\n| a | b |\n|---|---|\n| c | d |", "Title"),
        ("| when | what |\n|---|---|", "when | what"),
    ],
)
def test_the_first_prose_describes_a_text_without_blank_lines(
    tmp_path: Path, text: str, description: str
) -> None:
    (tmp_path / "SKILL.md").write_text(text)

    assert read_skill_md(f"{tmp_path}/SKILL.md", "demo").metadata.description == description
