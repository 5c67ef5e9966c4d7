"""Headers, JSON bodies and texts."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.templates import (
    FillError,
    HeaderTemplate,
    JsonTemplate,
    TemplateError,
    TextTemplate,
)

VALUES = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(VALUES, inner, max_size=3),
    max_leaves=8,
)


def body(template: str, arguments: dict[str, Any], **secrets: str) -> Any:
    return JsonTemplate.parse(template).fill(arguments, secrets)


@pytest.mark.promise("tpl-6")
@given(st.text())
def test_a_header_is_one_line_or_an_error(value: str) -> None:
    template = HeaderTemplate.parse("Bearer ${a}")
    with suppress(FillError):
        filled = template.fill({"a": value}, {})

        assert filled == f"Bearer {value}"
        assert not set(filled) & set("\r\n\0")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\n", "a\0"])
def test_a_value_cannot_add_a_header(value: str) -> None:
    with pytest.raises(FillError, match="line breaks"):
        HeaderTemplate.parse("x ${a}").fill({"a": value}, {})
    with pytest.raises(FillError, match="line breaks"):
        HeaderTemplate.parse("${env:A}").fill({}, {"A": value})
    with pytest.raises(TemplateError, match="line breaks"):
        HeaderTemplate.parse(value)


def test_a_header_whose_argument_is_not_given_is_left_out() -> None:
    template = HeaderTemplate.parse("v${a}")

    assert template.fill({}, {}) is None
    assert template.fill({"a": 2}, {}) == "v2"
    assert template.names == {"a"}
    assert HeaderTemplate.parse("").fill({}, {}) == ""


def test_an_unset_variable_never_makes_an_empty_bearer() -> None:
    template = HeaderTemplate.parse("Bearer ${env:KEY}")

    assert template.variables == {"KEY"}
    with pytest.raises(FillError):
        template.fill({}, {"KEY": ""})


@pytest.mark.promise("tpl-7")
@given(JSON)
def test_a_lone_placeholder_keeps_the_type_of_its_value(value: Any) -> None:
    assert body('{"a": "${v}", "b": ${v}}', {"v": value}) == {"a": value, "b": value}


@pytest.mark.promise("tpl-7")
@given(VALUES)
def test_a_value_inside_a_string_adds_nothing_to_the_body(value: str) -> None:
    filled = body('{"m": "hi ${v}!", "n": 1}', {"v": value})

    assert filled == {"m": f"hi {value}!", "n": 1}
    assert json.loads(json.dumps(filled)) == filled


@given(st.text())
def test_any_text_is_a_json_template_or_a_template_error(text: str) -> None:
    with suppress(TemplateError):
        JsonTemplate.parse(text)


def test_leaves_that_are_not_given_are_left_out() -> None:
    template = '{"a": "${a}", "l": ["${a}", 1, "x${b}"], "n": {"z": "-${b}"}, "t": true}'

    assert body(template, {}) == {"l": [1], "n": {}, "t": True}
    assert body(template, {"a": None, "b": 2}) == {
        "a": None,
        "l": [None, 1, "x2"],
        "n": {"z": "-2"},
        "t": True,
    }
    with pytest.raises(FillError, match="b: it is needed with a"):
        body('["${a}${b}"]', {"a": 1})
    with pytest.raises(FillError, match="v: it is the whole body"):
        body("${v}", {})


def test_a_structured_body_is_filled_like_a_text() -> None:
    template = JsonTemplate.of({"model": "m-$${x}", "tags": ("${t}",), "k": "${env:K}", "n": 1})

    assert template.fill({"t": ["a"]}, {"K": "s"}) == {
        "model": "m-${x}",
        "tags": [["a"]],
        "k": "s",
        "n": 1,
    }
    assert template.names == {"t"}
    assert template.variables == {"K"}


def test_a_key_is_no_place_for_a_value() -> None:
    with pytest.raises(TemplateError, match="only values can"):
        JsonTemplate.parse('{"${a}": 1}')
    assert body('{"$schema": "$$"}', {}) == {"$schema": "$"}


@pytest.mark.parametrize(
    ("template", "position"),
    [
        ('{"a": 1', 7),
        ('{"a": ${b}, }', 12),
        ("[${a} ${b}]", 6),
        ("${a", 0),
        ("[NaN]", 0),
        ("[" * 100_000, 0),
        ('["${a"]', 0),
    ],
)
def test_a_text_that_is_no_json_says_where(template: str, position: int) -> None:
    with pytest.raises(TemplateError) as caught:
        JsonTemplate.parse(template)

    assert caught.value.position == position


def test_a_value_nested_too_deeply_is_a_template_error() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(TemplateError, match="nested too deeply"):
        JsonTemplate.of(deep)


@given(VALUES)
def test_a_text_takes_values_as_they_are(value: str) -> None:
    template = TextTemplate.parse("<${a}|${b}|${env:C}>")

    assert template.fill({"a": value}, {"C": "c"}) == f"<{value}||c>"
    assert template.names == {"a", "b"}
    assert template.variables == {"C"}


@pytest.mark.promise("tpl-4")
@pytest.mark.parametrize("secrets", [{}, {"KEY": ""}])
@pytest.mark.parametrize("template", [TextTemplate, HeaderTemplate])
def test_a_variable_without_a_value_is_an_error_never_an_empty_text(
    template: type[TextTemplate | HeaderTemplate], secrets: dict[str, str]
) -> None:
    with pytest.raises(FillError, match="not set or not granted") as caught:
        template.parse("key=${env:KEY}").fill({}, secrets)

    assert (caught.value.name, caught.value.is_variable) == ("KEY", True)
