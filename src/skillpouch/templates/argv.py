"""`args_template`: split into words before values are filled in, so a value stays one word."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from skillpouch.templates.placeholders import (
    ArgumentReference,
    FilledPart,
    FillError,
    Part,
    Parts,
    TemplateError,
    VariableInWordsError,
    fill_one,
    filled,
    is_left_out,
    joined,
    names_in,
    parse_place,
    refuse_characters,
    variables_in,
)

# Quotes group, and a backslash escapes the next character. Nothing else of a shell is supported:
# no expansion, no operators, no comments. Placeholders are filled inside both kinds of quotes.
_PLACES = r"(?P<place>\$\{[^{}]*\}?)|(?P<dollar>\$\$?)"
_PIECES = {
    "": re.compile(
        rf"(?P<space>[ \t\r\n]+)|(?P<quote>['\"])|(?P<escape>\\[\s\S]?)|{_PLACES}"
        r"|(?P<plain>[^ \t\r\n'\"\\$]+)"
    ),
    "'": re.compile(rf"(?P<quote>')|{_PLACES}|(?P<plain>[^'$]+)"),
    '"': re.compile(rf"(?P<quote>\")|(?P<escape>\\[\"\\$])|{_PLACES}|(?P<plain>\\|[^\"\\$]+)"),
}


def split_words(text: str) -> tuple[Parts, ...]:
    """Return the words, each as its parts; raise TemplateError for an unclosed quote."""
    words: list[Parts] = []
    word: list[Part] | None = None
    for piece in _pieces(text):
        if piece is not None:
            word = [*(word or ()), piece]
        elif word is not None:
            words.append(joined(word))
            word = None
    return tuple(words if word is None else [*words, joined(word)])


def _pieces(text: str) -> Iterator[Part | None]:
    """Yield the pieces of each word, with None at its end."""
    quote, opened_at, position = "", 0, 0
    while match := _PIECES[quote].match(text, position):
        position = match.end()
        if match.lastgroup == "quote":
            quote, opened_at = ("" if quote else match[0]), match.start()
            yield ""  # '' is an empty word
        else:
            yield _part(match)
    if quote:
        raise TemplateError(f"a {quote} that is never closed", opened_at)


def _part(match: re.Match[str]) -> Part | None:
    piece, position = match[0], match.start()
    match match.lastgroup:
        case "space":
            return None
        case "place":
            return parse_place(piece, position)
        case "dollar":
            return "$"
        case "escape" if len(piece) == 1:
            raise TemplateError("a backslash at the end escapes nothing", position)
        case "escape":
            return piece[1]
        case _:
            return piece


_NUL = re.compile("\0")
_NO_NUL = "a word of a command line cannot hold a NUL character"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """One word; `follows_flag` if the word before it is a flag that may take it as its value."""

    parts: Parts
    follows_flag: bool = False
    follows_dashes: bool = False

    @property
    def alone(self) -> ArgumentReference | None:
        """The argument, if the word is nothing but one placeholder."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, ArgumentReference) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgvTemplate:
    """A command line; values of the arguments in `dashed` may begin with `-` in any word."""

    words: tuple[_Word, ...]
    names: frozenset[str]
    dashed: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, *, dashed: frozenset[str] = frozenset()) -> Self:
        """Split a template into words; raise TemplateError for one that cannot be used.

        Environment variables are refused: every user of a machine can read the command line of
        every process there (/proc/PID/cmdline has mode 0444).
        """
        words: list[_Word] = []
        after_dashes = False
        for parts in split_words(text):
            is_value = bool(words) and _is_flag(words[-1].parts) and not after_dashes
            words.append(_Word(parts=parts, follows_flag=is_value, follows_dashes=after_dashes))
            after_dashes = after_dashes or parts == ("--",)
        every: list[Part] = [part for word in words for part in word.parts]
        for variable in sorted(variables_in(every)):
            raise VariableInWordsError(variable, text.find(f"${{env:{variable}}}"))
        return cls(words=tuple(words), names=names_in(every), dashed=dashed)

    def fill(self, arguments: Mapping[str, Any], _secrets: Mapping[str, str]) -> list[str]:
        """Return the words of one call; they never hold a secret.

        A word that is only a list becomes one word per item. A word whose arguments are missing is
        left out, and so is the flag right before it.
        """
        found: list[str] = []
        for word in self.words:
            texts = self._texts(word, arguments)
            if not texts and word.follows_flag:
                found.pop()
            found += texts
        return found

    def _texts(self, word: _Word, arguments: Mapping[str, Any]) -> list[str]:
        if is_left_out(word.parts, arguments):
            return []
        if word.alone is not None and isinstance(arguments[word.alone.name], list | tuple):
            items = [fill_one(word.alone, item) for item in arguments[word.alone.name]]
            return [self._checked(word, [item], item) for item in items]
        texts = list(filled(word.parts, arguments, {}))
        return [self._checked(word, texts, texts[0] if texts else None)]

    def _checked(self, word: _Word, texts: list[FilledPart], first: FilledPart | None) -> str:
        for one in texts:
            refuse_characters(one, _NUL, _NO_NUL)
        text = "".join(one.text for one in texts)
        if first is not None and not word.follows_dashes:
            self._refuse_flag(first, text)
        return text

    def _refuse_flag(self, first: FilledPart, text: str) -> None:
        """Refuse a value that the program would read as a flag; allow `-` alone and numbers."""
        if not isinstance(first.part, ArgumentReference) or not text.startswith("-") or text == "-":
            return
        name = first.part.name
        if name in self.dashed or isinstance(first.value, int | float):
            return
        raise FillError(
            name,
            "it begins with '-' and would be taken for a flag",
            hint=f"in args_template write --flag=${{{name}}}, or put -- before ${{{name}}}",
        )


def _is_flag(parts: Parts) -> bool:
    """Tell whether a word is a flag that can have its value in the next word."""
    only = parts[0] if len(parts) == 1 else ""
    return isinstance(only, str) and re.match(r"--?[^-=][^=]*\Z", only) is not None
