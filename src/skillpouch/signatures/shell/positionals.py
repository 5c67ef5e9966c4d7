"""The arguments of a shell script that names each of them once, in order, at its top."""

import re
from typing import NamedTuple

from skillpouch.signatures.argument_list import Planned
from skillpouch.signatures.argv import Argument
from skillpouch.signatures.shell.facts import Read, ShellFacts

_MOST = 20
_ENDS_VALUE = re.compile(r"\"?(?=[ \t\r]*(?:[;\n#]|\|\||$))")
_REMARK = re.compile(r"\"?[ \t]*;?[ \t]*#+[ \t]*([^\n]{1,200})")
_OPTION_TEST = re.compile(r"""\$\{?[1-9]\}?"?[ \t]*==?[ \t]*["']?(-[\w-]+)""")
_CASE_OF_WORD = re.compile(r"case[ \t]+\"?\$\{?[1-9]")
_NEW_WORDS = re.compile(r"set[ \t]+--")
_HELP = frozenset({"-h", "--help"})
_MAY_BE_ABSENT = frozenset({"-", ":-", "=", ":=", "+", ":+"})
_NOT_LITERAL = re.compile(r"[$`\\\"']")


class _Positional(NamedTuple):
    """`OUTPUT="${2:-out.txt}"`."""

    number: int
    variable: str
    read: Read


def read_positionals(text: str, facts: ShellFacts, scope: str) -> list[Planned] | None:
    """One argument for each of `$1`, `$2` …; None unless they are all there is to know."""
    named = _named(text, facts, scope)
    used = {int(read.name) for read in facts.reads if read.scope == scope and read.name.isdigit()}
    if not 0 < len(named) <= _MOST or used - {0} != set(range(1, len(named) + 1)):
        return None
    if _is_unclear(text, facts, scope):
        return None
    planned: list[Planned] = []
    required = False
    for number in sorted(named, reverse=True):
        # A word cannot be left out before one that is needed.
        required = required or not _may_be_absent(text, facts, named[number])
        planned.insert(0, _plan(text, named[number], required=required))
    names = {each.argument.name for each in planned}
    return planned if len(names) == len(planned) else None


def _named(text: str, facts: ShellFacts, scope: str) -> dict[int, _Positional]:
    numbered = {read.start: read for read in facts.reads if read.name.isdigit()}
    named: dict[int, _Positional] = {}
    for assignment in facts.assignments:
        start = assignment.value + text.startswith('"', assignment.value)
        read = numbered.get(start)
        if read is None or assignment.scope != scope or not assignment.plain:
            continue
        if _ENDS_VALUE.match(text, read.end):
            number = int(read.name)
            named.setdefault(number, _Positional(number, assignment.name, read))
    return named


def _is_unclear(text: str, facts: ShellFacts, scope: str) -> bool:
    """Whether words are also taken in other ways: all at once, one by one, or as options."""
    if any(read.scope == scope and read.name in {"@", "*"} for read in facts.reads):
        return True
    if any(match.group(1) not in _HELP for match in _OPTION_TEST.finditer(text)):
        return True
    return any(
        command.name in {"shift", "getopts"}
        or _NEW_WORDS.match(text, command.start)
        or _CASE_OF_WORD.match(text, command.start)
        for command in facts.commands
        if command.scope == scope
    )


def _plan(text: str, positional: _Positional, *, required: bool) -> Planned:
    schema = {"type": "string"}
    if remark := _REMARK.match(text, positional.read.end):
        schema["description"] = remark.group(1).strip()
    default = positional.read.word.strip("\"'")
    is_default = positional.read.operator in _MAY_BE_ABSENT
    if is_default and default and not _NOT_LITERAL.search(default):
        schema["default"] = default
    argument = Argument(name=positional.variable.lower(), nargs=None if required else "?")
    return Planned(argument, schema, required)


def _may_be_absent(text: str, facts: ShellFacts, positional: _Positional) -> bool:
    names = {positional.variable, str(positional.number)}
    reads = [read for read in facts.reads if read.name in names]
    tests = set(re.findall(rf'-([nz])[ \t]+"?\$\{{?(?:{"|".join(sorted(names))})\b', text))
    assigned = [each for each in facts.assignments if each.name == positional.variable]
    if "z" in tests and len(assigned) == 1:  # `[ -z "$INPUT" ] && usage`
        return any(read.operator in _MAY_BE_ABSENT and read.word for read in reads)
    return bool(tests) or any(read.operator in _MAY_BE_ABSENT for read in reads)
