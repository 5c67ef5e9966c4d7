import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillpouch.declarations.frontmatter import read_plain
from skillpouch.declarations.strict_yaml import YamlError, load

pytestmark = pytest.mark.slow

_CHARACTERS = st.sampled_from("ab1 0.-:#'\"[]{},&*!|>%@`\\~=?xe+_éT\n\t\u2028\x85")
_KEYS = st.sampled_from(["name", "description", "a", "b-c", "null", "on", "_x", "1", "Ä", ""])
_VALUES = st.one_of(
    st.sampled_from(
        ["", "text", "no", "true", "1.0", "1e999", "0x1f", "2024-01-01", "a: b", "a #b"]
    ),
    st.text(_CHARACTERS, max_size=12),
)
_ENTRIES = st.builds(
    lambda indent, dash, key, space, value: f"{indent}{dash}{key}{space}{value}",
    st.sampled_from(["", "", "", "  ", "  ", "    ", " "]),
    st.sampled_from(["", "", "- ", "-"]),
    _KEYS,
    st.sampled_from([": ", ": ", ":", " ", ":  "]),
    _VALUES,
)
_TEXTS = st.lists(_ENTRIES, max_size=6).map("\n".join)


@given(_TEXTS)
@settings(deadline=None, max_examples=1500)
@example("a:\n  - b\n  c: d\n")
@example("a: b\n  c\n")
@example("a:\nb: 'x' \n")
@example('a: "x" y')
@example("a:\n\n  b: 1")
@example("a: b\na: c")
@example("a:\n  b:\n  - c")
@example("a: ''\n  b: c")
@example("a: null\n  b: c")
@example("a:b")
@example("a: x:")
def test_what_is_read_by_line_is_what_the_parser_reads(text: str) -> None:
    plain = read_plain(text, 2)

    if plain is None:
        return
    try:
        document = load(text, first_line=2)
    except YamlError as error:
        raise AssertionError(f"{text!r} is not YAML: {error}") from error
    assert plain == (document.value or {}, document.lines)
    assert not document.repeated


def test_ordinary_frontmatter_is_read_by_line() -> None:
    front = (
        "name: pdf\ndescription: Reads a PDF, e.g. https://x.y/z#a.\nversion: 1.0.0\n"
        'metadata:\n  author: "A: B"\n  tags:\nlist:\n  - one\n  - 2\n'
    )

    assert read_plain(front, 2) is None  # an empty value one level down is left to the parser
    assert read_plain(front.replace("  tags:\n", ""), 2) == (
        {
            "name": "pdf",
            "description": "Reads a PDF, e.g. https://x.y/z#a.",
            "version": "1.0.0",
            "metadata": {"author": "A: B"},
            "list": ["one", 2],
        },
        {"name": 2, "description": 3, "version": 4, "metadata": 5, "list": 7},
    )
