"""Skills as function tools of the OpenAI Agents SDK."""

from dataclasses import replace
from typing import Any

from skillpouch.integrations.long_calls import LongCallOptions, offered_job_tools
from skillpouch.integrations.model_results import data_url
from skillpouch.integrations.selection import (
    Patterns,
    Tools,
    ToolSelection,
    chosen_tools,
    described,
    runnable,
)
from skillpouch.integrations.strict_schemas import plain_root, strict_schema
from skillpouch.integrations.wire_calls import EVERYTHING, WireAnswer, WireCall, WireCalls
from skillpouch.runtime.extras import require_extra
from skillpouch.tools import Tool, model_schema

require_extra("agents")

from agents import FunctionTool, ToolOutputImage, ToolOutputText  # noqa: E402 - the check
from agents.tool_context import ToolContext  # noqa: E402 - comes first


def agents_tools(
    tools: Tools,
    *,
    strict: bool = True,
    defer: Patterns = (),
    include: Patterns | None = None,
    exclude: Patterns = (),
    long_calls: LongCallOptions | None = None,
) -> list[FunctionTool]:
    """Return what `Agent(tools=…)` takes.

    With `strict`, a schema that can be enforced is. `defer` are patterns of tools that a model
    finds by searching: give the agent the SDK's `ToolSearchTool` as well. Nothing that goes wrong
    with a call ends a run: the model is told. The last three are for calls that take longer than
    `long_calls` says: a model is shown them once it has left such a call.
    """
    later, options = ToolSelection(defer), long_calls or LongCallOptions()
    chosen = runnable(chosen_tools(tools, ToolSelection(include, exclude)))
    made = [_made(tool, strict, options, deferred=later.tool(tool)) for tool in chosen]
    always = replace(options, list_tools=True)
    offered = offered_job_tools(chosen, always, chosen) if chosen else []
    for_jobs = [_made(tool, strict, options) for tool in offered]
    for each in for_jobs:
        each.is_enabled = lambda _context, _agent: bool(offered_job_tools(chosen, options))
    return [*made, *for_jobs]


def _made(
    tool: Tool, strict: bool, options: LongCallOptions, *, deferred: bool = False
) -> FunctionTool:
    schema = model_schema(tool.input_schema)
    enforced = strict_schema(schema) if strict else None

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        call = WireCall(id=context.tool_call_id, name=tool.name, arguments=arguments)
        (answer,) = await WireCalls([tool], EVERYTHING, options).answers([call])
        return _output(answer)

    return FunctionTool(
        name=tool.name,
        description=described(tool),
        params_json_schema=plain_root(schema) if enforced is None else enforced,
        on_invoke_tool=invoke,
        strict_json_schema=enforced is not None,
        defer_loading=deferred,
    )


def _output(answer: WireAnswer) -> Any:
    if not answer.images:
        return answer.told
    images = [ToolOutputImage(image_url=data_url(each)) for each in answer.images]
    return [ToolOutputText(text=answer.text), *images]
