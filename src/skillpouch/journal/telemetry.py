"""OpenTelemetry spans of calls, `execute_tool {name}`, when they are asked for."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from skillpouch.errors import SkillpouchError
from skillpouch.runtime.extras import require_extra

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from skillpouch.results import ToolResult

# The names of OpenTelemetry's conventions for generative AI. They are still in development, so they
# are not imported.
_OPERATION = "execute_tool"
_MOST_CHARACTERS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Whether calls become spans. `content` adds arguments and results, without secrets.

    Spans go where the tracer provider of the process sends them; Skillpouch configures none.
    """

    enabled: bool = False
    content: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFacts:
    """The attributes a span has from the start. `arguments` are a JSON value without secrets."""

    name: str
    description: str = ""
    call_id: str = ""
    arguments: Any = None


class ToolSpan:
    """The span of one call; without tracing, a stand-in that does nothing."""

    __slots__ = ("_content", "_span")

    def __init__(self, span: "Span | None" = None, *, content: bool = False) -> None:
        self._span = span
        self._content = content

    def end_with(self, result: "ToolResult") -> None:
        """Set how the call ended. The result is already redacted."""
        if self._span is None:
            return
        if self._content:
            self._span.set_attribute("gen_ai.tool.call.result", result.content[:_MOST_CHARACTERS])
        if result.is_error:
            self._fail(result.code or result.outcome)

    def _fail(self, kind: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        if self._span is not None:
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, kind))

    def _raise(self, error: BaseException) -> None:
        # Not its message: that may contain arguments, and is not redacted.
        code = error.code if isinstance(error, SkillpouchError) else type(error).__qualname__
        self._fail(code)


_NOTHING = ToolSpan()


@contextmanager
def tool_span(telemetry: Telemetry, facts: SpanFacts) -> Iterator[ToolSpan]:
    """Run a call inside a span; pass the result to the span with `end_with`.

    An exception that leaves the block ends the span as an error, and is raised further.
    """
    if not telemetry.enabled:
        yield _NOTHING
        return
    attributes = _attributes(facts, with_arguments=telemetry.content)
    with _tracer().start_as_current_span(
        f"{_OPERATION} {facts.name}",
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        found = ToolSpan(span, content=telemetry.content)
        try:
            yield found
        except BaseException as error:
            found._raise(error)  # noqa: SLF001 - a class of this file
            raise


def _attributes(facts: SpanFacts, *, with_arguments: bool) -> Mapping[str, str]:
    found = {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.tool.name": facts.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": facts.description,
        "gen_ai.tool.call.id": facts.call_id,
    }
    if with_arguments:
        text = json.dumps(facts.arguments, default=repr)
        found["gen_ai.tool.call.arguments"] = text[:_MOST_CHARACTERS]
    return {name: value for name, value in found.items() if value}


@cache
def _tracer() -> "Tracer":
    """Return the tracer. It is a proxy: a provider that is set later gets the spans too."""
    require_extra("otel")
    from opentelemetry import trace

    return trace.get_tracer("skillpouch")
