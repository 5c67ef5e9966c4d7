"""The statements and words of a shell script; how words with quotes and expansions are read."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from skillpouch.errors import PortableError


class Text(NamedTuple):
    text: str
    quoted: bool


class Parameter(NamedTuple):
    """`$1`, `${out:-x}`, `${list[@]}`; `operator` is "length" for `${#x}`, "!" for `${!x}`."""

    name: str
    quoted: bool
    operator: str = ""
    operand: "ShellWord | None" = None
    subscript: str = ""


class Substitution(NamedTuple):
    """A command that is run for what it prints."""

    body: "tuple[Statement, ...]"
    quoted: bool


class Arithmetic(NamedTuple):
    text: str
    start: int = 0


Part: TypeAlias = Text | Parameter | Substitution | Arithmetic


class ShellWord(NamedTuple):
    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """The text of a word without expansions, else None."""
        if all(isinstance(part, Text) for part in self.parts):
            return "".join(part.text for part in self.parts if isinstance(part, Text))
        return None

    @property
    def parameter(self) -> Parameter | None:
        """The only part of a word that is nothing but an expansion."""
        parts = [part for part in self.parts if part != Text("", quoted=True)]
        only = parts[0] if len(parts) == 1 else None
        return only if isinstance(only, Parameter) else None


class Assigned(NamedTuple):
    """`name=value`, `name+=(items)`; `subscript` is the text in brackets."""

    name: str
    value: ShellWord
    items: tuple[ShellWord, ...] | None = None
    append: bool = False
    subscript: str = ""


class Simple(NamedTuple):
    """A command; `[[ … ]]` is one, too. `texts` are files and here-documents."""

    words: tuple[ShellWord, ...]
    assigned: tuple[Assigned, ...]
    texts: Sequence[ShellWord]
    start: int

    @property
    def name(self) -> str | None:
        """The command, if it is known before it runs; "" for assignments alone."""
        return self.words[0].literal if self.words else ""


class Chain(NamedTuple):
    """`first && second || third`."""

    first: "Statement"
    rest: "tuple[tuple[str, Statement], ...]"


class Pipeline(NamedTuple):
    commands: "tuple[Statement, ...]"
    negated: bool


class If(NamedTuple):
    clauses: "tuple[tuple[tuple[Statement, ...], tuple[Statement, ...]], ...]"
    otherwise: "tuple[Statement, ...]"
    start: int


class Loop(NamedTuple):
    """`while` and `until` have a condition; `for` and `select` a name, and words unless `"$@"`."""

    kind: str
    condition: "tuple[Statement, ...]"
    name: str
    words: tuple[ShellWord, ...] | None
    body: "tuple[Statement, ...]"
    start: int


class CaseItem(NamedTuple):
    patterns: tuple[ShellWord, ...]
    body: "tuple[Statement, ...]"
    end: str
    start: int


class Case(NamedTuple):
    subject: ShellWord
    items: tuple[CaseItem, ...]
    start: int


class ShellGroup(NamedTuple):
    """`{ … }`, or `( … )` as a subshell; with the files and here-documents of any compound."""

    body: "tuple[Statement, ...]"
    subshell: bool = False
    texts: Sequence[ShellWord] = ()


class ShellFunction(NamedTuple):
    name: str
    body: "tuple[Statement, ...]"
    start: int


Statement: TypeAlias = (
    Simple | Arithmetic | Chain | Pipeline | If | Loop | Case | ShellGroup | ShellFunction
)

_IN_SUM = re.compile(r"\$\{?(\w+|[#@*])")


def inner(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    """Yield the blocks of statements in a statement, except those of a function it defines."""
    match statement:
        case Chain(first, rest):
            yield (first,)
            yield from ((other,) for _, other in rest)
        case Pipeline(commands):
            yield from ((each,) for each in commands)
        case If(clauses, otherwise):
            yield from (block for clause in clauses for block in clause)
            yield otherwise
        case Loop(condition=condition, body=body):
            yield from (condition, body)
        case Case(items=items):
            yield from (item.body for item in items)
        case ShellGroup(body=body):
            yield body
        case _:
            return


def own_words(statement: Statement) -> Iterator[ShellWord]:
    """Yield the words of a statement itself, not those of statements in it."""
    match statement:
        case Simple(words, assigned, texts):
            yield from (*words, *texts)
            for each in assigned:
                yield from (each.value, *(each.items or ()))
        case Arithmetic():
            yield ShellWord((statement,))
        case Loop(words=words):
            yield from words or ()
        case Case(subject, items):
            yield subject
            yield from (pattern for item in items for pattern in item.patterns)
        case ShellGroup(texts=texts):
            yield from texts
        case _:
            return


def parameters_of(word: ShellWord) -> Iterator[Parameter]:
    """Yield every parameter that a word reads, also in the commands that it runs."""
    for part in word.parts:
        match part:
            case Parameter():
                yield part
                if part.operand:
                    yield from parameters_of(part.operand)
            case Substitution():
                yield from (read for each in part.body for read in parameters_in(each))
            case Arithmetic():
                found = _IN_SUM.findall(part.text)
                yield from (Parameter(name, quoted=True) for name in found)
            case _:
                continue


def parameters_in(statement: Statement) -> Iterator[Parameter]:
    """Yield every parameter that a statement and those in it read."""
    for word in own_words(statement):
        yield from parameters_of(word)
    if isinstance(statement, Loop) and statement.kind in ("for", "select"):
        yield from () if statement.words is not None else (Parameter("@", quoted=True),)
    for block in inner(statement):
        for each in block:
            yield from parameters_in(each)


def commands_in(statement: Statement) -> Iterator[Simple]:
    """Yield every simple command of a statement, except those of functions it defines."""
    if isinstance(statement, Simple):
        yield statement
    for block in inner(statement):
        for each in block:
            yield from commands_in(each)


def is_word(read: Parameter) -> bool:
    """Tell whether a parameter holds words of the command line, or their number."""
    return read.name in ("@", "*", "#") or (read.name.isdigit() and read.name != "0")


def cases_in(block: Sequence[Statement]) -> list[Case]:
    """Return every `case` of a block, except those of functions it defines."""
    found = [each for each in block if isinstance(each, Case)]
    for statement in block:
        for each in inner(statement):
            found += cases_in(each)
    return found


class ShellSyntaxError(PortableError):
    """The text is not shell, or not a form that is understood."""

    def __init__(self, position: int) -> None:
        super().__init__(f"at character {position}")
        self.position = position


_BLANK = re.compile(r"(?>(?:[ \t\r]|\\\n)*)(?:#[^\n]*+)?")
_RUN = re.compile(r"[^\s'\"`\\$<>;&|()]+")
_QUOTED_RUN = re.compile(r"[^\"`\\$]+")
_BRACE_RUN = re.compile(r"[^}'\"`\\$]+")
_ESCAPED = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_PLAIN = re.compile(r"\$(?P<name>[A-Za-z_]\w*|[0-9@*#?$!-])")
_BRACED = re.compile(
    r"\$\{(?P<mark>[!#]?)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*?$!-])(?:\[(?P<index>[^\]\n]*)\])?"
    r"(?P<operator>:?[-=?+]|\#\#?|%%?|//?|:|\^\^?|,,?|@[A-Za-z]|)"
)


class WordParser(ABC):
    """Reads words at a place of a text that moves on; statements are read by its subclass."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.documents: list[tuple[str, bool, list[ShellWord]]] = []

    def fail(self) -> ShellSyntaxError:
        return ShellSyntaxError(self.at)

    def take(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def expect(self, text: str) -> None:
        self.blank()
        if not self.take(text):
            raise self.fail()

    @abstractmethod
    def statements(self, until: frozenset[str]) -> tuple[Statement, ...]:
        """Read statements up to a keyword, or to what ends any list of them."""

    @abstractmethod
    def nested(self, text: str) -> "WordParser":
        """Return a parser for a text inside this one."""

    def blank(self) -> None:
        # A `#` begins a comment only where a word could begin, which is where this is called.
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def lines(self) -> None:
        self.blank()
        while self.take("\n"):
            self.here_documents()
            self.blank()

    def here_documents(self) -> None:
        for delimiter, is_literal, texts in self.documents:
            end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE)
            match = end.search(self.text, self.at)
            stop = match.start() if match else len(self.text)
            body = self.text[self.at : stop]
            if is_literal:
                texts.append(ShellWord((Text(body, quoted=True),)))
            else:
                document = self.nested(body)
                texts.append(ShellWord(tuple(document.double(closed=False))))
            self.at = min(len(self.text), match.end() + 1) if match else len(self.text)
        self.documents.clear()

    def sum_text(self) -> str:
        """Return the text up to the `))` that ends an arithmetic expression."""
        start, depth = self.at, 0
        for match in re.compile(r"[()\n]").finditer(self.text, self.at):
            depth += {"(": 1, ")": -1}.get(match.group(), 0)
            if depth < 0:
                if not self.text.startswith("))", match.start()):
                    break
                self.at = match.end() + 1
                return self.text[start : match.start()]
        raise self.fail()

    def word(self, *, regex: bool = False) -> ShellWord:
        """A word; in a regular expression of `[[`, parentheses and bars are part of it."""
        parts: list[Part] = []
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if run := _RUN.match(self.text, self.at):
                self.at = run.end()
                parts.append(Text(run.group(), quoted=False))
            elif char in "<>" and self.text.startswith("(", self.at + 1) and self.at == start:
                self.at += 2
                parts.append(self.substitution(quoted=True))
            elif (regex and _is_in_regex(char, parts)) or (char == "(" and self.after_glob(start)):
                parts.append(Text(char, quoted=False) if regex else self.extended_glob())
                self.at += regex
            elif char in " \t\r\n;&|()<>":
                break
            else:
                parts += self.quoting(char)
        if self.at == start:
            raise self.fail()
        return ShellWord(tuple(parts))

    def after_glob(self, start: int) -> bool:
        return self.at > start and self.text[self.at - 1] in "@+?*!"

    def extended_glob(self) -> Text:
        end = self.text.find(")", self.at)
        if end < 0 or "\n" in self.text[self.at : end]:
            raise self.fail()
        start, self.at = self.at, end + 1
        return Text(self.text[start : self.at], quoted=False)

    def quoting(self, char: str) -> list[Part]:
        if char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise self.fail()
            start, self.at = self.at + 1, end + 1
            return [Text(self.text[start:end], quoted=True)]
        if char == '"':
            self.at += 1
            return self.double()
        if char == "\\":
            self.at += 2
            escaped = self.text[self.at - 1 : self.at]
            return [] if escaped == "\n" else [Text(escaped, quoted=True)]
        return [self.backtick(quoted=False) if char == "`" else self.dollar(quoted=False)]

    def double(self, *, closed: bool = True) -> list[Part]:
        """The inside of double quotes, up to the closing one; or a here-document, to its end."""
        parts: list[Part] = [Text("", quoted=True)]
        while not (self.take('"') if closed else self.at >= len(self.text)):
            if run := _QUOTED_RUN.match(self.text, self.at):
                self.at = run.end()
                parts.append(Text(run.group(), quoted=True))
            elif self.at >= len(self.text):
                raise self.fail()
            elif self.take('"'):
                parts.append(Text('"', quoted=True))
            elif self.take("\\"):
                escaped = self.text[self.at : self.at + 1]
                self.at += 1
                kept = escaped if escaped and escaped in '$`"\\' else f"\\{escaped}"
                parts.append(Text("" if escaped == "\n" else kept, quoted=True))
            elif self.text[self.at] == "`":
                parts.append(self.backtick(quoted=True))
            else:
                parts.append(self.dollar(quoted=True))
        return parts

    def backtick(self, *, quoted: bool) -> Substitution:
        match = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if not match:
            raise self.fail()
        self.at = match.end()
        body = re.sub(r"\\([`\\$])", r"\1", match.group(1))
        nested = self.nested(body)
        found = nested.statements(frozenset())
        if nested.at < len(body):
            raise self.fail()
        return Substitution(found, quoted)

    def dollar(self, *, quoted: bool) -> Part:
        if self.text.startswith("$((", self.at):
            start = self.at
            self.at += 3
            try:
                return Arithmetic(self.sum_text(), start)
            except ShellSyntaxError:
                self.at = start  # `$( (…) … )`
        if self.take("$("):
            return self.substitution(quoted=quoted)
        if self.take("${#}"):
            return Parameter("#", quoted)
        if match := _BRACED.match(self.text, self.at):
            return self.braced(match, quoted=quoted)
        return self.plain_dollar(quoted=quoted)

    def plain_dollar(self, *, quoted: bool) -> Part:
        match = _PLAIN.match(self.text, self.at)
        if match is None:
            return self.quoted_dollar(quoted=quoted)
        self.at = match.end()
        return Parameter(match["name"], quoted)

    def quoted_dollar(self, *, quoted: bool) -> Text:
        """`$'…'`, `$"…"` or a plain dollar."""
        if not quoted and (match := _ESCAPED.match(self.text, self.at)):
            self.at = match.end()
            # Escapes stay as they are written: such a text is no flag.
            return Text(match.group(1), quoted=True)
        self.at += 1
        return Text("" if not quoted and self.text.startswith('"', self.at) else "$", quoted)

    def substitution(self, *, quoted: bool) -> Substitution:
        outer, self.documents = self.documents, []
        body = self.statements(frozenset())
        self.lines()
        self.expect(")")
        self.documents = outer
        return Substitution(body, quoted)

    def braced(self, match: re.Match[str], *, quoted: bool) -> Parameter:
        self.at = match.end()
        operator = {"#": "length", "!": "!"}.get(match["mark"], match["operator"])
        if match["mark"] and match["operator"] and match["mark"] == "#":
            raise self.fail()
        operand = self.operand(quoted=quoted)
        return Parameter(match["name"], quoted, operator, operand, match["index"] or "")

    def operand(self, *, quoted: bool) -> ShellWord | None:
        parts: list[Part] = []
        while not self.take("}"):
            if run := _BRACE_RUN.match(self.text, self.at):
                self.at = run.end()
                parts.append(Text(run.group(), quoted=False))
            elif self.at >= len(self.text):
                raise self.fail()
            elif quoted and self.take("'"):
                parts.append(Text("'", quoted=True))
            else:
                parts += self.quoting(self.text[self.at])
        return ShellWord(tuple(parts)) if parts else None


def _is_in_regex(char: str, parts: Sequence[Part]) -> bool:
    """Tell whether a character goes on with a regular expression; a space does in parentheses."""
    text = "".join(part.text for part in parts if isinstance(part, Text) and not part.quoted)
    return char in "()|<>;&" or (char == " " and text.count("(") > text.count(")"))
