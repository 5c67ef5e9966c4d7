"""A LangChain tool: its schema, the errors it raises, and how a call of it runs."""

import base64
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from skillpouch.calls import watcher
from skillpouch.errors import SkillpouchError
from skillpouch.integrations.long_calls import CallPlace, placed
from skillpouch.integrations.model_results import failure_of, failure_text, refusal_text, storable
from skillpouch.results import Progress, ToolResult


def refusal(error: SkillpouchError) -> ToolException:
    """Return an error of a wrong or refused call as a ToolException of the same type."""
    return _twin(error, refusal_text(error))


def failure(result: ToolResult) -> ToolException:
    """Return what the failure of a tool that ran is to a caller; it says all that the tool said."""
    return _twin(failure_of(result), failure_text(result))


def _twin(error: SkillpouchError, text: str) -> ToolException:
    kind = type(error)
    return _restore(kind, text, error.__dict__).with_traceback(error.__traceback__)


def _restore(kind: type[SkillpouchError], text: str, facts: dict[str, Any]) -> ToolException:
    both = _KNOWN.get(kind) or _KNOWN.setdefault(kind, _both(kind))
    twin: ToolException = both.__new__(both, text)
    twin.__dict__.update(facts)
    return twin


_KNOWN: dict[type[SkillpouchError], Any] = {}


def _both(kind: type[SkillpouchError]) -> Any:
    def reduce(twin: Exception) -> Any:
        # Made here and found nowhere: to travel, it says how it was made.
        return _restore, (kind, str(twin), twin.__dict__)

    names = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": reduce}
    return type(kind.__name__, (kind, ToolException), names)


@contextmanager
def in_graph(name: str, call_id: str | None) -> Iterator[None]:
    """Tie the call of a tool to the graph that makes it, if any does.

    What scripts report goes to its custom stream; jobs belong to its thread; and a node that is run
    again makes the same call, and not another one.
    """
    # Not imported: a graph runs only where somebody has loaded it.
    config = sys.modules.get("langgraph.config")
    try:
        write = None if config is None else config.get_stream_writer()
    except (RuntimeError, KeyError):  # nothing of LangChain calls it, or something but no graph
        write = None
    if config is None or write is None:
        yield
        return

    def tell(progress: Progress) -> None:
        write({"type": "tool_progress", "tool": name, "call_id": call_id, **asdict(progress)})

    token = watcher.set(tell)
    try:
        with placed(_place(config.get_config(), call_id)):
            yield
    finally:
        watcher.reset(token)


def _place(config: Mapping[str, Any], call_id: str | None) -> CallPlace:
    thread = str(config.get("configurable", {}).get("thread_id") or "")
    # It names one step of one run of the graph; also after a crash, or when a run is resumed.
    task = config.get("metadata", {}).get("langgraph_checkpoint_ns")
    return CallPlace(thread, f"{task} {call_id}" if task and call_id else "")


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
            with in_graph(self.name, tool_call_id):
                result = self.func(given)
        except SkillpouchError as error:
            return self._failed(refusal(error), tool_call_id)
        return self.answer(result, tool_call_id)

    async def _arun(  # type: ignore[override]  # as above
        self, given: Any, tool_call_id: str | None, /
    ) -> tuple[Any, ToolResult | None]:
        assert self.coroutine is not None
        try:
            with in_graph(self.name, tool_call_id):
                result = await self.coroutine(given)
        except SkillpouchError as error:
            return self._failed(refusal(error), tool_call_id)
        return self.answer(result, tool_call_id)

    def answer(self, result: ToolResult, call_id: str | None) -> tuple[Any, ToolResult | None]:
        """Return a result as LangChain takes it: content and artifact."""
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


class SkillInput(BaseModel):
    """What a skill is to work on."""

    arguments: str = Field(default="", description="Arguments to pass to the skill")


class RawJsonInput(BaseModel):
    """Any JSON, for a script that does not say what it takes."""

    data: Any = Field(
        default=None,
        description="Free-form JSON data passed to the script: an object, a list, text …",
    )
