import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillpouch.errors import UnknownToolError
from skillpouch.journal.telemetry import SpanFacts, Telemetry, tool_span
from skillpouch.results import ToolResult

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

pytestmark = pytest.mark.slow

FACTS = SpanFacts(name="greet", description="Greet.", call_id="7", arguments={"who": "Ada"})
# A process has one provider, set once.
EXPORTER = InMemorySpanExporter()


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    [span] = exporter.get_finished_spans()
    return span


def test_a_call_is_a_span_with_the_names_of_the_conventions(
    exporter: InMemorySpanExporter,
) -> None:
    with tool_span(Telemetry(enabled=True), FACTS) as span:
        span.end_with(ToolResult(tool="s.greet", outcome="ok", content="hello"))

    found = only(exporter)
    assert found.name == "execute_tool greet"
    assert dict(found.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "greet",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Greet.",
        "gen_ai.tool.call.id": "7",
    }
    assert found.status.status_code is StatusCode.UNSET


def test_arguments_and_result_are_there_only_when_asked_for(
    exporter: InMemorySpanExporter,
) -> None:
    with tool_span(Telemetry(enabled=True, content=True), FACTS) as span:
        span.end_with(ToolResult(tool="s.greet", outcome="ok", content="hello"))

    attributes = only(exporter).attributes or {}
    assert attributes["gen_ai.tool.call.arguments"] == '{"who": "Ada"}'
    assert attributes["gen_ai.tool.call.result"] == "hello"


def test_a_failed_call_is_an_error_of_its_kind(exporter: InMemorySpanExporter) -> None:
    with tool_span(Telemetry(enabled=True), FACTS) as span:
        span.end_with(ToolResult(tool="s.greet", outcome="timed_out", code="timeout"))

    found = only(exporter)
    assert (found.attributes or {})["error.type"] == "timeout"
    assert found.status.status_code is StatusCode.ERROR


def test_an_exception_is_told_by_its_code_and_not_by_its_words(
    exporter: InMemorySpanExporter,
) -> None:
    with (
        pytest.raises(UnknownToolError),
        tool_span(Telemetry(enabled=True), FACTS),
    ):
        raise UnknownToolError("hunter2")

    found = only(exporter)
    assert (found.attributes or {})["error.type"] == "unknown_tool"
    assert "hunter2" not in found.to_json()


def test_a_span_inside_belongs_to_the_call(exporter: InMemorySpanExporter) -> None:
    with (
        tool_span(Telemetry(enabled=True), FACTS),
        trace.get_tracer("test").start_as_current_span("inner"),
    ):
        pass

    inner, outer = exporter.get_finished_spans()
    assert outer.context is not None
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id


def test_nothing_is_recorded_unless_asked_for(exporter: InMemorySpanExporter) -> None:
    with tool_span(Telemetry(), FACTS) as span:
        span.end_with(ToolResult(tool="s.greet", outcome="ok"))

    assert exporter.get_finished_spans() == ()


OFF = """
import sys
from skillpouch.journal.telemetry import SpanFacts, Telemetry, tool_span
with tool_span(Telemetry(), SpanFacts(name="t")):
    pass
assert not any(name.startswith("opentelemetry") for name in sys.modules)
sys.modules["opentelemetry"] = None
try:
    with tool_span(Telemetry(enabled=True), SpanFacts(name="t")):
        pass
except Exception as error:
    print(error.code, error.hint)
"""


def test_without_spans_nothing_is_imported_and_without_the_package_it_is_named() -> None:
    ran = subprocess.run([sys.executable, "-c", OFF], capture_output=True, check=True, text=True)

    assert ran.stdout == "missing_extra pip install 'opentelemetry-api>=1.45'\n"


BROKEN_SPANS = """
import sqlite3, sys
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from skillpouch import ToolExecutor, tool
from skillpouch.controls import Controls
from skillpouch.journal.journal import Journal
from skillpouch.journal.telemetry import Telemetry

class Broken(SpanProcessor):
    def on_end(self, span):
        raise RuntimeError("no room")

provider = TracerProvider()
provider.add_span_processor(Broken())
trace.set_tracer_provider(provider)

@tool
def greet() -> str:
    \"\"\"Greet.\"\"\"
    return "hello"

folder = Path(sys.argv[1])
controls = Controls(
    journal=Journal(folder), telemetry=Telemetry(enabled=True), workspace=folder
)
try:
    ToolExecutor([greet], controls=controls).execute_sync("greet")
except RuntimeError as error:
    print(error)
print(sqlite3.connect(folder / "journal.sqlite3").execute("SELECT outcome FROM calls").fetchall())
"""


def test_a_call_whose_span_cannot_end_is_still_on_record_as_ended(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_SPANS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "no room\n[('not_started',)]\n", done.stderr
