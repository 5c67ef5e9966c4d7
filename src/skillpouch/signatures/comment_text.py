"""What a person would keep of a comment block: no licence, no linter lines, no file name."""

import re

_SCRIPT_ENDING = r"\.(?:sh|bash|zsh|js|mjs|cjs|ts|rb|pl|py)"
_DASH = r"[-–—:]"  # noqa: RUF001  (people do type these dashes)
# For machines: editors, linters, compilers.
_DIRECTIVE = re.compile(
    r"-\*-.*-\*-|(?:vim?|ex):|.*\bcoding[:=]\s*[\w.-]+|encoding:|frozen_string_literal:|warn_indent:"
    r"|typed:|shellcheck\s+\w+=|eslint-|eslint\s+[\w@/-]+\s*:|prettier-ignore|js[hl]int\b|tslint:"
    r"|globals?\s+\w+\s*(?:[,:]|$)|biome-|deno-|istanbul\b|@ts-|@flow\b|@format\b|@jest-|@jsx"
    r"|<reference\b|rubocop:|pylint:|ruff:|mypy:|flake8:|noqa\b|type:\s*ignore|fmt:\s|isort:|nosec\b"
    r"|pragma\b|sourceMappingURL|!/"
)
# About the file, not about what it does.
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
# About the next line of code, or about the comment itself.
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


_LEFT_OUT = (_DIRECTIVE, _ABOUT_FILE, _ABOUT_CODE)


def useful_text(lines: list[str], filename: str = "") -> str:
    """The paragraphs of a comment that describe a script; its usage only when that is all."""
    paragraphs = [each for each in _paragraphs(_kept(lines)) if not _LICENCE.search(" ".join(each))]
    if paragraphs:
        first = _without_name(paragraphs[0][0], filename)
        paragraphs[0] = [first, *paragraphs[0][1:]] if first else paragraphs[0][1:]
    described = [_before_section(paragraph) for paragraph in paragraphs]
    useful = [each for each in described if each] or [each for each in paragraphs if each]
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
    """`==== Title ====` is a title, and a line without any letter only draws."""
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
    """`convert.sh - Convert it` says `Convert it`."""
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
        if _SECTION.match(line):
            return paragraph[:position]
    return paragraph
