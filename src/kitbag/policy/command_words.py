"""The words of a shell command, read only as far as that can be done without running it.

What cannot be told stays in doubt: whoever asks decides what doubt means.
"""

from dataclasses import dataclass, field

_ENDS_COMMAND = frozenset(";&|()\n<>")
_EXPANDED = frozenset("$`*?[]{}~!#")
_KEPT_IN_QUOTES = frozenset('$`"\\\n')


@dataclass(frozen=True, slots=True)
class Word:
    """`is_plain` when the shell makes exactly this of it, and not more words or others."""

    text: str
    is_plain: bool = True


@dataclass(slots=True)
class CommandText:
    """The simple commands of a text, in order; `is_single` when nothing parts or redirects."""

    commands: list[list[Word]] = field(default_factory=lambda: [[]])
    is_single: bool = True
    is_doubtful: bool = False  # a quote has no end, or a command stands inside of one


def read_command(text: str) -> CommandText:
    """Return what a text says to a shell."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found = CommandText()
        self._word: list[str] | None = None  # None: between words
        self._is_plain = True

    def read(self) -> CommandText:
        while self._at < len(self._text):
            self._step(self._take())
        self._end_word()
        self._found.commands = [words for words in self._found.commands if words]
        return self._found

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _step(self, letter: str) -> None:
        if letter in " \t":
            self._end_word()
        elif letter in _ENDS_COMMAND:
            self._end_word()
            self._found.is_single = False
            self._found.commands.append([])
        elif letter == "'":
            self._add(self._until_quote())
        elif letter == '"':
            self._double_quoted()
        elif letter == "\\":
            self._escaped()
        else:
            self._found.is_doubtful |= letter == "`"
            self._is_plain = self._is_plain and letter not in _EXPANDED
            self._add(letter)

    def _add(self, text: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(text)

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            self._found.is_doubtful = True
            end = len(self._text)
        inside, self._at = self._text[self._at : end], end + 1
        return inside

    def _double_quoted(self) -> None:
        self._add("")
        while self._at < len(self._text):
            letter = self._take()
            if letter == '"':
                return
            following = self._text[self._at : self._at + 1]
            if letter in "$`":
                self._is_plain = False
                self._found.is_doubtful |= letter == "`" or following == "("
            if letter == "\\" and following and following in _KEPT_IN_QUOTES:
                letter = self._take()
            self._add(letter)
        self._found.is_doubtful = True

    def _escaped(self) -> None:
        if self._at >= len(self._text):
            self._found.is_doubtful = True
            return
        letter = self._take()
        if letter != "\n":  # a line that goes on in the next one
            self._add(letter)

    def _end_word(self) -> None:
        if self._word is not None:
            self._found.commands[-1].append(Word("".join(self._word), self._is_plain))
        self._word, self._is_plain = None, True
