"""JavaScript and TypeScript text cut into tokens, so that nothing is found inside a string."""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["name", "number", "string", "template", "regex", "punctuation", "end"]
Span = tuple[int, int]  # token positions: from, up to and not including


class Token(NamedTuple):
    """One word of the language; `doc` is the `/** … */` comment right above it."""

    kind: Kind
    text: str
    start: int
    first_on_line: bool = False
    doc: str = ""


END = Token("end", "", 0)

# Every alternative consumes what it matched: an unclosed string extends to the end of its line, so
# that no text is scanned twice.
_LEXEME = re.compile(
    r"""
    (?P<newline>\n)
    |(?P<space>[^\S\n]++|\#!(?<=\A\#!)[^\n]*+)
    |(?P<comment>//[^\n]*+)
    |(?P<block>/\*)
    |(?P<string>"[^"\\\n]*+(?>(?:\\.[^"\\\n]*+)*)"?|'[^'\\\n]*+(?>(?:\\.[^'\\\n]*+)*)'?)
    |(?P<template>`)
    |(?P<number>\d[\w.]*+)
    |(?P<name>[$#@\w][$\w]*+)
    |(?P<slash>/)
    |(?P<punctuation>=>|\.\.\.|\?\.(?!\d)|[=!]==?|<=|>=|\?\?=?|\|\|=?|&&=?|\+\+|--|[-+*/%]=|.)
    """,
    re.DOTALL | re.VERBOSE,
)
_TEMPLATE_TEXT = re.compile(r"[^`\\$]*+(?>(?:(?:\\.|\$(?!\{))[^`\\$]*+)*)", re.DOTALL)
_REGEX = re.compile(
    r"/(?>(?:[^/\\\[\n]++|\\[^\n]|\[(?>(?:[^\]\\\n]++|\\[^\n])*)\])+)/[A-Za-z]*+|[^\n]*+",
)
_OPENERS = {"(": ")", "[": "]", "{": "}", "${": "}"}
_CLOSERS = frozenset(_OPENERS.values())
# After these words a slash opens a regular expression; after any other word it divides.
_BEFORE_OPERAND = frozenset(
    [
        "return",
        "typeof",
        "case",
        "do",
        "else",
        "in",
        "instanceof",
        "new",
        "void",
        "delete",
        "throw",
        "yield",
        "await",
        "of",
    ]
)
_BEFORE_CONDITION = frozenset({"if", "while", "for", "with"})


@dataclass(frozen=True, slots=True)
class Code:
    """The tokens of one text, with each bracket's counterpart and each token's depth."""

    tokens: list[Token]
    partners: dict[int, int]
    depths: list[int]
    places: dict[str, list[int]]  # where each name stands
    docs: list[str]

    def __getitem__(self, position: int) -> Token:
        return self.tokens[position] if 0 <= position < len(self.tokens) else END

    def __len__(self) -> int:
        return len(self.tokens)

    def find(self, *names: str) -> list[int]:
        """All positions of these names, in order."""
        return sorted(place for name in names for place in self.places.get(name, ()))

    def find_outside(self, *names: str) -> list[int]:
        """The positions of these names that no bracket encloses."""
        return [position for position in self.find(*names) if self.depths[position] == 0]

    def after(self, position: int) -> int:
        """The position after this token or, for an opening bracket, after its counterpart."""
        return max(self.partners.get(position, position), position) + 1

    def texts(self, position: int, count: int) -> tuple[str, ...]:
        return tuple(token.text for token in self.tokens[position : position + count])

    def split(self, span: Span, separator: str, *, angles: bool = False) -> list[Span]:
        """The parts of a span between separators that no bracket encloses.

        `angles` counts `<` and `>` as brackets too, as they are in types and nowhere else.
        """
        parts, begin, position, depth = [], span[0], span[0], 0
        while position < span[1]:
            kind, text = self.tokens[position][:2]
            if depth == 0 and text == separator and kind == "punctuation":
                parts.append((begin, position))
                begin = position + 1
            if angles:
                depth = max(0, depth + (text == "<") - (text == ">"))
            position = self.after(position)
        parts.append((begin, span[1]))
        return [part for part in parts if part[0] < part[1]]


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.partners: dict[int, int] = {}
        self.depths: list[int] = []
        self.places: dict[str, list[int]] = {}
        self.docs: list[str] = []
        self.open: list[int] = []
        self.fresh_line = True
        self.doc = ""

    def scan(self) -> Code:
        position = 0
        while match := _LEXEME.match(self.text, position):
            position = self.take(match)
        return Code(self.tokens, self.partners, self.depths, self.places, self.docs)

    def take(self, match: re.Match[str]) -> int:
        kind, start = match.lastgroup, match.start()
        if kind == "punctuation":
            return self.take_punctuation(match.group(), start)
        if kind == "block":
            return self.skip_comment(start)
        if kind == "template":
            return self.take_template(start + 1)
        if kind == "slash":
            return self.take_slash(start)
        if kind == "newline":
            self.fresh_line = True
        elif kind == "name":
            self.places.setdefault(match.group(), []).append(len(self.tokens))
            self.add("name", match.group(), start)
        elif kind in {"number", "string"}:
            self.add("number" if kind == "number" else "string", match.group(), start)
        return match.end()

    def add(self, kind: Kind, text: str, start: int) -> None:
        self.tokens.append(Token(kind, text, start, self.fresh_line, self.doc))
        self.depths.append(len(self.open))
        self.fresh_line, self.doc = False, ""

    def skip_comment(self, start: int) -> int:
        found = self.text.find("*/", start + 2)
        end = len(self.text) if found < 0 else found + 2
        comment = self.text[start:end]
        if comment.startswith("/**") and comment != "/**/":
            self.doc = comment
            self.docs.append(comment)
        self.fresh_line = self.fresh_line or "\n" in comment
        return end

    def take_template(self, start: int) -> int:
        """A piece of a template, up to its end or to the code it holds."""
        match = _TEMPLATE_TEXT.match(self.text, start)
        end = match.end() if match else start
        self.add("template", self.text[start:end], start)
        if self.text.startswith("${", end):
            self.open_bracket("${", end)
            return end + 2
        return end + 1

    def take_slash(self, start: int) -> int:
        if self.expects_operand():
            match = _REGEX.match(self.text, start)
            end = match.end() if match else start + 1
            self.add("regex", self.text[start:end], start)
            return end
        self.add("punctuation", "/", start)
        return start + 1

    def expects_operand(self) -> bool:
        if not self.tokens:
            return True
        last = self.tokens[-1]
        if last.kind == "punctuation":
            if last.text == ")":
                opener = self.partners.get(len(self.tokens) - 1, 0)
                return opener > 0 and self.tokens[opener - 1].text in _BEFORE_CONDITION
            return last.text not in {"]", "++", "--"}
        return last.kind == "name" and last.text in _BEFORE_OPERAND

    def take_punctuation(self, text: str, start: int) -> int:
        if text in _OPENERS:
            self.open_bracket(text, start)
        elif text in _CLOSERS:
            return self.close_bracket(text, start)
        else:
            self.add("punctuation", text, start)
        return start + len(text)

    def open_bracket(self, text: str, start: int) -> None:
        self.add("punctuation", text, start)
        self.open.append(len(self.tokens) - 1)

    def close_bracket(self, text: str, start: int) -> int:
        """A bracket that closes nothing is kept as a token and changes no depth."""
        opener = self.open[-1] if self.open else -1
        matches = opener >= 0 and _OPENERS[self.tokens[opener].text] == text
        if matches:
            self.open.pop()
            self.partners[opener] = len(self.tokens)
            self.partners[len(self.tokens)] = opener
        self.add("punctuation", text, start)
        if matches and self.tokens[opener].text == "${":
            return self.take_template(start + 1)
        return start + 1


def read_tokens(text: str) -> Code:
    """Cut a text into tokens: any text, in time proportional to its length."""
    return _Scanner(text).scan()
