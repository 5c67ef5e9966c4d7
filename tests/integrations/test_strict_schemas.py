"""Schemas that providers enforce: nothing that a tool takes is lost."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.integrations.strict_schemas import plain_root, strict_schema, without_nulls

pytestmark = pytest.mark.slow


def an_object(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def test_what_is_optional_becomes_required_and_nullable() -> None:
    schema = an_object(
        {
            "a": {"type": "string"},
            "b": {"type": "integer", "default": 1, "description": "how many"},
            "c": {"enum": ["x", "y"]},
            "d": {"type": "array", "items": an_object({"e": {"type": "boolean"}})},
        },
        ("a",),
    )

    assert strict_schema(schema) == an_object(
        {
            "a": {"type": "string"},
            "b": {"type": ["integer", "null"], "description": "how many"},
            "c": {"anyOf": [{"enum": ["x", "y"]}, {"type": "null"}]},
            "d": {
                "type": ["array", "null"],
                "items": an_object({"e": {"type": ["boolean", "null"]}}, ("e",)),
            },
        },
        ("a", "b", "c", "d"),
    )


@pytest.mark.parametrize(
    "schema",
    [
        an_object({"data": {}}),
        an_object({"options": {"type": "object"}}),
        an_object({"rows": {"type": "array"}}),
        an_object({"a": {"$ref": "#/$defs/a"}}),
        an_object({"a": {"type": "string", "minLength": 1}}),
        an_object({"a": {"type": ["object", "string"]}}),
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {}, "anyOf": [{}]},
    ],
)
def test_what_strict_mode_cannot_say_is_not_made_strict(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_a_root_is_an_object_and_nothing_else() -> None:
    schema = {"anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}

    assert plain_root(schema) == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert plain_root({}) == {"type": "object", "properties": {}}


def test_a_null_stays_where_it_means_something() -> None:
    schema = an_object(
        {
            "required": {"type": "string"},
            "left_out": {"type": "string"},
            "may_be_null": {"type": ["string", "null"]},
            "anything": {},
            "rows": {"type": "array", "items": an_object({"x": {"type": "integer"}})},
        },
        ("required",),
    )
    given = dict.fromkeys(("required", "left_out", "may_be_null", "anything", "unknown"))

    assert without_nulls({**given, "rows": [{"x": None}, {"x": 1}]}, schema) == {
        "required": None,
        "may_be_null": None,
        "anything": None,
        "unknown": None,
        "rows": [{}, {"x": 1}],
    }


_leaves: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": ["number", "null"]},
        {"enum": ["a", "b"]},
        {"type": "boolean", "default": True},
        {},
    ]
)


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["a", "b", "c"])
    properties = st.dictionaries(names, inner, min_size=1, max_size=3)
    return st.builds(
        lambda found, required: an_object(found, tuple(n for n in found if n in required)),
        properties,
        st.sets(names),
    )


_schemas = _objects(
    st.recursive(
        _leaves,
        lambda inner: _objects(inner) | inner.map(lambda items: {"type": "array", "items": items}),
        max_leaves=6,
    )
)


@given(schema=_schemas, data=st.data())
@settings(deadline=None, max_examples=150)
def test_what_fits_the_strict_schema_fits_the_tool(schema: dict[str, Any], data: Any) -> None:
    strict = strict_schema(schema)
    if strict is None:
        return
    arguments = data.draw(_values(strict))

    assert jsonschema_rs.validator_for(strict).is_valid(arguments)
    jsonschema_rs.validator_for(schema).validate(without_nulls(arguments, schema))


def _values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "anyOf" in schema:
        return st.one_of([_values(each) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([_values_of(kind, schema) for kind in kinds])


def _values_of(kind: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    match kind:
        case "object":
            return st.fixed_dictionaries(
                {name: _values(each) for name, each in schema["properties"].items()}
            )
        case "array":
            return st.lists(_values(schema["items"]), max_size=2)
        case "null":
            return st.none()
        case "string":
            return st.text(max_size=3)
        case "boolean":
            return st.booleans()
        case _:
            return st.integers(-9, 9)
