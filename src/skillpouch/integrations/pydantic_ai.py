"""Skills as a toolset of pydantic-ai."""

import asyncio
from dataclasses import dataclass
from typing import Any

from skillpouch.builtins.disclosure.skills_prompt import DEFAULT_BUDGET, skills_prompt
from skillpouch.errors import InvalidArgumentsError, SkillpouchError
from skillpouch.integrations.long_calls import (
    CallPlace,
    LongCallOptions,
    call_tool,
    offered_job_tools,
    placed,
)
from skillpouch.integrations.model_results import failure_text, refusal_text, storable
from skillpouch.integrations.selection import (
    Patterns,
    Tools,
    ToolSelection,
    chosen_tools,
    described,
    runnable,
)
from skillpouch.integrations.strict_schemas import plain_root
from skillpouch.manager import SkillManager
from skillpouch.results import ToolResult
from skillpouch.runtime.extras import require_extra
from skillpouch.tools import Caller, Tool, model_schema

require_extra("pydantic-ai")

from pydantic_ai import (  # noqa: E402 - the check comes first
    BinaryContent,
    ModelRetry,
    RunContext,
    ToolDefinition,
    ToolFailed,
    ToolReturn,
)
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool  # noqa: E402
from pydantic_core import SchemaValidator, core_schema  # noqa: E402

# Any object: the arguments are checked by Skillpouch, with messages that a model can act on.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


@dataclass(kw_only=True)
class _SkillpouchTool(ToolsetTool[Any]):
    """A tool of `get_tools`, as `call_tool` gets it back even when another toolset renamed it."""

    caller: Caller
    tool_id: str


class SkillpouchToolset(AbstractToolset[Any]):
    """The tools of a manager, or some tools, for `Agent(toolsets=[…])`.

    Skills that a manager finds anew are there at the next step of a run. Arguments that do not
    fit are a retry, of which each tool has `max_retries`; every other failure is told to
    the model and costs none. `defer` are patterns of tools that a model finds by searching. Where
    an agent is given `activate_skill`, the skills are listed in its instructions, in at most
    `budget` characters. A call that takes longer than `long_calls` says goes on as a job; the tools
    for jobs are there at the next step.
    """

    def __init__(  # noqa: PLR0913 - each is said by name
        self,
        tools: Tools,
        *,
        include: Patterns | None = None,
        exclude: Patterns = (),
        defer: Patterns = (),
        max_retries: int = 3,
        budget: int = DEFAULT_BUDGET,
        long_calls: LongCallOptions | None = None,
        id: str | None = "skillpouch",  # noqa: A002 - the framework's word
    ) -> None:
        # Bound once: functions that nobody runs yet get one executor, not one for each step.
        self._tools = tools if isinstance(tools, SkillManager) else runnable(tools)
        self._wanted = ToolSelection(include, exclude)
        self._later = ToolSelection(defer)
        self._retries = max_retries
        self._budget = budget
        self._options = long_calls or LongCallOptions()
        self._id = id

    @property
    def id(self) -> str | None:
        """What tells this toolset from others of the same agent."""
        return self._id

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:  # noqa: ARG002 - theirs
        """Return the list of skills when the agent has the tool to use it."""
        if not isinstance(self._tools, SkillManager):
            return None
        chosen = await asyncio.to_thread(chosen_tools, self._tools, self._wanted)
        if not any(tool.name == "activate_skill" for tool in chosen):
            return None
        return await asyncio.to_thread(skills_prompt, self._tools, budget=self._budget) or None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:  # noqa: ARG002
        """Return the tools as they are now, by the names that models call them."""
        chosen = await asyncio.to_thread(self._chosen)
        return {tool.name: self._made(tool) for tool in chosen}

    def _chosen(self) -> list[Tool]:
        chosen = chosen_tools(self._tools, self._wanted)
        return [*chosen, *offered_job_tools(self._tools, self._options, chosen)]

    async def call_tool(
        self,
        name: str,  # noqa: ARG002 - perhaps renamed on the way here
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
    ) -> ToolReturn:
        """Run a tool; raise what tells the model how it failed."""
        assert isinstance(tool, _SkillpouchTool)
        # A durable workflow makes the calls of a step again, which is the same step then.
        is_known = ctx.run_id and ctx.tool_call_id
        key = f"{ctx.run_id} {ctx.run_step} {ctx.tool_call_id}" if is_known else ""
        try:
            with placed(CallPlace(key=key)):
                result = await call_tool(tool.caller, tool.tool_id, tool_args, self._options)
        except InvalidArgumentsError as error:
            raise ModelRetry(refusal_text(error)) from error
        except SkillpouchError as error:
            raise ToolFailed(refusal_text(error)) from error
        if result.is_error:
            raise ToolFailed(failure_text(result))
        return _returned(result)

    def _made(self, tool: Tool) -> _SkillpouchTool:
        assert tool.caller is not None
        facts = {"id": tool.id, "skill": tool.skill, "kind": tool.kind, "ready": tool.ready}
        definition = ToolDefinition(
            name=tool.name,
            description=described(tool),
            parameters_json_schema=plain_root(model_schema(tool.input_schema)),
            metadata=facts,
            defer_loading=self._later.tool(tool),
        )
        return _SkillpouchTool(
            toolset=self,
            tool_def=definition,
            max_retries=self._retries,
            args_validator=_ANY_OBJECT,
            caller=tool.caller,
            tool_id=tool.id,
        )


def _returned(result: ToolResult) -> ToolReturn:
    """Return what a model gets, text and images, and beside it the result for a program."""
    images = [
        BinaryContent(data=each.data, media_type=each.type)
        for each in result.attachments
        if each.type.startswith("image/")
    ]
    shown = [result.content, *images] if images else result.content
    return ToolReturn(return_value=shown, metadata=storable(result))
