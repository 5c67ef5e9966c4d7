"""Makes a Python function a tool: `@skillpouch.tool`, typed from its signature and docstring."""

import inspect
from collections.abc import Callable
from typing import Any, overload

from skillpouch.errors import SkillpouchError
from skillpouch.signatures.function_schema import function_schema, with_types
from skillpouch.signatures.signature import first_paragraph
from skillpouch.tools import Effect, Function, Tool, is_wire_name


class FunctionToolError(SkillpouchError):
    """A function that cannot be a tool as it stands."""

    code = "function_tool"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str = "", description: str = "", effects: tuple[Effect, ...] = ("execute",)
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    effects: tuple[Effect, ...] = ("execute",),
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool: `@tool`, or `@tool(name=…, description=…, effects=…)`."""

    def make(target: Callable[..., Any]) -> Tool:
        called = name or getattr(target, "__name__", "")
        return _tool_of(target, called, description, effects)

    return make if function is None else make(function)


def _tool_of(
    function: Callable[..., Any], name: str, description: str, effects: tuple[Effect, ...]
) -> Tool:
    if not is_wire_name(name):
        raise FunctionToolError(
            f"{name!r} is not a name for a tool", hint="use letters, digits, '_' and '-', up to 64"
        )
    try:
        schema = function_schema(function)
    except (TypeError, ValueError, NameError, SyntaxError, RecursionError) as error:
        raise FunctionToolError(f"{name!r} cannot be a tool: {error}") from None
    said = first_paragraph(inspect.getdoc(function) or "")
    return Tool(
        id=name,
        name=name,
        skill="",
        description=description or said or f"Call {name}",
        input_schema=schema,
        runs=Function(call=with_types(function), is_async=inspect.iscoroutinefunction(function)),
        effects=effects,
        declared_in="function",
        read_by="function",
    )
