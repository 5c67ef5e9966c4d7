"""Patterns of names and of needs, matched without backtracking."""

import math
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar, get_args
from unicodedata import normalize

from skillpouch.limits import read_size, read_time
from skillpouch.needs import Need, NeedKind
from skillpouch.trust.grant import split_package

_PIECE = re.compile(r"\\(.)|(\*)|(\?)|(.)", re.DOTALL)
_SPECIAL = re.compile(r"[\\*?]")
_DETOUR = re.compile(r"(?:^|/)\.\.?(?:/|$)|//")


@lru_cache(maxsize=16_384)
def matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that tells whether a whole text fits the pattern."""
    prefix, suffix, exact = literal_ends(pattern)
    if exact:
        return prefix.__eq__
    if pattern == f"{literally(prefix)}*{literally(suffix)}":
        # Nearly all patterns are like this; compiling an expression takes a hundred times as long.
        least = len(prefix) + len(suffix)
        return lambda text: len(text) >= least and text.startswith(prefix) and text.endswith(suffix)
    first, *others = _segments(pattern)
    if not others:
        return re.compile(first, re.DOTALL).fullmatch
    *middle, last = others
    # Atomic groups: each segment matches where it first fits, and is never tried elsewhere. For
    # patterns of `*` and `?` no match is lost, and no text causes backtracking.
    inner = "".join(f"(?>.*?{segment})" for segment in middle)
    return re.compile(f"{first}{inner}.*{last}", re.DOTALL).fullmatch


def any_fits(patterns: Sequence[str], text: str) -> bool:
    """Tell whether a text fits one of the patterns; no patterns at all mean every text."""
    return not patterns or any(matcher(pattern)(text) for pattern in patterns)


def _segments(pattern: str) -> list[str]:
    segments = [""]
    for match in _PIECE.finditer(pattern):
        escaped, star, question, plain = match.groups()
        if star:
            segments.append("")
        else:
            segments[-1] += "." if question else re.escape(escaped or plain)
    return segments


def literal_ends(pattern: str) -> tuple[str, str, bool]:
    """Return prefix and suffix of every match, and whether the prefix is the only match."""
    prefix, suffix, exact = "", "", True
    for match in _PIECE.finditer(pattern):
        escaped, star, question, plain = match.groups()
        if star or question:
            suffix, exact = "", False
        elif exact:
            prefix += escaped or plain
        else:
            suffix += escaped or plain
    return prefix, suffix, exact


def literally(text: str) -> str:
    """Return the pattern that matches this text and no other."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def spellings(text: str) -> tuple[str, ...]:
    """Return a text, and its normalized form as a path or address if it has `.`, `..` or `//`.

    A letter with an accent has two forms in Unicode that look the same: the NFC form is added.
    """
    composed = text if text.isascii() else normalize("NFC", text)
    others = () if composed == text else (composed,)
    if "/" not in text and text not in (".", ".."):
        return (text, *others)
    scheme, separator, rest = composed.rpartition("://")
    if not _DETOUR.search(rest):
        return (text, *others)
    straight = posixpath.normpath(rest)
    # normpath keeps two leading slashes, as POSIX allows; every supported system reads them as one.
    return (text, *others, scheme + separator + re.sub(r"\A//+", "/", straight))


Value = TypeVar("Value")


class PatternIndex(Generic[Value]):
    """Values by pattern. Most patterns are a name, or a prefix and `*`: few can match one text."""

    def __init__(self) -> None:
        self._exact: defaultdict[str, list[Value]] = defaultdict(list)
        self._beginning: defaultdict[str, list[Value]] = defaultdict(list)
        self._ending: defaultdict[str, list[Value]] = defaultdict(list)
        self._beginnings: set[int] = set()  # the lengths of all prefixes
        self._endings: set[int] = set()

    def add(self, pattern: str, value: Value) -> None:
        """Add a value under a pattern."""
        prefix, suffix, exact = literal_ends(pattern)
        if exact:
            self._exact[prefix].append(value)
        elif len(prefix) >= len(suffix):
            self._beginning[prefix].append(value)
            self._beginnings.add(len(prefix))
        else:
            self._ending[suffix].append(value)
            self._endings.add(len(suffix))

    def near(self, text: str) -> Iterator[Value]:
        """Yield all values whose pattern matches, and perhaps some whose pattern does not."""
        yield from self._exact.get(text, ())
        for length in self._beginnings:
            if length <= len(text):
                yield from self._beginning.get(text[:length], ())
        for length in self._endings:
            if length <= len(text):
                yield from self._ending.get(text[len(text) - length :], ())


KINDS: tuple[NeedKind, ...] = get_args(NeedKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedPattern:
    kind: NeedKind
    value: str = "*"

    def _amount(self, text: str) -> int | None:
        """Return the bytes or seconds of a text about memory or time.

        A pattern with an amount covers what needs less, and touches what needs more.
        """
        read = {"memory": read_size, "time": read_time}.get(self.kind)
        return None if read is None else read(text)

    def covers(self, need: Need) -> bool:
        """Tell whether the pattern covers all of the need; for rules that allow."""
        if need.kind != self.kind:
            return False
        if (most := self._amount(self.value)) is not None:
            return (self._amount(need.value) or math.inf) <= most
        fits = matcher(_folded(self.kind, self.value))
        if self.kind == "packages" and fits(_folded(self.kind, split_package(need.value)[0])):
            return True  # a pattern without a version covers every version of the package
        if self.kind == "setting" and fits(need.value.partition("=")[0]):
            return True  # a name covers every value that can be granted
        return all(fits(_folded(self.kind, text)) for text in spellings(need.value))

    def touches(self, need: Need) -> bool:
        """Tell whether the pattern may cover a part of the need; for rules that refuse."""
        if need.kind == "setting" and self.kind == "secret" and self.value != "*":
            # Whoever refuses a variable by its name means it, whatever it is called now.
            return bool(matcher(self.value)(need.value.partition("=")[0]))
        if need.kind != self.kind:
            return False
        if (least := self._amount(self.value)) is not None:
            return (self._amount(need.value) or math.inf) >= least
        pattern = _folded(self.kind, self.value)
        fits = matcher(pattern)
        texts = [_folded(self.kind, text) for text in _parts(need)]
        # A need may be a pattern itself: `*.example.com` reaches what `api.example.com` refuses.
        return any(fits(text) or matcher(text)(pattern) for text in texts)


def parse_need(text: str) -> NeedPattern:
    """Read `kind` or `kind:value`.

    Raises:
        ValueError: it is neither; the message lists what is allowed.
    """
    kind, separator, value = text.partition(":")
    for known in KINDS:
        if kind == known and (value or not separator):
            return NeedPattern(kind=known, value=value or "*")
    kinds = ", ".join(KINDS)
    raise ValueError(
        f"{text!r} is not a need: write one of {kinds}, or like 'host:api.example.com'"
    )


def _folded(kind: NeedKind, text: str) -> str:
    # Names of hosts are the same in upper and lower case, with or without the last dot.
    if kind == "host":
        return text.lower().rstrip(".")
    # Names of Python packages are, too, and `-`, `_` and `.` are the same; not so for npm.
    if kind == "packages" and not text.startswith("npm:"):
        return re.sub(r"[-_.]+", "-", text).lower()
    return text


def _parts(need: Need) -> list[str]:
    """Return the names of a need in rules: a host with and without its port, each package."""
    texts = list(spellings(need.value))
    if need.kind == "host":
        host, _, port = need.value.rpartition(":")
        texts += [host.strip("[]"), host] if port.isdecimal() else []
    if need.kind == "setting":
        texts.append(need.value.partition("=")[0])
    if need.kind == "packages":
        texts += [split_package(need.value)[0], *need.value.replace(",", " ").split()]
        # In doubt a refusal matches: npm has old packages with capitals in their names.
        texts += [text.lower() for text in texts]
    return texts
