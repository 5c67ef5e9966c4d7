"""Ids for people and records, wire names that every model provider accepts."""

import re
from hashlib import sha256

import pytest

from skillpouch.tools import is_wire_name, script_tool_name, tool_id, wire_name

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def short_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("scripts/parse.py", "parse"),
        ("scripts/utils/parse.py", "utils-parse"),
        ("scripts/a/b/c.sh", "a-b-c"),
        ("scripts/v1.2.py", "v1.2"),
        ("scripts/run.PY", "run"),
        ("scripts/scripts/run.py", "scripts-run"),
        ("scripts/with space.py", "with space"),
    ],
)
def test_a_script_is_called_by_its_path_below_scripts(path: str, name: str) -> None:
    assert script_tool_name(path) == name


@pytest.mark.parametrize(
    ("skill", "tool", "expected"),
    [("pdf", "parse", "pdf.parse"), ("office:pdf", "utils-parse", "office:pdf.utils-parse")],
)
def test_an_id_is_skill_dot_tool(skill: str, tool: str, expected: str) -> None:
    assert tool_id(skill, tool) == expected


@pytest.mark.parametrize("name", ["count_words", "count-words", "A", "x" * 64, "3d"])
def test_a_declared_name_that_is_legal_is_sent_as_declared(name: str) -> None:
    assert wire_name("skill", name, declared=True) == name


@pytest.mark.parametrize(
    ("skill", "tool", "declared", "expected"),
    [
        ("pdf", "parse", False, "pdf__parse"),
        ("pdf", "utils-parse", False, "pdf__utils-parse"),
        ("office:pdf", "parse", False, "office__pdf__parse"),
        ("git", "log.show", False, "git__log__show"),
        ("db", "db.query", True, "db__db__query"),
        ("db", "a/b", True, "db__a__b"),
        ("7zip", "pack", False, "_7zip__pack"),
        ("-x", "pack", False, "_-x__pack"),
    ],
)
def test_everything_else_is_skill_and_tool_with_separators_doubled(
    skill: str, tool: str, declared: bool, expected: str
) -> None:
    assert wire_name(skill, tool, declared=declared) == expected


@pytest.mark.parametrize(
    ("skill", "tool", "kept"),
    [
        ("pdf", "mit leerzeichen", "pdf__mit_leerzeichen"),
        ("café", "x", "caf___x"),
        ("数据", "x", "____x"),
        ("a__b", "c", "a__b__c"),
        ("s", "x" * 64, f"s__{'x' * 52}"),
    ],
)
def test_a_name_that_lost_something_ends_in_a_hash_of_its_id(
    skill: str, tool: str, kept: str
) -> None:
    name = wire_name(skill, tool, declared=False)

    assert name == f"{kept[:55]}_{short_hash(f'{skill}.{tool}')}"


def test_sixty_four_characters_are_kept_and_one_more_is_shortened_to_sixty_four() -> None:
    assert wire_name("s", "x" * 61, declared=False) == f"s__{'x' * 61}"
    assert len(wire_name("s", "x" * 62, declared=False)) == 64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a__b", "c"), ("a", "b__c")),
        (("a b", "c"), ("a_b", "c")),
        (("é", "c"), ("è", "c")),
        (("x" * 70, "a"), ("x" * 70, "b")),
        (("a", "x y"), ("a", "x\ty")),
    ],
)
def test_ids_that_look_alike_get_different_names(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert wire_name(*one, declared=False) != wire_name(*other, declared=False)


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "é", "数据", "\ud800", "\x00", "a\nb", "\U0001f600", "x" * 500, "..", "-"],
)
@pytest.mark.parametrize("declared", [True, False])
def test_every_wire_name_is_legal_whatever_the_names(text: str, declared: bool) -> None:
    for skill, tool in ((text, "tool"), ("skill", text), (text, text)):
        assert LEGAL.fullmatch(wire_name(skill, tool, declared=declared))


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "é", "a\n", "٣"])
def test_what_a_provider_would_reject_is_no_wire_name(name: str) -> None:
    assert not is_wire_name(name)


def test_names_do_not_change_between_runs() -> None:
    assert wire_name("café", "x", declared=False) == wire_name("café", "x", declared=False)
    assert wire_name("café", "x", declared=False) == "caf___x_" + short_hash("café.x")
