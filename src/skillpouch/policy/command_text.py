"""The words of a text for a shell, and what stands in them for what only bash will know."""

import re
from dataclasses import dataclass, field

# What stands in a word for text that only bash will know.
GLOB = "\1"  # some characters of a file name, never a slash
ANY = "\2"  # any text, in one word
SPLIT = "\3"  # any text, perhaps several words
MARKS = frozenset((GLOB, ANY, SPLIT))

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]=]*\])?\+?=", re.ASCII)

ANSI_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))",
    re.DOTALL,
)
_ANSI_SIGNS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
    "c": ANY,
}
_PAST_ASCII = 128


@dataclass(frozen=True, slots=True)
class Word:
    """`is_plain` when the shell makes exactly this of it, and not more words or others.

    `is_bare` when nothing in it is quoted: only then can it be a reserved word. `holds_text`
    when an expansion in it may give anything but a number.
    """

    text: str
    is_plain: bool = True
    is_bare: bool = True
    holds_text: bool = False


@dataclass(slots=True)
class SimpleCommand:
    """One command: its words, the texts it is fed, whether it writes files."""

    words: list[Word] = field(default_factory=list)
    fed: list[Word] = field(default_factory=list)
    is_array: bool = False  # `a=(x y)`: values, nothing that runs
    writes: bool = False


@dataclass(slots=True)
class CommandText:
    """The commands of a text, in order; `is_single` when nothing parts or redirects."""

    commands: list[SimpleCommand] = field(default_factory=list)
    functions: list[Word] = field(default_factory=list)
    is_single: bool = True
    is_doubtful: bool = False  # it cannot be read for certain
    passes_text: bool = False  # to a command, what another one prints
    has_jobs: bool = False  # `a & b`: nobody knows which is first
    evaluated: list[str] = field(default_factory=list)  # what bash calculates


def decoded(quoted: str) -> str:
    """Return what the inside of `$'…'` means."""
    return _ANSI_ESCAPE.sub(_ansi_character, quoted)


def _ansi_character(match: re.Match[str]) -> str:
    """Return what an escape in `$'…'` means; what is no plain character is not known."""
    octal, *codes, sign = match.groups()
    if sign is not None:
        return _ANSI_SIGNS.get(sign, f"\\{sign}")
    number = int(octal, 8) if octal else int("".join(filter(None, codes)), 16)
    return chr(number) if number < _PAST_ASCII else ANY
