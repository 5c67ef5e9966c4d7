import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.declarations.plain_yaml import read_plain
from skillpouch.declarations.strict_yaml import YamlError, load
from tests.effort import few_or_many

pytestmark = pytest.mark.slow

_CHARACTERS = st.sampled_from("ab1 0.-:#'\"[]{},&*!|>%@`\\~=?xe+_éT\n\t\u2028\x85")
_KEYS = st.sampled_from(["name", "description", "a", "b-c", "null", "on", "_x", "1", "Ä", ""])
_WORDS = st.sampled_from(
    [
        "",
        "text",
        "no",
        "true",
        "1.0",
        "1e999",
        "0x1f",
        "2024-01-01",
        "a: b",
        "a #b",
        "a:b",
        "~",
        "-",
    ]
)
_QUOTED = st.sampled_from(["'it''s'", '"a, b"', "'a]b'", "''", '"\\n"', "'a'b", '"#"'])
_ITEMS = st.one_of(_WORDS, _QUOTED, st.text(_CHARACTERS, max_size=5))
_FLOWS = st.builds(
    lambda items, comma, start, end: f"[{start}{comma.join(items)}{end}",
    st.lists(_ITEMS, max_size=4),
    st.sampled_from([", ", ", ", ",", " , "]),
    st.sampled_from(["", "", " ", "["]),
    st.sampled_from(["]", "]", " ]", "] ", "", ",]", "]]", "] x"]),
)
_VALUES = st.one_of(
    _WORDS,
    _QUOTED,
    _FLOWS,
    st.sampled_from(["|", ">", "|-", ">-", "| ", "|+", ">2", "| #", ">- "]),
    st.text(_CHARACTERS, max_size=12),
)
_ENTRIES = st.builds(
    lambda indent, dash, key, space, value: f"{indent}{dash}{key}{space}{value}",
    st.sampled_from(["", "", "", "  ", "  ", "    ", " ", "      "]),
    st.sampled_from(["", "", "", "- ", "- ", "-", "-  ", "- - "]),
    _KEYS,
    st.sampled_from([": ", ": ", ": ", ":", " ", ":  "]),
    _VALUES,
)
_BARE = st.builds(
    lambda indent, text: f"{indent}{text}",
    st.sampled_from(["", "", "  ", "    ", "   "]),
    st.sampled_from(["", "# a", "#", "- a", "- [a, b]", "x y ", "-", "a:", "- a:", "...", "'a'"]),
)
_TEXTS = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(st.one_of(_ENTRIES, _ENTRIES, _BARE), max_size=8),
    st.sampled_from(["\n", "\n", "\n", "", "\n\n", "\n "]),
)


def _same_or_left_to_the_parser(text: str) -> None:
    plain = read_plain(text, 2)

    if plain is None:
        return
    try:
        document = load(text, first_line=2)
    except YamlError as error:
        raise AssertionError(f"{text!r} is not YAML: {error}") from error
    assert repr(plain) == repr((document.value or {}, document.lines))
    assert not document.repeated


@few_or_many("examples", 1_500, 6_000)
def test_what_is_read_by_line_is_what_the_parser_reads(examples: int) -> None:
    settings(deadline=None, max_examples=examples)(given(_TEXTS)(_same_or_left_to_the_parser))()


@pytest.mark.parametrize(
    "text",
    [
        "a:\n  - b\n  c: d\n",
        "a: b\n  c\n",
        "a:\nb: 'x' \n",
        'a: "x" y\n',
        "a:\n\n  b: 1\n",
        "a: b\na: c\n",
        "a:\n  b:\n  - c\n",
        "a: ''\n  b: c\n",
        "a: null\n  b: c\n",
        "a:b\n",
        "a: x:\n",
        "a: |\n  b\n   # c\n",
        "a: >\n  b\n \nc: d\n",
        "a: |\n  b",
        "a:\n  - b: |\n   c\n",
        "a:\n- b:\n  - c\n- d\n",
    ],
)
def test_what_looks_plain_is_read_as_the_parser_reads_it(text: str) -> None:
    _same_or_left_to_the_parser(text)


_SCALARS = st.one_of(st.integers(), st.booleans(), st.none(), st.text(max_size=20))
_MAPS = st.dictionaries(
    st.text("abcxyz-_", min_size=1, max_size=8),
    st.recursive(
        _SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab"), inner),
        max_leaves=12,
    ),
    max_size=6,
)


_WRITTEN = st.builds(
    lambda values, flow, indent: yaml.safe_dump(
        values, default_flow_style=flow, indent=indent, allow_unicode=True
    ),
    _MAPS,
    st.sampled_from([None, False]),
    st.sampled_from([2, 4]),
)


@few_or_many("examples", 300, 2_000)
def test_what_a_program_wrote_is_read_as_the_parser_reads_it(examples: int) -> None:
    settings(deadline=None, max_examples=examples)(given(_WRITTEN)(_same_or_left_to_the_parser))()


def test_ordinary_frontmatter_is_read_by_line() -> None:
    front = (
        "name: pdf\ndescription: >-\n  Reads a PDF,\n  e.g. https://x.y/z#a.\n\n# Who made it\n"
        "metadata:\n  author: \"A: B\"\n  tags: [one, 'it''s', 2]\n  requires:\n    bins:\n"
        "      - rg\n    network: false\nallowed-tools:\n- Read\n- Bash(git:*)\n"
        "tools:\n  - name: show\n    description: |\n      Shows.\n      More.\nversion:\n"
    )

    assert read_plain(front, 2) == (
        {
            "name": "pdf",
            "description": "Reads a PDF, e.g. https://x.y/z#a.",
            "metadata": {
                "author": "A: B",
                "tags": ["one", "it's", 2],
                "requires": {"bins": ["rg"], "network": False},
            },
            "allowed-tools": ["Read", "Bash(git:*)"],
            "tools": [{"name": "show", "description": "Shows.\nMore.\n"}],
            "version": None,
        },
        {
            "name": 2,
            "description": 3,
            "metadata": 8,
            "allowed-tools": 15,
            "tools": 18,
            "version": 23,
        },
    )
