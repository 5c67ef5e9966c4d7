"""Addresses: where a request goes is fixed, what it asks for is filled in."""

from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.templates import FillError, FormTemplate, TemplateError, UrlTemplate

VALUES = st.text(st.characters(exclude_categories=["Cs"]))


def url(template: str, arguments: dict[str, Any], **secrets: str) -> str:
    return UrlTemplate.parse(template).fill(arguments, secrets)


@pytest.mark.promise("tpl-5")
@given(VALUES, VALUES, VALUES)
def test_no_value_changes_origin_path_or_pairs(a: str, b: str, c: str) -> None:
    template = "https://api.example.com:8443/v1/${a}/x-${b}?q=${c}&k=v"
    if a in ("", ".", ".."):
        with pytest.raises(FillError, match="a: "):
            url(template, {"a": a, "b": b, "c": c})
        return
    filled = url(template, {"a": a, "b": b, "c": c})

    parts = urlsplit(filled)
    assert (parts.scheme, parts.netloc) == ("https", "api.example.com:8443")
    assert [unquote(segment) for segment in parts.path.split("/")] == ["", "v1", a, f"x-{b}"]
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", c), ("k", "v")]
    assert not parts.fragment


@given(st.text(), st.booleans())
def test_any_text_is_an_address_or_a_template_error(text: str, is_rest: bool) -> None:
    with suppress(TemplateError):
        template = UrlTemplate.parse(f"https://x.org/{text}" if is_rest else text)

        assert template.origin.lower().startswith("http")


@pytest.mark.promise("tpl-5")
@pytest.mark.parametrize(
    "template",
    [
        "https://${host}/x",
        "https://api.example.com${rest}",
        "https://api.example.com:${port}/",
        "${scheme}://x.org/",
        "https://${env:HOST}/",
        "https://user@x.org/",
        "https://x.org\\@evil.example/",
        "https:///x",
        "ftp://x.org/",
        "https://x.org/a b",
        "https://x.org/a\r\nb",
        "",
    ],
)
def test_a_template_that_leaves_the_host_open_is_refused(template: str) -> None:
    with pytest.raises(TemplateError):
        UrlTemplate.parse(template)


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_value_cannot_step_out_of_its_segment(value: str) -> None:
    with pytest.raises(FillError, match="would change the path"):
        url("https://x.org/users/${a}/notes", {"a": value})
    with pytest.raises(FillError, match="would change the path"):
        url("https://x.org/.${a}", {"a": "."})


def test_a_value_with_slashes_stays_one_segment() -> None:
    assert url("https://x.org/w/${a}", {"a": "../@evil"}) == "https://x.org/w/..%2F%40evil"


def test_a_pair_whose_value_is_not_given_is_left_out() -> None:
    template = "https://x.org/s?q=${q}&lang=${lang}&n=1"

    assert url(template, {"q": "a&b=c#"}) == "https://x.org/s?q=a%26b%3Dc%23&n=1"
    assert url("https://x.org?q=${q}", {}) == "https://x.org"


def test_a_path_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(FillError, match="id: the path of the address needs it"):
        url("https://x.org/${id}", {})


def test_a_list_repeats_its_pair() -> None:
    assert url("https://x.org/?t=${t}&u=x${t}", {"t": ["a", 1]}) == (
        "https://x.org/?t=a&t=1&u=x%5B%22a%22%2C1%5D"
    )
    assert FormTemplate.parse("${t}").fill({"t": [1, 2]}, {}) == "%5B1%2C2%5D"
    assert FormTemplate.parse("x${t}").fill({"t": [1, 2]}, {}) == "x%5B1%2C2%5D"
    assert FormTemplate.parse("${n}=${t}").fill({"n": "k", "t": [1]}, {}) == "k=%5B1%5D"


def test_variables_are_encoded_like_values() -> None:
    template = UrlTemplate.parse("https://x.org/${env:TENANT}/?key=${env:KEY}&${a}")

    assert template.fill({"a": "b"}, {"TENANT": "t/1", "KEY": "k&y"}) == (
        "https://x.org/t%2F1/?key=k%26y&b"
    )
    assert template.names == {"a"}
    assert template.variables == {"TENANT", "KEY"}


def test_a_fragment_is_not_part_of_a_request() -> None:
    assert url("HTTPS://x.org/a#${b}", {}) == "HTTPS://x.org/a"


def test_a_literal_dollar_in_the_path_stays() -> None:
    assert url("https://x.org/$$metadata/$5?$$top=${n}", {"n": 2}) == (
        "https://x.org/$metadata/$5?$top=2"
    )


@given(VALUES, VALUES)
def test_a_form_has_the_pairs_of_its_template_whatever_fills_them(a: str, b: str) -> None:
    template = FormTemplate.parse("a=${a}&b=${b}&c=${env:C}")

    body = template.fill({"a": a, "b": b}, {"C": "&=+"})

    assert parse_qsl(body, keep_blank_values=True) == [("a", a), ("b", b), ("c", "&=+")]


def test_a_form_of_nothing_is_empty() -> None:
    assert FormTemplate.parse("").fill({}, {}) == ""
    assert FormTemplate.parse("a&&b").fill({}, {}) == "a&&b"
