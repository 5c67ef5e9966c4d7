"""The words of a command-line template, split by the rules of a shell before any value is known."""

import re
from collections.abc import Iterator

from skillpouch.templates.errors import TemplateError
from skillpouch.templates.parts import Part, Parts, joined, parse_place

# Quotes group, and a backslash takes the next character as it is. Nothing else of a shell is here:
# no expansion, no operators, no comments. Placeholders count inside both kinds of quotes.
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
    """Return what adds to the current word, and None where the word ends."""
    quote, opened_at, position = "", 0, 0
    while match := _PIECES[quote].match(text, position):
        position = match.end()
        if match.lastgroup == "quote":
            quote, opened_at = ("" if quote else match[0]), match.start()
            yield ""  # '' is a word, too
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
