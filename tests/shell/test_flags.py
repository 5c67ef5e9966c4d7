"""What words mean as arguments."""

from typing import Any

import pytest

from skillpouch.shell.flags import FlagError, Flags, read_flags
from skillpouch.shell.toolbox import ToolDef
from skillpouch.signatures.argv import ArgvArgument

PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "share": {"type": "number"},
    "verbose": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "ids": {"type": "array", "items": {"type": "integer"}},
    "where": {"type": "object"},
    "unit": {"enum": ["celsius", "kelvin"]},
    "user_name": {"type": "string"},
}


def tool(properties: dict[str, Any] | None = None, **schema: Any) -> ToolDef:
    found = {"type": "object", "properties": properties or PROPERTIES, **schema}
    return ToolDef("find", "Find it").with_schema(found)


def params(*words: str, of: ToolDef | None = None, stdin: str | None = None) -> dict[str, Any]:
    return read_flags(words, of or tool(), stdin).params


def refusal(*words: str, of: ToolDef | None = None, stdin: str | None = None) -> list[str]:
    with pytest.raises(FlagError) as caught:
        read_flags(words, of or tool(), stdin)
    return [caught.value.code, str(caught.value), caught.value.hint]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--id 42", {"id": 42}),
        ("--id=42", {"id": 42}),
        ("--id -7", {"id": -7}),
        ("--id=-7", {"id": -7}),
        ("--id +7", {"id": 7}),
        ("--id 42.0", {"id": 42}),
        ("--id 123456789012345678901234567890", {"id": 123456789012345678901234567890}),
        ("--share 0.5", {"share": 0.5}),
        ("--share -.5", {"share": -0.5}),
        ("--share 1e3", {"share": 1000.0}),
        ("--share 9007199254740993", {"share": 9007199254740993}),
        ("--verbose", {"verbose": True}),
        ("--no-verbose", {"verbose": False}),
        ("--verbose=false", {"verbose": False}),
        ("--verbose false", {"verbose": False}),
        ("--verbose True", {"verbose": True}),
        ("--verbose --id 1", {"verbose": True, "id": 1}),
        ("--name Alice", {"name": "Alice"}),
        ("--name=", {"name": ""}),
        ("--name=a=b", {"name": "a=b"}),
        ("--name 42", {"name": "42"}),
        ("--name -x", {"name": "-x"}),
        ("--unit kelvin", {"unit": "kelvin"}),
        ("--user-name Ada", {"user_name": "Ada"}),
        ("--userName Ada", {"user_name": "Ada"}),
        ("--tags a --tags b", {"tags": ["a", "b"]}),
        ("--tags a,b", {"tags": ["a,b"]}),
        ('--tags ["a","b"]', {"tags": ["a", "b"]}),
        ('--tags ["a"] --tags b', {"tags": ["a", "b"]}),
        ("--tags []", {"tags": []}),
        ("--no-tags", {"tags": []}),
        ("--ids 1 --ids=2", {"ids": [1, 2]}),
        ("--ids 1,2,-3", {"ids": [1, 2, -3]}),
        ('--where {"a":1}', {"where": {"a": 1}}),
        ('--json {"id":1,"name":"A"} --id 2', {"id": 2, "name": "A"}),
        ('--id 2 --json={"id":1}', {"id": 2}),
    ],
)
def test_words_become_typed_arguments(words: str, expected: dict[str, Any]) -> None:
    found = params(*words.split())

    assert found == expected
    assert list(map(type, found.values())) == list(map(type, expected.values()))


def test_plain_words_fill_parameters_in_the_order_of_the_schema() -> None:
    of = tool(
        {"city": {"type": "string"}, "loud": {"type": "boolean"}, "days": {"type": "integer"}}
    )

    assert params("Rome", "--loud", "3", of=of) == {"city": "Rome", "loud": True, "days": 3}
    assert params("3", "--city", "Rome", of=of) == {"city": "Rome", "days": 3}


def test_a_list_takes_all_plain_words_but_those_that_others_need() -> None:
    items = {"type": "array", "items": {"type": "string"}}
    of = tool({"sources": items, "target": {"type": "string"}}, required=["target"])

    assert params("a", "b", "c", of=of) == {"sources": ["a", "b"], "target": "c"}


def test_after_two_dashes_every_word_is_plain() -> None:
    of = tool({"name": {"type": "string"}})

    assert params("--", "--name", of=of) == {"name": "--name"}


def test_a_negative_number_and_a_dash_are_plain_words() -> None:
    of = tool({"id": {"type": "integer"}, "file": {"type": "string"}})

    assert params("-5", "-", of=of) == {"id": -5, "file": "-"}


@pytest.mark.promise("flag-1")
def test_a_value_from_a_variable_never_becomes_a_flag() -> None:
    flags = read_flags(["--name", "--verbose"], tool(), None)

    assert flags == Flags(
        params={"name": "--verbose"}, notes=("--name took '--verbose' for its value",)
    )


def test_a_script_that_reads_its_argv_gets_the_words_as_they_are() -> None:
    of = tool({"args": {"type": "array", "items": {"type": "string"}}}, additionalProperties=False)

    found = params("--format", "png", "-v", "--size=3", "in.jpg", "--", "--help", of=of)

    assert found == {"args": ["--format", "png", "-v", "--size=3", "in.jpg", "--help"]}


def test_an_untyped_script_gets_its_words_as_a_list_or_as_one_text() -> None:
    of = tool({"data": {}})

    assert params("World", of=of) == {"data": "World"}
    assert params("a", "b", of=of) == {"data": ["a", "b"]}


def test_arguments_can_come_from_a_pipe_as_json() -> None:
    flags = read_flags(["--stdin-json", "--id", "2"], tool(), '{"id": 1, "name": "Ada"}\n')

    assert flags == Flags(params={"id": 2, "name": "Ada"}, uses_stdin=True)


def test_a_plain_pipe_is_left_to_the_tool() -> None:
    assert read_flags(["--id", "1"], tool(), '{"id": 2}') == Flags(params={"id": 1})


@pytest.mark.parametrize("words", [["--help"], ["--id", "3", "--help"], ["-h"]])
def test_help_is_asked_for_by_its_flag(words: list[str]) -> None:
    assert read_flags(words, tool(), None) == Flags(help=True)


def test_a_parameter_of_the_tool_comes_before_a_flag_of_ours() -> None:
    of = tool({"help": {"type": "string"}, "json": {"type": "boolean"}})

    assert params("--help", "me", "--json", of=of) == {"help": "me", "json": True}


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": ["integer", "string"]}, "5", 5),
        ({"type": ["integer", "string"]}, "all", "all"),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({"anyOf": [{"type": "integer"}, {"enum": ["all"]}]}, "all", "all"),
        ({"oneOf": [{"type": "object"}, {"type": "string"}]}, '{"a": 1}', {"a": 1}),
        ({"anyOf": [{"type": "array"}, {"type": "number"}]}, "[1]", [1]),
        ({"type": "integer", "nullable": True}, "null", None),
        ({"const": 3}, "3", 3),
        ({"enum": [1, "1", None, True]}, "null", None),
        ({"type": "integer", "enum": [10, 20]}, "20", 20),
        ({"type": ["string", "null"], "enum": ["a", None]}, "null", None),
        ({"type": {}, "enum": None}, "5", "5"),
        ({"type": "array", "items": {"type": "array"}}, "[1, 2]", [[1, 2]]),
        ({"type": "array", "items": {"type": "array"}}, "[[1], [2]]", [[1], [2]]),
        ({"type": "array", "items": {"type": "object"}}, '{"a": 1}', [{"a": 1}]),
        ({"$ref": "#/$defs/Count"}, "5", 5),
        ({"$ref": "#/$defs/Counts"}, "5,6", [5, 6]),
        ({"allOf": [{"$ref": "#/$defs/Count"}], "default": 1}, "5", 5),
        ({"$ref": "#/$defs/a~1b"}, "yes", True),
        ({"$ref": "#/$defs/nowhere"}, "5", "5"),
        ({"$ref": "#/$defs/Loop"}, "5", "5"),
        (True, "5", "5"),
    ],
)
def test_a_word_is_the_first_thing_that_its_schema_allows(
    schema: object, text: str, expected: object
) -> None:
    definitions = {
        "Count": {"type": "integer"},
        "Counts": {"type": "array", "items": {"$ref": "#/$defs/Count"}},
        "Loop": {"$ref": "#/$defs/Loop"},
        "a/b": {"type": "boolean"},
    }
    of = tool({"x": schema}, **{"$defs": definitions})

    found = params(f"--x={text}", of=of)["x"]

    assert (type(found), found) == (type(expected), expected)


def test_a_nullable_flag_is_switched_off_to_null() -> None:
    of = tool({"name": {"type": ["string", "null"]}})

    assert params("--no-name", of=of) == {"name": None}


def test_properties_may_stand_behind_a_reference_and_in_parts() -> None:
    schema = {
        "$ref": "#/$defs/Main",
        "$defs": {
            "Main": {
                "allOf": [{"$ref": "#/$defs/Part"}, {"properties": {"b": {"type": "number"}}}]
            },
            "Part": {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        },
    }
    of = ToolDef("find", "").with_schema(schema)

    assert params("--a", "1", "--b", "2.5", of=of) == {"a": 1, "b": 2.5}


def test_an_unknown_flag_is_kept_as_text_and_noted() -> None:
    assert read_flags(["--idd", "42"], tool(), None) == Flags(
        params={"idd": "42"}, notes=("no flag --idd, kept as text; did you mean --id?",)
    )
    assert read_flags(["--zebra", "42"], tool(), None) == Flags(
        params={"zebra": "42"}, notes=("no flag --zebra, kept as text",)
    )


def test_a_tool_without_a_schema_takes_any_flag_without_a_word() -> None:
    of = ToolDef("log", "Log it")

    assert read_flags(["--level", "3", "--quiet"], of, None) == Flags(
        params={"level": "3", "quiet": True}
    )


def test_other_properties_are_read_by_their_own_schema() -> None:
    of = tool({"id": {"type": "integer"}}, additionalProperties={"type": "number"})

    assert read_flags(["--width", "2.5"], of, None) == Flags(params={"width": 2.5})


def test_a_closed_schema_refuses_an_unknown_flag_and_names_the_nearest() -> None:
    of = tool(additionalProperties=False)

    assert refusal("--usr-name", "Ada", of=of) == [
        "unknown_flag",
        "no flag --usr-name",
        "did you mean --user_name?",
    ]


def test_a_flag_with_one_dash_is_refused_unless_it_is_a_parameter() -> None:
    of = tool({"n": {"type": "integer"}})

    assert params("-n", "3", of=of) == {"n": 3}
    assert refusal("-x", of=of)[:2] == ["unknown_flag", "no flag -x"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--id abc", ["flag_value", "--id: 'abc' is not an integer"]),
        ("--id 1.5", ["flag_value", "--id: '1.5' is not an integer"]),
        ("--id 1_000", ["flag_value", "--id: '1_000' is not an integer"]),
        ("--id=", ["flag_value", "--id: '' is not an integer"]),
        ("--share NaN", ["flag_value", "--share: 'NaN' is not a number"]),
        ("--share -inf", ["flag_value", "--share: '-inf' is not a number"]),
        ("--share 1e999", ["flag_value", "--share: '1e999' is not a number"]),
        ("--verbose=maybe", ["flag_value", "--verbose: 'maybe' is not a boolean"]),
        ("--unit kelvn", ["flag_value", "--unit: 'kelvn' is not one of celsius, kelvin"]),
        ("--ids 1,x", ["flag_value", "--ids: '1,x' is not a list of integer"]),
        ("--where [1]", ["flag_value", "--where: '[1]' is not a JSON object"]),
        ('--where {"a":NaN}', ["flag_value", "--where: '{\"a\":NaN}' is not a JSON object"]),
        ("--id", ["flag_needs_value", "--id needs a value: an integer"]),
        ("--id --verbose", ["flag_needs_value", "--id needs a value: an integer"]),
        ("--no-verbose=1", ["flag_takes_no_value", "--no-verbose takes no value"]),
        ("--json [1]", ["not_a_json_object", "--json needs a JSON object, and found '[1]'"]),
        ("--json", ["not_a_json_object", "--json needs a JSON object, and found nothing"]),
        (
            "--stdin-json",
            ["not_a_json_object", "--stdin-json needs a JSON object, and found nothing"],
        ),
        ("--=3", ["unknown_flag", "no flag --"]),
    ],
)
def test_a_value_that_does_not_fit_names_flag_value_and_type(
    words: str, expected: list[str]
) -> None:
    assert refusal(*words.split())[:2] == expected


def test_a_wrong_choice_is_told_the_nearest_one() -> None:
    assert refusal("--unit", "kelvn")[2] == "did you mean 'kelvin'?"


def test_a_word_too_many_is_told_how_the_command_is_written() -> None:
    of = tool({"id": {"type": "integer"}}, required=["id"])

    assert refusal("1", "2", of=of) == [
        "unexpected_word",
        "unexpected word '2'",
        "usage: find --id <integer>",
    ]


def test_two_dashes_are_no_flag_even_where_a_property_has_no_name() -> None:
    of = tool({"a": {"type": "string"}, "": {"type": "string"}})

    assert params("--", "x", of=of) == {"a": "x"}


def test_a_flag_given_twice_counts_once_and_says_so() -> None:
    assert read_flags(["--id", "1", "--id", "2"], tool(), None) == Flags(
        params={"id": 2}, notes=("--id is given more than once; the last one counts",)
    )


def test_a_message_does_not_repeat_a_megabyte() -> None:
    for words in (["--id", "x" * 10**6], ["--json", "x" * 10**6], ["-" * 10**6]):
        _code, message, hint = refusal(*words, of=tool(additionalProperties=False))

        assert len(message) + len(hint) < 1000


def test_an_integer_of_ten_thousand_digits_is_refused() -> None:
    assert refusal("--id", "9" * 10_000)[0] == "flag_value"


def test_a_schema_that_refers_to_itself_everywhere_is_read_at_once() -> None:
    doubled = {f"D{n}": {"allOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(60)}
    either = {"anyOf": [{"$ref": "#/$defs/E"}] * 9}
    lists = {"type": "array", "items": {"$ref": "#/$defs/L"}}
    of = tool(
        {"a": {"$ref": "#/$defs/D0"}, "b": {"$ref": "#/$defs/E"}, "c": {"$ref": "#/$defs/L"}},
        **{"$defs": {**doubled, "E": either, "L": lists}},
    )

    assert params("--a", "1", "--b", "2", "--c", "[]", of=of) == {"a": "1", "b": "2", "c": []}
    assert refusal("--c", "x,y", of=of)[0] == "flag_value"


@pytest.mark.parametrize("name", [*PROPERTIES, "userName", "user-name", "none", "help", "a=b", ""])
@pytest.mark.parametrize(
    "text", ["5", "+5", " 5 ", "5.0", "٣", "9" * 5000, "x", "", "true", "a,b", "--id", "--x", "{}"]
)
def test_pairs_of_flags_and_values_mean_the_same_word_by_word(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(*words: str) -> object:
        try:
            return read_flags(words, tool(), None)
        except FlagError as error:
            return [error.code, str(error), error.hint]

    lines = [(f"--{name}", text), (f"--{name}", text, "--name", "y"), ("--id", "1", "--id", text)]
    at_once = [found(*line) for line in lines]
    monkeypatch.setattr("skillpouch.shell.flags.Parameters.pairs", lambda *_: None)
    word_by_word = [found(*line) for line in lines]

    assert at_once == word_by_word


SCRIPTED = ToolDef(
    "convert",
    "Convert it",
    plan=(
        ArgvArgument(name="input_file", flag="--in", others=("-i",)),
        ArgvArgument(name="cache", flag="--no-store", action="store_false"),
        ArgvArgument(name="as_json", flag="--json", action="store_true"),
    ),
).with_schema(
    {
        "type": "object",
        "properties": {
            "input_file": {"type": "string"},
            "cache": {"type": "boolean"},
            "as_json": {"type": "boolean"},
        },
        "additionalProperties": False,
    }
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--in", "a"], {"input_file": "a"}),
        (["--in=a"], {"input_file": "a"}),
        (["-i", "a"], {"input_file": "a"}),
        (["--input-file", "a"], {"input_file": "a"}),
        (["--no-store"], {"cache": False}),
        (["--json", "--in", "a"], {"as_json": True, "input_file": "a"}),
    ],
)
def test_a_script_is_called_by_its_own_flags_too(words: list[str], expected: Any) -> None:
    assert params(*words, of=SCRIPTED) == expected


def test_a_flag_of_a_script_that_says_no_takes_no_value() -> None:
    assert refusal("--no-store=1", of=SCRIPTED)[1] == "--no-store takes no value"
