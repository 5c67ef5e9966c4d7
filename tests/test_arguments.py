"""Arguments against a schema: what is understood, what is refused, and what the refusal says."""

import json
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest

from skillpouch.arguments import (
    arguments_from_text,
    call_of_line,
    check_arguments,
    line_arguments,
    script_arguments,
    value_problems,
)
from skillpouch.errors import InvalidArgumentsError, SkillpouchError, ToolSchemaError
from skillpouch.functions import tool as tool_of
from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord
from skillpouch.tools import Script, Stub, Tool

UNTYPED = {"type": "object", "properties": {"data": {"description": "Any JSON"}}}
WORDS = {
    "type": "object",
    "properties": {"args": {"type": "array", "items": {"type": "string"}}},
    "additionalProperties": False,
}
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "units": {"enum": ["metric", "imperial"]},
        "where": {
            "type": "object",
            "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}},
            "additionalProperties": False,
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def tool(schema: dict[str, Any]) -> Tool:
    return Tool(
        id="demo.x",
        name="x",
        skill="demo",
        description="",
        input_schema=schema,
        runs=Stub(skill="demo"),
    )


def refused(schema: dict[str, Any], given: Any) -> InvalidArgumentsError:
    with pytest.raises(InvalidArgumentsError) as caught:
        check_arguments(tool(schema), given)
    return caught.value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_arguments_that_fit_come_back_as_they_are() -> None:
    given = {"city": "Zürich", "days": 3, "where": {"latitude": 47.4}, "tags": ["a", ""]}

    assert check_arguments(tool(CITY), given) == given


def test_whatever_kind_a_value_is_of_a_tool_gets_what_json_would_carry() -> None:
    class Word(str):
        __slots__ = ()

    given = {"who": Word("Ada"), "times": HTTPStatus.OK, "größe": "groß", "at": 2**70, "of": 0.5}

    found = check_arguments(tool({"type": "object"}), given)

    kinds = [type(value) for value in found.values()]
    assert (found, kinds) == (given, [str, int, str, int, float])


def test_what_comes_back_is_a_copy_that_the_caller_cannot_change() -> None:
    given: dict[str, Any] = {"city": "Bern", "tags": ["a"]}

    checked = check_arguments(tool(CITY), given)
    given["tags"].append("b")

    assert checked == {"city": "Bern", "tags": ["a"]}


def test_a_wrong_name_is_told_with_the_allowed_ones_and_the_nearest() -> None:
    error = refused(CITY, {"city": "Bern", "dayz": 2})

    assert (error.tool, error.code) == ("demo.x", "invalid_arguments")
    assert "'dayz'" in str(error)
    assert "allowed are city, days, units, where, tags" in str(error)
    assert "did you mean 'days'?" in str(error)


def test_a_wrong_name_deeper_down_is_told_with_the_names_allowed_there() -> None:
    error = refused(CITY, {"city": "Bern", "where": {"latitud": 1}})

    assert "where" in str(error)
    assert "allowed are latitude, longitude" in str(error)
    assert "did you mean 'latitude'?" in str(error)


def test_a_wrong_value_is_told_with_its_path() -> None:
    error = refused(CITY, {"city": "Bern", "where": {"latitude": "north"}, "tags": ["a", 2]})

    assert any(problem.startswith("where.latitude: ") for problem in error.problems)
    assert any(problem.startswith("tags.1: ") for problem in error.problems)


def test_every_problem_is_told_at_once() -> None:
    error = refused(CITY, {"days": 0, "units": "kelvin"})

    assert len(error.problems) == 3
    assert '"city" is a required property' in str(error)


def test_a_missing_argument_comes_with_what_the_tool_takes() -> None:
    assert refused(CITY, None).hint == (
        "demo.x takes city, days (optional), units (optional), where (optional), tags (optional)"
    )


def test_a_message_stays_short_however_large_the_wrong_value_is() -> None:
    assert len(str(refused(CITY, {"city": "Bern", "days": "x" * 1_000_000}))) < 5_000


def test_a_message_stays_short_however_many_names_are_wrong() -> None:
    given = {"city": "Bern"} | {f"wrong{number}": 1 for number in range(5_000)}

    assert len(str(refused(CITY, given))) < 5_000


def test_a_message_stays_short_however_many_values_are_wrong() -> None:
    assert len(refused(CITY, {"city": "Bern", "tags": list(range(1_000))}).problems) < 20


@pytest.mark.parametrize("given", ["World", ["a", "b"], 3, 2.5, True, [{"x": 1}], ""])
def test_an_untyped_tool_takes_any_value(given: Any) -> None:
    assert check_arguments(tool(UNTYPED), given) == {"data": given}


def test_an_untyped_tool_takes_an_object_as_its_data() -> None:
    assert check_arguments(tool(UNTYPED), {"x": 1}) == {"data": {"x": 1}}
    assert check_arguments(tool(UNTYPED), {"data": {"x": 1}}) == {"data": {"x": 1}}
    assert check_arguments(tool(UNTYPED), {}) == {}
    assert check_arguments(tool(UNTYPED), None) == {}


def test_a_typed_tool_that_knows_no_data_gets_it_unwrapped() -> None:
    assert check_arguments(tool(CITY), {"data": {"city": "Bern"}}) == {"city": "Bern"}


def test_a_typed_tool_that_knows_data_keeps_it() -> None:
    schema = {"type": "object", "properties": {"data": {"type": "object"}}}

    assert check_arguments(tool(schema), {"data": {"city": "Bern"}}) == {"data": {"city": "Bern"}}


def test_data_beside_other_arguments_is_not_unwrapped() -> None:
    assert "'data'" in str(refused(CITY, {"city": "Bern", "data": {}}))


def test_a_script_of_words_takes_text_and_lists() -> None:
    assert check_arguments(tool(WORDS), "two words") == {"args": ["two words"]}
    assert check_arguments(tool(WORDS), ["a", "b"]) == {"args": ["a", "b"]}
    assert check_arguments(tool(WORDS), {"data": "a"}) == {"args": ["a"]}


def test_a_tool_with_one_argument_takes_it_bare_and_one_with_more_does_not() -> None:
    schema = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}

    assert check_arguments(tool(schema), "Ada") == {"who": "Ada"}
    assert "arguments must be an object, not 'Bern': name each of them" in str(
        refused(CITY, "Bern")
    )


@pytest.mark.parametrize("schema", [{"data": True}, {"data": False}, {"data": {}}])
def test_a_schema_that_is_only_yes_or_no_is_a_schema(schema: dict[str, Any]) -> None:
    given = {} if schema["data"] is False else {"data": 1}

    assert check_arguments(tool({"type": "object", "properties": schema}), given) == given


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        b"bytes",
        {1, 2},
        object(),
        {(1, 2): 3},
        nested(100_000),
        {"data": 10**5_000},
    ],
    ids=["nan", "inf", "-inf", "bytes", "set", "object", "tuple key", "deep", "long number"],
)
def test_what_no_json_can_carry_is_refused(value: Any) -> None:
    refused(UNTYPED, {"data": value})


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    refused(UNTYPED, {"data": endless})


@pytest.mark.parametrize("text", ["\ud800", "a\udcffb"], ids=["alone", "between"])
def test_half_a_character_is_refused_as_value_and_as_name(text: str) -> None:
    refused(UNTYPED, {"data": text})
    refused(UNTYPED, {"data": {text: 1}})


@pytest.mark.parametrize("depth", [500, 900, 2_000, 100_000])
def test_any_depth_is_taken_or_refused_and_never_breaks_the_host(depth: int) -> None:
    try:
        checked = check_arguments(tool(UNTYPED), nested(depth))
    except SkillpouchError:
        return
    assert json.loads(json.dumps(checked)) == checked


def test_data_in_data_without_end_is_refused() -> None:
    given: Any = {"city": "Bern"}
    for _ in range(50_000):
        given = {"data": given}

    refused(CITY, given)


def test_two_names_that_json_makes_one_are_refused() -> None:
    refused(UNTYPED, {"data": {1: "a", "1": "b"}})


@pytest.mark.parametrize("number", [2**53 + 1, 2**64, 10**100, -(10**40)])
def test_a_large_number_arrives_exactly_or_not_at_all(number: int) -> None:
    try:
        checked = check_arguments(tool(CITY), {"city": "Bern", "days": number})
    except InvalidArgumentsError:
        assert number < 1
        return
    assert checked["days"] == number


def test_words_of_a_command_line_get_the_type_of_their_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "ratio": {"type": ["number", "null"]},
            "on": {"type": "boolean"},
            "text": {"type": "string"},
            "maybe": {"type": ["string", "null"]},
            "more": {"type": "object"},
            "kind": {"enum": ["1", "2"]},
            "level": {"enum": [1, 2]},
            "many": {"type": "array", "items": {"type": "integer"}},
            "dry_run": {"type": "boolean"},
        },
    }
    pairs = [
        ("count", "3"),
        ("ratio", "2.5"),
        ("on", "true"),
        ("text", "3"),
        ("maybe", "null"),
        ("more", '{"a": [1]}'),
        ("kind", "1"),
        ("level", "1"),
        ("many", "1"),
        ("many", "2"),
        ("dry-run", "false"),
    ]

    assert arguments_from_text(tool(schema), pairs) == {
        "count": 3,
        "ratio": 2.5,
        "on": True,
        "text": "3",
        "maybe": "null",
        "more": {"a": [1]},
        "kind": "1",
        "level": 1,
        "many": [1, 2],
        "dry_run": False,
    }


def test_a_whole_list_can_be_written_as_json_and_gone_on_with() -> None:
    pairs = [("tags", '["a", "b"]'), ("tags", "c")]

    assert arguments_from_text(tool(CITY), pairs) == {"tags": ["a", "b", "c"]}


@pytest.mark.parametrize("text", ["[", "[not json", "[1, 2"])
def test_a_word_that_only_looks_like_a_list_is_an_item(text: str) -> None:
    assert arguments_from_text(tool(CITY), [("tags", text)]) == {"tags": [text]}


def test_a_word_that_is_not_what_the_schema_wants_stays_text_and_is_refused_by_name() -> None:
    given = arguments_from_text(tool(CITY), [("city", "Bern"), ("days", "many")])

    assert "days: " in str(refused(CITY, given))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "[" * 100_000, "1" * 5_000], ids="abcd")
def test_no_word_breaks_the_reading_of_words(text: str) -> None:
    given = arguments_from_text(tool(CITY), [("city", "Bern"), ("days", text)])

    refused(CITY, given)


def test_json_text_for_a_typed_script_means_what_it_says() -> None:
    assert script_arguments(tool(CITY), '{"city": "Bern"}') == {"city": "Bern"}
    assert script_arguments(tool(CITY), "[" * 100_000) == "[" * 100_000


def test_json_text_for_an_untyped_script_stays_text() -> None:
    assert script_arguments(tool(UNTYPED), '{"a": 1}') == '{"a": 1}'


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("given", [10**5_000, Unshowable()], ids=["long", "unshowable"])
def test_what_cannot_even_be_shown_is_refused_like_all_that_is_no_object(given: Any) -> None:
    assert "must be an object, not this " in str(refused(CITY, given))


def test_the_wrong_schema_of_a_function_is_not_looked_for_in_a_skill() -> None:
    def greet() -> str:
        return "hello"

    wrong = replace(tool_of(greet), input_schema={"type": "no such type"})

    with pytest.raises(ToolSchemaError) as caught:
        check_arguments(wrong, {})

    hint = "correct the schema where the tool is made: in its function, ToolDef or MCP server"
    assert caught.value.hint == hint


TEXT = {"type": "string"}
FLAGS: ArgvPlan = (
    ArgvArgument(name="input_file", flag="--in", others=("-i",)),
    ArgvArgument(name="cache", flag="--no-cache", action="store_false"),
    ArgvArgument(name="tags", flag="--tag", action="append"),
)


def script(
    plan: ArgvPlan = FLAGS, name: str = "convert", *, file: str = "x.py", **facts: Any
) -> Tool:
    names = [part.name for part in plan if isinstance(part, ArgvArgument)]
    kinds: dict[str, Any] = {"cache": {"type": "boolean"}, "tags": {"type": "array", "items": TEXT}}
    schema = {
        "type": "object",
        "properties": {each: kinds.get(each, TEXT) for each in names},
        "additionalProperties": False,
    }
    return replace(
        tool(schema),
        id=f"demo.{name}",
        runs=Script(
            file=f"/skills/demo/scripts/{file}", language="python", convention="argv", plan=plan
        ),
        home="/skills/demo",
        **facts,
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"in": "a"}, {"input_file": "a"}),
        ({"i": "a"}, {"input_file": "a"}),
        ({"input_file": "a"}, {"input_file": "a"}),
        ({"no_cache": True}, {"cache": False}),
        ({"no-cache": False}, {"cache": True}),
        ({"tag": ["a"], "cache": True}, {"tags": ["a"], "cache": True}),
    ],
)
def test_an_argument_is_known_by_the_flag_that_people_read(given: Any, found: Any) -> None:
    assert check_arguments(script(), given) == found


@pytest.mark.parametrize(
    "given", [{"in": "a", "input_file": "b"}, {"i": "a", "in": "a"}, {"no_cache": True, "cache": 1}]
)
def test_one_argument_under_two_names_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="is given twice, in two spellings"):
        check_arguments(script(), given)


def test_words_with_an_equals_sign_know_flags_too() -> None:
    pairs = [("in", "a"), ("--tag", "x"), ("tag", "y")]

    assert arguments_from_text(script(), pairs) == {"input_file": "a", "tags": ["x", "y"]}


def test_words_of_a_command_line_become_arguments() -> None:
    assert line_arguments(script(), ["-ia", "--tag", "x"]) == {"input_file": "a", "tags": ["x"]}
    assert line_arguments(tool(UNTYPED), ["a"]) == "a"
    assert line_arguments(tool(UNTYPED), ["a", "b"]) == {"data": ["a", "b"]}
    assert line_arguments(tool(UNTYPED), []) is None
    assert line_arguments(tool(CITY), ["--city", "Bern", "--days=2"]) == {"city": "Bern", "days": 2}


def test_words_that_do_not_fit_show_the_usage() -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        line_arguments(script(), ["--verbose", "x"])

    assert str(caught.value) == "invalid arguments for demo.convert: there is no flag --verbose"
    assert caught.value.hint == ("usage: scripts/x.py [--in INPUT_FILE] [--no-cache] [--tag TAGS]")


def test_a_line_finds_its_tool_and_its_sub_command() -> None:
    add = script((FixedWord("add"), ArgvArgument(name="name")), "db-add", file="db.py")
    drop = script((FixedWord("drop"), ArgvArgument(name="name")), "db-drop", file="db.py")
    tools = [script(), add, drop]

    assert call_of_line("demo", tools, "python scripts/x.py -i a") == (
        tools[0],
        {"input_file": "a"},
    )
    assert call_of_line("demo", tools, "python scripts/db.py drop it") == (drop, {"name": "it"})


def test_a_line_that_runs_nothing_of_the_skill_names_its_scripts() -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        call_of_line("demo", [script()], "python scripts/y.py")

    assert caught.value.hint == "the scripts of demo are scripts/x.py"


@pytest.mark.parametrize("before", ["TOKEN=1", "env PYTHONPATH=.", "export MODE=fast;"])
def test_a_line_cannot_set_a_variable(before: str) -> None:
    name = before.rsplit(maxsplit=1)[-1].partition("=")[0]

    with pytest.raises(InvalidArgumentsError, match=f"the line sets {name}, and") as caught:
        call_of_line("demo", [script()], f"{before} python scripts/x.py -i a")

    assert caught.value.hint == (
        f"leave it out, or grant it: skillpouch trust demo --set {name}=… "
        f"or, if it is a secret, --secret {name}"
    )


def test_a_line_that_does_more_than_run_a_script_shows_its_usage() -> None:
    with pytest.raises(InvalidArgumentsError, match="'sudo' does not just run") as caught:
        call_of_line("demo", [script()], "sudo scripts/x.py -i a")

    assert caught.value.hint == "usage: scripts/x.py [--in INPUT_FILE] [--no-cache] [--tag TAGS]"


def test_a_group_of_arguments_of_which_one_is_required_is_named() -> None:
    ways = [{"required": ["hook", "input"]}, {"required": ["list"]}]
    names = ("hook", "input", "list")
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "allOf": [{"anyOf": ways}],
    }

    assert value_problems(schema, {"hook": "h"}) == ["one of hook and input, or list is required"]
