"""Templates of any shape: each value arrives unchanged, in its own place, and adds nothing."""

import json
import shlex
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.templates import (
    ArgvTemplate,
    FillError,
    FormTemplate,
    HeaderTemplate,
    JsonTemplate,
    TemplateError,
    TextTemplate,
    UrlTemplate,
)

pytestmark = pytest.mark.slow

NAMES = ("a", "b-c", "D_1")
# What values hold when somebody means harm, among what they hold otherwise.
_NASTY = ["${a}", "${env:K}", "$$", "'", '"', "\\", " ", "\n", "--x", "/", "..", "@", "&", "=", "#"]
VALUES = st.lists(
    st.sampled_from(_NASTY) | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4),
    max_size=6,
).map("".join)
ARGUMENTS = st.fixed_dictionaries(dict.fromkeys(NAMES, VALUES))
LITERALS = st.text(alphabet="xyz0 .:'\"\\%+{}é;|>", max_size=5)
HOLES = st.sampled_from(NAMES)
PIECES = st.lists(st.tuples(st.just("text"), LITERALS) | st.tuples(st.just("hole"), HOLES))
_TOKENS = ["${a}", "${env:K}", "$$", "https://", "h.org", '"x"']
MESS = st.lists(st.sampled_from([*"${}:'\"\\ /?&=#[],.\n", *_TOKENS])).map("".join)
KINDS = (ArgvTemplate, UrlTemplate, HeaderTemplate, JsonTemplate, FormTemplate, TextTemplate)
every = settings(deadline=None, max_examples=300)


def written(pieces: list[tuple[str, str]]) -> str:
    return "".join(text if kind == "text" else f"${{{text}}}" for kind, text in pieces)


def meant(pieces: list[tuple[str, str]], arguments: dict[str, str]) -> str:
    return "".join(text if kind == "text" else arguments[text] for kind, text in pieces)


@every
@given(st.lists(PIECES, max_size=5), ARGUMENTS)
def test_each_word_of_a_command_line_is_what_was_written_with_its_values(
    words: list[list[tuple[str, str]]], arguments: dict[str, str]
) -> None:
    # A placeholder counts inside double quotes, and a literal is quoted as a shell wants it.
    spelt = [
        "".join(shlex.quote(text) if kind == "text" else f'"${{{text}}}"' for kind, text in word)
        for word in words
        if word
    ]

    filled = ArgvTemplate.parse(" ".join(["--", *spelt])).fill(arguments, {"K": "secret"})

    assert filled == ["--", *(meant(word, arguments) for word in words if word)]


@every
@given(PIECES, ARGUMENTS)
def test_a_header_and_a_text_are_what_was_written_with_their_values(
    pieces: list[tuple[str, str]], arguments: dict[str, str]
) -> None:
    template = written(pieces)

    assert TextTemplate.parse(template).fill(arguments, {}) == meant(pieces, arguments)
    try:
        header = HeaderTemplate.parse(template).fill(arguments, {})
    except FillError:
        assert "\n" in meant(pieces, arguments)
    else:
        assert header == meant(pieces, arguments)


LEAVES = PIECES.map(lambda pieces: ("leaf", pieces))
SHAPES = st.recursive(
    LEAVES | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LITERALS, inner, max_size=3),
    max_leaves=8,
)


def shaped(shape: Any, leaf: Any) -> Any:
    if isinstance(shape, tuple):
        return leaf(shape[1])
    if isinstance(shape, list):
        return [shaped(each, leaf) for each in shape]
    if isinstance(shape, dict):
        return {key: shaped(each, leaf) for key, each in shape.items()}
    return shape


@every
@given(SHAPES, ARGUMENTS)
def test_a_body_keeps_its_shape_and_has_its_values_at_its_leaves(
    shape: Any, arguments: dict[str, str]
) -> None:
    template, expected = (
        shaped(shape, written),
        shaped(shape, lambda pieces: meant(pieces, arguments)),
    )

    assert JsonTemplate.of(template).fill(arguments, {}) == expected
    assert JsonTemplate.parse(json.dumps(template)).fill(arguments, {}) == expected


@every
@given(st.lists(HOLES, min_size=1, max_size=4), st.lists(HOLES, max_size=4), ARGUMENTS)
def test_an_address_has_the_parts_and_pairs_of_its_template(
    path: list[str], query: list[str], arguments: dict[str, str]
) -> None:
    pairs = [f"k{number}=${{{name}}}" for number, name in enumerate(query)]
    text = "https://h.org/" + "/".join(f"${{{name}}}" for name in path) + "?" + "&".join(pairs)

    try:
        filled = urlsplit(UrlTemplate.parse(text).fill(arguments, {}))
    except FillError:
        assert any(arguments[name] in ("", ".", "..") for name in path)
        return

    assert (filled.scheme, filled.netloc, filled.fragment) == ("https", "h.org", "")
    assert [unquote(part) for part in filled.path.split("/")] == [
        "",
        *(arguments[name] for name in path),
    ]
    assert parse_qsl(filled.query, keep_blank_values=True) == [
        (f"k{number}", arguments[name]) for number, name in enumerate(query)
    ]


@every
@given(MESS, ARGUMENTS)
def test_any_text_is_a_template_or_an_error_of_its_author(
    text: str, arguments: dict[str, str]
) -> None:
    for kind in KINDS:
        with suppress(TemplateError, FillError):
            kind.parse(text).fill(arguments, {"K": "secret"})
