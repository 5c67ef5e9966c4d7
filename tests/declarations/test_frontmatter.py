"""Every oddity of real SKILL.md files, and what becomes of it: loaded, rescued, or explained."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch.declarations.skill_md import SkillFile, read_body, read_skill_md

Read = Callable[[str | bytes], SkillFile]
Told = list[tuple[str, str, int | None]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def write_and_read(text: str | bytes) -> SkillFile:
        path = tmp_path / "demo" / "SKILL.md"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_skill_md(str(path), "demo")

    return write_and_read


def said(file: SkillFile) -> tuple[str, str]:
    return file.metadata.name, file.metadata.description


def told(file: SkillFile) -> Told:
    return [(problem.code, problem.severity, problem.line) for problem in file.problems]


def values(file: SkillFile) -> dict[str, Any]:
    return dict(file.metadata.frontmatter)


PLAIN = "---\nname: demo\ndescription: Does it well\n---\n\nBody.\n"


def test_a_plain_file_loads_without_a_word(read: Read) -> None:
    file = read(PLAIN)

    assert (said(file), told(file), file.degraded) == (("demo", "Does it well"), [], False)


def test_a_byte_order_mark_is_stripped_and_noted(read: Read) -> None:
    file = read(b"\xef\xbb\xbf" + PLAIN.encode())

    assert said(file) == ("demo", "Does it well")
    assert [severity for _, severity, _ in told(file)] == ["info"]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.replace("demo\n", "demo\r\n"),
        PLAIN.replace("---\n", "---\r\n"),
        PLAIN.replace("---\n", "---\r\n", 1),
        "\ufeff" + PLAIN.replace("\n", "\r\n"),
    ],
)
def test_line_ends_of_any_kind_are_read_alike(read: Read, tmp_path: Path, text: str) -> None:
    file = read(text)

    assert (said(file), file.degraded) == (("demo", "Does it well"), False)
    assert {severity for _, severity, _ in told(file)} <= {"info"}
    assert read_body(str(tmp_path / "demo/SKILL.md")) == "Body.\n"


@pytest.mark.parametrize("before", ["\n", "\n\n\n", " ", "  ", "\t", " \n"])
def test_blank_text_before_the_opening_is_skipped_with_a_warning(read: Read, before: str) -> None:
    file = read(before + PLAIN)

    assert (said(file), file.degraded) == (("demo", "Does it well"), False)
    assert [severity for _, severity, _ in told(file)] == ["warning"]


def test_lines_are_counted_from_the_top_of_the_file(read: Read) -> None:
    file = read("\n\n---\nname: demo\ndescription: Does it.\nname: again\n---\n\nBody.\n")

    assert ("duplicate-key", "warning", 6) in told(file)


def test_without_frontmatter_a_skill_is_degraded_but_there(read: Read) -> None:
    file = read("# Title\n\nDoes something useful.\n")

    assert (said(file), file.degraded) == (("demo", "Does something useful."), True)
    assert [severity for _, severity, _ in told(file)] == ["warning"]


@pytest.mark.parametrize(
    ("end", "body"),
    [
        ("\nThe body.\n", "The body.\n"),
        ("  ---\n\nThe body.\n", "The body.\n"),
        ("\t---\nThe body.\n", "The body.\n"),
        ("# Heading\n\nThe body.\n", "# Heading\n\nThe body.\n"),
        ("", ""),
    ],
)
def test_frontmatter_that_nothing_closes_ends_at_a_blank_line_a_heading_or_an_indented_closer(
    read: Read, tmp_path: Path, end: str, body: str
) -> None:
    file = read(f"---\nname: demo\ndescription: Does it.\n{end}")

    assert said(file) == ("demo", "Does it.")
    assert [(severity, line) for _, severity, line in told(file)] == [("warning", 1)]
    assert read_body(str(tmp_path / "demo/SKILL.md")) == body


@pytest.mark.parametrize(
    ("lines", "description"),
    [
        ("description: one --- two\n", "one --- two"),
        ("description: Does it.\n# --- a comment ---\n", "Does it."),
        ("description: |\n  one\n  ---\n  two\n", "one\n---\ntwo"),
        ("description: Does it.\nnote: ---x\n", "Does it."),
        ("description: Does it.\nnote: a---\n", "Does it."),
        ("description: '----'\n", "----"),
    ],
)
def test_dashes_inside_the_frontmatter_do_not_close_it(
    read: Read, lines: str, description: str
) -> None:
    file = read(f"---\nname: demo\n{lines}license: MIT\n---\n\nBody.\n")

    assert said(file) == ("demo", description)
    assert (file.metadata.license, file.degraded) == ("MIT", False)


def test_three_dots_close_it_too_and_a_rule_in_the_body_does_not_matter(
    read: Read, tmp_path: Path
) -> None:
    read("---\nname: demo\ndescription: Does it.\n...\nOne.\n\n---\n\nTwo.\n")

    assert read_body(str(tmp_path / "demo/SKILL.md")) == "One.\n\n---\n\nTwo.\n"


@pytest.mark.parametrize(
    "value",
    [
        "Use when: always",
        "Use this: a, b: c",
        "Ends with a colon:",
        'Says "hi": and \\ more',
        "**Bold** words",
        "`code` first",
        "@someone asked",
        "%d things",
        "& more",
        "*",
        "Emoji \U0001f600: yes",
    ],
)
def test_a_plain_value_that_needs_quotes_gets_them_with_a_warning_and_its_line(
    read: Read, value: str
) -> None:
    file = read(f"---\nname: demo\ndescription: {value}\ntools: [Read]\n---\n\nBody.\n")

    assert (said(file), values(file)["tools"]) == (("demo", value), ["Read"])
    assert ("value-quoted", "warning", 3) in told(file)
    assert (file.degraded, file.declarations_lost) == (False, False)


@pytest.mark.parametrize(
    "line",
    [
        'description: "quoted": broken',
        "description: 'quoted': broken",
        "description: [a: b",
        "description: {a: b: c",
        "description: Use: this # with a comment",
    ],
)
def test_values_that_open_with_a_mark_or_hold_a_comment_are_never_quoted(
    read: Read, line: str
) -> None:
    file = read(f"---\nname: demo\n{line}\ntools: [{{name: x}}]\n---\n\nBody.\n")

    assert file.metadata.name == "demo"
    assert (file.degraded, file.declarations_lost) == (True, True)
    assert ("frontmatter-invalid", "error") in [told[:2] for told in told(file)]


@pytest.mark.parametrize(
    "line", ["x: &anchor y", "x: *alias", "x: !tag y", f"x: {'[' * 70}{']' * 70}"]
)
def test_what_is_refused_is_not_retried_and_costs_every_declaration(read: Read, line: str) -> None:
    file = read(f"---\nname: demo\ndescription: Does it.\n{line}\nversion: 2\n---\n\nBody.\n")

    assert (said(file), values(file)) == (
        ("demo", "Does it."),
        {"name": "demo", "description": "Does it."},
    )
    assert (file.degraded, file.declarations_lost) == (True, True)
    assert told(file) == [("frontmatter-invalid", "error", 4)]


def test_a_value_opening_with_an_asterisk_keeps_its_words(read: Read) -> None:
    file = read("---\nname: demo\ndescription: *Use this* when needed\n---\n\nBody.\n")

    assert file.metadata.name == "demo"
    assert "Use this" in file.metadata.description
    assert "when needed" in file.metadata.description


@pytest.mark.parametrize(
    ("lines", "name", "description"),
    [
        ("## name: scout\n## description: Looks around: far\n: [\n", "scout", "Looks around: far"),
        ("**Name**: scout\n- description: Looks around\n: [\n", "scout", "Looks around"),
        ("NAME: scout\nDescription: 'Looks around'\n: [\n", "scout", "Looks around"),
        (
            "name: scout\ndescription: >-\n  Looks\n  around: far\n: [\n",
            "scout",
            "Looks around: far",
        ),
        ("just words\nname - scout\n", "demo", "Body."),
        ("- a\n- list\n", "demo", "Body."),
    ],
)
def test_what_is_no_mapping_is_searched_for_name_and_description(
    read: Read, lines: str, name: str, description: str
) -> None:
    file = read(f"---\n{lines}---\n\nBody.\n")

    assert said(file) == (name, description)
    assert (file.degraded, file.declarations_lost) == (True, True)
    assert "error" in [severity for _, severity, _ in told(file)]


def test_control_characters_are_dropped_with_a_warning(read: Read) -> None:
    file = read("---\nname: de\x08mo\ndescription: Does\x1b it.\x7f\n---\n\nBody.\n")

    assert (said(file), file.degraded) == (("demo", "Does it."), False)
    assert [severity for _, severity, _ in told(file)] == ["warning"]


def test_bytes_that_are_not_utf8_are_replaced_with_a_warning(read: Read) -> None:
    file = read(b"---\nname: demo\ndescription: Caf\xe9.\n---\n\nBody.\n")

    assert (said(file), file.degraded) == (("demo", "Caf\ufffd."), False)
    assert [severity for _, severity, _ in told(file)] == ["warning"]


@pytest.mark.parametrize(
    "written",
    ["Name", "DESCRIPTION", "Allowed-Tools", "License", "Metadata", "Version", "Tools"],
)
def test_keys_in_the_wrong_case_are_taken_for_the_right_ones_with_a_warning(
    read: Read, written: str
) -> None:
    keys = {"name": "demo", "description": "Does it."} | {written.lower(): "x"}
    lines = "".join(f"{written if k == written.lower() else k}: {v}\n" for k, v in keys.items())

    file = read(f"---\n{lines}---\n\nBody.\n")

    assert values(file)[written.lower()] == "x"
    assert "warning" in [severity for _, severity, _ in told(file)]


def test_of_duplicate_keys_the_first_counts_and_the_warning_has_the_line(read: Read) -> None:
    file = read("---\nname: demo\ndescription: One.\nlicense: MIT\ndescription: Two.\n---\n\nB.\n")

    assert (said(file), file.degraded) == (("demo", "One."), False)
    assert told(file) == [("duplicate-key", "warning", 5)]


def test_a_tab_between_key_and_value_is_fine(read: Read) -> None:
    file = read("---\nname:\tdemo\ndescription:\tDoes it.\n---\n\nB.\n")

    assert said(file) == ("demo", "Does it.")


def test_frontmatter_beyond_64_kib_is_not_parsed_but_its_beginning_is_searched(read: Read) -> None:
    lines = "".join(f"key{number}: value\n" for number in range(6000))

    file = read(f"---\nname: demo\ndescription: Does it.\n{lines}---\n\nBody.\n")

    assert (said(file), file.declarations_lost) == (("demo", "Does it."), True)
    assert ("frontmatter-invalid", "error") in [told[:2] for told in told(file)]


def test_frontmatter_longer_than_one_read_is_read_whole(read: Read) -> None:
    lines = "".join(f"key{number}: value\n" for number in range(3000))

    file = read(f"---\nname: demo\n{lines}description: At the end.\n---\n\nBody.\n")

    assert (said(file), file.degraded) == (("demo", "At the end."), False)
    assert len(values(file)) == 3002


def test_an_argument_hint_in_brackets_costs_nothing_else(read: Read) -> None:
    file = read(
        "---\nname: demo\nargument-hint: [name] [description]\nallowed-tools: [Read]\n---\nDo.\n"
    )

    assert values(file) == {
        "name": "demo",
        "argument-hint": "[name] [description]",
        "allowed-tools": ["Read"],
    }
    assert ("value-quoted", "warning", 3) in told(file)
