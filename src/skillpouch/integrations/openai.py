"""Tools for OpenAI's Chat Completions and Responses, and the answers to the calls of a model.

Only dictionaries come and go, so OpenAI's own package is not needed here.
"""

from collections.abc import Sequence
from typing import Any, Literal

from skillpouch.integrations.long_calls import LongCallOptions, offered_job_tools
from skillpouch.integrations.model_results import data_url
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
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.tools import Tool, model_schema

Api = Literal["chat", "responses"]


def openai_tools(  # noqa: PLR0913 - each is said by name
    tools: Tools,
    *,
    api: Api = "chat",
    strict: bool = True,
    defer: Patterns = (),
    include: Patterns | None = None,
    exclude: Patterns = (),
    long_calls: LongCallOptions | None = None,
) -> list[dict[str, Any]]:
    """Return what `tools=` of a request takes, for either of the two interfaces.

    With `strict`, a schema that can be enforced is. `defer` are patterns of tools that a model
    finds by searching instead of being shown them; only Responses has this. List the tools for
    each request: once a call took longer than `long_calls` says, those to go on with it are there.
    """
    if api not in ("chat", "responses"):
        raise ValueError(f"api is {api!r}: use 'chat' or 'responses'")
    if defer and api == "chat":
        raise ValueError("Chat Completions cannot defer tools: use api='responses'")
    tools = tools if isinstance(tools, SkillManager) else list(tools)
    chosen = chosen_tools(tools, ToolSelection(include, exclude))
    for_jobs = offered_job_tools(tools, long_calls or LongCallOptions(), chosen)
    if api == "chat":
        listed = [*chosen, *for_jobs]
        return [{"type": "function", "function": _function(tool, strict)} for tool in listed]
    later = ToolSelection(defer)
    made = [
        {"type": "function", **_function(tool, strict)}
        | ({"defer_loading": True} if later.tool(tool) else {})
        for tool in chosen
    ]
    made += [{"type": "function", **_function(tool, strict)} for tool in for_jobs]
    searched = any(later.tool(tool) for tool in chosen)
    return [*made, {"type": "tool_search"}] if searched else made


def _function(tool: Tool, strict: bool) -> dict[str, Any]:
    schema = model_schema(tool.input_schema)
    enforced = strict_schema(schema) if strict else None
    return {
        "name": tool.name,
        "description": described(tool),
        "parameters": plain_root(schema) if enforced is None else enforced,
        "strict": enforced is not None,
    }


async def arun_openai_calls(
    response: Any,
    tools: Tools,
    *,
    include: Patterns | None = None,
    exclude: Patterns = (),
    unknown: Literal["answer", "skip"] = "answer",
    long_calls: LongCallOptions | None = None,
) -> list[dict[str, Any]]:
    """Make the calls of a response side by side; return the messages or items to send back.

    `response` is what either interface gave, a message of it, or its output, as objects or
    dictionaries. Nothing that goes wrong with a call raises: the model is told. A call of a tool
    that is not among `tools`, chosen with the same `include` and `exclude` as those you sent, is
    answered so, too, or left to you with `unknown="skip"`. One that takes longer than `long_calls`
    says is answered with the id of a job and goes on; give `openai_tools` the same.
    """
    api, wanted = _calls(response)
    calls = WireCalls(tools, ToolSelection(include, exclude), long_calls)
    answers = await calls.answers(calls.known(wanted) if unknown == "skip" else wanted)
    if api == "responses":
        return [_item(answer) for answer in answers]
    messages = [
        {"role": "tool", "tool_call_id": answer.call.id, "content": answer.told}
        for answer in answers
    ]
    # A tool message holds text only; what is to be seen follows after all of them.
    shown = [answer for answer in answers if answer.images]
    return [*messages, *map(_images, shown)]


def run_openai_calls(
    response: Any,
    tools: Tools,
    *,
    include: Patterns | None = None,
    exclude: Patterns = (),
    unknown: Literal["answer", "skip"] = "answer",
    long_calls: LongCallOptions | None = None,
) -> list[dict[str, Any]]:
    """Do what `arun_openai_calls` does, and wait."""
    return run_blocking(
        arun_openai_calls(
            response,
            tools,
            include=include,
            exclude=exclude,
            unknown=unknown,
            long_calls=long_calls,
        )
    )


def _calls(response: Any) -> tuple[Api, list[WireCall]]:
    choices = field(response, "choices")
    message = field(choices[0], "message") if choices else response
    if field(message, "role") == "assistant" and field(message, "type") != "message":
        wanted = field(message, "tool_calls") or []
        return "chat", [_chat_call(each) for each in wanted if field(each, "function")]
    output = response if isinstance(response, Sequence) else field(response, "output", [])
    wanted = [each for each in output if field(each, "type") == "function_call"]
    return "responses", [_response_call(each) for each in wanted]


def _chat_call(call: Any) -> WireCall:
    function = field(call, "function")
    return WireCall(
        id=field(call, "id"), name=field(function, "name"), arguments=field(function, "arguments")
    )


def _response_call(call: Any) -> WireCall:
    return WireCall(
        id=field(call, "call_id"), name=field(call, "name"), arguments=field(call, "arguments")
    )


def _item(answer: WireAnswer) -> dict[str, Any]:
    output: Any = answer.told
    if answer.images:
        text = {"type": "input_text", "text": output}
        output = [text, *({"type": "input_image", "image_url": data_url(i)} for i in answer.images)]
    return {"type": "function_call_output", "call_id": answer.call.id, "output": output}


def _images(answer: WireAnswer) -> dict[str, Any]:
    text = {"type": "text", "text": f"What the tool {answer.call.name} showed:"}
    shown = [{"type": "image_url", "image_url": {"url": data_url(each)}} for each in answer.images]
    return {"role": "user", "content": [text, *shown]}
