"""SkillpouchMiddleware: an agent that knows its skills by name, and the tools of those it uses."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Annotated, Any, Literal, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from skillpouch.builtins.disclosure.skills_prompt import DEFAULT_BUDGET, skills_prompt
from skillpouch.integrations.langchain.approvals import AskedQuestions, InterruptApprover
from skillpouch.integrations.langchain.revealing import Revealing, already_said, disclosed
from skillpouch.integrations.langchain.tool import SkillpouchTool
from skillpouch.manager import SkillManager
from skillpouch.policy.approval import asking


def _union(before: list[str] | None, after: list[str] | None) -> list[str]:
    return list(dict.fromkeys([*(before or ()), *(after or ())]))


class SkillState(AgentState[Any]):
    """What a conversation remembers: the skills it has activated, the tools it has found."""

    active_skills: Annotated[NotRequired[list[str]], _union]
    found_tools: Annotated[NotRequired[list[str]], _union]


class SkillpouchMiddleware(AgentMiddleware[SkillState, Any, Any]):
    """Gives an agent the skills of a manager, and their tools when it needs them.

    The system prompt lists the skills, in at most `budget` characters. The tools of a skill are
    there once it is activated, those that a search found from then on. Calls that a policy asks
    about interrupt the run, for which the agent needs a checkpointer; `approvals="manager"` asks
    the approver of the manager instead. Skills that change on disk are noticed at the next turn,
    after `reload_seconds` at the earliest; `None` never looks.
    """

    state_schema = SkillState

    def __init__(
        self,
        manager: SkillManager,
        *,
        budget: int = DEFAULT_BUDGET,
        approvals: Literal["interrupt", "manager"] = "interrupt",
        reload_seconds: float | None = 1.0,
    ) -> None:
        super().__init__()
        if approvals not in ("interrupt", "manager"):
            raise ValueError(f"approvals is {approvals!r}: say 'interrupt' or 'manager'")
        self.tools = []  # all of them come and go, see `wrap_model_call`
        self._manager = manager
        self._revealing = Revealing(manager)
        self._questions = AskedQuestions()
        self._budget = budget
        self._interrupts = approvals == "interrupt"
        self._reload_seconds = reload_seconds
        self._looked_at = time.monotonic()
        skills_prompt(manager, budget=budget)  # a budget that is too small is said at once

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Tell the model of the skills and give it the tools of those in use."""
        if self._is_due():
            self._manager.discover()
        return handler(self._prepared(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do what `wrap_model_call` does, without blocking the event loop."""
        if self._is_due():
            await self._manager.adiscover()
        return await handler(self._prepared(request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Run a tool of a skill; ask by an interrupt if somebody has to be asked."""
        request, refused = self._found(request)
        if refused is not None or not isinstance(request.tool, SkillpouchTool):
            return refused or handler(request)
        approver = self._approver(request)
        with asking(approver) if self._interrupts else nullcontext():
            response = handler(request)
        approver.raise_pending()
        return _noted(request, response)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Do what `wrap_tool_call` does, without blocking the event loop."""
        request, refused = self._found(request)
        if refused is not None or not isinstance(request.tool, SkillpouchTool):
            return refused or await handler(request)
        approver = self._approver(request)
        with asking(approver) if self._interrupts else nullcontext():
            response = await handler(request)
        approver.raise_pending()
        return _noted(request, response)

    def _approver(self, request: ToolCallRequest) -> InterruptApprover:
        thread = str(request.runtime.config.get("configurable", {}).get("thread_id", ""))
        return InterruptApprover(self._questions, thread, str(request.tool_call["id"]))

    def _is_due(self) -> bool:
        now = time.monotonic()
        if self._reload_seconds is None or now - self._looked_at < self._reload_seconds:
            return False
        self._looked_at = now
        return True

    def _prepared(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        tools = [*request.tools, *self._revealing.beside(request.tools, request.state)]
        prompt = skills_prompt(self._manager, budget=self._budget)
        message = _extended(request.system_message, prompt)
        return request.override(tools=tools, system_message=message)

    def _found(self, request: ToolCallRequest) -> tuple[ToolCallRequest, ToolMessage | None]:
        """Find the tool of a call that the agent itself does not know."""
        if request.tool is not None:
            return request, None
        call = request.tool_call
        tool, reason = self._revealing.find(call["name"], request.state)
        if tool is None and reason:
            refused = ToolMessage(
                reason, tool_call_id=call["id"], name=call["name"], status="error"
            )
            return request, refused
        return (request if tool is None else request.override(tool=tool)), None


def _extended(message: SystemMessage | None, prompt: str) -> SystemMessage | None:
    """Return the system message with the prompt after it."""
    if not prompt:
        return message
    if message is None:
        return SystemMessage(prompt)
    if isinstance(message.content, str):
        return message.model_copy(update={"content": f"{message.content}\n\n{prompt}"})
    block = {"type": "text", "text": prompt}
    return message.model_copy(update={"content": [*message.content, block]})


def _noted(
    request: ToolCallRequest, response: ToolMessage | Command[Any]
) -> ToolMessage | Command[Any]:
    """Remember in the state of the conversation what a call has disclosed."""
    if not isinstance(response, ToolMessage) or response.status == "error":
        return response
    update: Mapping[str, list[str]] = disclosed(response)
    if not update:
        return response
    if already_said(response, request.state):
        text = "This skill is active already; its instructions, unchanged, are above."
        response = response.model_copy(update={"content": text})
    return Command(update={"messages": [response], **update})
