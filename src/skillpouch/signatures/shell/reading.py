"""Reads the interface of a shell script: positionals, options, comments."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import replace

from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.shell.command_line import line_of, signature_of
from skillpouch.signatures.shell.conditions import UnclearWordsError
from skillpouch.signatures.shell.scan import Read, ShellCommand, ShellFacts, scan_shell
from skillpouch.signatures.shell.word_flow import follow_words
from skillpouch.signatures.signature import Interface, Signature, first_paragraph, is_standard
from skillpouch.signatures.usage_lines import argument_list, own_usage

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
_EXPANDED = re.compile(r'"?\$\{?([A-Za-z_]\w*)')
_PROMPT = re.compile(r"read(?:[ \t]+-[A-Za-z]+(?:[ \t]+\d+)?){0,5}?[ \t]+-[A-Za-z]*p\b")
_VARIABLE_PART = re.compile(r"\$\{[^{}]*\}|\$\w+")
_COMMAND_PART = re.compile(r"\$\([^()]*\)")
_SOURCED = re.compile(r"(?:source|\.)[ \t]+[\"']?(\$?)[\"']?(~?[\w./-]+)")
_CALL_BEFORE = re.compile(r"([\w:.-]{1,100})[ \t]+\"?$")
_LONGEST_LINE = 1_000
_LOOP_OVER_WORDS = re.compile(r"^[ \t]*for[ \t]+[A-Za-z_]\w*[ \t]*(?:;|\n|do\b)", re.MULTILINE)
_CODE = re.compile(r"^[ \t]*[^#\s]", re.MULTILINE)
_SAYS_SOURCED = re.compile(
    r"\b(?:is |are |be )?sourced (?:by|in|into)\b|\bsource (?:this|it|me)\b", re.IGNORECASE
)
_ARGUMENT = r"""[ \t]+(?:"[^"\n]{0,300}+"|'[^'\n]{0,300}+'|[^\s"'\#]++)"""


def read_shell(text: str, *, filename: str = "") -> Signature:
    """Read a script without running it; any text gives a signature."""
    description = first_paragraph(first_comment(text, "shell", filename))
    if len(text) > _LONGEST:
        reason = f"the script is longer than {_LONGEST:,} characters"
        return Signature(reader="argv", interface=argument_list(description), uncertain=reason)
    facts = scan_shell(text)
    read = _read_interface(text, facts, description, filename)
    reads_words = read.interface.convention == "argv"
    is_for_others = not reads_words and _only_sets(text, facts)
    is_library = is_for_others and _SAYS_SOURCED.search(text[: _first_code(text)]) is not None
    return replace(
        read,
        variables=_variables(text, facts),
        imports=_imports(text, facts),
        has_entry=reads_words or (_does_something(text, facts) and not is_library),
        is_submodule=is_for_others,
        reads_input=any(_asks(text, command.name, command.start) for command in facts.commands),
    )


def _read_interface(text: str, facts: ShellFacts, description: str, filename: str) -> Signature:
    scope = _main_function(text, facts)
    reads = _word_reads(facts, scope) or _calls(facts, scope, {"shift", "getopts"})
    if not reads and not _LOOP_OVER_WORDS.search(text):
        interface = Interface(convention="stdin", description=description)
        return Signature(reader="comments", interface=interface)
    unclear: UnclearWordsError | None = None
    try:
        level = follow_words(text)
        if level and (signature := signature_of(level, text, description)):
            return signature
    except UnclearWordsError as error:
        unclear = error
    return Signature(
        reader="argv",
        interface=argument_list(description, own_usage(text, filename)),
        uncertain=unclear.reason if unclear else "",
        uncertain_line=line_of(text, unclear.start) if unclear else None,
    )


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
    outside = _outside(facts)
    # Only a file that is sourced may return, and its tests ask whether that was done before.
    is_sourced = any(command.name == "return" for command in outside)
    return not _are_passive(text, outside, _PASSIVE | _TESTS if is_sourced else _PASSIVE)


def _only_sets(text: str, facts: ShellFacts) -> bool:
    """Tell whether all that it leaves to whoever sources it are variables and functions.

    It may call its own functions before it sets the last variables, as the end of its work is not.
    """
    outside = _outside(facts)
    called = [command.start for command in outside if command.name in facts.functions]
    if called and not any(each.value > called[-1] for each in facts.assignments):
        return False
    is_more = bool(facts.assignments or facts.functions)
    return is_more and _are_passive(text, outside, _PASSIVE | _TESTS | facts.functions)


def _outside(facts: ShellFacts) -> list[ShellCommand]:
    return [each for each in facts.commands if not (each.scope or each.for_value)]


def _are_passive(text: str, commands: list[ShellCommand], passive: AbstractSet[str]) -> bool:
    return not any(
        command.name not in passive or _LOOPS.search(text, max(0, command.start - 8), command.start)
        for command in commands
    )


def _first_code(text: str) -> int:
    """Return where the comments at the beginning end."""
    found = _CODE.search(text)
    return found.start() if found else len(text)


def _variables(text: str, facts: ShellFacts) -> tuple[str, ...]:
    """The environment variables it reads: `X="${X:-default}"` reads one before it sets it."""
    assigned = {
        each.name
        for each in facts.assignments
        if not (match := _EXPANDED.match(text, each.value)) or match[1] != each.name
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
