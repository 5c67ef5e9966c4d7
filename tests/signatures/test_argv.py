"""The words a plan makes of arguments."""

from typing import Any

import pytest

from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord, words


@pytest.mark.parametrize(
    ("argument", "value", "expected"),
    [
        (ArgvArgument(name="x", flag="--x"), "a b", ["--x", "a b"]),
        (ArgvArgument(name="x", flag="--x"), "", ["--x", ""]),
        (ArgvArgument(name="x", flag="--x"), "-v", ["--x=-v"]),
        (ArgvArgument(name="x", flag="-x"), "-v", ["-x-v"]),
        (ArgvArgument(name="x", flag="-long"), "-v", ["-long=-v"]),
        (ArgvArgument(name="x", flag="--x"), "@file", ["--x=@file"]),
        (ArgvArgument(name="x", flag="--x"), -3, ["--x=-3"]),
        (ArgvArgument(name="x", flag="--x"), 0.5, ["--x", "0.5"]),
        (ArgvArgument(name="x", flag="--x"), 3.0, ["--x", "3"]),
        (ArgvArgument(name="x", flag="--x"), True, ["--x", "true"]),
        (ArgvArgument(name="x", flag="--x"), None, ["--x", "null"]),
        (ArgvArgument(name="x", flag="--x"), {"a": [1, "é"]}, ["--x", '{"a":[1,"é"]}']),
        (ArgvArgument(name="x", flag="--x", nargs="?"), "a", ["--x", "a"]),
        (ArgvArgument(name="x", flag="--x", nargs="?"), None, ["--x"]),
        (ArgvArgument(name="x", flag="--x", nargs="+"), ["a", "b"], ["--x", "a", "b"]),
        (ArgvArgument(name="x", flag="--x", nargs="+"), ["-a"], ["--x=-a"]),
        (
            ArgvArgument(name="x", flag="--x", nargs=2),
            [-1, -1e16],
            ["--x", "-1", "-10000000000000000"],
        ),
        (ArgvArgument(name="x", flag="--x", nargs="*"), [], ["--x"]),
        (ArgvArgument(name="x", flag="--x", action="store_true"), True, ["--x"]),
        (ArgvArgument(name="x", flag="--x", action="store_true"), False, []),
        (ArgvArgument(name="x", flag="--no-x", action="store_false"), False, ["--no-x"]),
        (ArgvArgument(name="x", flag="--no-x", action="store_false"), True, []),
        (ArgvArgument(name="x", flag="--x", action="store_const"), True, ["--x"]),
        (ArgvArgument(name="x", flag="--x", action="append_const"), False, []),
        (ArgvArgument(name="x", flag="-v", action="count"), 3, ["-v", "-v", "-v"]),
        (ArgvArgument(name="x", flag="--x", action="append"), ["a", "-b"], ["--x", "a", "--x=-b"]),
        (
            ArgvArgument(name="x", flag="--x", action="append", nargs=2),
            [["a", "b"], ["c", "d"]],
            ["--x", "a", "b", "--x", "c", "d"],
        ),
        (
            ArgvArgument(name="x", flag="--x", action="extend", nargs="+"),
            ["a", "b"],
            ["--x", "a", "b"],
        ),
        (
            ArgvArgument(name="x", flag="--x", action="extend", nargs="+"),
            ["a", "-b"],
            ["--x", "a", "--x=-b"],
        ),
        (
            ArgvArgument(name="x", flag="--x", action="boolean_optional", off_flag="--no-x"),
            False,
            ["--no-x"],
        ),
        (ArgvArgument(name="x", after_dashes=True), "a", ["a"]),
        (ArgvArgument(name="x", after_dashes=True), "-a", ["--", "-a"]),
        (ArgvArgument(name="x", after_dashes=True, nargs="*"), ["a", "-b"], ["--", "a", "-b"]),
    ],
)
def test_an_argument_becomes_words(argument: ArgvArgument, value: Any, expected: list[str]) -> None:
    assert words((argument,), {"x": value}) == expected


def test_what_is_not_given_adds_no_word() -> None:
    plan: ArgvPlan = (ArgvArgument(name="x", flag="--x"), ArgvArgument(name="y"))

    assert words(plan, {}) == []


def test_positionals_come_after_flags_and_dashes_end_an_open_flag() -> None:
    plan: ArgvPlan = (
        ArgvArgument(name="file", after_dashes=True),
        ArgvArgument(name="tags", flag="--tags", nargs="+"),
    )

    assert words(plan, {"file": "f", "tags": ["a", "b"]}) == ["--tags", "a", "b", "--", "f"]


def test_an_open_flag_goes_before_a_closed_one() -> None:
    plan: ArgvPlan = (
        ArgvArgument(name="size", flag="--size"),
        ArgvArgument(name="tags", flag="--tags", nargs="*"),
        FixedWord(text="run"),
        ArgvArgument(name="file", after_dashes=True),
    )

    assert words(plan, {"file": "-f", "tags": ["a"], "size": 1}) == [
        *("--tags", "a", "--size", "1"),
        *("run", "--", "-f"),
    ]


def test_a_script_that_reads_its_words_itself_gets_no_dashes_of_ours() -> None:
    assert words((ArgvArgument(name="args", nargs="*"),), {"args": ["-n", "5"]}) == ["-n", "5"]


def test_the_rest_of_a_command_line_follows_its_positional_as_it_is() -> None:
    plan: ArgvPlan = (
        ArgvArgument(name="program", after_dashes=True),
        ArgvArgument(name="rest", nargs="...", after_dashes=True),
    )

    assert words(plan, {"program": "ls", "rest": ["-l", "--all"]}) == ["ls", "-l", "--all"]


def test_a_value_that_would_be_taken_for_a_flag_is_refused() -> None:
    plan: ArgvPlan = (ArgvArgument(name="tags", flag="--tags", nargs="+"),)

    with pytest.raises(ValueError, match="tags: '--delete' starts with '-'"):
        words(plan, {"tags": ["a", "--delete"]})


def test_the_rest_of_a_command_line_cannot_begin_with_a_flag() -> None:
    plan: ArgvPlan = (ArgvArgument(name="rest", nargs="...", after_dashes=True),)

    with pytest.raises(ValueError, match="rest: '-l' starts with '-'"):
        words(plan, {"rest": ["-l"]})


def test_no_word_can_hold_a_nul() -> None:
    with pytest.raises(ValueError, match="cannot hold a NUL character"):
        words((ArgvArgument(name="x"),), {"x": "a\0b"})


def test_flag_and_value_are_one_word_or_two_where_the_script_knows_one_form() -> None:
    separate = ArgvArgument(name="x", flag="--x", joined=False)
    joined = ArgvArgument(name="x", flag="--x", joined=True)

    assert words((separate,), {"x": "-v"}) == ["--x", "-v"]
    assert words((joined,), {"x": "v"}) == ["--x=v"]
    assert words((joined._replace(action="append"),), {"x": ["a", "b"]}) == ["--x=a", "--x=b"]


def test_what_is_read_by_number_goes_before_the_flags() -> None:
    plan = (ArgvArgument(name="x", flag="--x"), ArgvArgument(name="file", first=True))

    assert words(plan, {"x": "1", "file": "a"}) == ["a", "--x", "1"]


def test_an_empty_word_keeps_the_place_of_a_missing_one_where_the_script_takes_it_so() -> None:
    plan = (ArgvArgument(name="a", nargs="?", skippable=True), ArgvArgument(name="b", nargs="?"))

    assert words(plan, {"b": "x"}) == ["", "x"]
    assert words(plan, {}) == []


def test_a_value_that_the_script_would_take_for_a_flag_is_refused() -> None:
    plan = (ArgvArgument(name="a", refuses="-.*"), ArgvArgument(name="b", flag="--b"))

    assert words(plan, {"a": "x", "b": "-1"}) == ["--b=-1", "x"]
    with pytest.raises(ValueError, match="would not take '-x\\\\n' as the value of this argument"):
        words(plan, {"a": "-x\n"})
