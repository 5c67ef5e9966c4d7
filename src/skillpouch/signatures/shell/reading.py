"""Reads the interface of a shell script: positionals, options, comments."""

import re
from typing import NamedTuple

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.shell.scan import Read, ShellFacts, scan_shell
from skillpouch.signatures.signature import Interface, Signature, first_paragraph, is_standard
from skillpouch.signatures.usage_lines import Planned, argument_list, own_usage, planned

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
    """Return an argument for each of `$1`, `$2` …; None if words are read in other ways, too."""
    named = _named(text, facts, scope)
    used = {int(read.name) for read in facts.reads if read.scope == scope and read.name.isdigit()}
    if not 0 < len(named) <= _MOST or used - {0} != set(range(1, len(named) + 1)):
        return None
    if _is_unclear(text, facts, scope):
        return None
    planned: list[Planned] = []
    required = False
    for number in sorted(named, reverse=True):
        # A word before a required one is required, too.
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
    """Tell whether words are also read in other ways: all at once, one by one, or as options."""
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
    argument = ArgvArgument(name=positional.variable.lower(), nargs=None if required else "?")
    return Planned(argument, schema, required)


def _may_be_absent(text: str, facts: ShellFacts, positional: _Positional) -> bool:
    names = {positional.variable, str(positional.number)}
    reads = [read for read in facts.reads if read.name in names]
    tests = set(re.findall(rf'-([nz])[ \t]+"?\$\{{?(?:{"|".join(sorted(names))})\b', text))
    assigned = [each for each in facts.assignments if each.name == positional.variable]
    if "z" in tests and len(assigned) == 1:  # `[ -z "$INPUT" ] && usage`
        return any(read.operator in _MAY_BE_ABSENT and read.word for read in reads)
    return bool(tests) or any(read.operator in _MAY_BE_ABSENT for read in reads)


_LONGEST = 120_000  # longer scripts contain data
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_PASSIVE = frozenset(
    {
        *("set", "shopt", "setopt", "source", ".", "export", "readonly", "declare", "typeset"),
        *("local", "alias", "umask", "trap", ":", "true", "unset", "return"),
    }
)
_TESTS = frozenset({"[", "[[", "test"})
_LOOPS = re.compile(r"\b(?:while|until)\s+$")  # `while :; do` runs until it is ended
_PROMPT = re.compile(r"read(?:[ \t]+-[A-Za-z]+(?:[ \t]+\d+)?){0,5}?[ \t]+-[A-Za-z]*p\b")
_VARIABLE_PART = re.compile(r"\$\{[^{}]*\}|\$\w+")
_COMMAND_PART = re.compile(r"\$\([^()]*\)")
_SOURCED = re.compile(r"(?:source|\.)[ \t]+[\"']?(\$?)(~?[\w./-]+)")
_CALL_BEFORE = re.compile(r"([\w:.-]{1,100})[ \t]+\"?$")
_LONGEST_LINE = 1_000
_ARGUMENT = r"""[ \t]+(?:"[^"\n]{0,300}+"|'[^'\n]{0,300}+'|[^\s"'\#]++)"""


def read_shell(text: str, *, filename: str = "") -> Signature:
    """Read a script without running it; any text gives a signature."""
    description = first_paragraph(first_comment(text, "shell", filename))
    if len(text) > _LONGEST:
        reason = f"the script is longer than {_LONGEST:,} characters"
        return Signature(reader="argv", interface=argument_list(description), uncertain=reason)
    facts = scan_shell(text)
    interface = _read_interface(text, facts, description, filename)
    return Signature(
        reader="argv" if interface.convention == "argv" else "comments",
        interface=interface,
        variables=_variables(text, facts),
        imports=_imports(text, facts),
        has_entry=interface.convention == "argv" or _does_something(text, facts),
        reads_input=any(_asks(text, command.name, command.start) for command in facts.commands),
    )


def _read_interface(text: str, facts: ShellFacts, description: str, filename: str) -> Interface:
    scope = _main_function(text, facts)
    if named := read_positionals(text, facts, scope):
        return planned(description, named)
    if _word_reads(facts, scope) or _calls(facts, scope, {"shift", "getopts"}):
        return argument_list(description, own_usage(text, filename))
    return Interface(convention="stdin", description=description)


def _word_reads(facts: ShellFacts, scope: str) -> list[Read]:
    """Return the reads of the script's words; inside a function, `$1` is the function's own."""
    return [
        read
        for read in facts.reads
        if read.scope == scope and (read.name in {"@", "*", "#"} or read.name.strip("0").isdigit())
    ]


def _calls(facts: ShellFacts, scope: str, names: set[str]) -> bool:
    return any(each.scope == scope and each.name in names for each in facts.commands)


def _main_function(text: str, facts: ShellFacts) -> str:
    """Return the function that gets all words by `main "$@"`, if nothing else reads them."""
    reads = _word_reads(facts, "")
    if len(reads) != 1 or reads[0].name != "@":
        return ""
    before = text[max(0, reads[0].start - _LONGEST_LINE) : reads[0].start]
    match = _CALL_BEFORE.search(before)
    return match.group(1) if match and match.group(1) in facts.functions else ""


def _does_something(text: str, facts: ShellFacts) -> bool:
    """Tell whether it runs commands outside functions, and not only to compute a value."""
    outside = [each for each in facts.commands if not (each.scope or each.for_value)]
    # Only a file that is sourced may return, and its tests ask whether that was done before.
    is_sourced = any(command.name == "return" for command in outside)
    passive = _PASSIVE | _TESTS if is_sourced else _PASSIVE
    return any(
        command.name not in passive or _LOOPS.search(text, max(0, command.start - 8), command.start)
        for command in outside
    )


def _variables(text: str, facts: ShellFacts) -> tuple[str, ...]:
    """The environment variables it reads: `X="${X:-default}"` reads one before it sets it."""
    assigned = {
        each.name
        for each in facts.assignments
        if not re.compile(rf'"?\$\{{?{each.name}\b').match(text, each.value)
    }
    read = {each.name for each in facts.reads if _VARIABLE.fullmatch(each.name)}
    unset = (name for name in read - assigned if not is_standard(name))
    return tuple(sorted(name for name in unset if not _is_set_by_name(text, facts, name)))


def _is_set_by_name(text: str, facts: ShellFacts, name: str) -> bool:
    """`printf -v NAME`, and `ask "Title:" NAME`, where a function of the script sets it."""
    if name not in text.replace(f"${name}", ""):
        return False
    setters = "|".join([r"printf[ \t]+-v", *map(re.escape, sorted(facts.functions))])
    call = rf"^[ \t]*(?:{setters})(?:{_ARGUMENT}){{0,10}}?[ \t]+{name}(?![\w=])"
    return re.search(call, text, re.MULTILINE) is not None


def _imports(text: str, facts: ShellFacts) -> frozenset[str]:
    """Return the files it sources; below a folder known only at run time, its own is assumed."""
    found: set[str] = set()
    for command in facts.commands:
        if command.name not in {"source", "."}:
            continue
        line = text[command.start : command.start + _LONGEST_LINE].partition("\n")[0]
        line = _COMMAND_PART.sub("$", _COMMAND_PART.sub("$", _VARIABLE_PART.sub("$", line)))
        if match := _SOURCED.match(line):
            folder, path = match.groups()
            absolute = not folder and path[0] in "/~"
            found.add(path if absolute or path[0] == "." else f"./{path.lstrip('/')}")
    return frozenset(found)


def _asks(text: str, command: str, start: int) -> bool:
    return command == "select" or bool(command == "read" and _PROMPT.match(text, start))
