"""Reads the frontmatter of a SKILL.md: finds it, parses it as YAML, and rescues what is broken."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from skillpouch.declarations.plain_yaml import drop_control_characters, read_plain
from skillpouch.problems import Problem, Severity

if TYPE_CHECKING:
    from skillpouch.declarations.strict_yaml import Document, YamlError

# The key may be capitalised or decorated as a heading, a list item or bold text.
_KEY_LINE = re.compile(
    r"^[\s#*>_-]{0,16}(name|description)[*_`]{0,3}\s{0,4}:[*_]{0,3}\s*(.*)$", re.IGNORECASE
)
_BLOCK_MARKS = {"|", ">", "|-", ">-", "|+", ">+"}
_LONGEST_BLOCK = 64  # lines
_QUOTES = "\"'"


def scavenge(front: str) -> dict[str, str]:
    """Return `name` and `description` from the lines that look like them, if there are any."""
    found: dict[str, str] = {}
    lines = front.split("\n")
    for number, line in enumerate(lines):
        match = _KEY_LINE.match(line[:2048])
        key = match.group(1).lower() if match else ""
        if match is None or key in found:
            continue
        value = match.group(2).strip()
        if value in _BLOCK_MARKS or not value:
            value = _indented_text(islice(lines, number + 1, number + 1 + _LONGEST_BLOCK))
        value = value.strip(_QUOTES).strip("*_` ")
        if value:
            found[key] = value
    return found


def _indented_text(lines: Iterable[str]) -> str:
    words: list[str] = []
    for line in lines:
        if line.strip() and not line[0].isspace():
            break
        words.append(line.strip())
    return " ".join(word for word in words if word)


FRONTMATTER_BYTES = 64 * 1024

_BOM = b"\xef\xbb\xbf"
_OPENING = re.compile(rb"[ \t\n]*---[ \t]*\n")
_CLOSING = re.compile(rb"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
# Frontmatter that is never closed ends at another line of dashes, a blank line, a heading, or a
# line that belongs to no mapping.
_LOOSE_CLOSING = re.compile(rb"[ \t]*-{3,}[ \t]*|[ \t]*")
_HEADING = re.compile(rb"#{1,6}[ \t]")
_OF_MAPPING = re.compile(rb"[ \t#\]})]|[\"']?[A-Za-z_][\w.-]*[\"']?[ \t]*:(?:[ \t]|$)")
_ITEM = re.compile(rb"-(?:[ \t]|$)")
_OPENS_LIST = re.compile(rb"[\w.\"'-]+[ \t]*:[ \t]*$|-(?:[ \t]|$)")
# One line `key: value` whose unquoted value holds a colon, or begins with a character that no
# unquoted value may begin with; its author meant a quoted text.
_PLAIN_LINE = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+(?![\"'\[{|>])(.+)$")
_UNPLAIN_START = frozenset("*&!%@`")
_BRACKETED_LINE = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+([\[{].*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The two parts of a SKILL.md: the text of the frontmatter, or None, and the body."""

    front: str | None
    raw_body: bytes
    first_line: int  # of the frontmatter text
    closed: bool = True

    @property
    def body(self) -> str:
        return _decode(self.raw_body).lstrip("\n")

    @property
    def body_line(self) -> int:
        """The line of the file where the body begins."""
        before = 1 if self.front is None else self.first_line + self.front.count("\n")
        return before + len(self.raw_body) - len(self.raw_body.lstrip(b"\n"))


@dataclass(slots=True, kw_only=True)
class Frontmatter:
    """The frontmatter of one SKILL.md; `scavenged` if only name and description could be read."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    scavenged: bool = False

    def report(
        self, path: str, code: str, severity: Severity, message: str, line: int | None = None
    ) -> None:
        self.problems.append(
            Problem(path=path, code=code, severity=severity, message=message, line=line)
        )


def cut(raw: bytes) -> Cut:
    """Split the bytes of a SKILL.md at the lines that open and close its frontmatter."""
    text = raw.removeprefix(_BOM)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    opening = _OPENING.match(text)
    if opening is None:
        return Cut(front=None, raw_body=text, first_line=1)
    start = opening.end()
    closing = _CLOSING.search(text, start)
    closed = closing is not None
    end, after = closing.span() if closing else _loose_end(text, start)
    first_line = text.count(b"\n", 0, start) + 1
    return Cut(
        front=_decode(text[start:end]),
        raw_body=text[after:],
        first_line=first_line,
        closed=closed,
    )


def _loose_end(text: bytes, start: int) -> tuple[int, int]:
    """Return where frontmatter without a closing line ends, and where the body begins."""
    previous = b""
    for line in text[start:].split(b"\n"):
        if _LOOSE_CLOSING.fullmatch(line):
            return start, start + len(line)
        is_item = _ITEM.match(line) and _OPENS_LIST.match(previous)
        if _HEADING.match(line) or not (is_item or _OF_MAPPING.match(line)):
            return start, start
        previous = line if line[:1] not in b" \t" else previous
        start += len(line) + 1
    return len(text), len(text)


def has_whole_head(raw: bytes) -> bool:
    """Tell whether the bytes, the beginning of a file, reach the end of its frontmatter."""
    opening = _OPENING.match(raw.removeprefix(_BOM))
    return opening is not None and _CLOSING.search(raw, opening.end()) is not None


def read_frontmatter(path: str, raw: bytes, parts: Cut) -> Frontmatter:
    """Read the cut-out head: strictly, then with doubtful values quoted, then line by line."""
    result = Frontmatter()
    _report_bytes(path, raw, parts, result)
    if parts.front is None:
        return result
    front = drop_control_characters(parts.front)
    if len(front) != len(parts.front):
        result.report(
            path, "control-characters", "warning", "control characters in the frontmatter dropped"
        )
    if len(front) > FRONTMATTER_BYTES:
        message = f"frontmatter of {len(front):,} characters, more than {FRONTMATTER_BYTES:,}"
        _fall_back(path, front[:FRONTMATTER_BYTES], message, parts.first_line, result)
        return result
    _read_text(path, front, parts.first_line, result)
    return result


def _report_bytes(path: str, raw: bytes, parts: Cut, result: Frontmatter) -> None:
    if raw.startswith(_BOM):
        result.report(path, "byte-order-mark", "info", "a byte order mark before the text ignored")
    if parts.front is None:
        result.report(
            path,
            "frontmatter-missing",
            "warning",
            "no frontmatter: name and description are guessed",
        )
        return
    if not raw.removeprefix(_BOM).startswith(b"---"):
        result.report(
            path, "frontmatter-indented", "warning", "blank text before the opening `---` skipped"
        )
    if not parts.closed:
        result.report(
            path,
            "frontmatter-unclosed",
            "warning",
            "no line `---` closes the frontmatter: taken to end where its keys end",
            parts.first_line - 1,
        )
    if "\ufffd" in parts.front and not _is_utf8(raw):
        result.report(path, "not-utf8", "warning", "not UTF-8: unreadable bytes were replaced")


def _read_text(path: str, front: str, first_line: int, result: Frontmatter) -> None:
    plain = read_plain(front, first_line)
    if plain is not None:
        result.values, result.lines = plain
        return
    document = _parse(front, first_line)
    if isinstance(document, Exception):
        rescued = None if document.refused else _retry_quoted(path, front, first_line, result)
        if rescued is None:
            _fall_back(path, front, document.message, document.line, result)
            return
        document = rescued
    if document.value is None:
        return
    if not isinstance(document.value, dict):
        _fall_back(path, front, "the frontmatter is not a mapping", first_line, result)
        return
    result.values, result.lines = document.value, document.lines
    for key, line in document.repeated:
        result.report(
            path, "duplicate-key", "warning", f"{key!r} is given twice: the first counts", line
        )


def _parse(text: str, first_line: int) -> "Document | YamlError":
    # Imported here, so that a start whose skills are all plain does without the parser.
    from skillpouch.declarations.strict_yaml import YamlError, load

    try:
        return load(text, first_line=first_line)
    except YamlError as error:
        return error


def _retry_quoted(path: str, front: str, first_line: int, result: Frontmatter) -> "Document | None":
    quoted = "\n".join(_quote_doubtful(line) for line in front.split("\n"))
    document = _parse(quoted, first_line)
    if not isinstance(document, Exception) and isinstance(document.value, dict):
        line = _first_difference(front, quoted) + first_line
        message = "a value needs quotes (it holds `: ` or opens with a special character): added"
        result.report(path, "value-quoted", "warning", message, line)
        return document
    return None


def _quote_doubtful(line: str) -> str:
    match = _PLAIN_LINE.match(line) or _BRACKETED_LINE.match(line)
    if match is None or " #" in line:
        return line
    key, value = match.group(1), match.group(2).rstrip()
    if value[0] in "[{":
        # A list or mapping that is not closed may continue on the next line: leave it alone.
        if value[-1] not in "]}" or not isinstance(_parse(line, 1), Exception):
            return line
    elif ":" not in value and value[0] not in _UNPLAIN_START:
        return line
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key}: "{escaped}"'


def _fall_back(path: str, front: str, why: str, line: int, result: Frontmatter) -> None:
    """Read name and description line by line; everything else is lost, which is reported."""
    result.scavenged = True
    result.values = dict(scavenge(front))
    saved = " and ".join(result.values) or "nothing"
    result.report(
        path,
        "frontmatter-invalid",
        "error",
        f"frontmatter cannot be read ({why}): {saved} saved, everything else in it is lost",
        line,
    )


def _first_difference(one: str, other: str) -> int:
    pairs = zip(one.split("\n"), other.split("\n"), strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), 0)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
