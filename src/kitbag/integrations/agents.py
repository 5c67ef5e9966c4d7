"""The tools of skills as function tools of the OpenAI Agents SDK."""

from collections.abc import Awaitable, Callable
from typing import Any

from kitbag.integrations.extras import require_extra

require_extra("agents", "openai-agents", "pip install 'kitbag[agents]'")

from agents import FunctionTool, ToolOutputImage, ToolOutputText  # noqa: E402 - the check first
from agents.tool_context import ToolContext  # noqa: E402

from kitbag.integrations.choosing import Patterns, Wanted, chosen_tools, described  # noqa: E402
from kitbag.integrations.openai import image_url  # noqa: E402
from kitbag.integrations.strict_schemas import plain_root, strict_schema  # noqa: E402
from kitbag.integrations.wire_calls import Tools, WireCall, answer_all  # noqa: E402
from kitbag.tools import Tool  # noqa: E402


def agents_tools(
    tools: Tools, *, include: Patterns | None = None, exclude: Patterns = ()
) -> list[FunctionTool]:
    """Return function tools for `Agent(tools=…)`; schemas are strict where nothing is lost.

    What goes wrong with a call is told to the model and does not end the run.
    """
    chosen = chosen_tools(tools, Wanted(include, exclude))
    return [_function_tool(tool) for tool in chosen]


def _function_tool(tool: Tool) -> FunctionTool:
    strict = strict_schema(tool.input_schema)
    return FunctionTool(
        name=tool.name,
        description=described(tool),
        params_json_schema=plain_root(tool.input_schema) if strict is None else strict,
        on_invoke_tool=_invoking(tool),
        strict_json_schema=strict is not None,
    )


def _invoking(tool: Tool) -> Callable[[ToolContext[Any], str], Awaitable[Any]]:
    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        call = WireCall(id=context.tool_call_id, name=tool.name, arguments=arguments)
        (answer,) = await answer_all([call], [tool])
        if answer.is_error:
            return f"Error: {answer.text}"
        if not answer.images:
            return answer.text
        images = [ToolOutputImage(image_url=image_url(each)) for each in answer.images]
        return [ToolOutputText(text=answer.text), *images]

    return invoke
