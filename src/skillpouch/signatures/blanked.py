"""Replaces everything in Ruby and Perl text that is not code with blanks, keeping positions.

Both languages can only be parsed by running them; this knows enough of comments, strings,
here-documents and regular expressions to search for words in the code.
"""

import re
from dataclasses import dataclass

_HERE = r"<<[~-]?(?P<quote>['\"]?)(?P<delimiter>[A-Z_][A-Z0-9_]{1,60})(?P=quote)"
_DOUBLE = r"\"[^\"\\]*+(?>(?:\\.[^\"\\]*+)*)\"?|`[^`\\]*+(?>(?:\\.[^`\\]*+)*)`?"
_SINGLE = r"'[^'\\]*+(?>(?:\\.[^'\\]*+)*)'?"
_REGEX = re.compile(r"/[^/\\\n]*+(?>(?:\\.[^/\\\n]*+)*)/?")
_NOT_LINE_END = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class _Language:
    lexeme: re.Pattern[str]
    block_end: str
    interpolated: re.Pattern[str]  # the code inside double quotes


_RUBY = _Language(
    re.compile(
        rf"""
        (?P<block>^=begin\b)|(?P<end>^__END__$)|(?P<comment>\#[^\n]*+)
        |(?P<here>{_HERE})|(?P<shown>{_DOUBLE})|(?P<hidden>{_SINGLE})
        |(?P<words>%[wWiIqQ](?:\[[^\]]*+\]?|\([^)]*+\)?|\{{[^}}]*+\}}?))
        |(?P<slash>/)|(?P<newline>\n)|(?P<space>[^\S\n]++)|(?P<other>[$@]?\w++|.)
        """,
        re.DOTALL | re.MULTILINE | re.VERBOSE,
    ),
    "\n=end",
    re.compile(r"#\{[^}\n]{0,300}\}"),
)
_PERL = _Language(
    re.compile(
        rf"""
        (?P<block>^=[A-Za-z])|(?P<end>^__(?:END|DATA)__$)
        |(?P<special>\$(?:\#[\w{{$]|[&`'"+!@/\\,;.?]))|(?P<comment>\#[^\n]*+)
        |(?P<here>{_HERE})|(?P<shown>{_DOUBLE})|(?P<hidden>{_SINGLE})
        |(?P<words>(?<![$@%&\w>-])q[wqrx]?\s*+(?:\[[^\]]*+\]?|\([^)]*+\)?|\{{[^}}]*+\}}?))
        |(?P<slash>/)|(?P<newline>\n)|(?P<space>[^\S\n]++)|(?P<other>[$@%&]?\w++|.)
        """,
        re.DOTALL | re.MULTILINE | re.VERBOSE,
    ),
    "\n=cut",
    re.compile(r"[$@]\{?\w+\}?(?:\{[^{}\n]*\}|\[[^\[\]\n]*\])?"),
)
_BEFORE_REGEX = frozenset({"if", "unless", "when", "and", "or", "not", "split", "return", "while"})


def blanked_ruby(text: str) -> str:
    """Return Ruby code alone; the inside of `#{…}` is code, too."""
    return _Blanker(text, _RUBY).blank()


def blanked_perl(text: str) -> str:
    """Return Perl code alone; variables in double quotes are code, too."""
    return _Blanker(text, _PERL).blank()


class _Blanker:
    def __init__(self, text: str, language: _Language) -> None:
        self.text = text
        self.language = language
        self.pieces: list[str] = []
        self.previous = "\n"  # the last piece that was not blank
        self.here_documents: list[tuple[str, bool]] = []

    def blank(self) -> str:
        position = 0
        while position < len(self.text):
            match = self.language.lexeme.match(self.text, position)
            assert match, "the pattern matches any character"
            position = self.take(match)
        return "".join(self.pieces)

    def take(self, match: re.Match[str]) -> int:
        kind, start, end = match.lastgroup, match.start(), match.end()
        if kind in {"other", "space", "special"}:
            return self.keep(start, end)
        if kind == "newline":
            self.keep(start, end)
            return self.skip_here_documents(end)
        if kind == "shown":
            return self.hide(start, end, is_shown=True)
        if kind == "slash":
            return self.take_slash(start)
        if kind == "here":
            self.here_documents.append((match["delimiter"], match["quote"] != "'"))
        elif kind == "block":
            found = self.text.find(self.language.block_end, start)
            end = len(self.text) if found < 0 else found + len(self.language.block_end)
        elif kind == "end":
            end = len(self.text)
        return self.hide(start, end)

    def keep(self, start: int, end: int) -> int:
        piece = self.text[start:end]
        self.pieces.append(piece)
        if not piece.isspace() or piece == "\n":
            self.previous = piece
        return end

    def hide(self, start: int, end: int, *, is_shown: bool = False) -> int:
        position = start
        if is_shown:
            for found in self.language.interpolated.finditer(self.text, start, end):
                self.pieces.append(_blank(self.text[position : found.start()]))
                self.pieces.append(found.group())
                position = found.end()
        self.pieces.append(_blank(self.text[position:end]))
        self.previous = '"'
        return end

    def take_slash(self, start: int) -> int:
        """Read a slash: a regular expression where a value is expected, else a division."""
        if self.text.startswith("//", start):  # the defined-or operator of Perl
            return self.keep(start, start + 2)
        last = self.previous
        expected = last in _BEFORE_REGEX or not (last[-1].isalnum() or last[-1] in "_)]}\"'")
        match = _REGEX.match(self.text, start) if expected else None
        return self.hide(start, match.end()) if match else self.keep(start, start + 1)

    def skip_here_documents(self, position: int) -> int:
        for delimiter, is_shown in self.here_documents:
            line = re.compile(rf"^[ \t]*{delimiter}$", re.MULTILINE).search(self.text, position)
            end = line.end() if line else len(self.text)
            position = self.hide(position, end, is_shown=is_shown)
        self.here_documents.clear()
        return position


def _blank(text: str) -> str:
    return _NOT_LINE_END.sub(" ", text)
