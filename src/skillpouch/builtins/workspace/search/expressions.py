"""Translates regular expressions of ripgrep for Python.

Syntax that only one of the two understands is refused: a pattern must find the same lines with
both.
"""

import re

_LOOKING_AROUND = ("(?=", "(?!", "(?<=", "(?<!", "(?(", "(?>", "(?P=", "(?P>")
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_REPETITION = re.compile(r"\{\d+(?:,\d*)?\}")
_CODE_POINT = re.compile(r"\\[xuU]\{([0-9A-Fa-f]{1,8})\}")


class ExpressionError(ValueError):
    """A regular expression that cannot be searched for."""


def compile_expression(pattern: str, *, ignore_case: bool, multiline: bool) -> "re.Pattern[str]":
    """Return the expression for Python, ready for single lines or, when asked, for whole texts."""
    written = "".join(_pieces(pattern, multiline=multiline))
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else re.NOFLAG)
    try:
        return re.compile(written, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ExpressionError(f"not a regular expression: {error}") from None


def _pieces(pattern: str, *, multiline: bool) -> "list[str]":
    found: list[str] = []
    place = 0
    while place < len(pattern):
        end, piece = _piece(pattern, place)
        if piece in ("\n", "\\n") and not multiline:
            raise ExpressionError(
                "a line end in the pattern: set `multiline` to match several lines"
            )
        if piece in ("*", "+", "?", "{}") and found and found[-1] in ("*+", "+", "*", "?"):
            _refuse_doubled(found[-1], piece)
        found.append(pattern[place:end] if piece == "{}" else piece)
        place = end
    return found


def _refuse_doubled(before: str, piece: str) -> None:
    # `a++` is possessive in Python, and a repeated repetition in ripgrep.
    if piece != "?":
        raise ExpressionError(f"one repetition after another: {before}{piece}")


def _piece(pattern: str, place: int) -> "tuple[int, str]":
    character = pattern[place]
    if character == "\\":
        return _escape(pattern, place)
    if character == "[":
        return _class(pattern, place)
    if character == "(" and pattern.startswith(_LOOKING_AROUND, place):
        raise ExpressionError("lookaround and back references are not supported")
    if character == "{":
        repetition = _REPETITION.match(pattern, place)
        if repetition is None:
            raise ExpressionError("a '{' that begins no repetition: write \\{ for the character")
        return repetition.end(), "{}"
    return place + 1, character


def _escape(pattern: str, place: int) -> "tuple[int, str]":
    code_point = _CODE_POINT.match(pattern, place)
    if code_point is not None:
        number = int(code_point[1], 16)
        if number > 0x10FFFF:  # noqa: PLR2004 - the last code point
            raise ExpressionError(f"{code_point[0]} is not a character")
        return code_point.end(), re.escape(chr(number))
    letter = pattern[place + 1 : place + 2]
    if letter == "":
        raise ExpressionError("a pattern that ends in a backslash")
    if letter in "123456789":
        raise ExpressionError("lookaround and back references are not supported")
    if letter in "pP":
        raise ExpressionError(f"\\{letter} needs ripgrep, which is not installed")
    if letter == "Z":
        raise ExpressionError("\\Z is not supported: the end of the text is \\z")
    return place + 2, "\\Z" if letter == "z" else f"\\{letter}"


def _class(pattern: str, place: int) -> "tuple[int, str]":
    """Read `[…]`, with names such as `[:alpha:]` in it."""
    written = "["
    place += 1
    if pattern.startswith("^", place):
        written, place = "[^", place + 1
    first = True
    while place < len(pattern):
        character = pattern[place]
        if character == "]" and not first:
            return place + 1, f"{written}]"
        place, piece = _member(pattern, place)
        written += piece
        first = False
    raise ExpressionError("a '[' without its ']'")


def _member(pattern: str, place: int) -> "tuple[int, str]":
    character = pattern[place]
    if character == "\\":
        return _escape(pattern, place)
    if pattern.startswith("[:", place):
        end = pattern.find(":]", place)
        name = pattern[place + 2 : end]
        if end < 0 or name not in _CLASSES:
            raise ExpressionError(f"unknown class of characters {pattern[place : end + 2]!r}")
        return end + 2, _CLASSES[name]
    if character == "[" or pattern.startswith(("&&", "--", "~~"), place):
        raise ExpressionError("a class inside a class needs ripgrep, which is not installed")
    return place + 1, "\\]" if character == "]" else character
