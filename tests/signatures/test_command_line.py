"""Words read back: as argparse reads them, and as they were made."""

import argparse
import contextlib
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord, words
from skillpouch.signatures.command_line import (
    Alias,
    CommandLineError,
    aliases_of,
    plan_for,
    read_words,
    usage_of,
)

PLAN: ArgvPlan = (
    ArgvArgument(name="source", after_dashes=True),
    ArgvArgument(name="more", nargs="*", after_dashes=True),
    ArgvArgument(name="input_file", flag="--in", others=("-i",)),
    ArgvArgument(name="format", flag="--format"),
    ArgvArgument(name="count", flag="--count", others=("-n",)),
    ArgvArgument(name="verbose", flag="--verbose", action="count", others=("-v",)),
    ArgvArgument(name="force", flag="--force", action="store_true", others=("-f",)),
    ArgvArgument(name="cache", flag="--no-cache", action="store_false"),
    ArgvArgument(name="color", flag="--color", action="boolean_optional", off_flag="--no-color"),
    ArgvArgument(name="tag", flag="--tag", action="append", others=("-t",)),
    ArgvArgument(name="point", flag="--point", nargs=2),
    ArgvArgument(name="names", flag="--names", nargs="+"),
)
TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "source": TEXT,
        "more": {"type": "array", "items": TEXT},
        "input_file": TEXT,
        "format": {"type": "string", "enum": ["json", "csv"]},
        "count": {"type": "integer"},
        "verbose": {"type": "integer"},
        "force": {"type": "boolean"},
        "cache": {"type": "boolean"},
        "color": {"type": "boolean"},
        "tag": {"type": "array", "items": TEXT},
        "point": {"type": "array", "items": {"type": "number"}},
        "names": {"type": "array", "items": TEXT},
    },
    "required": ["source"],
}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a", {"source": "a"}),
        ("a b c", {"source": "a", "more": ["b", "c"]}),
        ("a --in x", {"source": "a", "input_file": "x"}),
        ("a --in=x", {"source": "a", "input_file": "x"}),
        ("a -i x", {"source": "a", "input_file": "x"}),
        ("a -ix", {"source": "a", "input_file": "x"}),
        ("a -i=x", {"source": "a", "input_file": "x"}),
        ("a -fvvn3", {"source": "a", "force": True, "verbose": 2, "count": 3}),
        ("a -fi x", {"source": "a", "force": True, "input_file": "x"}),
        ("a --forc", {"source": "a", "force": True}),
        ("a --form csv", {"source": "a", "format": "csv"}),
        ("a --no-cac", {"source": "a", "cache": False}),
        ("a --no-color", {"source": "a", "color": False}),
        ("a --color --no-cache", {"source": "a", "color": True, "cache": False}),
        ("a -t x --tag y", {"source": "a", "tag": ["x", "y"]}),
        ("a --point 1 2.5", {"source": "a", "point": [1, 2.5]}),
        ("--names x y -- a", {"source": "a", "names": ["x", "y"]}),
        ("a --count -3", {"source": "a", "count": -3}),
        ("-- -a -b", {"source": "-a", "more": ["-b"]}),
        ("-5", {"source": "-5"}),
        ("a --in - b", {"source": "a", "input_file": "-", "more": ["b"]}),
        ("a --in -x", {"source": "a", "input_file": "-x"}),
    ],
)
def test_words_mean_what_the_parser_of_the_script_makes_of_them(
    line: str, found: dict[str, Any]
) -> None:
    assert read_words(PLAN, SCHEMA, line.split()) == found


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "source is missing"),
        ("a --inn x", "there is no flag --inn; did you mean --in?"),
        ("a --no-c", "--no-c may mean --no-cache or --no-color"),
        ("a -fx", "there is no flag -x in -fx"),
        ("a --in", "--in needs a value"),
        ("a --in --force", "--in needs a value"),
        ("a --force=1", "--force is a switch and takes no value, not '1'"),
        ("a --point 1", "--point needs 2 values"),
        ("a --names", "--names needs 1 value"),
        ("a --help", "--help asks for help, which is no call"),
        ("a -h", "-h asks for help, which is no call"),
        ("a --count x --point 1 y", "--count: 'x' is no integer; --point: 'y' is no number"),
    ],
)
def test_words_that_do_not_fit_are_refused_with_the_reason(line: str, problem: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        read_words(PLAN, SCHEMA, line.split())

    assert str(caught.value) == problem


def test_a_script_that_counts_its_words_takes_them_whatever_they_look_like() -> None:
    plan = (ArgvArgument(name="first"), ArgvArgument(name="second", nargs="?"))
    schema = {"properties": {"first": TEXT, "second": TEXT}, "required": ["first"]}

    assert read_words(plan, schema, ["--", "-x"]) == {"first": "--", "second": "-x"}
    with pytest.raises(CommandLineError, match="'c' is one word too many"):
        read_words(plan, schema, ["a", "b", "c"])


COMMAND: ArgvPlan = (
    ArgvArgument(name="config", flag="--config"),
    FixedWord("remote"),
    FixedWord("add"),
    ArgvArgument(name="name", after_dashes=True),
    ArgvArgument(name="url", flag="--url"),
)
OF_COMMAND = {"properties": {"config": TEXT, "name": TEXT, "url": TEXT}, "required": ["name"]}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("remote add x", {"name": "x"}),
        ("--config c remote add x --url u", {"config": "c", "name": "x", "url": "u"}),
        ("x --url u --config c", {"config": "c", "name": "x", "url": "u"}),
        ("remote add add", {"name": "add"}),
        ("add", {"name": "add"}),
    ],
)
def test_the_words_of_a_sub_command_may_be_written_or_not(line: str, found: dict[str, Any]) -> None:
    assert read_words(COMMAND, OF_COMMAND, line.split()) == found


def test_the_rest_of_a_line_is_taken_as_it_is() -> None:
    plan = (
        ArgvArgument(name="program", after_dashes=True),
        ArgvArgument(name="rest", nargs="...", after_dashes=True),
        ArgvArgument(name="quiet", flag="-q", action="store_true"),
    )
    schema = {"properties": {"program": TEXT, "rest": {"type": "array", "items": TEXT}}}

    found = read_words(plan, schema, ["-q", "ls", "-l", "--all", "-q"])

    assert found == {"quiet": True, "program": "ls", "rest": ["-l", "--all", "-q"]}


def test_a_tool_that_is_no_script_is_called_by_flags_of_its_properties() -> None:
    schema: dict[str, Any] = {
        "properties": {
            "city_name": TEXT,
            "dry_run": {"type": "boolean"},
            "tags": {"type": "array", "items": TEXT},
            "where": {"type": "object"},
        }
    }
    line = ["--city-name", "Bern", "--no-dry-run", "--tags", "a", "b", "--where", '{"x": 1}']

    assert read_words(plan_for(schema), schema, line) == {
        "city_name": "Bern",
        "dry_run": False,
        "tags": ["a", "b"],
        "where": {"x": 1},
    }


def test_the_usage_names_flags_values_and_what_may_be_left_out() -> None:
    assert usage_of(COMMAND, OF_COMMAND, "scripts/x.py") == (
        "scripts/x.py [--config CONFIG] remote add name [--url URL]"
    )
    assert (
        usage_of(PLAN[1:4], SCHEMA, "x") == "x [more ...] [--in INPUT_FILE] [--format {json,csv}]"
    )


def test_an_argument_is_known_by_each_of_its_flags() -> None:
    assert aliases_of(PLAN) == {
        "in": Alias("input_file"),
        "i": Alias("input_file"),
        "n": Alias("count"),
        "v": Alias("verbose"),
        "f": Alias("force"),
        "t": Alias("tag"),
        "no-cache": Alias("cache", inverts=True),
        "no_cache": Alias("cache", inverts=True),
        "no-color": Alias("color", inverts=True),
        "no_color": Alias("color", inverts=True),
    }


def test_a_name_of_two_arguments_and_a_name_that_is_an_argument_are_no_aliases() -> None:
    plan = (
        ArgvArgument(name="one", flag="--x-y"),
        ArgvArgument(name="two", flag="--x_y"),
        ArgvArgument(name="three", flag="--one"),
    )

    assert aliases_of(plan) == {"x-y": Alias("one")}


_TEXTS = st.text("ab-=x1 .", max_size=4)
_VALUES = st.fixed_dictionaries(
    {"source": _TEXTS},
    optional={
        "more": st.lists(_TEXTS, min_size=1, max_size=3),
        "input_file": _TEXTS,
        "format": st.sampled_from(["json", "csv"]),
        "count": st.integers(-99, 99),
        "verbose": st.integers(1, 3),
        "force": st.just(True),
        "cache": st.just(False),
        "color": st.booleans(),
        "tag": st.lists(_TEXTS, min_size=1, max_size=3),
        "point": st.lists(st.integers(-9, 9), min_size=2, max_size=2),
    },
)


@settings(deadline=None)
@given(_VALUES)
def test_arguments_that_became_words_are_read_back_the_same(arguments: dict[str, Any]) -> None:
    try:
        made = words(PLAN, arguments)
    except ValueError:
        return  # no command line can say this

    assert read_words(PLAN, SCHEMA, made) == arguments


def by_argparse(line: list[str]) -> dict[str, Any] | None:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("source")
    parser.add_argument("more", nargs="*", default=argparse.SUPPRESS)
    parser.add_argument("--in", "-i", dest="input_file")
    parser.add_argument("--format", choices=["json", "csv"])
    parser.add_argument("--count", "-n", type=int)
    parser.add_argument("--verbose", "-v", action="count")
    parser.add_argument("--force", "-f", action="store_true", default=argparse.SUPPRESS)
    parser.add_argument("--no-cache", dest="cache", action="store_false", default=argparse.SUPPRESS)
    parser.add_argument("--color", action=argparse.BooleanOptionalAction)
    parser.add_argument("--tag", "-t", action="append")
    parser.add_argument("--point", nargs=2, type=float)
    parser.add_argument("--names", nargs="+")
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            found = vars(parser.parse_args(line))
    except SystemExit:
        return None
    return {name: value for name, value in found.items() if value != []}


_LINE = st.lists(
    st.sampled_from(
        [
            *("a", "b", "-1", "2", "--", "-", "x y", "-x y"),
            *("--in", "-i", "--in=v", "-iv", "--i", "--format", "json", "--form=csv", "--count"),
            *(
                "-n",
                "-n4",
                "-v",
                "-vv",
                "-fv",
                "-vfi",
                "--verb",
                "--force",
                "--no-cache",
                "--no-co",
            ),
            *("--color", "--no-color", "-t", "--tag", "--tag=q", "--point", "--names", "--nam"),
        ]
    ),
    max_size=7,
).filter(lambda line: line.count("--") < 2)  # before Python 3.13 argparse loses the second


@settings(deadline=None)
@given(_LINE)
def test_a_line_that_argparse_takes_is_read_as_argparse_reads_it(line: list[str]) -> None:
    theirs = by_argparse(line)
    if theirs is None:
        return

    assert read_words(PLAN, SCHEMA, line) == theirs
