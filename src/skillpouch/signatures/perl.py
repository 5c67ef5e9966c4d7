"""Perl scripts: their words, or JSON on stdin."""

import re

from skillpouch.signatures.blanked import blanked_perl
from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.signature import Interface, Signature, first_paragraph
from skillpouch.signatures.usage_lines import argument_list, own_usage

_LONGEST = 120_000  # only the beginning of anything longer is read
_WORDS = re.compile(r"[@$]\{?ARGV\b|\bGetOptions\b|\bgetopts?\b")
# `shift` without an array takes a word of the script, or inside a `sub` one of its own.
_STRUCTURE = re.compile(r"\bsub\b|[{}]|(?<![$@%&>\w])\bshift\b(?!\s*\(?\s*[@$](?!ARGV)|\s*=>)")
# Their argument may be blanked in the code; the text has it at the same position.
_VARIABLE = re.compile(r"\$ENV\{")
_NAME = re.compile(r"""\s*(["']?)(\w{1,200})\1\s*\}(?P<assigned>\s*(?:\|\||//)?=(?![=~]))?""")
_USE = re.compile(
    r"(?:^|;)[ \t]*(?:use|require)(?=\s)(?:[ \t]+(?P<module>[A-Za-z_][\w:]*))?", re.MULTILINE
)
_FILE = re.compile(r"""\s*["']([^"'\n]{1,200})["']""")
_TESTS = frozenset({"Test::More", "Test::Simple", "Test2::V0", "Test::Most"})
_ANSWER = re.compile(r"=\s*<STDIN>")
_LINES_OF_DATA = re.compile(r"\bwhile\s*\([^\n]{0,80}<STDIN>")
_LINE = re.compile(r"^\S.*$", re.MULTILINE)
_DECLARES = re.compile(
    r"(?:use|no|require|package|sub)\b|1\s*;|[\])}]|(?:my|our)\b[^=\n]*;|__(?:END|DATA)__"
)


def read_perl(text: str, *, filename: str = "") -> Signature:
    """Read a script without running it; any text gives a signature."""
    description = first_paragraph(first_comment(text, "perl", filename))
    text = text[:_LONGEST]
    code = blanked_perl(text)
    takes_words = bool(_WORDS.search(code)) or _shifts_words(code)
    imports = _imports(text, code)
    return Signature(
        reader="argv" if takes_words else "comments",
        interface=argument_list(description, own_usage(text, filename))
        if takes_words
        else Interface(convention="stdin", description=description),
        variables=_variables(text, code),
        imports=imports,
        has_entry=any(_does(line.group()) for line in _LINE.finditer(code)),
        is_test=bool(imports & _TESTS),
        reads_input=bool(_ANSWER.search(code)) and not _LINES_OF_DATA.search(code),
    )


def _does(line: str) -> bool:
    """Tell whether a line is more than declarations, also after one: `use strict; run();`."""
    ends = (
        line.rpartition("}")[2] if line.startswith(("sub ", "package ")) and "}" in line else line
    )
    statements = (part.strip() for part in ends.split(";"))
    return any(part and not _DECLARES.match(f"{part};") for part in statements)


def _shifts_words(code: str) -> bool:
    """Whether `shift` stands outside every `sub`."""
    braces: list[bool] = []  # for each open brace, whether it is the body of a sub
    subs, is_sub = 0, False
    for match in _STRUCTURE.finditer(code):
        word = match.group()
        if word == "sub":
            is_sub = True
        elif word == "{":
            braces.append(is_sub)
            subs, is_sub = subs + is_sub, False
        elif word == "}":
            subs -= braces.pop() if braces else 0
        elif subs == 0:
            return True
    return False


def _variables(text: str, code: str) -> tuple[str, ...]:
    """`$ENV{X}` and `$ENV{"X"}`, unless it is given a value."""
    found = (_NAME.match(text, match.end()) for match in _VARIABLE.finditer(code))
    return tuple(sorted({name.group(2) for name in found if name and not name["assigned"]}))


def _imports(text: str, code: str) -> frozenset[str]:
    modules: set[str] = set()
    for match in _USE.finditer(code):
        file = _FILE.match(text, match.end())
        name = match["module"] or (file.group(1) if file else "")
        if name:
            modules.add(name)
    return frozenset(modules)
