"""Searches files as ripgrep does, by open descriptors, and prints lines of JSON."""

import codecs
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

from skillpouch.builtins.workspace.search.expressions import compile_expression
from skillpouch.builtins.workspace.search.patterns import NEVER, IgnoreRule, Ignoring, read_rule

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 100  # each level keeps a descriptor open


@dataclass(frozen=True)
class FolderEntry:
    """An entry of a folder, which stays open until the next entry is requested.

    `path` is relative to the top folder of the rules.
    """

    path: str
    folder: int
    found: "os.DirEntry[str]"
    is_folder: bool
    ignored: bool


@dataclass(frozen=True)
class WalkOptions:
    """How to walk: with `hidden` names or without, down to `depth` levels."""

    hidden: bool = True
    depth: int = _DEEPEST
    show_ignored: bool = False

    def below(self, top: int, start: str) -> Iterator[FolderEntry]:
        """Yield the entries below `start` in order; rules of `start` and its parents apply."""
        parts = () if start == "." else tuple(start.split("/"))
        opened = [os.dup(top)]
        try:
            rules = Ignoring().inside(top, 0)
            for depth, name in enumerate(parts, 1):
                opened.append(os.open(name, _OPEN_FOLDER, dir_fd=opened[-1]))
                rules = rules.inside(opened[-1], depth)
            yield from self._folder(opened[-1], parts, rules, self.depth)
        finally:
            for folder in opened:
                os.close(folder)

    def _folder(
        self, folder: int, parts: tuple[str, ...], rules: Ignoring, levels: int
    ) -> Iterator[FolderEntry]:
        with os.scandir(folder) as listing:
            found = sorted(listing, key=lambda entry: entry.name)
        for entry in found:
            if entry.name.startswith(".") and not self.hidden:
                continue
            here = (*parts, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            ignored = entry.name in NEVER or rules.ignores(here, is_folder)
            if ignored and not self.show_ignored:
                continue
            yield FolderEntry("/".join(here), folder, entry, is_folder, ignored)
            if is_folder and not ignored and levels > 1:
                yield from self._inside(folder, here, rules, levels - 1)

    def _inside(
        self, folder: int, parts: tuple[str, ...], rules: Ignoring, levels: int
    ) -> Iterator[FolderEntry]:
        try:
            inner = os.open(parts[-1], _OPEN_FOLDER, dir_fd=folder)
        except OSError:  # not readable, or just replaced
            return
        try:
            below = rules.inside(inner, len(parts))
            yield from self._folder(inner, parts, below, levels)
        finally:
            os.close(inner)


def is_left_out(top: int, path: str, start: str) -> bool:
    """Tell whether the rules exclude a file, or a folder between it and the start of a walk."""
    parts = path.split("/")
    begins = 0 if start == "." else start.count("/") + 1
    rules = Ignoring().inside(top, 0)
    opened = [os.dup(top)]
    try:
        for depth in range(1, len(parts)):
            if depth > begins and rules.ignores(parts[:depth], is_folder=True):
                return True
            opened.append(os.open(parts[depth - 1], _OPEN_FOLDER, dir_fd=opened[-1]))
            rules = rules.inside(opened[-1], depth)
        return rules.ignores(parts, is_folder=False)
    except OSError:
        return True
    finally:
        for folder in opened:
            os.close(folder)


_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
SNIFFED = 65_536  # the size of ripgrep's buffer: it looks for NUL bytes in the first one
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True)
class Search:
    """What to look for, and where."""

    pattern: str
    path: str
    globs: "list[str]" = field(default_factory=list)
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    most: int = 0  # matching lines per file; 0 means all

    def run(self, output: TextIO) -> None:
        """Write a line of JSON for each line found."""
        expression = compile_expression(
            self.pattern, ignore_case=self.ignore_case, multiline=self.multiline
        )
        for path in self._files():
            text = read_text(path)
            if text is not None:
                self._search(path, text, expression, output)

    def _files(self) -> Iterator[str]:
        if not stat.S_ISDIR(os.lstat(self.path).st_mode):
            yield self.path
            return
        filters = Filters(self.globs)
        top = os.open(".", _FOLDER)
        try:
            for entry in WalkOptions().below(top, self.path):
                if (
                    not entry.is_folder
                    and not entry.found.is_symlink()
                    and filters.take(entry.path)
                ):
                    yield entry.path
        finally:
            os.close(top)

    def _search(self, path: str, text: str, expression: re.Pattern[str], output: TextIO) -> None:
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        found = self._numbers(text, lines, expression)
        # ripgrep reads to the end unless it has found enough; a NUL anywhere makes the file binary.
        is_capped = bool(self.most) and len(found) >= self.most
        if not found or ("\0" in text and not is_capped):
            return
        where = {"path": {"text": path}}
        _say(output, "begin", where)
        for number in self._shown(found, len(lines)):
            kind = "match" if number in found else "context"
            line = {"lines": {"text": f"{lines[number]}\n"}, "line_number": number + 1}
            _say(output, kind, {**where, **line})
        _say(output, "end", {**where, "binary_offset": None})

    def _numbers(self, text: str, lines: "list[str]", expression: re.Pattern[str]) -> "set[int]":
        if self.multiline:
            found = _spans(text, len(lines), expression)
        elif not self._may_match(text, expression):
            return set()
        else:
            found = [number for number, line in enumerate(lines) if expression.search(line)]
        return set(found[: self.most] if self.most else found)

    def _may_match(self, text: str, expression: re.Pattern[str]) -> bool:
        """Search the whole text first: most files have no match, and one search is faster."""
        anchored = "\\A" in self.pattern or "\\z" in self.pattern
        return anchored or expression.search(text) is not None

    def _shown(self, found: "set[int]", count: int) -> "list[int]":
        if not (self.before or self.after):
            return sorted(found)
        shown = {
            near
            for number in found
            for near in range(number - self.before, number + self.after + 1)
            if 0 <= near < count
        }
        return sorted(shown)


def _spans(text: str, count: int, expression: re.Pattern[str]) -> "list[int]":
    """Return the numbers of the lines that matches touch."""
    found: dict[int, None] = {}
    line, seen = 0, 0
    for match in expression.finditer(text):
        line += text.count("\n", seen, match.start())
        seen = match.start()
        last = line + match[0].removesuffix("\n").count("\n")
        found.update(dict.fromkeys(range(line, min(last + 1, count))))
    return list(found)


class Filters:
    """Selects files by glob: `globs` name wanted files, those with `!` unwanted ones."""

    def __init__(self, globs: "list[str]") -> None:
        self._rules: list[IgnoreRule] = [rule for rule in map(read_rule, globs) if rule is not None]
        self._wants_some = any(not rule.negated for rule in self._rules)

    def take(self, path: str) -> bool:
        """Tell whether a file is wanted, and no folder above it is unwanted."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if self._says(parts[:depth], is_folder=True) is False:
                return False
        said = self._says(parts, is_folder=False)
        return not self._wants_some if said is None else said

    def _says(self, parts: "list[str]", *, is_folder: bool) -> "bool | None":
        for rule in reversed(self._rules):
            if rule.matches(parts, is_folder):
                return not rule.negated
        return None


def read_text(path: str) -> "str | None":
    """Return the text of a file; None when it is binary at its start, or cannot be read."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = file.read()
    return None if is_binary(data[:SNIFFED]) else _decoded(data)


def is_binary(start: bytes) -> bool:
    """Tell whether a file is not text, by its first bytes."""
    return b"\0" in start and "\0" in _decoded(start)


def _decoded(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _say(output: TextIO, kind: str, data: "dict[str, Any]") -> None:
    output.write(json.dumps({"type": kind, "data": data}, separators=(",", ":")))
    output.write("\n")
