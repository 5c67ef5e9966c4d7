"""What a command is, and what a callback finds in its arguments."""

from dataclasses import FrozenInstanceError

import pytest

from skillpouch.shell.toolbox import ToolArgs, ToolDef

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


def test_a_definition_without_a_schema_has_an_empty_one() -> None:
    tool = ToolDef("get_user", "Fetch user by ID")

    assert (tool.name, tool.description, tool.input_schema) == (
        "get_user",
        "Fetch user by ID",
        {},
    )


def test_each_with_gives_a_new_definition_and_leaves_the_old_one() -> None:
    first = ToolDef("get_user", "Fetch user by ID")

    second = (
        first.with_schema(SCHEMA)
        .with_effects("read", "network")
        .with_output_schema({"type": "string"})
        .with_examples("get_user --id 1")
    )

    assert first == ToolDef("get_user", "Fetch user by ID")
    assert second == ToolDef(
        "get_user",
        "Fetch user by ID",
        input_schema=SCHEMA,
        output_schema={"type": "string"},
        effects=("read", "network"),
        examples=("get_user --id 1",),
    )


def test_a_definition_cannot_be_changed() -> None:
    tool = ToolDef("get_user", "Fetch user by ID")

    with pytest.raises(FrozenInstanceError):
        tool.name = "other"  # type: ignore[misc]  # the point of the test


def test_a_parameter_is_given_as_its_own_type() -> None:
    args = ToolArgs({"name": "Ada", "id": 7, "share": 0.5, "on": False}, "piped")

    assert args.param_str("name") == "Ada"
    assert args.param_i64("id") == 7
    assert args.param_f64("share") == 0.5
    assert args.param_bool("on") is False
    assert args.stdin == "piped"


def test_an_integer_is_a_number_too() -> None:
    assert ToolArgs({"id": 7}).param_f64("id") == 7.0


def test_an_integer_that_no_float_holds_is_no_number() -> None:
    args = ToolArgs({"id": 10**400})

    assert (args.param_i64("id"), args.param_f64("id")) == (10**400, None)


@pytest.mark.parametrize("value", [None, [], {}, "7", True, 7, 0.5])
def test_a_parameter_of_another_type_is_none(value: object) -> None:
    args = ToolArgs({"x": value})

    found = [args.param_str("x"), args.param_i64("x"), args.param_bool("x")]

    fits = {str: 0, int: 1, bool: 2}.get(type(value))
    assert found == [value if place == fits else None for place in range(3)]


def test_a_boolean_is_no_number() -> None:
    args = ToolArgs({"x": True})

    assert (args.param_i64("x"), args.param_f64("x")) == (None, None)


def test_an_absent_parameter_is_none() -> None:
    args = ToolArgs()

    assert (args.param_str("x"), args.param_i64("x"), args.param_f64("x")) == (None,) * 3
    assert args.param_bool("x") is None
    assert args.stdin is None
