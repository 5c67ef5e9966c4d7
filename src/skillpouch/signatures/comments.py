"""The first comment of a script that tells what it does, in any of the languages."""

import re
from collections.abc import Callable
from typing import NamedTuple

from skillpouch.signatures.comment_text import useful_text
from skillpouch.signatures.javascript.jsdoc import comment_lines
from skillpouch.signatures.languages import Language
from skillpouch.signatures.pod import described_in_pod

_HEAD = 50_000  # characters; nobody reads further for a description
_SHELL_SETTING = re.compile(r"(?:set|shopt|setopt|emulate|umask)\s|:\s*$|export LC_ALL=")
_SHELL_QUOTED = re.compile(r":\s+(['\"])")
_SHELL_HERE_DOCUMENT = re.compile(r":\s*<<-?\s*(['\"]?)(\w+)\1\s*$")
_DIRECTIVE = re.compile(r"""(['"])use [a-z ]+\1;?\s*$""")
_PRAGMA = re.compile(r"(?:use|no)\s+(?:strict|warnings|utf8|feature|v?5[\d.]*|autodie)\b")
_DOCSTRING = re.compile(r"[rRuU]?(\"\"\"|''')")


class _Block(NamedTuple):
    """The lines of one comment, perhaps none, and the line after it."""

    lines: list[str]
    end: int


# None from one of these means that the program has begun: what follows are details.
_Reader = Callable[[list[str], int], _Block | None]


def first_comment(text: str, language: Language, filename: str = "") -> str:
    """The text of the first comment block that describes the script, its paragraphs kept.

    Licences, editor and linter lines and repeated file names are left out; so is everything that
    stands after the program has begun. Empty when nothing is left.
    """
    if language == "perl" and (described := described_in_pod(text)):
        return described
    lines = text[:_HEAD].removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    position = 1 if lines[0].startswith("#!") else 0
    while position < len(lines):
        block = _next_block(lines, position, _READERS[language])
        if block is None:
            return ""
        if useful := useful_text(block.lines, filename):
            return useful
        position = block.end
    return ""


def _next_block(lines: list[str], position: int, read: _Reader) -> _Block | None:
    if not lines[position].strip():
        return _Block([], position + 1)
    return read(lines, position)


def _marked(lines: list[str], position: int, marker: str) -> _Block | None:
    """Consecutive lines that begin with the marker, without it."""
    end = position
    while end < len(lines) and lines[end].lstrip().startswith(marker):
        end += 1
    if end == position:
        return None
    return _Block([line.strip().lstrip(marker[0]) for line in lines[position:end]], end)


def _enclosed(lines: list[str], position: int, rest: str, closer: str) -> _Block:
    """From `rest` of the first line up to the closer, on whatever line that is."""
    found: list[str] = []
    line, end = rest, position
    while closer not in line and end + 1 < len(lines):
        found.append(line)
        end += 1
        line = lines[end]
    return _Block([*found, line.partition(closer)[0]], end + 1)


def _skipped(lines: list[str], position: int, pattern: re.Pattern[str]) -> _Block | None:
    return _Block([], position + 1) if pattern.match(lines[position]) else None


def _read_shell(lines: list[str], position: int) -> _Block | None:
    line = lines[position]
    if here := _SHELL_HERE_DOCUMENT.match(line):
        end = position + 1
        while end < len(lines) and lines[end].strip() != here.group(2):
            end += 1
        return _Block(lines[position + 1 : end], end + 1)
    if quoted := _SHELL_QUOTED.match(line):
        return _enclosed(lines, position, line[quoted.end() :], quoted.group(1))
    return _marked(lines, position, "#") or _skipped(lines, position, _SHELL_SETTING)


def _read_python(lines: list[str], position: int) -> _Block | None:
    line = lines[position]
    if opener := _DOCSTRING.match(line):
        return _enclosed(lines, position, line[opener.end() :], opener.group(1))
    return _marked(lines, position, "#")


def _read_javascript(lines: list[str], position: int) -> _Block | None:
    line = lines[position].lstrip()
    if line.startswith("/*"):
        block = _enclosed(lines, position, line[2:], "*/")
        return _Block(comment_lines("\n".join(block.lines)), block.end)
    return _marked(lines, position, "//") or _skipped(lines, position, _DIRECTIVE)


def _read_ruby(lines: list[str], position: int) -> _Block | None:
    if lines[position].startswith("=begin"):
        return _enclosed(lines, position, lines[position][len("=begin") :], "=end")
    return _marked(lines, position, "#")


def _read_perl(lines: list[str], position: int) -> _Block | None:
    if lines[position][0] == "=" and lines[position][1:2].isalpha():
        return _Block([], _enclosed(lines, position, "", "=cut").end)
    return _marked(lines, position, "#") or _skipped(lines, position, _PRAGMA)


_READERS: dict[Language, _Reader] = {
    "python": _read_python,
    "shell": _read_shell,
    "javascript": _read_javascript,
    "typescript": _read_javascript,
    "ruby": _read_ruby,
    "perl": _read_perl,
}
