"""Approvals as LangGraph interrupts: the run stops, and its resumption brings the answer."""

from collections import OrderedDict
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any, get_args

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from skillpouch.policy.approval import Answer, Question, Remember

_MOST_REMEMBERED = 4096

# Which question: of which call of which conversation, and the how-manieth of it.
Place = tuple[str, str, int]


class AskedQuestions:
    """What was asked where: a yes counts only for what whoever gave it was shown.

    A run that is resumed makes its call again, perhaps days later. By then the skill may be
    another one.
    """

    def __init__(self) -> None:
        self._asked: OrderedDict[Place, Question | None] = OrderedDict()

    def asked(self, place: Place) -> Question | None:
        """Return what was asked there; nothing when somebody else asked, before a restart."""
        return self._asked.get(place)

    def remember(self, place: Place, question: Question | None) -> None:
        self._asked[place] = question
        self._asked.move_to_end(place)
        while len(self._asked) > _MOST_REMEMBERED:
            self._asked.popitem(last=False)


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

    async def __call__(self, question: Question) -> Answer:
        while True:
            place = (self._thread, self._call, self._count)
            self._count += 1
            asked = self._questions.asked(place)
            try:
                reply = self._context.run(interrupt, _request(question))
            except GraphInterrupt as pending:
                self._pending = pending
                self._questions.remember(place, question)
                return Answer(yes=False, cause="no_answer", reason="the run waits for an answer")
            answer = _answer(reply)
            if asked == question or not answer.yes:
                return answer
            # A yes to something else: asked for again, and not counted the next time either.
            self._questions.remember(place, asked)

    def raise_pending(self) -> None:
        """Stop the run if a question is open."""
        if self._pending is not None:
            raise self._pending


def _request(question: Question) -> dict[str, Any]:
    """Return a question in the form that user interfaces for LangChain know, and all its facts."""
    needs = [{"kind": need.kind, "value": need.value} for need in question.needs]
    description = [f"{question.tool} runs {question.runs}", *question.reasons]
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

    A yes must be one; everything else is a no.
    """
    if isinstance(reply, Mapping) and isinstance(reply.get("decisions"), list):
        reply = reply["decisions"][0] if len(reply["decisions"]) == 1 else None
    if isinstance(reply, bool):
        return Answer(yes=reply, reason="" if reply else "it was rejected")
    if not isinstance(reply, Mapping) or reply.get("type") not in ("approve", "reject"):
        return Answer(yes=False, reason="the run was resumed with neither a yes nor a no")
    if reply["type"] == "reject":
        return Answer(yes=False, reason=str(reply.get("message") or "it was rejected"))
    remember = reply.get("remember", "once")
    return Answer(yes=True, remember=remember if remember in get_args(Remember) else "once")
