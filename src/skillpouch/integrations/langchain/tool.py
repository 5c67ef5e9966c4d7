"""One tool of Skillpouch as a StructuredTool: Skillpouch checks the arguments, runs and records."""

import base64
from typing import Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException

from skillpouch.errors import SkillpouchError
from skillpouch.integrations.langchain.errors import failure, refusal
from skillpouch.integrations.storable_results import storable
from skillpouch.results import ToolResult


class SkillpouchTool(StructuredTool):
    """A tool whose `func` and `coroutine` take whatever the caller gave and return a ToolResult.

    In an agent a failure is a message with status "error", so that the model sees it and goes
    on; called by hand it is raised, as a ToolException that is the error of Skillpouch as well.
    """

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"

    def __eq__(self, other: object) -> bool:
        # Methods are the same only of one object: those of a tool that was pickled never are.
        if not isinstance(other, SkillpouchTool):
            return NotImplemented
        return _compared(self) == _compared(other)

    __hash__ = None  # type: ignore[assignment]  # as pydantic's models have it

    def _to_args_and_kwargs(
        self, tool_input: Any, tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # As one value: arguments called `config` or `run_manager` are arguments like any other,
        # and text stays text. LangChain would check nothing against a JSON schema anyway.
        return (tool_input, tool_call_id), {}

    def _run(  # type: ignore[override]  # called with what `_to_args_and_kwargs` gives
        self, given: Any, tool_call_id: str | None, /
    ) -> tuple[Any, ToolResult | None]:
        assert self.func is not None
        try:
            result = self.func(given)
        except SkillpouchError as error:
            return self._failed(refusal(error), tool_call_id)
        return self._answer(result, tool_call_id)

    async def _arun(  # type: ignore[override]  # as above
        self, given: Any, tool_call_id: str | None, /
    ) -> tuple[Any, ToolResult | None]:
        assert self.coroutine is not None
        try:
            result = await self.coroutine(given)
        except SkillpouchError as error:
            return self._failed(refusal(error), tool_call_id)
        return self._answer(result, tool_call_id)

    def _answer(self, result: ToolResult, call_id: str | None) -> tuple[Any, ToolResult | None]:
        kept = storable(result)
        if result.is_error:
            return self._failed(failure(result), call_id, kept)
        return _content(result), kept

    def _failed(
        self, error: ToolException, call_id: str | None, result: ToolResult | None = None
    ) -> tuple[ToolMessage, ToolResult | None]:
        if call_id is None:
            raise error
        # Made here, since LangChain would leave out the result.
        message = ToolMessage(
            str(error), tool_call_id=call_id, name=self.name, status="error", artifact=result
        )
        return message, result


def _compared(tool: SkillpouchTool) -> dict[str, Any]:
    calls = {name: getattr(getattr(tool, name), "__self__", None) for name in ("func", "coroutine")}
    return {**tool.__dict__, **calls}


def _content(result: ToolResult) -> str | list[dict[str, Any]]:
    """Return what a model gets: text, and images as they are."""
    images = [each for each in result.attachments if each.type.startswith("image/")]
    if not images:
        return result.content
    blocks: list[dict[str, Any]] = [{"type": "text", "text": result.content}]
    for each in images:
        data = base64.b64encode(each.data).decode()
        blocks.append({"type": "image", "base64": data, "mime_type": each.type})
    return blocks
