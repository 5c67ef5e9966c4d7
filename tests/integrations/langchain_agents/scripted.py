"""A chat model that says what it was told to say, and remembers what it was asked."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field


class ScriptedModel(BaseChatModel):
    """Answers with `turns`, one after the other; what a provider would be sent is in `requests`.

    A turn may be a function of the messages so far.
    """

    turns: list[Any]  # not what they are: pydantic would try to make messages of functions
    requests: list[tuple[list[BaseMessage], list[dict[str, Any]]]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.bind(shown=[convert_to_openai_tool(each)["function"] for each in tools])

    def _generate(self, messages: list[BaseMessage], *_: Any, **given: Any) -> ChatResult:
        self.requests.append((list(messages), given.get("shown", [])))
        turn = self.turns[len(self.requests) - 1]
        answer = turn(list(messages)) if callable(turn) else turn
        return ChatResult(generations=[ChatGeneration(message=answer)])

    @property
    def names(self) -> list[list[str]]:
        """The names of the tools that each request showed."""
        return [[each["name"] for each in shown] for _, shown in self.requests]


def calls(*wanted: tuple[str, dict[str, Any]], turn: int = 0) -> AIMessage:
    """Return a turn in which the model calls tools."""
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": arguments, "id": f"{turn}-{place}", "type": "tool_call"}
            for place, (name, arguments) in enumerate(wanted)
        ],
    )


def says(text: str) -> AIMessage:
    return AIMessage(text)
