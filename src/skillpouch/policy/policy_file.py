"""Reads what both policy files can contain, rules and limits, and reports all problems."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, get_args

from skillpouch.errors import PolicyFileError
from skillpouch.limits import WAYS, Writes
from skillpouch.policy.change_rules import (
    CHANGE_KEYS,
    CHANGES,
    ChangeConditions,
    ChangeFacts,
    wrong_change_value,
)
from skillpouch.policy.conditions import (
    Absent,
    Condition,
    Equals,
    Glob,
    Greater,
    Less,
    Present,
    Regex,
    ValueTest,
)
from skillpouch.policy.limit_rules import LIMITS, LimitRule, wrong_limit
from skillpouch.policy.patterns import parse_need
from skillpouch.policy.rules import Example, Rule, RuleError, Verdict
from skillpouch.policy.toml import (
    FileProblems,
    Table,
    TomlError,
    header_lines,
    key_line,
    parse_toml,
    shown,
)
from skillpouch.results import FileChange, WorkspaceChange
from skillpouch.tools import Effect
from skillpouch.untrusted_files import CannotReadError, read_whole

AnyTest = ValueTest | Present | Absent
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
_UNLIMITED = "unlimited"


def read_rule(table: Table, origin: str) -> Rule | None:
    """Read one of `[[rules]]`; report what is wrong with it, and return None for an invalid one."""
    name = table.take_text("name")
    table.call_it(name)
    verdict = table.take("verdict")
    if verdict not in _VERDICTS:
        table.wrong("verdict", f"is {shown(verdict)}: use 'allow', 'ask' or 'deny'")
        verdict = "deny"
    examples = table.take_table("examples")
    facts: dict[str, Any] = {
        "tools": table.take_texts("tools"),
        "skills": table.take_texts("skills"),
        "effects": _effects(table),
        "needs": table.take_texts("needs"),
        "path": table.take_texts("path"),
        **_when(table),
        "unless": _conditions(table, "unless"),
        "reason": table.take_text("reason"),
        "match": _examples(examples, "match"),
        "no_match": _examples(examples, "no_match"),
    }
    examples.end()
    table.end()
    try:
        return Rule(verdict=verdict, name=name, origin=origin, **facts)
    except RuleError as error:
        for problem in error.problems:
            table.contradictory(problem)
        return None


def _effects(table: Table) -> tuple[Effect, ...]:
    effects = table.take_texts("effects")
    for effect in effects:
        if effect not in _EFFECTS:
            table.wrong(
                "effects", f"{shown(effect)} is not an effect: use one of {', '.join(_EFFECTS)}"
            )
    return tuple(effect for effect in _EFFECTS if effect in effects)


def _when(table: Table) -> dict[str, tuple[Condition, ...] | ChangeConditions | None]:
    """Read `when`: a list of conditions on arguments, of which one may be about changes."""
    if isinstance(table.peek("when"), dict):
        inner = table.take_table("when")  # `[rules.when.changes]`, without any argument
        found = _changes(inner.take_table("changes"))
        inner.end()
        return {"when": (), "changes": found}
    tables = table.take_tables("when")
    about = [_changes(_only_changes(each)) for each in tables if each.peek("changes") is not None]
    if len(about) > 1:
        table.wrong("when", "has `changes` twice: say all of it in one")
    others = [each for each in tables if not each.is_taken("changes")]
    when = tuple(condition for inner in others for condition in _condition(inner))
    return {"when": when, "changes": about[0] if about else None}


def _only_changes(table: Table) -> Table:
    inner = table.take_table("changes")
    for key in table.take_rest():
        table.wrong(key, "belongs to a condition of its own: this one is about changes")
    return inner


def _changes(table: Table) -> ChangeConditions | None:
    facts: dict[str, Any] = {"paths": table.take_texts("paths")}
    fine = True
    for key in CHANGE_KEYS:
        value = None if key == "paths" else table.take(key)
        if value is None:
            continue
        why = "can only be true: leave it out" if value is False else wrong_change_value(key, value)
        if why:
            table.wrong(key, f"{why}, not {shown(value)}")
            fine = False
        else:
            facts[key] = value
    table.end()
    try:
        return ChangeConditions(**facts) if fine else None
    except ValueError as error:
        table.wrong(None, str(error))
        return None


def _conditions(table: Table, key: str) -> tuple[Condition, ...]:
    return tuple(condition for inner in table.take_tables(key) for condition in _condition(inner))


def _condition(table: Table) -> list[Condition]:
    argument = table.take_text("argument")
    tests = [test for key, make in _TESTS.items() for test in _test(table, key, make)]
    table.end()
    if not tests:
        table.wrong(None, f"says nothing about {shown(argument)}: add {', '.join(_TESTS)}")
    try:
        return [Condition(argument=argument, test=test) for test in tests]
    except ValueError as error:
        table.wrong("argument", str(error))
        return []


def _test(table: Table, key: str, make: Callable[[Any], AnyTest]) -> list[AnyTest]:
    value = table.take(key)
    if value is None:
        return []
    try:
        return [make(value)]
    except ValueError as error:
        table.wrong(key, str(error))
        # A placeholder: without any test, a second, false problem would be reported.
        return [Absent()]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {shown(value)}")  # noqa: TRY004 - a file is wrong
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"must be a number, not {shown(value)}")
    return value


def _plain(value: Any) -> Any:
    if not isinstance(value, str | int | float | list | dict):
        raise ValueError(f"must be a JSON value, not {shown(value)}")  # noqa: TRY004
    return value


def _true(made: AnyTest) -> Callable[[Any], AnyTest]:
    def make(value: Any) -> AnyTest:
        if value is not True:
            raise ValueError("can only be true: the opposite of present is absent")
        return made

    return make


def _command_test(text: str) -> AnyTest:
    # Imported here, so that a policy without rules about commands does not load their reader.
    from skillpouch.policy.command_test import CommandTest

    return CommandTest(text)


_TESTS: dict[str, Callable[[Any], AnyTest]] = {
    "equals": lambda value: Equals(_plain(value)),
    "glob": lambda value: Glob(_text(value)),
    "regex": lambda value: Regex(_text(value)),
    "command": lambda value: _command_test(_text(value)),
    "greater": lambda value: Greater(_number(value)),
    "less": lambda value: Less(_number(value)),
    "present": _true(Present()),
    "absent": _true(Absent()),
}


def _examples(table: Table, key: str) -> tuple[Example, ...]:
    found = []
    for inner in table.take_tables(key):
        tool = inner.take_text("tool")
        if not tool:
            inner.wrong("tool", "is missing: the id of a tool, such as 'git.push'")
        skill = inner.take_text("skill")
        effects = _effects(inner) or Example(tool="").effects
        needs = _needs(inner)
        arguments = inner.take_table("arguments").take_rest()
        facts: dict[str, Any] = {"arguments": arguments, "changes": _changed(inner)}
        inner.end()
        found.append(Example(tool=tool, skill=skill, effects=effects, needs=needs, **facts))
    return tuple(found)


def _changed(table: Table) -> ChangeFacts | None:
    """Read the changes of an example: paths, and what happened to each."""
    found: list[FileChange] = []
    gone: dict[str, float] = {}
    later: list[str] = []
    is_there = table.peek("changes") is not None
    for inner in table.take_tables("changes"):
        path = inner.take_text("path")
        if not path:
            inner.wrong("path", "is missing: a path in the workspace, such as 'notes/today.md'")
        change = inner.take_choice("change", CHANGES, "changed")
        gone[path] = _share(inner)
        if inner.take_flag("run_later"):
            later.append(path)
        found.append(_one_change(inner, path, change))
        inner.end()
    if not is_there:
        return None
    return ChangeFacts(changes=found, run_later=later, gone=lambda each: gone[each.path])


def _share(table: Table) -> float:
    value = table.take("gone")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or (is_number and 0 <= value <= 1):
        return float(value or 0)
    table.wrong("gone", f"must be a number from 0 to 1, not {shown(value)}")
    return 0.0


def _one_change(table: Table, path: str, change: str) -> FileChange:
    return FileChange(
        path=path,
        change=cast("WorkspaceChange", change),  # one of the choices
        old_path=table.take_text("old_path"),
        executable=table.take_flag("executable"),
        size=_size(table, "size"),
        size_before=_size(table, "size_before"),
    )


def _size(table: Table, key: str) -> int:
    value = table.take(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value or 0
    table.wrong(key, f"must be a whole number, not {shown(value)}")
    return 0


def _needs(table: Table) -> tuple[str, ...]:
    found = []
    for text in table.take_texts("needs"):
        try:
            parse_need(text)
            found.append(text)
        except ValueError as error:
            table.wrong("needs", str(error))
    return tuple(found)


def take_way(table: Table, *, lower_only: bool) -> Writes | None:
    """Read `writes`, the way in which calls write; a project can only tighten it."""
    value = table.take("writes")
    if value is None or (isinstance(value, str) and value in WAYS):
        if value == WAYS[0] and lower_only:
            table.misplaced("writes", "only your own policy.toml can let calls write directly")
            return None
        return value
    table.wrong("writes", f"is {shown(value)}: use {', '.join(map(repr, WAYS))}")
    return None


def read_limits(table: Table, *, lower_only: bool) -> LimitRule:
    """Read one of `[[limits]]`."""
    tools, skills = table.take_texts("tools"), table.take_texts("skills")
    values: dict[str, float | None] = {}
    for name in LIMITS:
        value = table.take(name)
        if value is None:
            continue
        if value == _UNLIMITED and lower_only:
            table.misplaced(name, "only your own policy.toml can lift a limit")
            continue
        limit = None if value == _UNLIMITED else value
        problem = wrong_limit(name, limit)
        if problem:
            table.wrong(name, f"{problem}, not {shown(value)}")
        else:
            values[name] = limit
    writes = take_way(table, lower_only=lower_only)
    table.end()
    return LimitRule(
        values=values, tools=tools, skills=skills, lower_only=lower_only, writes=writes
    )


Value = TypeVar("Value")


class PolicyFile:
    """The top table of a file, and the readers that both kinds of file share."""

    def __init__(self, values: Mapping[str, Any], text: str, problems: FileProblems) -> None:
        self.path = problems.path
        self._text = text
        self.top = Table(values, problems, lambda key: key_line(self._text, key))

    def tables(self, key: str) -> list[Table]:
        """Read the tables under `[[key]]`, each with its first line."""
        return self.top.take_tables(key, list(header_lines(self._text, key)))

    def rules(self) -> list[tuple[Table, Rule]]:
        """Read every valid one of `[[rules]]`."""
        read = [(table, read_rule(table, self.path)) for table in self.tables("rules")]
        return [(table, rule) for table, rule in read if rule is not None]

    def limits(self, *, lower_only: bool) -> list[LimitRule]:
        """Read every one of `[[limits]]`."""
        return [read_limits(table, lower_only=lower_only) for table in self.tables("limits")]


def parse_file(data: bytes, path: str, make: Callable[[PolicyFile], Value]) -> Value:
    """Parse the bytes of a file; raise one error with everything that is wrong."""
    try:
        values, text = parse_toml(data)
    except TomlError as error:
        problems = FileProblems(path)
        problems.add("policy-syntax", str(error), error.line)
        raise PolicyFileError(path, problems.found) from None
    return parse_values(values, path, make, text)


def parse_values(
    values: Mapping[str, Any], path: str, make: Callable[[PolicyFile], Value], text: str = ""
) -> Value:
    """Read the values of a file; raise one error with everything that is wrong."""
    problems = FileProblems(path)
    made = make(PolicyFile(values, text, problems))
    if problems.found:
        raise PolicyFileError(path, problems.found)
    return made


def read_bytes(path: str, most: int) -> bytes:
    """Read an existing file; raise PolicyFileError if it cannot be read."""
    try:
        return read_whole(path, most).data
    except CannotReadError as error:
        problems = FileProblems(path)
        problems.add("policy-unreadable", error.reason)
        raise PolicyFileError(path, problems.found) from None
