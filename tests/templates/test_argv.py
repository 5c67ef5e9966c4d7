"""`args_template`: what each argument becomes on a command line."""

import shlex
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.templates import ArgvTemplate, FillError, TemplateError

VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def words(template: str, arguments: dict[str, Any]) -> list[str]:
    return ArgvTemplate.parse(template).fill(arguments, {})


@pytest.mark.promise("tpl-1")
@given(VALUES, VALUES)
def test_an_argument_arrives_unchanged_and_as_one_word(first: str, second: str) -> None:
    given_words = words("--in=${a} -- ${b} end", {"a": first, "b": second})

    assert given_words == [f"--in={first}", "--", second, "end"]


@pytest.mark.promise("tpl-1")
@given(st.text(), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_no_template_and_no_values_make_more_words_than_the_template_has(
    template: str, arguments: dict[str, str]
) -> None:
    with suppress(TemplateError, FillError):
        parsed = ArgvTemplate.parse(template + " ${a} '${b} x' ${c}${a}")

        assert len(parsed.fill(arguments, {})) <= len(parsed.words)


@given(st.text(alphabet="ab \t\n'\"\\-=#;|&<>*~"))
def test_words_are_split_as_a_shell_splits_them(template: str) -> None:
    try:
        expected = shlex.split(template)
    except ValueError:
        with pytest.raises(TemplateError):
            ArgvTemplate.parse(template)
        return

    assert words(template, {}) == expected


@given(st.text(alphabet="${}envab:'\"\\ $"))
def test_any_text_is_a_template_or_a_template_error(template: str) -> None:
    with suppress(TemplateError):
        ArgvTemplate.parse(template)


def test_a_value_with_spaces_quotes_and_flags_stays_one_word() -> None:
    assert words("run ${a}", {"a": "x --flag 'y\" $(id)"}) == ["run", "x --flag 'y\" $(id)"]


def test_an_empty_value_stays_an_empty_word() -> None:
    assert words("a ${b} c", {"b": ""}) == ["a", "", "c"]


def test_an_unbalanced_quote_in_a_value_is_only_a_character() -> None:
    assert words("--name ${a}", {"a": "it's"}) == ["--name", "it's"]


@pytest.mark.promise("tpl-2")
@given(st.lists(st.sampled_from(["${b}", "${a}", "${env:b}", "$", "{", "}", "$$", "b", " "])))
def test_a_placeholder_inside_a_value_is_text(pieces: list[str]) -> None:
    value = "".join(pieces)

    assert words("x=${a} ${b}", {"a": value, "b": "B"})[0] == f"x={value}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("3", "3"),
        (3, "3"),
        (3.0, "3"),
        (-2, "-2"),
        (1.5, "1.5"),
        (1e300, "1e+300"),
        (True, "true"),
        ({"a": [1, "ü"]}, '{"a":[1,"ü"]}'),
    ],
)
def test_a_value_that_is_no_text_is_compact_json(value: Any, text: str) -> None:
    assert words("${a}", {"a": value}) == [text]


def test_a_word_that_is_one_list_spreads_it() -> None:
    assert words("${a} x", {"a": ["one two", 3, True]}) == ["one two", "3", "true", "x"]


def test_a_list_inside_a_word_is_json() -> None:
    assert words("--list=${a}", {"a": ["b", "c"]}) == ['--list=["b","c"]']


@pytest.mark.parametrize("arguments", [{}, {"b": None}, {"b": []}], ids=["absent", "null", "empty"])
def test_what_is_not_given_takes_the_flag_before_it_along(arguments: dict[str, Any]) -> None:
    assert words("a --flag ${b} c", arguments) == ["a", "c"]
    assert words("a -f ${b} c", arguments) == ["a", "c"]


def test_what_is_not_given_leaves_what_is_no_waiting_flag() -> None:
    assert words("a - ${b}", {}) == ["a", "-"]
    assert words("a -- ${b}", {}) == ["a", "--"]
    assert words("--x=1 ${b}", {}) == ["--x=1"]
    assert words("-- --x ${b}", {}) == ["--", "--x"]
    assert words("--y${a} ${b}", {"a": 1}) == ["--y1"]


def test_a_value_that_begins_with_a_dash_is_never_dropped_with_what_follows() -> None:
    assert words("-- ${a} ${b}", {"a": "-v"}) == ["--", "-v"]
    assert words("${a} ${b}", {"a": -5}) == ["-5"]


def test_a_word_with_its_argument_missing_is_left_out_whole() -> None:
    assert words("a --n=${n} c", {}) == ["a", "c"]


def test_a_word_that_would_lose_a_given_value_is_an_error() -> None:
    with pytest.raises(FillError, match="b: it is needed with a"):
        words("${a}:${b}", {"a": "x"})


@pytest.mark.promise("tpl-3")
@pytest.mark.parametrize("value", ["-x", "--output=/etc/passwd", "-1"])
def test_a_text_that_would_be_read_as_a_flag_is_refused(value: str) -> None:
    for template in ("${a}", "--in ${a}", "'${a} x'"):
        with pytest.raises(FillError, match="would be taken for a flag") as caught:
            words(template, {"a": value})
        assert "--flag=${a}" in caught.value.hint
    with pytest.raises(FillError, match="would be taken for a flag"):
        words("${a}", {"a": ["fine", value]})
    with pytest.raises(FillError, match="would be taken for a flag"):
        words("${empty}${a}", {"empty": "", "a": value})


def test_a_dash_is_fine_where_it_cannot_be_a_flag() -> None:
    assert words("--in=${a} ${b} -- ${a}", {"a": "-x", "b": "-"}) == ["--in=-x", "-", "--", "-x"]
    template = ArgvTemplate.parse("${a}", dashed=frozenset({"a"}))
    assert template.fill({"a": "-l"}, {}) == ["-l"]


def test_a_nul_or_half_a_character_is_refused() -> None:
    with pytest.raises(FillError, match="NUL"):
        words("x${a}", {"a": "b\0c"})
    with pytest.raises(FillError, match="a lone surrogate"):
        words("x${a}", {"a": "\ud800"})


@pytest.mark.promise("call-7")
@pytest.mark.parametrize("template", ["--key=${env:KEY}", "a '${b} ${env:KEY}'", "${env:KEY}"])
def test_an_environment_variable_is_no_word_of_a_command_line(template: str) -> None:
    with pytest.raises(TemplateError, match=r"\$\{env:KEY\} would show its value") as caught:
        ArgvTemplate.parse(template)

    assert caught.value.position == template.index("${env")
    assert "standard input or by a file descriptor" in caught.value.hint


def test_names_are_known_without_filling() -> None:
    template = ArgvTemplate.parse("${a} '${chunk-size} x' $${b}")

    assert template.names == {"a", "chunk-size"}


def test_dollars_are_literal_where_they_are_doubled_alone_or_escaped() -> None:
    assert words('$${a} $5 \\${a} "\\${a}" a$$ $', {"a": 1}) == [
        *("${a}", "$5", "${a}", "${a}", "a$", "$"),
    ]


def test_quotes_group_words_and_placeholders_count_inside_them() -> None:
    assert words("'a ${x}' \"b ${x}\" ''", {"x": "y z"}) == ["a y z", "b y z", ""]


@pytest.mark.parametrize(
    ("template", "position", "reason"),
    [
        ("a ${b", 2, "never closed"),
        ("${}", 0, "neither"),
        ("${a b}", 0, "neither"),
        ("${file:x}", 0, "neither"),
        ("${env:A-B}", 0, "neither"),
        ("${1}", 0, "neither"),
        ("ab 'c", 3, "a ' that is never closed"),
        ('"', 0, 'a " that is never closed'),
        ("a\\", 1, "escapes nothing"),
    ],
)
def test_a_bad_template_says_where(template: str, position: int, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason) as caught:
        ArgvTemplate.parse(template)

    assert caught.value.position == position
