"""One call of every example tool, as arguments that mean something to it."""

from pathlib import Path
from shutil import copy
from typing import Any

EXAMPLES = Path(__file__).parents[3] / "examples" / "skills"

CALLS: dict[str, dict[str, Any]] = {
    "acme:csv-report.as_table": {"path": "people.csv"},
    "acme:csv-report.summarize": {"path": "people.csv"},
    "calculator.add": {"a": 1, "b": 2.5},
    "calculator.multiply": {"numbers": [2, 4.5]},
    "calculator.stats.mean": {"numbers": [1, 2, 4]},
    "calculator.stats.median": {"numbers": [1, 2, 4]},
    "calculator.stats.stdev": {"numbers": [1, 2, 4]},
    "count-words.count_words": {"text": "one two two"},
    "data-processor.chunk-text": {"text": "a long text", "chunk_size": 4},
    "data-processor.tally-lines": {"text": "a\nb\na\n"},
    "data-processor.sort-file": {"file": "people.csv", "column": 1},
    "data-processor.where-am-i": {},
    "file-processor.read_file": {"path": "people.csv"},
    "file-processor.write_file": {"path": "out.txt", "text": "new", "append": True},
    "greeter.greet": {"args": ["Ada"]},
    "greeter.guest_list": {"data": ["Ada", "Grace"]},
    "json-query.query_json": {"file": "data.json", "path": "users[0].name"},
    "json-query.flatten_json": {"document": {"a": {"b": 1}}},
    "json-query.diff": {"before": {"a": 1}, "after": {"a": 2}},
    "pdf-extractor.convert": {"file": "hello.pdf"},
    "pdf-extractor.extract": {"pdf": "hello.pdf"},
    "pdf-extractor.utils-parse": {"stream": "BT (Hello) Tj ET"},
    "release-notes.group_changes": {"changes": ["fix(ui): keep the order", "feat: add it"]},
    "release-notes.next_version": {"current": "1.4.2", "changes": ["feat: add it"]},
    "release-notes.thank_authors": {"authors": ["Ada", "Ada", "Grace"]},
    "release-notes.write_summary": {},
    "text-tools.slugify": {"text": "A Title"},
    "text-tools.wrap_text": {"text": "a few words to wrap", "width": 8},
    "text-tools.measure": {"file": "people.csv"},
    "text-tools.title_case": {"args": ["a", "title"]},
    "weather.current-weather": {"location": "Rome"},
    "weather.weather-forecast": {"location": "Rome", "days": 2},
}


def fill(workspace: Path) -> None:
    """Put the files there that the calls read."""
    (workspace / "people.csv").write_text("name,age\nGrace,40\nAda,36\n")
    (workspace / "data.json").write_text('{"users": [{"name": "Ada"}]}')
    found = next(EXAMPLES.rglob("*.pdf"), None)
    if found is not None:
        copy(found, workspace / "hello.pdf")
