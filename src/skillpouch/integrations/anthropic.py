"""Tools for Anthropic's Messages, and the answers to the calls of a model.

Only dictionaries come and go, so Anthropic's own package is not needed here.
"""

from typing import Any, Literal

from skillpouch.integrations.long_calls import LongCallOptions, offered_job_tools
from skillpouch.integrations.model_results import base64_text
from skillpouch.integrations.selection import (
    Patterns,
    Tools,
    ToolSelection,
    chosen_tools,
    described,
)
from skillpouch.integrations.strict_schemas import plain_root, strict_schema
from skillpouch.integrations.wire_calls import WireAnswer, WireCall, WireCalls, field
from skillpouch.manager import SkillManager
from skillpouch.results import Attachment
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.tools import Tool, model_schema

_SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def anthropic_tools(
    tools: Tools,
    *,
    strict: Patterns = (),
    defer: Patterns = (),
    include: Patterns | None = None,
    exclude: Patterns = (),
    long_calls: LongCallOptions | None = None,
) -> list[dict[str, Any]]:
    """Return what `tools=` of a request takes.

    `strict` are patterns of tools whose schemas are to be enforced, where they can be: Anthropic
    allows few of these in a request. `defer` are patterns of tools that a model finds by
    searching instead of being shown them. List the tools for each request: once a call took
    longer than `long_calls` says, those to go on with it are there.
    """
    tools = tools if isinstance(tools, SkillManager) else list(tools)
    chosen = chosen_tools(tools, ToolSelection(include, exclude))
    enforced, later = ToolSelection(strict), ToolSelection(defer)
    made = [_tool(tool, enforced.tool(tool), later.tool(tool)) for tool in chosen]
    for_jobs = offered_job_tools(tools, long_calls or LongCallOptions(), chosen)
    made += [_tool(tool, enforced.tool(tool), deferred=False) for tool in for_jobs]
    return [_SEARCH, *made] if any(later.tool(tool) for tool in chosen) else made


def _tool(tool: Tool, strict: bool, deferred: bool) -> dict[str, Any]:
    schema = model_schema(tool.input_schema)
    enforced = strict_schema(schema) if strict else None
    made: dict[str, Any] = {
        "name": tool.name,
        "description": described(tool),
        "input_schema": plain_root(schema) if enforced is None else enforced,
    }
    if enforced is not None:
        made["strict"] = True
    if deferred:
        made["defer_loading"] = True
    return made


async def arun_anthropic_calls(
    message: Any,
    tools: Tools,
    *,
    include: Patterns | None = None,
    exclude: Patterns = (),
    unknown: Literal["answer", "skip"] = "answer",
    long_calls: LongCallOptions | None = None,
) -> list[dict[str, Any]]:
    """Make the calls of a message side by side; return the one message to send back, if any.

    `message` is an object of the SDK, the dictionary it stands for, or its content. Nothing that
    goes wrong with a call raises: the model is told. A call of a tool that is not among `tools`,
    chosen with the same `include` and `exclude` as those you sent, is answered so, too, or left
    to you with `unknown="skip"`. One that takes longer than `long_calls` says is answered with the
    id of a job and goes on; give `anthropic_tools` the same.
    """
    wanted = _calls(message)
    calls = WireCalls(tools, ToolSelection(include, exclude), long_calls)
    answers = await calls.answers(calls.known(wanted) if unknown == "skip" else wanted)
    return [{"role": "user", "content": [_block(answer) for answer in answers]}] if answers else []


def run_anthropic_calls(
    message: Any,
    tools: Tools,
    *,
    include: Patterns | None = None,
    exclude: Patterns = (),
    unknown: Literal["answer", "skip"] = "answer",
    long_calls: LongCallOptions | None = None,
) -> list[dict[str, Any]]:
    """Do what `arun_anthropic_calls` does, and wait."""
    return run_blocking(
        arun_anthropic_calls(
            message,
            tools,
            include=include,
            exclude=exclude,
            unknown=unknown,
            long_calls=long_calls,
        )
    )


def _calls(message: Any) -> list[WireCall]:
    content = message if isinstance(message, list | tuple) else field(message, "content", [])
    blocks = [] if isinstance(content, str) else content
    return [
        WireCall(id=field(each, "id"), name=field(each, "name"), arguments=field(each, "input"))
        for each in blocks
        if field(each, "type") == "tool_use"
    ]


def _block(answer: WireAnswer) -> dict[str, Any]:
    content: Any = answer.text
    if answer.images:
        content = [{"type": "text", "text": answer.text}, *map(_image, answer.images)]
    block = {"type": "tool_result", "tool_use_id": answer.call.id, "content": content}
    return {**block, "is_error": True} if answer.is_error else block


def _image(image: Attachment) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.type, "data": base64_text(image)}
    return {"type": "image", "source": source}
