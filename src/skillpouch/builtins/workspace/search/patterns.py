"""Glob patterns and `.gitignore` files over paths, matched in bounded time."""

import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LONGEST = 4096
_MOST_ALTERNATIVES = 256
_MOST_BRACES = 64

Segment = Callable[[str], object] | None  # None is `**`: any number of folders


class PatternError(ValueError):
    """A pattern is not valid."""


class PathPattern:
    """`*`, `?`, `[a-z]`, `{one,two}` and `**`, against a path that was split at its slashes.

    Only `**` matches slashes. At the end it matches at least one name, elsewhere also none.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise PatternError(f"a pattern of more than {_LONGEST:,} characters")
        self._ways = [_segments(way) for way in alternatives(text)]

    def matches(self, parts: Sequence[str]) -> bool:
        """Tell whether the whole path fits."""
        return any(_fits(way, parts) for way in self._ways)


def _segments(text: str) -> list[Segment]:
    """Return a test for each component of a pattern."""
    if not text.strip("/"):
        raise PatternError("an empty pattern")
    segments: list[Segment] = []
    for part in _split(text.strip("/")):
        if part == "**":
            if not segments or segments[-1] is not None:
                segments.append(None)
        else:
            segments.append(_segment(part))
    if segments[-1] is None:
        segments.append(_segment("*"))
    return segments


def _fits(segments: list[Segment], parts: Sequence[str]) -> bool:
    # `reached` are the pattern positions that match the path so far, so that each pair of position
    # and name is compared once.
    count = len(segments)
    reached = {0}
    for part in parts:
        reached = {
            after for place in _skip(segments, reached) for after in _step(segments, place, part)
        }
        if not reached:
            return False
    return count in _skip(segments, reached)


def _skip(segments: list[Segment], reached: set[int]) -> set[int]:
    """Add the positions after each `**` that matches no folder."""
    found = set(reached)
    for place in reached:
        if place < len(segments) and segments[place] is None:
            found.add(place + 1)
    return found


def _step(segments: list[Segment], place: int, part: str) -> list[int]:
    if place == len(segments):
        return []
    segment = segments[place]
    if segment is None:
        return [place]
    return [place + 1] if segment(part) else []


def _segment(text: str) -> Segment:
    """Return the test of one component; plain names and endings are compared as they are."""
    if not set(text) & set("*?[\\"):
        return text.__eq__
    if text == "*":
        return bool
    ending = text[1:]
    if text[0] == "*" and not set(ending) & set("*?[\\"):
        return lambda part: part.endswith(ending)
    return re.compile(_expression(text), re.DOTALL).fullmatch


def _expression(text: str) -> str:
    """Return a regular expression that never backtracks further than to its last star."""
    pieces: list[str] = [""]
    place = 0
    while place < len(text):
        place, piece = _piece(text, place)
        if piece == "*":
            pieces.append("")
        else:
            pieces[-1] += piece
    first, *rest = pieces
    if not rest:
        return first
    # Atomic groups: the text after a star matches at its first position, and no later position
    # could match more.
    *between, last = rest
    return first + "".join(f"(?>.*?{piece})" for piece in between if piece) + f".*{last}"


def _piece(text: str, place: int) -> tuple[int, str]:
    character = text[place]
    if character == "*":
        return place + 1, "*"
    if character == "?":
        return place + 1, "."
    if character == "[":
        return _class(text, place)
    if character == "\\":
        if place + 1 == len(text):
            raise PatternError("a pattern that ends in a backslash")
        return place + 2, re.escape(text[place + 1])
    return place + 1, re.escape(character)


def _class(text: str, place: int) -> tuple[int, str]:
    start = place + 1
    negated = text[start : start + 1] in ("!", "^")
    start += negated
    end = text.find("]", start + 1)
    if end < 0:
        raise PatternError(f"a '[' without its ']' in {text!r}")
    inside = text[start:end]
    expression = "".join(_ranges(inside))
    return end + 1, f"[{'^' if negated else ''}{expression}]"


def _ranges(inside: str) -> list[str]:
    found = []
    place = 0
    while place < len(inside):
        if inside[place + 1 : place + 2] == "-" and place + 2 < len(inside):
            low, high = inside[place], inside[place + 2]
            if low > high:
                raise PatternError(f"a range from {low!r} to {high!r} is empty")
            found.append(f"{re.escape(low)}-{re.escape(high)}")
            place += 3
        else:
            found.append(re.escape(inside[place]))
            place += 1
    return found


def alternatives(text: str) -> list[str]:
    """Expand `{one,two}`, also nested, into all alternatives."""
    if text.count("{") > _MOST_BRACES:
        raise PatternError(f"more than {_MOST_BRACES} braces")
    ways, end = _choices(text, 0, inside=False)
    if end != len(text):
        raise PatternError(f"a '}}' without its '{{' in {text!r}")
    return ways


def _choices(text: str, place: int, *, inside: bool) -> tuple[list[str], int]:
    """Read up to the end or the closing brace; return all alternatives of this part."""
    done: list[str] = []
    ways = [""]
    while place < len(text):
        character = text[place]
        if character == "}":
            break
        if character == "," and inside:
            done += ways
            ways = [""]
            place += 1
            continue
        pieces, place = _next(text, place)
        ways = [way + piece for way in ways for piece in pieces]
        if len(ways) + len(done) > _MOST_ALTERNATIVES:
            raise PatternError(f"more than {_MOST_ALTERNATIVES} alternatives in braces")
    return done + ways, place


def _next(text: str, place: int) -> tuple[list[str], int]:
    character = text[place]
    if character == "\\":
        return [text[place : place + 2]], place + 2
    if character == "[":
        end, _ = _class(text, place)
        return [text[place:end]], end
    if character == "{":
        pieces, end = _choices(text, place + 1, inside=True)
        if end == len(text):
            raise PatternError(f"a '{{' without its '}}' in {text!r}")
        return pieces, end + 1
    return [character], place + 1


def _split(text: str) -> list[str]:
    """Split at slashes that are not inside a character class."""
    parts = [""]
    place = 0
    while place < len(text):
        if text[place] == "/":
            parts.append("")
            place += 1
            continue
        end, _ = _piece(text, place)
        parts[-1] += text[place:end]
        place = end
    return [part for part in parts if part]


# Never searched: version control, and what Skillpouch itself keeps in a workspace.
NEVER = (".git", ".hg", ".svn", ".jj", ".bzr", ".skillpouch")

_MOST_BYTES = 1024 * 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class IgnoreRule:
    """One line of a .gitignore; a `negated` one includes again what an earlier line excluded."""

    pattern: PathPattern
    negated: bool
    only_folders: bool
    by_name: bool

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        return self.pattern.matches(parts[-1:] if self.by_name else parts)


def read_rule(line: str) -> "IgnoreRule | None":
    """Return the rule of a line; None for a comment, an empty line, or an invalid pattern."""
    line = line.rstrip("\r\n")
    if not line.endswith("\\ "):
        line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    text = line[1:] if negated else line
    only_folders = text.endswith("/")
    text = text[:-1] if only_folders else text
    try:
        pattern = PathPattern(text)
    except PatternError:
        return None
    return IgnoreRule(pattern, negated, only_folders, "/" not in text)


@dataclass(frozen=True)
class Ignoring:
    """The rules that hold in one folder: its own first, then those of the folders above."""

    rules: tuple[IgnoreRule, ...] = ()
    depth: int = 0
    above: "Ignoring | None" = None

    def ignores(self, parts: Sequence[str], is_folder: bool) -> bool:
        """Tell whether a path, split and relative to the top, is left out."""
        level: Ignoring | None = self
        while level is not None:
            inside = parts[level.depth :]
            for rule in reversed(level.rules):
                if rule.matches(inside, is_folder):
                    return not rule.negated
            level = level.above
        return False

    def inside(self, folder: int, depth: int) -> "Ignoring":
        """Return the rules for a folder below, given by its descriptor."""
        rules = _read(folder)
        return Ignoring(rules, depth, self) if rules else self


def _read(folder: int) -> tuple[IgnoreRule, ...]:
    try:
        descriptor = os.open(".gitignore", _OPEN, dir_fd=folder)
    except OSError:
        return ()
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        text = file.read(_MOST_BYTES).decode("utf-8-sig", "replace")
    return tuple(filter(None, map(read_rule, text.split("\n"))))
