"""YAML as strangers write it: 1.2 scalars, first of two keys, bounds, the line of each error."""

import json
from typing import Any

import pytest

from skillpouch.declarations.plain_yaml import drop_control_characters
from skillpouch.declarations.strict_yaml import YamlError, lines_of, load


def error_of(text: str, *, first_line: int = 1) -> YamlError:
    with pytest.raises(YamlError) as caught:
        load(text, first_line=first_line)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("False", False),
        # YAML 1.1 took these for booleans, a date, a sexagesimal number and an octal one.
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("2024-01-31", "2024-01-31"),
        ("12:30:45", "12:30:45"),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("1.x", "1.x"),
        ("--", "--"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("'null'", "null"),
        ("=", "="),
        ("nUll", "nUll"),
    ],
)
def test_a_scalar_means_what_yaml_1_2_says(text: str, value: Any) -> None:
    loaded = load(f"key: {text}").value["key"]

    assert (loaded, type(loaded)) == (value, type(value))


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan", "1e999", "-1e999", "9" * 10_000])
def test_no_scalar_becomes_something_that_json_cannot_hold(text: str) -> None:
    value = load(f"key: {text}").value

    assert json.loads(json.dumps(value, allow_nan=False)) == value


def test_blocks_lists_and_flow_style_are_read() -> None:
    text = "a: |\n  one\n  two\nb: >-\n  three\n  four\nc: [1, {d: e}]\nf:\n- 1\n-\n  - 2\n"

    assert load(text).value == {
        "a": "one\ntwo\n",
        "b": "three four",
        "c": [1, {"d": "e"}],
        "f": [1, [2]],
    }


def test_keys_are_always_text() -> None:
    assert load("1: a\ntrue: b\nnull: c\n'': d\n").value == {
        "1": "a",
        "true": "b",
        "null": "c",
        "": "d",
    }


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_nothing_is_nothing(text: str) -> None:
    assert load(text).value is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: &anchor 2\n", 2),
        ("a: 1\nb: 2\nc: *alias\n", 3),
        ("a: 1\nb:\n  <<: *base\n", 3),
        ("a: !!python/object/apply:os.system [id]\n", 1),
        ("a: 1\nb: !custom 2\n", 2),
        ("a: &x [1]\n", 1),
        ("? [complex]\n: 1\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
    ],
)
def test_anchors_aliases_tags_odd_keys_and_second_documents_are_refused_with_their_line(
    text: str, line: int
) -> None:
    error = error_of(text)

    assert (error.line, error.refused) == (line, True)


def test_sixty_four_levels_are_read_and_one_more_is_refused() -> None:
    assert load("[" * 64 + "]" * 64).value is not None
    assert error_of("[" * 65 + "]" * 65).refused


@pytest.mark.parametrize("piece", ["[", "{a: ", "- ", "? ", "[{a: ", "!!a [", "&a ["])
def test_sixty_kilobytes_of_nesting_are_refused_at_once(piece: str) -> None:
    assert error_of(piece * (60_000 // len(piece))).line == 1


def test_nesting_by_indentation_is_refused_at_the_line_that_is_too_deep() -> None:
    error = error_of("".join(f"{' ' * level}a:\n" for level in range(340)))

    assert (error.line, error.refused) == (65, True)


def test_an_anchors_bomb_is_refused_at_its_first_anchor() -> None:
    lines = ["a0: &a0 [lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]

    error = error_of("\n".join(lines))

    assert (error.line, error.refused) == (1, True)


def test_of_a_key_given_twice_the_first_counts_and_the_second_is_named_with_its_line() -> None:
    document = load("name: a\nmetadata:\n  x: 1\n  x: 2\nname: b\n")

    assert document.value == {"name": "a", "metadata": {"x": 1}}
    assert document.repeated == (("x", 4), ("name", 5))


def test_the_line_of_a_repeated_key_is_that_of_the_key_not_of_its_value() -> None:
    document = load("metadata:\n  a: 1\nmetadata:\n\n\n  b: 2\n")

    assert document.repeated == (("metadata", 3),)


def test_every_top_level_key_has_its_line() -> None:
    document = load("# a comment\nname: a\n\nmetadata:\n  name: b\ntools: []\n", first_line=2)

    assert document.lines == {"name": 3, "metadata": 5, "tools": 7}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: c: d\n", 2),
        ("a: 1\nb: 'open\n", 2),
        ("a: [1, 2\n", 1),
        ("a: 1\n  b: 2\n", 2),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\nb: @at\n", 2),
        ("a: 1\nb: `tick`\n", 2),
        ("a: 1\nb: a\x00b\n", 2),
        ("a: 1\nb: a\x1bb\n", 2),
    ],
)
def test_a_syntax_error_is_no_refusal_and_its_line_is_near(text: str, line: int) -> None:
    error = error_of(text, first_line=11)

    # Where a quote or bracket stays open, the parser knows only where the text ended.
    assert line + 10 <= error.line <= line + 12
    assert not error.refused
    assert error.message


def test_control_characters_are_dropped_and_what_people_type_is_kept() -> None:
    assert drop_control_characters("a\x00\x07\x1b\x7fb\t\n\r é \U0001f600") == (
        "ab\t\n\r é \U0001f600"
    )


def test_after_dropping_control_characters_any_text_can_be_parsed() -> None:
    text = "".join(map(chr, range(0xD000, 0xF000))) + "".join(map(chr, range(0x100)))

    cleaned = drop_control_characters(text).translate(dict.fromkeys(map(ord, "\n\r\"'\\"), "."))

    assert load(f'key: "{cleaned}"').value is not None


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("tools",), 2),
        (("tools", 0), 3),
        (("tools", 0, "name"), 3),
        (("tools", 1), 6),
        (("tools", 1, "parameters", "city"), 8),
        (("tools", 2), None),
        (("nothing",), None),
    ],
)
def test_the_line_of_any_value_can_be_found(path: tuple[str | int, ...], line: int | None) -> None:
    text = (
        "name: demo\n"
        "tools:\n"
        "  - name: one\n"
        "    tags: [a, {b: c}]\n"
        "    args: [1]\n"
        "  - name: two\n"
        "    parameters:\n"
        "      city: string\n"
    )

    assert lines_of(text).get(path) == line
