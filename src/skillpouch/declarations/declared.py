"""A tool as its skill declares it, before its script is read; how long it may take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from skillpouch.declarations.strict_yaml import YamlPath
from skillpouch.errors import PortableError
from skillpouch.limits import DECLARED_SECONDS, LONGEST_SECONDS, time_text
from skillpouch.problems import Problem, Severity
from skillpouch.signatures.signature import JsonSchema
from skillpouch.tools import Effect, Runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One entry of tools.json, of frontmatter `tools:` or of scripts/manifest.yml.

    `script` is a path relative to the skill; `runs` is set when the entry needs no script.
    """

    name: str
    source: str  # "tools.json", "frontmatter" or "manifest"
    description: str = ""
    input_schema: JsonSchema | None = None
    output_schema: JsonSchema | None = None
    script: str = ""
    runs: Runs | None = None
    timeout_ms: int | None = None
    effects: tuple[Effect, ...] | None = None
    variables: tuple[str, ...] = ()
    # Adds a problem with the line of this entry; lines are counted only if there is a problem.
    report: Callable[[str, Severity, str], None] | None = field(
        default=None, compare=False, repr=False
    )


class DeclarationError(PortableError, ValueError):
    """An entry, or a whole file, that declares no tool; `at` is the place inside the file."""

    def __init__(self, code: str, message: str, at: YamlPath = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at


class Report:
    """Collects the problems of one file; its lines are counted at the first problem."""

    def __init__(self, path: str, lines_of: Callable[[], Mapping[YamlPath, int]]) -> None:
        self.problems: list[Problem] = []
        self._path = path
        self._lines_of = lines_of

    @cached_property
    def _lines(self) -> Mapping[YamlPath, int]:
        return self._lines_of()

    def add(self, code: str, severity: Severity, message: str, at: YamlPath = ()) -> None:
        lines = self._lines
        # A missing key has no line: take that of the mapping or list around it.
        places = (at[:end] for end in range(len(at), -1, -1))
        line = next((lines[place] for place in places if place in lines), None)
        self.problems.append(
            Problem(path=self._path, code=code, severity=severity, message=message, line=line)
        )

    def lost(self, error: DeclarationError, at: YamlPath = ()) -> None:
        self.add(error.code, "error", error.message, at + error.at)


SKILL_TIMEOUT = ("metadata", "skillpouch", "timeout_seconds")


def read_timeout(
    value: Any, *, called: str = "timeout_ms", unit: str = "milliseconds", per_second: int = 1000
) -> int | None:
    """Return milliseconds; raise DeclarationError for what is no number of them up to a day."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= LONGEST_SECONDS * per_second:
        message = f"{called} {value!r:.40} is not a number of {unit} up to a day"
        raise DeclarationError("timeout-invalid", message, (called,))
    return max(1, int(value * 1000 / per_second))


def read_skill_timeout(frontmatter: Any) -> int | None:
    """Return the milliseconds of `metadata: {skillpouch: {timeout_seconds: …}}`.

    They hold for the programs of a skill that declare no time of their own.
    """
    found: Any = frontmatter
    for key in SKILL_TIMEOUT:
        found = found.get(key) if isinstance(found, dict) else None
    return read_timeout(found, called=SKILL_TIMEOUT[-1], unit="seconds", per_second=1)


def report_long(milliseconds: int | None, whose: str, report: Report, at: YamlPath) -> None:
    """Report a time that has to be granted."""
    seconds = (milliseconds or 0) / 1000
    if seconds > DECLARED_SECONDS:
        declares = f"{whose} declares that it may take {time_text(seconds)}"
        message = f"{declares}: more than {time_text(DECLARED_SECONDS)} has to be granted"
        report.add("timeout-long", "info", message, at)
