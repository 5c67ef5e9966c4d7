"""Whatever the text, there is a signature; whatever the parser, the words give the values back."""

import argparse
import keyword
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.signatures.argv import words
from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Signature

pytestmark = pytest.mark.slow

# Pieces that make text look like a script, so that readers are reached and not only the parser.
PIECES = st.sampled_from(
    [
        *("import argparse", "import click", "import typer", "import os, sys", "p.parse_args()"),
        *("p = argparse.ArgumentParser()", "p.add_argument('--x', nargs=2)", "p.add_argument(x)"),
        *("s = p.add_subparsers()", "s.add_parser('a').add_argument('b')", "p = p.add_argument"),
        *("def handler(args):", "def main(x: int, *y):", "    return args['x']", "class A(A):"),
        *("for p in (p, p):", "    p.add_argument('-x', type=int)", "if x:", "else:", "    pass"),
        *("@click.command()", "@click.option('--x/--y')", "app = typer.Typer()", "@app.command()"),
        *("# /// script", "# ///", '"""', "x = os.environ['X']", "x += [x]", "print(sys.argv)"),
        *("x = [x for x in x]", "x: 'list[int]' = {1: 2}[x]", "lambda: (yield)", "\\", "\t", "("),
    ]
)


@settings(deadline=None, max_examples=150)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=25).map("\n".join)))
def test_any_text_has_a_signature(text: str) -> None:
    assert isinstance(read_python(text), Signature)


NAMES = st.from_regex(r"[a-z][a-z_]{0,5}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and not name.endswith("_")
)
# argparse 3.11 loses a positional that is `--` itself.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8
).filter(lambda text: text != "--")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXTS,
    "int": st.integers(-1000, 1000),
    "float": st.floats(allow_nan=False, allow_infinity=False),
}


@st.composite
def flags(draw: st.DrawFn, name: str) -> tuple[str, st.SearchStrategy[Any]]:
    """Return an `add_argument` call for a flag, and the values its property can have."""
    kind = draw(st.sampled_from(sorted(VALUES)))
    value = VALUES[kind]
    # Two values and more can only be told from flags when they do not look like one.
    plain = value.filter(lambda one: not str(one).startswith("-"))
    flag = draw(st.sampled_from([f"'--{name.replace('_', '-')}'", f"'-{name[0]}', '--{name}'"]))
    settings_, values = draw(
        st.sampled_from(
            [
                (f"type={kind}", value),
                (f"type={kind}, required=True", value),
                (f"type={kind}, nargs='?'", value),
                (f"type={kind}, nargs='+'", st.lists(plain, min_size=1, max_size=3)),
                (f"type={kind}, nargs='*'", st.lists(plain, max_size=3)),
                (f"type={kind}, nargs=2", st.lists(plain, min_size=2, max_size=2)),
                (f"type={kind}, action='append'", st.lists(value, min_size=1, max_size=3)),
                (
                    f"type={kind}, action='extend', nargs='+'",
                    st.lists(value, min_size=1, max_size=3),
                ),
                ("action='store_true'", st.booleans()),
                ("action='store_false'", st.booleans()),
                ("action='count'", st.integers(1, 4)),
                ("action=argparse.BooleanOptionalAction", st.booleans()),
            ]
        )
    )
    return f"{flag}, dest='{name}', {settings_}", values


@st.composite
def positionals(draw: st.DrawFn, name: str, *, last: bool) -> tuple[str, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(sorted(VALUES)))
    value = VALUES[kind]
    shapes: list[tuple[str, st.SearchStrategy[Any]]] = [(f"'{name}', type={kind}", value)]
    if last:
        shapes += [
            (f"'{name}', type={kind}, nargs='?'", value),
            (f"'{name}', type={kind}, nargs='+'", st.lists(value, min_size=1, max_size=3)),
            (f"'{name}', type={kind}, nargs=2", st.lists(value, min_size=2, max_size=2)),
        ]
    chosen: tuple[str, st.SearchStrategy[Any]] = draw(st.sampled_from(shapes))
    return chosen


@st.composite
def scripts(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return a script and arguments for it; flags are unique in their first letter, too."""
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique_by=lambda name: name[0]))
    names = [name for name in names if name[0] != "h"] or ["x"]
    split = draw(st.integers(0, len(names)))
    calls: list[tuple[str, st.SearchStrategy[Any]]] = [draw(flags(name)) for name in names[:split]]
    places = names[split:]
    calls += [draw(positionals(name, last=name == places[-1])) for name in places]
    arguments = {
        name: draw(values)
        for name, (call, values) in zip(names, calls, strict=True)
        if _must_be_given(call) or draw(st.booleans())
    }
    lines = [f"parser.add_argument({call})" for call, _ in calls]
    head = ["import argparse", "parser = argparse.ArgumentParser()"]
    return "\n".join([*head, *lines, "args = parser.parse_args()"]), arguments


def _must_be_given(call: str) -> bool:
    return "required" in call or ("dest=" not in call and "nargs='?'" not in call)


@settings(deadline=None, max_examples=150)
@given(scripts())
def test_the_words_of_a_plan_give_argparse_the_same_values(
    script: tuple[str, dict[str, Any]],
) -> None:
    text, arguments = script
    names: dict[str, Any] = {"argparse": argparse}
    exec(text.rsplit("\n", 1)[0], names)
    signature = read_python(text)
    assert signature.uncertain == ""
    assert signature.interface.plan is not None

    parsed = names["parser"].parse_args(words(signature.interface.plan, arguments))

    assert {name: getattr(parsed, name) for name in arguments} == arguments
