"""Splits a shell text into commands and words as bash does, without running anything.

The result of an expansion is unknown here: a mark in the word stands for it. A text that cannot be
read with certainty is `is_doubtful`; the caller decides what that means.
"""

import re
from dataclasses import dataclass

from skillpouch.policy.command_programs import (
    ANSI_QUOTED,
    ANY,
    ASSIGNMENT,
    GLOB,
    MARKS,
    SPLIT,
    CommandText,
    CommandWord,
    SimpleCommand,
    decoded,
)

_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET = "\4", "\5", "\6", "\7"
_OWN = re.compile("[\0-\7]")

_EXPANDED = frozenset("$`*?[]{}~!#")
_KEPT_IN_QUOTES = frozenset('$`"\\')
_LITERAL = re.compile(r"[A-Za-z0-9_./:@%+,=^-]+")
_INSIDE_DOUBLE = re.compile(r'[^"\\$`]+')
_INSIDE_BODY = re.compile(r"[^\\$`]+")
_SIMPLE_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
# `${x}`, `${x%.py}`, `${x[@]}`, `${x:-text}`: no part of these is run, or evaluated twice.
_BRACED_VARIABLE = re.compile(
    r"\{[#!]?(?:[A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[(?:[@*]|\w+)\])?"
    r"(?:[:%#/^,?=+-][^{}$`'\"\\\[\]()]*)?\}",
    re.ASCII,
)
_HELD_TEXT = re.compile(r"[-=+?/][^}]")
_SUM = r"[\w\s+\-*/%<>=!&|^~?:;,.#]|\$(?![({\['\"\\])|\$\{\w+\}"
_ARITHMETIC = re.compile(rf"\(\((?:{_SUM}|\((?:{_SUM}|\((?:{_SUM})*\))*\))*\)\)", re.ASCII)
_DOUBLE_PARENTHESIS = re.compile(r"\((?:\\\n)*\(")
# A subscript as bash reads it, up to the bracket.
_SUBSCRIPT = re.compile(r"""\[((?:[^\s;&|<>()#'"\\\]]|"[^"\\]*"|'[^']*')*)\](\+?=)?""")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_EVALUATED = re.compile(r"\{!(\w+(?![\w*@]|\[[@*]\])|[@*])|\[(\w+)\]|:(?![-=+?])([^}]*)", re.ASCII)
_SEVERAL = re.compile(r"\A\{?[!]?@|\[@\]|@\}")
_RANGE = re.compile(r"\{\d+\.\.\d+\}", re.ASCII)
_REDIRECTION = re.compile(r"<<<|<<-?|<>|<&|>>|>\||>&|<|>")
_DEEPEST = 12
_MOST_PIECES = 8
_TWICE = MARKS | {"$", "`"}


def read_command(text: str) -> CommandText:
    """Return the commands of a shell text."""
    found = CommandText(is_doubtful=_OWN.search(text) is not None)
    _Reader(text, found).read()
    found.commands = [each for each in found.commands if each.words or each.fed or each.writes]
    return found


@dataclass(frozen=True, slots=True)
class _Heredoc:
    delimiter: str
    drops_tabs: bool
    is_literal: bool
    command: SimpleCommand


class _Reader:
    """Reads one text, or the part of it between `$(` and `)`."""

    def __init__(self, text: str, found: CommandText, at: int = 0, depth: int = 0) -> None:
        self._text = text
        self._found = found
        self._at = at
        self._depth = depth
        self._pieces: list[str] | None = None  # None: between words
        self._is_plain = self._is_bare = True
        self._holds_text = False
        self._redirects = ""  # the redirection whose word comes next
        self._heredocs: list[_Heredoc] = []
        self._parentheses = 0
        self._has_case = False
        self._is_closed = False
        self._command = SimpleCommand()
        found.commands.append(self._command)

    def read(self, *, nested: bool = False) -> int:
        """Read to the end, or to the `)` of a nested text; return this position."""
        while self._at < len(self._text) and not self._is_closed:
            self._step(nested)
        self._end_word()
        self._found.is_doubtful |= bool(self._redirects or self._heredocs or self._parentheses)
        # The `)` after a pattern of `case` looks like the end of the `$(…)` around it.
        self._found.is_doubtful |= nested and (not self._is_closed or self._has_case)
        return self._at

    def _step(self, nested: bool) -> None:
        literal = _LITERAL.match(self._text, self._at)
        if literal:
            self._at = literal.end()
            self._add(literal[0])
            return
        letter = self._text[self._at]
        self._at += 1
        if letter in " \t":
            self._end_word()
        elif letter in "\n;&|()":
            self._operator(letter, nested)
        elif letter in "<>":
            self._redirection(self._at - 1)
        else:
            self._in_word(letter)

    def _operator(self, letter: str, nested: bool) -> None:
        following = self._text[self._at : self._at + 1]
        if letter == "&" and following == ">":
            self._end_word()
            self._redirection(self._at)
        elif letter == "(":
            self._open()
        elif letter == ")":
            self._close(nested)
        else:
            self._end_command()
            is_alone = letter not in (following, self._before())
            self._found.passes_text |= letter == "|" and is_alone
            self._found.has_jobs |= letter == "&" and is_alone
        if letter == "\n":
            self._read_heredocs(nested)

    def _open(self) -> None:
        word = self._word()
        arithmetic = _ARITHMETIC.match(self._text, self._at - 1)
        words = self._command.words
        if arithmetic and word is None and (not words or words[-1].text in _BEFORE_ARITHMETIC):
            self._found.evaluated.append(arithmetic[0])
            self._at = arithmetic.end()
            return
        self._refuse_arithmetic(self._at - 1)
        # `@(a|b)` is a pattern, not a list of commands.
        self._found.is_doubtful |= word is not None and word.text[-1:] in _BEFORE_PATTERNS
        is_array = word is not None and ASSIGNMENT.fullmatch(word.text) is not None
        self._holds_text |= is_array
        self._end_word()
        if not is_array and len(self._command.words) == 1:
            self._found.functions += self._command.words
        self._parentheses += 1
        self._end_command()
        self._command.is_array = is_array

    def _refuse_arithmetic(self, at: int) -> None:
        """Doubt arithmetic that was not recognized: `<<` and `#` have another meaning in it."""
        self._found.is_doubtful |= _DOUBLE_PARENTHESIS.match(self._text, at) is not None

    def _close(self, nested: bool) -> None:
        if self._parentheses:
            self._parentheses -= 1
        elif nested:
            self._end_word()
            self._is_closed = True
            return
        elif self._has_case:
            self._end_word()
            self._command.words.clear()  # a pattern of `case`, not a command
        self._end_command()

    def _before(self) -> str:
        return self._text[self._at - 2] if self._at > 1 else ""

    def _end_command(self) -> None:
        self._end_word()
        self._found.is_doubtful |= bool(self._redirects)
        self._redirects = ""
        self._found.is_single = False
        is_array = self._command.is_array and self._text[self._at - 1] == "\n"
        self._command = SimpleCommand(is_array=is_array)
        self._found.commands.append(self._command)

    def _redirection(self, start: int) -> None:
        begun = self._word()
        if begun is not None and begun.is_bare and begun.text.isdigit():
            self._forget_word()  # the number of the redirected descriptor
        self._end_word()
        self._found.is_single = False
        if self._text[start + 1 : start + 2] == "(":
            self._at = start + 2
            self._nested()
            self._add(f"/dev/fd/{ANY}", is_plain=False)
            return
        self._found.is_doubtful |= bool(self._redirects)
        match = _REDIRECTION.match(self._text, start)
        self._redirects = match[0] if match else ""
        self._at = start + len(self._redirects)

    def _in_word(self, letter: str) -> None:
        if letter == "#" and self._pieces is None:
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
            self._found.is_single = False
        elif letter == "'":
            self._add(self._until_quote(), is_bare=False)
        elif letter == '"':
            self._add("", is_bare=False)
            self._expanding(_INSIDE_DOUBLE, '"')
        elif letter == "\\":
            self._escaped()
        elif letter == "$":
            self._dollar(SPLIT)
        elif letter == "`":
            self._backtick(SPLIT)
        else:
            self._sign(letter)

    def _sign(self, letter: str) -> None:
        at_start = self._pieces is None
        if letter == "[":
            self._subscript()
        is_range = letter == "{" and _RANGE.match(self._text, self._at - 1) is not None
        mark = ANY if letter == "~" and at_start else _MARKED.get(letter, letter)
        self._add(mark, is_plain=letter not in _EXPANDED)
        self._holds_text |= letter in "~*?[{" and not is_range

    def _subscript(self) -> None:
        begun = self._pieces or []
        if len(begun) > _MOST_PIECES:  # no name has so many, except by escaped line ends
            self._found.is_doubtful |= "\\\n" in self._text
            return
        is_name = self._is_bare and _NAME.fullmatch("".join(begun)) is not None
        if not is_name and (begun or not self._command.is_array):
            return
        subscript = _SUBSCRIPT.match(self._text, self._at - 1)
        self._found.is_doubtful |= subscript is None
        if subscript and subscript[2]:
            self._found.evaluated.append(subscript[1])

    def _add(self, text: str, *, is_plain: bool = True, is_bare: bool = True) -> None:
        if self._pieces is None:
            self._pieces = []
        self._pieces.append(text)
        self._is_plain &= is_plain
        self._is_bare &= is_bare

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            self._found.is_doubtful = True
            end = len(self._text)
        inside, self._at = self._text[self._at : end], end + 1
        return inside

    def _expanding(self, literally: re.Pattern[str], closing: str) -> None:
        """Read up to the closing quote; "" as `closing` reads to the end, as in a here-document."""
        while self._at < len(self._text):
            literal = literally.match(self._text, self._at)
            if literal:
                self._at = literal.end()
                self._add(literal[0])
                continue
            letter = self._text[self._at]
            self._at += 1
            if letter == closing:
                return
            if letter == "\\":
                self._escaped_in_quotes()
            elif letter == "$":
                self._dollar(ANY)
            else:
                self._backtick(ANY)
        self._found.is_doubtful |= bool(closing)

    def _escaped_in_quotes(self) -> None:
        following = self._text[self._at : self._at + 1]
        if following == "\n":
            self._at += 1  # the shell drops backslash and line end
        elif following and following in _KEPT_IN_QUOTES:
            self._at += 1
            self._add(following)
        else:
            self._add("\\")

    def _escaped(self) -> None:
        following = self._text[self._at : self._at + 1]
        self._at += 1
        self._found.is_doubtful |= not following
        if following and following != "\n":  # backslash and line end continue the line
            self._add(following, is_bare=False)

    def _dollar(self, mark: str) -> None:
        following = self._text[self._at : self._at + 1]
        arithmetic = _ARITHMETIC.match(self._text, self._at)
        known = arithmetic or _BRACED_VARIABLE.match(self._text, self._at)
        known = known or _SIMPLE_VARIABLE.match(self._text, self._at)
        if known:
            self._at = known.end()
            self._expanded(known[0], mark)
            return
        if following == "(":
            self._refuse_arithmetic(self._at)
            self._at += 1
            self._nested()
        elif following == "'" and mark == SPLIT:
            self._ansi_quoted()
            return
        elif following in ("{", "["):
            self._found.is_doubtful = True
        else:  # a literal dollar, or the one of `$"…"`, a text that may be translated
            # Bash drops an escaped line end before it reads what follows the dollar.
            self._found.is_doubtful |= self._text.startswith("\\\n", self._at)
            self._add("" if following == '"' and mark == SPLIT else "$", is_plain=False)
            return
        self._add(mark, is_plain=False)
        self._holds_text = True

    def _expanded(self, text: str, mark: str) -> None:
        """Add a mark for the value of a variable or of arithmetic: a number, a text, or several."""
        is_calculated = text.startswith("((")
        if is_calculated:
            self._found.evaluated.append(text)
        elif text.startswith("{"):
            found = _EVALUATED.findall(text)
            self._found.evaluated += [part for each in found for part in (*each[1:],) if part]
            self._found.evaluated += [f"${each[0]}" for each in found if each[0]]
            if _HELD_TEXT.search(text):
                self._command.fed.append(CommandWord(text, is_plain=False))
        self._add(SPLIT if _SEVERAL.search(text) else mark, is_plain=False)
        is_number = is_calculated or text in ("#", "?", "$", "!") or text.startswith("{#")
        self._holds_text |= not is_number

    def _nested(self) -> None:
        self._found.is_single = False
        self._found.passes_text = True
        if self._depth >= _DEEPEST:
            self._found.is_doubtful = True
            self._at = len(self._text)
            return
        outer_lines = self._text.count("\n", self._at) if self._heredocs else 0
        inner = _Reader(self._text, self._found, self._at, self._depth + 1)
        self._at = inner.read(nested=True)
        # A here-document that began before the `$(` has its lines inside: do not trust the reading.
        self._found.is_doubtful |= bool(outer_lines) and outer_lines != self._text.count(
            "\n", self._at
        )

    def _ansi_quoted(self) -> None:
        quoted = ANSI_QUOTED.match(self._text, self._at)
        if quoted is None:
            self._found.is_doubtful = True
            self._at = len(self._text)
            return
        self._at = quoted.end()
        text = decoded(quoted[1])
        self._add(ANY if _OWN.search(text) else text, is_plain=False, is_bare=False)

    def _backtick(self, mark: str) -> None:
        self._add(mark, is_plain=False)
        self._holds_text = True
        end = self._at
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        self._found.is_single = False
        self._found.passes_text = True
        if end >= len(self._text) or self._depth >= _DEEPEST:
            self._found.is_doubtful = True
            end = len(self._text)
        # Inside double quotes `\"` is an escape, too, and the meaning is seldom clear.
        inside = self._text[self._at : end]
        self._found.is_doubtful |= mark == ANY and '\\"' in inside
        self._at = end + 1
        inside = re.sub(r"\\([\\$`])", r"\1", inside)
        _Reader(inside, self._found, depth=self._depth + 1).read()

    def _word(self) -> CommandWord | None:
        if self._pieces is None:
            return None
        text = _without_own_marks("".join(self._pieces))
        return CommandWord(text, self._is_plain, self._is_bare, self._holds_text)

    def _forget_word(self) -> None:
        self._pieces, self._is_plain, self._is_bare = None, True, True
        self._holds_text = False

    def _end_word(self) -> None:
        word = self._word()
        self._forget_word()
        if word is None:
            return
        sign, self._redirects = self._redirects, ""
        if sign.startswith("<<") and sign != "<<<":
            self._begin_heredoc(word, sign)
        elif sign in ("<<<", "<", "<&", "<>"):
            self._command.fed.append(word)
            self._command.writes |= sign == "<>"
        elif sign:
            self._command.writes |= not (word.text == "/dev/null" or _is_stream(sign, word))
            # Bash expands the name of this file a second time, even if it is quoted.
            self._found.is_doubtful |= sign == ">&" and not _TWICE.isdisjoint(word.text)
        else:
            self._has_case |= word.text == "case"
            self._command.words.append(word)

    def _begin_heredoc(self, word: CommandWord, sign: str) -> None:
        # Bash expands nothing in a delimiter: one that looks like an expansion is not read.
        self._found.is_doubtful |= not word.is_plain or "\n" in word.text
        # `[[ a =~ (<<b) ]]` begins no here-document.
        self._found.is_doubtful |= "[[" in self._text[: self._at].rpartition("\n")[2]
        self._heredocs.append(
            _Heredoc(word.text, sign.endswith("-"), not word.is_bare, self._command)
        )

    def _read_heredocs(self, nested: bool) -> None:
        for heredoc in self._heredocs:
            body: list[str] = []
            while True:
                self._found.is_doubtful |= self._at >= len(self._text)
                if self._at >= len(self._text):
                    break
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line, self._at = self._text[self._at : end], end + 1
                line = line.lstrip("\t") if heredoc.drops_tabs else line
                if line == heredoc.delimiter:
                    break
                # Some versions of bash end the here-document here, too.
                self._found.is_doubtful |= nested and line.startswith(f"{heredoc.delimiter})")
                body.append(line)
            self._feed(heredoc, "\n".join(body))
        self._heredocs = []

    def _feed(self, heredoc: _Heredoc, body: str) -> None:
        if heredoc.is_literal:
            heredoc.command.fed.append(CommandWord(body, is_bare=False))
            return
        # A continued line may hide the end of the document.
        self._found.is_doubtful |= "\\\n" in body or self._depth >= _DEEPEST
        inner = _Reader(body, self._found, depth=self._depth + 1)
        inner._add("", is_bare=False)
        inner._expanding(_INSIDE_BODY, "")
        word = inner._word()
        heredoc.command.fed += [word] if word else []


_BEFORE_ARITHMETIC = frozenset(
    ("for", "if", "while", "until", "then", "do", "else", "elif", "!", "{", "time")
)
_BEFORE_PATTERNS = frozenset((GLOB, "+", "@", "!"))
_MARKED = {
    "*": GLOB,
    "?": GLOB,
    "{": _OPEN_BRACE,
    "}": _CLOSE_BRACE,
    "[": _OPEN_BRACKET,
    "]": _CLOSE_BRACKET,
}
_BRACES = re.compile(f"{_OPEN_BRACE}.+{_CLOSE_BRACE}", re.DOTALL)
_BRACKETS = re.compile(f"{_OPEN_BRACKET}.+{_CLOSE_BRACKET}", re.DOTALL)
_SIGNS = str.maketrans(
    {_OPEN_BRACE: "{", _CLOSE_BRACE: "}", _OPEN_BRACKET: "[", _CLOSE_BRACKET: "]", "\0": None}
)


def _without_own_marks(text: str) -> str:
    if _OPEN_BRACE in text:
        text = _BRACES.sub(SPLIT, text)
    if _OPEN_BRACKET in text:
        text = _BRACKETS.sub(GLOB, text)
    return text.translate(_SIGNS)


def _is_stream(sign: str, word: CommandWord) -> bool:
    return sign == ">&" and (word.text.isdigit() or word.text == "-")
