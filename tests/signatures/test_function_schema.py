"""Functions as tools, before they are called: names, types, descriptions, refusals."""

import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, List, Literal, NotRequired, Optional, TypedDict  # noqa: UP035

import pytest

from skillpouch import ToolExecutor, ToolResult, tool
from skillpouch.functions import FunctionToolError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict):
    city: str
    country: NotRequired[str]


class Node(TypedDict):
    name: str
    children: "list[Node]"


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., ToolResult]:
    def run(function: Callable[..., Any], args: Any) -> ToolResult:
        made = tool(function)
        return ToolExecutor([made], workspace=tmp_path).execute_sync(made.id, args)

    return run


def test_a_function_becomes_a_tool_typed_by_its_signature_and_docstring() -> None:
    @tool
    def search(
        query: str,
        limit: int = 10,
        kind: Literal["a", "b"] = "a",
        place: Place | None = None,
        tags: Annotated[list[str], "labels"] = [],  # noqa: B006
    ) -> list[str]:
        """Search things.

        More words that a model does not need.

        Args:
            query: what to look for
        """
        return [query, str(limit), kind, str(place), *tags]

    assert (search.id, search.name, search.kind) == ("search", "search", "function")
    assert search.description == "Search things."
    place = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    }
    assert search.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for"},
            "limit": {"type": "integer", "default": 10},
            "kind": {"enum": ["a", "b"], "default": "a"},
            "place": {"anyOf": [place | {"required": ["city"]}, {"type": "null"}]},
            "tags": {
                "type": "array",
                "items": {"type": "string"},
                "description": "labels",
                "default": [],
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_name_description_and_effects_can_be_given() -> None:
    @tool(name="other-name", description="Does it.", effects=("network",))
    def function() -> None:
        """Ignored."""

    assert (function.id, function.description) == ("other-name", "Does it.")
    assert function.effects == ("network",)


@pytest.mark.parametrize("name", ["with space", "a.b", "", "x" * 65, "ü"])
def test_a_name_that_no_model_could_call_is_refused(name: str) -> None:
    with pytest.raises(FunctionToolError):
        tool(name=name or "<lambda>")(lambda: None)


def positional(a: int, /) -> int:
    return a


def many(*values: int) -> int:
    return sum(values)


@pytest.mark.parametrize("function", [positional, many])
def test_a_parameter_that_has_no_name_to_call_it_by_is_refused(function: Any) -> None:
    with pytest.raises(FunctionToolError, match="by name"):
        tool(function)


def odd_types(
    a: List,  # type: ignore[type-arg]  # noqa: UP006
    b: "not a type at all" = None,  # type: ignore[valid-type]  # noqa: F722
    c: Optional["Nowhere"] = None,  # type: ignore[name-defined]  # noqa: F821
) -> None: ...


def bare_list(a: List) -> int:  # type: ignore[type-arg]  # noqa: UP006
    return len(a)


def recursive(node: Node) -> str:
    return node["name"]


def pair(a: tuple[int, str]) -> list[Any]:
    return list(a)


def words(a: Sequence[str], b: tuple[int, ...] = (), c: set[str] | None = None) -> list[Any]:
    return [list(a), list(b), c]


def open_ended(a: int, **more: Any) -> dict[str, Any]:
    return {"a": a, **more}


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (bare_list, {"a": [1, "x"]}, 2),
        (recursive, {"node": {"name": "n", "children": []}}, "n"),
        (pair, {"a": [1, "x"]}, [1, "x"]),
        (words, {"a": ["x"], "b": [1, 2]}, [["x"], [1, 2], None]),
        (open_ended, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_ordinary_types_are_understood(
    call: Any, function: Any, given: dict[str, Any], expected: Any
) -> None:
    result = call(function, given)

    assert (result.outcome, result.structured or result.content) == ("ok", expected)


def test_annotations_that_cannot_be_resolved_are_refused_as_such() -> None:
    with pytest.raises(FunctionToolError):
        tool(odd_types)


def test_a_function_gets_the_types_that_it_asks_for(call: Any) -> None:
    def kinds(path: Path, colour: Colour, maybe: Path | None = None) -> list[str]:
        return [type(each).__name__ for each in (path, colour, maybe)]

    result = call(kinds, {"path": "a/b", "colour": "red", "maybe": "c"})

    assert result.structured == ["PosixPath", "Colour", "PosixPath"], result.content
