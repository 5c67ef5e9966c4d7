"""A policy file as bytes: read with a bound, parsed, and refused with all its problems at once."""

from collections.abc import Callable
from typing import TypeVar

from skillpouch.errors import PolicyFileError
from skillpouch.policy.limit_rules import LimitRule
from skillpouch.policy.rule_reading import read_limits, read_rule
from skillpouch.policy.rules import Rule
from skillpouch.policy.toml_file import TomlError, header_lines, key_line, parse_toml
from skillpouch.policy.toml_table import FileProblems, Table
from skillpouch.untrusted_files import CannotReadError, read_whole

Value = TypeVar("Value")


class PolicyFile:
    """The top table of a file, and what both kinds of file have in common."""

    def __init__(self, data: bytes, problems: FileProblems) -> None:
        self.path = problems.path
        values, self._text = parse_toml(data)
        self.top = Table(values, problems, lambda key: key_line(self._text, key))

    def tables(self, key: str) -> list[Table]:
        """Take the tables under a `[[key]]`, each with the line it begins on."""
        return self.top.take_tables(key, list(header_lines(self._text, key)))

    def rules(self) -> list[tuple[Table, Rule]]:
        """Read every one of `[[rules]]` that is right."""
        read = [(table, read_rule(table, self.path)) for table in self.tables("rules")]
        return [(table, rule) for table, rule in read if rule is not None]

    def limits(self, *, lower_only: bool) -> list[LimitRule]:
        """Read every one of `[[limits]]`."""
        return [read_limits(table, lower_only=lower_only) for table in self.tables("limits")]


def parse_file(data: bytes, path: str, make: Callable[[PolicyFile], Value]) -> Value:
    """Make a value of the bytes of a file, or raise one error with everything that is wrong."""
    problems = FileProblems(path)
    try:
        made = make(PolicyFile(data, problems))
    except TomlError as error:
        problems.add("policy-syntax", str(error), error.line)
        raise PolicyFileError(path, problems.found) from None
    if problems.found:
        raise PolicyFileError(path, problems.found)
    return made


def read_bytes(path: str, most: int) -> bytes:
    """Read a file that is there."""
    try:
        return read_whole(path, most).data
    except CannotReadError as error:
        problems = FileProblems(path)
        problems.add("policy-unreadable", error.reason)
        raise PolicyFileError(path, problems.found) from None
