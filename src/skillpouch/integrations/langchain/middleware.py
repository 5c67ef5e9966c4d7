"""SkillpouchMiddleware: the catalogue, the tools of skills in use, approvals by interrupts."""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, get_args

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

from skillpouch.builtins.disclosure.skills_prompt import DEFAULT_BUDGET, skills_prompt
from skillpouch.integrations.langchain.create_tools import Revealing
from skillpouch.integrations.langchain.tool import SkillpouchTool
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.jobs.soft_limit import is_left
from skillpouch.manager import SkillManager
from skillpouch.policy.approval import Answer, Question, Remember, asking
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import BoundedCache

if TYPE_CHECKING:
    from skillpouch.workspace.change_store import ChangeStore

_MOST_REMEMBERED = 4096

# Which question: of which call of which conversation, and its number among them.
Place = tuple[str, str, int]


class AskedQuestions:
    """What was asked where: an approval counts only for what the person was shown.

    A run that is resumed makes its call again, perhaps days later. By then the skill may be
    another one.
    """

    def __init__(self) -> None:
        self._asked: BoundedCache[Place, Question | None] = BoundedCache(_MOST_REMEMBERED)

    def asked(self, place: Place) -> Question | None:
        """Return what was asked there; nothing when somebody else asked, before a restart."""
        return self._asked.get(place)

    def remember(self, place: Place, question: Question | None) -> None:
        self._asked[place] = question


class InterruptApprover:
    """Asks about one call by interrupting the run that makes it.

    An interrupt ends a node by an exception, which Skillpouch would take for an approver that
    failed: it is kept, the call is refused for now, and `raise_pending` then stops the run. When
    the run is resumed the call is made again, and the interrupt returns what was answered.
    """

    def __init__(self, questions: AskedQuestions, thread: str, call: str) -> None:
        # Where the run is known; Skillpouch asks from a thread of its own.
        self._context = copy_context()
        self._questions = questions
        self._thread, self._call = thread, call
        self._count = 0
        self._pending: GraphInterrupt | None = None
        self.requests: list[dict[str, Any]] = []  # what was asked in this pass, in order
        self.waits_for_changes = False  # the last of them is about what the call changed

    async def __call__(self, question: Question) -> Answer:
        while True:
            place = (self._thread, self._call, self._count)
            self._count += 1
            asked = self._questions.asked(place)
            request = _request(question)
            self.requests.append(request)
            try:
                reply = self._context.run(interrupt, request)
            except GraphInterrupt as pending:
                self._pending = pending
                self.waits_for_changes = bool(question.changes)
                self._questions.remember(place, question)
                return Answer(yes=False, cause="no_answer", reason="the run waits for an answer")
            answer = _answer(reply)
            if asked == question or not answer.yes:
                return answer
            # It approves something else: ask again, and do not count it the next time either.
            self._questions.remember(place, asked)

    def answer_again(self, requests: Iterable[Mapping[str, Any]]) -> Answer:
        """Return the answer to the last of the questions that an earlier pass asked, in order.

        Raises GraphInterrupt if nobody has answered.
        """
        reply: Any = None
        for each in requests:
            reply = self._context.run(interrupt, each)
        return _answer(reply)

    def raise_pending(self) -> None:
        """Stop the run if a question is open."""
        if self._pending is not None:
            raise self._pending


def _request(question: Question) -> dict[str, Any]:
    """Return a question in the form that user interfaces for LangChain know, and all its facts."""
    needs = [{"kind": need.kind, "value": need.value} for need in question.needs]
    description = [f"{question.tool} runs {question.runs}", *question.reasons]
    if question.diff:
        description = [f"{question.tool} ran, and would change this", *question.reasons]
        description.append(question.diff)
    return {
        "action_requests": [
            {
                "name": question.tool,
                "args": dict(question.arguments),
                "description": "\n".join(description),
            }
        ],
        "review_configs": [
            {"action_name": question.tool, "allowed_decisions": ["approve", "reject"]}
        ],
        "skill": question.skill,
        "runs": question.runs,
        "needs": needs,
        "reasons": list(question.reasons),
        "digest": question.digest,
    }


def _answer(reply: Any) -> Answer:
    """Read what a run was resumed with: `True`, `False`, or a decision, alone or in a list.

    Only an explicit approval counts; everything else denies.
    """
    if isinstance(reply, Mapping) and isinstance(reply.get("decisions"), list):
        reply = reply["decisions"][0] if len(reply["decisions"]) == 1 else None
    if isinstance(reply, bool):
        return Answer(yes=reply, reason="" if reply else "it was rejected")
    if not isinstance(reply, Mapping) or reply.get("type") not in ("approve", "reject"):
        return Answer(yes=False, reason="the run was resumed without an approval or a rejection")
    if reply["type"] == "reject":
        return Answer(yes=False, reason=str(reply.get("message") or "it was rejected"))
    remember = reply.get("remember", "once")
    return Answer(yes=True, remember=remember if remember in get_args(Remember) else "once")


class WaitingChanges:
    """Calls that ran, and whose changes wait until the run that made them is resumed.

    A resumed run makes its calls again: such a call must not run a second time, but its changes be
    settled, also by another process. So what was asked is kept in the store of changes.
    """

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager
        self._results: BoundedCache[str, ToolResult] = BoundedCache(_MOST_REMEMBERED)

    def keep(self, key: str, approver: InterruptApprover, response: object) -> None:
        """Keep what was asked about the changes of a call, if that is what the run waits for."""
        result = response.artifact if isinstance(response, ToolMessage) else None
        if not approver.waits_for_changes or not isinstance(result, ToolResult):
            return
        if is_left(result):
            return  # its job waits for the answer, and is found again
        self._results[key] = result
        facts = {
            "call": result.call_id,
            "requests": approver.requests,
            "tool": result.tool,
            "content": result.content,
            "notes": result.notes,
            "ended_as": result.ended_as,
        }
        self._store.keep_question(key, json.loads(json.dumps(facts, default=str)))

    def find(self, key: str) -> Mapping[str, Any] | None:
        """Return what was asked about the changes of this call in an earlier pass."""
        return self._store.question(key)

    def settled(self, key: str, asked: Mapping[str, Any], answer: Answer) -> ToolResult:
        """Apply the changes of a call, or leave them refused; return its result."""
        applied = self._manager.apply(asked["call"]) if answer.yes else None
        return self._result(key, asked, answer, applied)

    async def asettled(self, key: str, asked: Mapping[str, Any], answer: Answer) -> ToolResult:
        """Do what `settled` does, without blocking the event loop."""
        applied = await self._manager.aapply(asked["call"]) if answer.yes else None
        return self._result(key, asked, answer, applied)

    def _result(
        self, key: str, asked: Mapping[str, Any], answer: Answer, applied: ToolResult | None
    ) -> ToolResult:
        from skillpouch.policy.settling import answered_result

        result = self._results.pop(key, None)
        if result is None:  # another process made the call
            ended = asked["ended_as"]
            result = ToolResult(
                tool=asked["tool"],
                outcome="denied",
                code="changes_refused",
                content=asked["content"],
                notes=tuple(asked["notes"]),
                call_id=asked["call"],
                changes=applied.changes if applied is not None else (),
                ended_as=tuple(ended) if ended else None,
            )
        self._store.drop_question(key)
        return answered_result(result, applied, answer.reason)

    @property
    def _store(self) -> "ChangeStore":
        return self._manager.change_runner().kept.store


def disclosed(message: ToolMessage) -> Mapping[str, list[str]]:
    """Return what a conversation may use from now on, after what it was told."""
    result = message.artifact
    if isinstance(result, ToolResult) and is_left(result):
        return {"left_jobs": [result.job_id]}
    if not isinstance(result, ToolResult) or not isinstance(result.structured, dict):
        return {}
    if result.tool == "activate_skill":
        return {"active_skills": [result.structured["skill"]]}
    if result.tool == "search_tools":
        return {"found_tools": [tool["id"] for tool in result.structured["tools"]]}
    return {}


def already_said(message: ToolMessage, state: Any) -> bool:
    """Tell whether the same instructions are in the conversation already."""
    if message.name != "activate_skill":
        return False
    return any(
        isinstance(earlier, ToolMessage)
        and earlier.name == message.name
        and earlier.content == message.content
        for earlier in state.get("messages", ())
    )


def _union(before: list[str] | None, after: list[str] | None) -> list[str]:
    return list(dict.fromkeys([*(before or ()), *(after or ())]))


class SkillState(AgentState[Any]):
    """What a conversation remembers: the skills it has activated, the tools it has found.

    `left_jobs` are calls that took longer than it waited for them.
    """

    active_skills: Annotated[NotRequired[list[str]], _union]
    found_tools: Annotated[NotRequired[list[str]], _union]
    left_jobs: Annotated[NotRequired[list[str]], _union]


class SkillpouchMiddleware(AgentMiddleware[SkillState, Any, Any]):
    """Gives an agent the skills of a manager, and their tools when it needs them.

    The system prompt lists the skills, in at most `budget` characters. The tools of a skill are
    there once it is activated, those that a search found from then on. Calls that a policy asks
    about interrupt the run, for which the agent needs a checkpointer; `approvals="manager"` asks
    the approver of the manager instead. Skills that change on disk are noticed at the next turn,
    after `reload_seconds` at the earliest; `None` never looks. A call that takes longer than
    `long_calls` says goes on as a job, and the conversation has the tools for it from then on.
    """

    state_schema = SkillState

    def __init__(
        self,
        manager: SkillManager,
        *,
        budget: int = DEFAULT_BUDGET,
        approvals: Literal["interrupt", "manager"] = "interrupt",
        reload_seconds: float | None = 1.0,
        long_calls: LongCallOptions | None = None,
    ) -> None:
        super().__init__()
        if approvals not in ("interrupt", "manager"):
            raise ValueError(f"approvals is {approvals!r}: use 'interrupt' or 'manager'")
        self.tools = []  # all of them come and go, see `wrap_model_call`
        self._manager = manager
        self._revealing = Revealing(manager, long_calls or LongCallOptions())
        self._questions = AskedQuestions()
        self._waiting = WaitingChanges(manager)
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
        approver, key = self._approver(request), _key(request)
        asked = self._waiting.find(key) if self._interrupts else None
        if asked is not None:
            answer = approver.answer_again(asked["requests"])
            return _message(request, self._waiting.settled(key, asked, answer))
        with asking(approver) if self._interrupts else nullcontext():
            response = handler(request)
        self._waiting.keep(key, approver, response)
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
        approver, key = self._approver(request), _key(request)
        asked = self._waiting.find(key) if self._interrupts else None
        if asked is not None:
            answer = approver.answer_again(asked["requests"])
            return _message(request, await self._waiting.asettled(key, asked, answer))
        with asking(approver) if self._interrupts else nullcontext():
            response = await handler(request)
        self._waiting.keep(key, approver, response)
        approver.raise_pending()
        return _noted(request, response)

    def _approver(self, request: ToolCallRequest) -> InterruptApprover:
        return InterruptApprover(self._questions, _thread(request), str(request.tool_call["id"]))

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


def _thread(request: ToolCallRequest) -> str:
    return str(request.runtime.config.get("configurable", {}).get("thread_id", ""))


def _key(request: ToolCallRequest) -> str:
    """Return what tells a call of a conversation from all others, in every pass."""
    call = request.tool_call
    said = (_thread(request), call["id"], call["name"], call["args"])
    return json.dumps(said, sort_keys=True, default=str)


def _message(request: ToolCallRequest, result: ToolResult) -> ToolMessage:
    """Return the answer to a call whose changes were settled when the run was resumed."""
    assert isinstance(request.tool, SkillpouchTool)
    call_id = str(request.tool_call["id"])
    content, kept = request.tool.answer(result, call_id)
    if isinstance(content, ToolMessage):
        return content
    return ToolMessage(content, tool_call_id=call_id, name=request.tool.name, artifact=kept)


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
