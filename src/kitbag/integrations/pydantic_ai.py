"""The tools of skills as a toolset for agents of Pydantic AI."""

from collections.abc import Iterable
from typing import Any

from kitbag.integrations.extras import require_extra

require_extra("pydantic_ai", "pydantic-ai-slim", "pip install 'kitbag[pydantic-ai]'")

from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolReturn  # noqa: E402 - the check
from pydantic_ai.exceptions import ToolFailed  # noqa: E402 - comes first
from pydantic_ai.tools import ToolDefinition  # noqa: E402
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool  # noqa: E402
from pydantic_core import SchemaValidator, core_schema  # noqa: E402

from kitbag.disclosure.skills_prompt import DEFAULT_BUDGET, skills_prompt  # noqa: E402
from kitbag.errors import InvalidArgumentsError, KitbagError  # noqa: E402
from kitbag.integrations.choosing import (  # noqa: E402
    Patterns,
    Wanted,
    bound,
    chosen_tools,
    described,
)
from kitbag.integrations.storable_results import storable  # noqa: E402
from kitbag.integrations.strict_schemas import plain_root, without_nulls  # noqa: E402
from kitbag.integrations.telling import failure_text, refusal_text  # noqa: E402
from kitbag.manager import SkillManager  # noqa: E402
from kitbag.results import ToolResult  # noqa: E402
from kitbag.tools import Caller, Tool  # noqa: E402

# Kitbag checks arguments, so that its messages reach the model.
_ANYTHING = SchemaValidator(schema=core_schema.any_schema())


class KitbagToolset(AbstractToolset[Any]):
    """The tools of a manager, looked up anew at each step; or tools that you name.

    When the manager has `disclosure=True`, its skills are listed in the instructions, in at most
    `budget` characters. A model that gave wrong arguments is asked to try again, up to
    `max_retries` times; of a call that failed or was refused it is told, and goes on.
    """

    def __init__(
        self,
        tools: SkillManager | Iterable[Tool],
        *,
        include: Patterns | None = None,
        exclude: Patterns = (),
        budget: int = DEFAULT_BUDGET,
        max_retries: int = 2,
        id: str = "kitbag",  # noqa: A002 - the word of the framework
    ) -> None:
        self._tools = tools if isinstance(tools, SkillManager) else list(tools)
        self._wanted = Wanted(include, exclude)
        self._budget = budget
        self._max_retries = max_retries
        self._id = id
        self._bound: dict[str, tuple[Tool, Caller]] = {}

    @property
    def id(self) -> str:
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:  # noqa: ARG002
        """Return the tools as they are now."""
        found = bound(chosen_tools(self._tools, self._wanted))
        self._bound = {tool.name: (tool, caller) for tool, caller in found}
        return {tool.name: self._tool(tool) for tool, _ in found}

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:  # noqa: ARG002
        """Return the list of skills when the agent has the tools to use it."""
        if not isinstance(self._tools, SkillManager) or "activate_skill" not in self._bound:
            return None
        return skills_prompt(self._tools, budget=self._budget) or None

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],  # noqa: ARG002 - Kitbag needs nothing of it
        tool: ToolsetTool[Any],  # noqa: ARG002 - the same
    ) -> Any:
        """Call a tool; what goes wrong is told to the model."""
        found, caller = self._bound[name]
        try:
            result = await caller.execute(found.id, without_nulls(tool_args, found.input_schema))
        except InvalidArgumentsError as error:
            raise ModelRetry(refusal_text(error)) from error
        except KitbagError as error:
            raise ToolFailed(refusal_text(error)) from error
        if result.is_error:
            raise ToolFailed(failure_text(result))
        return _returned(result)

    def _tool(self, tool: Tool) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=tool.name,
            description=described(tool),
            parameters_json_schema=plain_root(tool.input_schema),
            metadata={"id": tool.id, "skill": tool.skill, "ready": tool.ready},
        )
        return ToolsetTool(
            toolset=self,
            tool_def=definition,
            max_retries=self._max_retries,
            args_validator=_ANYTHING,
        )


def _returned(result: ToolResult) -> ToolReturn:
    images = [
        BinaryContent(each.data, media_type=each.type)
        for each in result.attachments
        if each.type.startswith("image/")
    ]
    return ToolReturn(
        return_value=result.content, content=images or None, metadata=storable(result)
    )
