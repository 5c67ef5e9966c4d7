"""Scans the text of a shell script: words, quotes, substitutions, nested frames."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Read(NamedTuple):
    """An expansion such as `$1`, `${2:-out.txt}` or `$API_KEY`; `scope` is its function."""

    name: str
    start: int
    scope: str = ""


class Assignment(NamedTuple):
    name: str
    value: int  # where the value begins


class ShellCommand(NamedTuple):
    """The first word of a command; "" if it is known only at run time."""

    name: str
    start: int
    scope: str
    for_value: bool  # inside `$(…)`: run for what it prints


@dataclass(frozen=True, slots=True)
class ShellFacts:
    reads: list[Read] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    commands: list[ShellCommand] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)


class CommandPosition(NamedTuple):
    """The position of the scanner inside a command."""

    at_command: bool = True  # the next word is a command
    in_word: bool = False
    assigning: str = ""  # the command whose words are names that get a value


BEGIN = CommandPosition()


@dataclass(slots=True)
class OpenConstruct:
    """An open construct: quotes, braces, parentheses, the body of a function."""

    kind: str
    scope: str = ""
    for_value: bool = False
    cases: int = 0  # open `case` statements directly inside: their `)` close nothing
    outer: CommandPosition = BEGIN


# A name in brackets has a limited length, so that a text full of open brackets is not scanned again
# and again. Every pattern matches at least one character of any text.
_EXPANSIONS = r"""
    (?P<arithmetic>\$\(\()
    |(?P<substitution>\$\()
    |(?P<expansion>\$\{[\#!]?(?P<name>[A-Za-z_]\w*|[0-9]{1,9}+|[@*\#?!$-]|)(?:\[[^\]\n]{0,200}+\])?)
    |(?P<variable>\$(?:[A-Za-z_]\w*+|[0-9@*\#?!$-]))
    |(?P<backtick>`)
    |(?P<escape>\\.)
"""
CODE = re.compile(
    rf"""
    (?P<blank>(?>(?:[ \t\r]|\\\n)+))
    |(?P<newline>\n)
    |(?P<hash>\#)
    |(?P<single>'[^']*+'?|\$'[^'\\]*+(?>(?:\\.[^'\\]*+)*)'?)
    |(?P<double>\$?")
    |(?P<here_string><<<)
    |(?P<here_document><<-?[ \t]*+
        (?P<delimiter>\\?[\w.-]++|'[^'\n]{{0,200}}+'|"[^"\n]{{0,200}}+"))
    |{_EXPANSIONS}
    |(?P<open>[<>]?\()
    |(?P<close>\))
    |(?P<redirection>&>>?|[<>]&-?|>[>|]?|<>?)
    |(?P<separator>;;&?|;&|&&|\|\|?|;|&)
    |(?P<word>[^\s'"`\\$<>;&|()\#]++|.)
    """,
    re.DOTALL | re.VERBOSE,
)
SURROUNDINGS = {
    "double": re.compile(
        rf"""(?P<end_double>")|{_EXPANSIONS}|(?P<text>[^"$`\\]++|.)""", re.DOTALL | re.VERBOSE
    ),
    "brace": re.compile(
        rf"""(?P<end_brace>\}})|(?P<double>")|(?P<quote>')|{_EXPANSIONS}
        |(?P<text>[^\}}"'$`\\]++|.)""",
        re.DOTALL | re.VERBOSE,
    ),
    "arithmetic": re.compile(
        rf"""(?P<end_arithmetic>\)\)?)|(?P<inner>\()|{_EXPANSIONS}|(?P<text>[^()$`\\]++|.)""",
        re.DOTALL | re.VERBOSE,
    ),
}
SURROUNDINGS["inner"] = SURROUNDINGS["arithmetic"]

IN_HERE_DOCUMENT = re.compile(r"\\.|\$\{?(?P<name>[A-Za-z_]\w*|[0-9@*#])", re.DOTALL)
FUNCTION = re.compile(r"function[ \t]+([\w:.-]+)(?:[ \t]*\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\)")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]\n]{0,200}+\])?\+?=")
NAME = re.compile(r"[A-Za-z_]\w*")

OPENS = frozenset({"if", "while", "until", "for", "select", "case"})
CLOSES = frozenset({"fi", "done", "esac"})
BEFORE_COMMAND = frozenset({"if", "while", "until", "then", "do", "else", "elif", "!", "time", "{"})
KEYWORDS = OPENS | CLOSES | BEFORE_COMMAND | {"}"}
# Commands whose arguments are names of variables that they set.
ASSIGN_NAMES = frozenset(
    {"local", "declare", "typeset", "readonly", "export", "read", "getopts", "mapfile"}
)


_DEEPEST = 500  # quotes in braces in quotes …; no script is deeper, so reading ends


_Taker = Callable[[re.Match[str]], int]  # returns the next position


def scan_shell(text: str) -> ShellFacts:
    """Walk any text, in time proportional to its length."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.facts


class _Scanner:
    """One method `take_…` for each named piece of the patterns; the others are skipped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.facts = ShellFacts()
        self.frames = [OpenConstruct("code")]
        self.place = BEGIN
        self.function = ""  # named, but its body has not begun
        self.here_documents: list[tuple[str, bool]] = []
        self.takers: dict[str | None, _Taker] = {
            name.removeprefix("take_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("take_")
        }

    def scan(self) -> None:
        position = 0
        while position < len(self.text):
            pattern = SURROUNDINGS.get(self.frames[-1].kind, CODE)
            match = pattern.match(self.text, position)
            assert match, "every pattern matches any character"
            taker = self.takers.get(match.lastgroup)
            position = taker(match) if taker else match.end()

    def push(self, kind: str, match: re.Match[str]) -> int:
        if len(self.frames) > _DEEPEST:
            return len(self.text)
        scope = self.frames[-1].scope
        if self.function and kind in {"group", "paren"}:
            scope, self.function = self.function, ""
        frame = OpenConstruct(
            kind=kind,
            scope=scope,
            for_value=self.frames[-1].for_value or kind in {"substitution", "backtick"},
            outer=self.place,
        )
        self.frames.append(frame)
        self.place = CommandPosition(at_command=kind != "array")
        return match.end()

    def pop(self) -> None:
        frame = self.frames.pop()
        self.place = frame.outer

    def begin_word(self, start: int) -> None:
        """Begin a word with an expansion: as a command, it could be any."""
        if self.frames[-1].kind in SURROUNDINGS or self.place.in_word:
            return
        if self.place.at_command:
            self.call("", start)
        self.place = self.place._replace(at_command=False, in_word=True)

    def call(self, name: str, start: int) -> None:
        frame = self.frames[-1]
        self.facts.commands.append(ShellCommand(name, start, frame.scope, frame.for_value))

    def take_blank(self, match: re.Match[str]) -> int:
        self.place = self.place._replace(in_word=False)
        return match.end()

    def take_separator(self, match: re.Match[str]) -> int:
        self.place = CommandPosition(at_command=self.frames[-1].kind != "array")
        return match.end()

    def take_newline(self, match: re.Match[str]) -> int:
        self.take_separator(match)
        position = match.end()
        for delimiter, is_literal in self.here_documents:
            position = self.skip_here_document(position, delimiter, is_literal=is_literal)
        self.here_documents.clear()
        return position

    def take_redirection(self, match: re.Match[str]) -> int:
        return self.take_blank(match)

    def take_hash(self, match: re.Match[str]) -> int:
        if self.place.in_word:
            return match.end()
        end = self.text.find("\n", match.end())
        return len(self.text) if end < 0 else end

    def take_single(self, match: re.Match[str]) -> int:
        self.begin_word(match.start())
        return match.end()

    take_escape = take_single

    def take_double(self, match: re.Match[str]) -> int:
        self.begin_word(match.start())
        return self.push("double", match)

    def take_end_double(self, match: re.Match[str]) -> int:
        self.pop()
        return match.end()

    def take_quote(self, match: re.Match[str]) -> int:
        """Single quotes in `${1:-'x'}`; inside double quotes they are plain characters."""
        if any(frame.kind == "double" for frame in self.frames[-2:]):
            return match.end()
        end = self.text.find("'", match.end())
        return match.end() if end < 0 else end + 1

    def take_variable(self, match: re.Match[str]) -> int:
        self.begin_word(match.start())
        scope = self.frames[-1].scope
        self.facts.reads.append(Read(match.group()[1:], match.start(), scope))
        return match.end()

    def take_expansion(self, match: re.Match[str]) -> int:
        self.begin_word(match.start())
        # ${#} is $#
        read = Read(match["name"] or "#", match.start(), self.frames[-1].scope)
        self.facts.reads.append(read)
        return self.push("brace", match)

    take_end_brace = take_end_double

    def take_substitution(self, match: re.Match[str]) -> int:
        self.begin_word(match.start())
        return self.push("substitution", match)

    def take_backtick(self, match: re.Match[str]) -> int:
        if self.frames[-1].kind == "backtick":
            self.pop()
            return match.end()
        self.begin_word(match.start())
        return self.push("backtick", match)

    def take_arithmetic(self, match: re.Match[str]) -> int:
        self.begin_word(match.start())
        return self.push("arithmetic", match)

    def take_inner(self, match: re.Match[str]) -> int:
        return self.push("inner", match)

    def take_end_arithmetic(self, match: re.Match[str]) -> int:
        kind = self.frames[-1].kind
        self.pop()
        return match.start() + 1 if kind == "inner" else match.end()

    def take_open(self, match: re.Match[str]) -> int:
        if self.place.in_word and self.text[match.start() - 1] == "=":
            return self.push("array", match)
        command = self.place.at_command and not self.place.in_word
        if command and self.text.startswith("((", match.start()):
            self.begin_word(match.start())
            return self.push("arithmetic", match) + 1
        self.place = self.place._replace(at_command=False)
        return self.push("paren", match)

    def take_close(self, match: re.Match[str]) -> int:
        frame = self.frames[-1]
        if frame.kind in {"paren", "array", "substitution"} and not frame.cases:
            self.pop()
            return match.end()
        return self.take_separator(match)  # the end of a pattern of `case`

    def take_here_document(self, match: re.Match[str]) -> int:
        delimiter = match["delimiter"]
        is_literal = delimiter[0] in "\\'\""
        self.here_documents.append((delimiter.strip("\\'\""), is_literal))
        return match.end()

    def skip_here_document(self, position: int, delimiter: str, *, is_literal: bool) -> int:
        end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(self.text, position)
        stop = end.start() if end else len(self.text)
        if not is_literal:
            scope = self.frames[-1].scope
            for found in IN_HERE_DOCUMENT.finditer(self.text, position, stop):
                if name := found["name"]:
                    self.facts.reads.append(Read(name, found.start(), scope))
        return end.end() if end else len(self.text)

    def take_word(self, match: re.Match[str]) -> int:
        place = self.place
        self.place = place._replace(in_word=True)
        if place.in_word:
            return match.end()
        if place.assigning:
            return self.assigned_word(match, place.assigning)
        return self.first_word(match) if place.at_command else match.end()

    def assigned_word(self, match: re.Match[str], command: str) -> int:
        if assignment := ASSIGNMENT.match(self.text, match.start()):
            self.assign(assignment.group(1), assignment.end())
            return assignment.end()
        if command != "export" and NAME.fullmatch(match.group()):
            self.assign(match.group(), match.end())
        if command in {"for", "select"}:  # what follows the one name are values
            self.place = self.place._replace(assigning="")
        return match.end()

    def assign(self, name: str, value: int) -> None:
        self.facts.assignments.append(Assignment(name, value))

    def first_word(self, match: re.Match[str]) -> int:
        word = match.group()
        if function := FUNCTION.match(self.text, match.start()):
            self.function = function.group(1) or function.group(2)
            self.facts.functions.add(self.function)
            self.place = CommandPosition()
            return function.end()
        if assignment := ASSIGNMENT.match(self.text, match.start()):
            self.assign(assignment.group(1), assignment.end())
            return assignment.end()
        if word in KEYWORDS:
            return self.keyword(word, match)
        self.call(word, match.start())
        assigning = word if word in ASSIGN_NAMES else ""
        self.place = CommandPosition(at_command=False, in_word=True, assigning=assigning)
        return match.end()

    def keyword(self, word: str, match: re.Match[str]) -> int:
        frame = self.frames[-1]
        if word == "{":
            return self.push("group", match)
        if word == "}" and frame.kind == "group":
            self.pop()
        frame.cases = max(0, frame.cases + (word == "case") - (word == "esac"))
        if word in {"case", "select"}:
            self.call(word, match.start())
        assigning = word if word in {"for", "select"} else ""
        self.place = CommandPosition(at_command=word in BEFORE_COMMAND, assigning=assigning)
        return match.end()
