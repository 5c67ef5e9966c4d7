"""Reads the comments of a script: first paragraph, usage, POD."""

import re
from collections.abc import Callable
from typing import NamedTuple

from skillpouch.signatures.javascript.jsdoc import comment_lines
from skillpouch.signatures.shebang import Language

_SCRIPT_ENDING = r"\.(?:sh|bash|zsh|js|mjs|cjs|ts|rb|pl|py)"
_DASH = r"[-–—:]"  # noqa: RUF001  (people do type these dashes)
# Comments for machines: editors, linters, compilers.
_TOOL_DIRECTIVE = re.compile(
    r"-\*-.*-\*-|(?:vim?|ex):|.*\bcoding[:=]\s*[\w.-]+|encoding:|frozen_string_literal:|warn_indent:"
    r"|typed:|shellcheck\s+\w+=|eslint-|eslint\s+[\w@/-]+\s*:|prettier-ignore|js[hl]int\b|tslint:"
    r"|globals?\s+\w+\s*(?:[,:]|$)|biome-|deno-|istanbul\b|@ts-|@flow\b|@format\b|@jest-|@jsx"
    r"|<reference\b|rubocop:|pylint:|ruff:|mypy:|flake8:|noqa\b|type:\s*ignore|fmt:\s|isort:|nosec\b"
    r"|pragma\b|sourceMappingURL|!/"
)
# Comments about the file, not about what it does.
_ABOUT_FILE = re.compile(
    r"@?(?:authors?|version|date|created|(?:last\s+)?(?:updated|modified)|licen[cs]e|maintainer"
    r"|since|contact|e-?mail|website|homepage|url|repository|repo|module|package)\b\s*[:=@]"
    r"|@(?:authors?|version|date|licen[cs]e|copyright|since|module|package|preserve)\b"
    r"|copyright\b|\(c\)|©|.*SPDX-|all rights reserved|module dependencies"
    r"|.*\bdo not (?:edit|modify)\b|see licen[cs]e|[^<@]{1,60}<\S+@\S+>",
    re.IGNORECASE,
)
_LICENCE = re.compile(
    r"licen[cs]ed under|under the terms of|permission is hereby granted|redistribut"
    r"|warrant(?:y|ies)\b|you may obtain a copy|copyright notice|(?:this|the) software is provided"
    r"|apache\.org/licenses|should have received a copy|published by the free software"
    r"|(?:see|in|under) the licen[cs]e\b"
    r"|^(?:the )?mit licen[cs]e$|governed by a|use this file except",
    re.IGNORECASE,
)
# Comments about the next line of code, or about the comment itself.
_ABOUT_CODE = re.compile(
    r"(?:exit|stop|abort|fail|bail)\b.{0,30}\b(?:on|if|when)\b.{0,30}\b(?:error|fail)"
    r"|(?:bash )?strict mode\b|defaults?(?:\s+\w+)?\s*(?:values?|settings?)?\s*:?$"
    r"|\W*how to (?:run|use)\b",
    re.IGNORECASE,
)
_SECTION = re.compile(
    r"(?:usage|examples?|options|arguments|args|parameters|params|requirements|requires"
    r"|dependencies|environment(?: variables)?|returns|exit codes?|notes?|todo)\b\s*(?::|$)",
    re.IGNORECASE,
)
_TITLE = re.compile(r"(?:[A-Z][\w-]*+[ \t]?){1,3}:$")  # of a list: `Security Manifest:`
_LABEL = re.compile(
    r"(?:description|desc|purpose|summary|synopsis|about)\s*:\s*"
    r"|@(?:description|desc|summary|fileoverview|file|overview)\b\s*",
    re.IGNORECASE,
)
_NAME_LABEL = re.compile(
    r"(?:script(?:\s+name)?|file\s*(?:name)?|name|program)\s*:\s*", re.IGNORECASE
)
_FILE_NAME = re.compile(rf"[\w./-]{{1,100}}{_SCRIPT_ENDING}(?=[\s:]|$)")
_AFTER_NAME = re.compile(rf"\s*(?:{_DASH}+\s*|$)")
_DECORATION = re.compile(
    r"^=\s+|^[=#*~+|/<>─-▟-]{2,}\s+|(?<!\s)\s++(?:[=#*~+|/<>─-▟-]{2,}+|[#*|])$|^[─-▟]|[─-▟]$"
)


_LEFT_OUT = (_TOOL_DIRECTIVE, _ABOUT_FILE, _ABOUT_CODE)


def useful_text(lines: list[str], filename: str = "") -> str:
    """Return the paragraphs of a comment that describe a script; its usage if there is no other."""
    paragraphs = [each for each in _paragraphs(_kept(lines)) if not _LICENCE.search(" ".join(each))]
    if paragraphs:
        first = _without_name(paragraphs[0][0], filename)
        paragraphs[0] = [first, *paragraphs[0][1:]] if first else paragraphs[0][1:]
    described = [_before_section(paragraph) for paragraph in paragraphs]
    useful = [each for each in described if each]
    useful = useful or [each for each in paragraphs if each and not _TITLE.match(each[0])]
    return "\n\n".join("\n".join(paragraph) for paragraph in useful)


def _kept(lines: list[str]) -> list[str]:
    kept: list[str] = []
    in_metadata = False  # a PEP 723 block: `# /// script` … `# ///`
    for line in (raw.strip() for raw in lines):
        if line == "///" or line.startswith("/// "):
            in_metadata = line != "///"
        elif in_metadata or any(each.match(line) for each in _LEFT_OUT):
            continue
        else:
            label = _LABEL.match(line)
            text = _undecorated(line[label.end() :] if label else line)
            if text.startswith("@"):  # the tags of JSDoc come after its text
                break
            kept.append(text)
    return kept


def _undecorated(line: str) -> str:
    """Return the title of `==== Title ====`; "" for a line without letters."""
    plain = _DECORATION.sub("", line).strip()
    return plain if any(character.isalnum() for character in plain) else ""


def _paragraphs(lines: list[str]) -> list[list[str]]:
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line:
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return [paragraph for paragraph in paragraphs if paragraph]


def _without_name(line: str, filename: str) -> str:
    """Return `Convert it` for `convert.sh - Convert it`."""
    label = _NAME_LABEL.match(line)
    text = line[label.end() :] if label else line
    base = filename.rpartition("/")[2].lower()
    first = (text.split(None, 1) or [""])[0]
    is_own = first.lower().rstrip(":").rpartition("/")[2] in {base, base.rpartition(".")[0]} - {""}
    name = _FILE_NAME.match(text)
    length = len(first.rstrip(":")) if is_own else name.end() if name else 0
    after = _AFTER_NAME.match(text, length) if length else None
    if after:
        return text[after.end() :]
    return "" if label and " " not in text else text


def _before_section(paragraph: list[str]) -> list[str]:
    for position, line in enumerate(paragraph):
        if _SECTION.match(line) or _TITLE.match(line):
            return paragraph[:position]
    return paragraph


_HEADING = re.compile(r"=head1\s+(.*)")
_COMMAND = re.compile(r"=[a-zA-Z]")
_FORMAT = re.compile(r"[A-Z]<+\s?([^<>]*?)\s?>+")
_NAME = re.compile(r"\S+\s+(?:-+|–|—)\s+(.*)", re.DOTALL)  # noqa: RUF001


def described_in_pod(text: str) -> str:
    """The part of `NAME` after its dash, or the description, or the synopsis."""
    if "=head1" not in text:
        return ""
    sections = _sections(text)
    name = _NAME.match(sections.get("NAME", ""))
    found = (
        name.group(1) if name else "",
        sections.get("DESCRIPTION", ""),
        sections.get("SYNOPSIS", ""),
    )
    return next((each for each in found if each), "")


def _sections(text: str) -> dict[str, str]:
    """The plain text directly below each main heading."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if heading := _HEADING.match(line):
            current = sections.setdefault(heading.group(1).strip().upper(), [])
        elif _COMMAND.match(line):
            current = []
        else:
            current.append(line.strip())
    return {name: _plain("\n".join(lines)) for name, lines in sections.items()}


def _plain(text: str) -> str:
    """Return the text without format codes such as `B<bold>`, two levels deep."""
    return _FORMAT.sub(r"\1", _FORMAT.sub(r"\1", text)).strip()


_HEAD = 50_000  # characters that are searched for a description
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


# A reader returns None where code begins: later comments describe details, not the script.
_Reader = Callable[[list[str], int], _Block | None]


def first_comment(text: str, language: Language, filename: str = "") -> str:
    """Return the first comment block that describes the script, with its paragraphs; "" if none.

    Licences, editor and linter lines and repeated file names are left out; so are comments after
    the first line of code, and in shell scripts the first of comments on one step each.
    """
    if language == "perl" and (described := described_in_pod(text)):
        return described
    lines = text[:_HEAD].removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    position = 1 if lines[0].startswith("#!") else 0
    after_setting = False
    while position < len(lines):
        block = _next_block(lines, position, _READERS[language])
        if block is None or (after_setting and _is_step(lines, block)):
            return ""
        if useful := useful_text(block.lines, filename):
            return useful
        after_setting |= language == "shell" and not block.lines and bool(lines[position].strip())
        position = block.end
    return ""


def _is_step(lines: list[str], block: _Block) -> bool:
    """Tell whether a line of comment is about the command below it, the first of three or more."""
    if len(block.lines) != 1 or not _is_code(lines, block.end):
        return False
    later = [
        number
        for number, line in enumerate(lines[block.end :], block.end)
        if line.startswith("#") and not lines[number - 1].strip() and _is_code(lines, number + 1)
    ]
    return len(later) > 1


def _is_code(lines: list[str], number: int) -> bool:
    line = lines[number].strip() if number < len(lines) else ""
    return line != "" and not line.startswith("#") and not _SHELL_SETTING.match(line)


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
    """Return the text from `rest` of the first line up to the closer, on any later line."""
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
