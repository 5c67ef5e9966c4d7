"""Ruby scripts: OptionParser, ARGV, or JSON on stdin."""

import re

from skillpouch.signatures.argument_list import Planned, argument_list, planned
from skillpouch.signatures.blanked import blanked_ruby
from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.first_paragraph import first_paragraph
from skillpouch.signatures.own_usage import own_usage
from skillpouch.signatures.ruby_options import read_option_parser
from skillpouch.signatures.signature import Interface, Signature

_LONGEST = 120_000  # only the beginning of anything longer is read
_NOT_LITERAL = "the options given to OptionParser are not all literal"
_WORDS = re.compile(r"\bARGV\b")
# What follows these is blanked in the code: the text has it, at the same place.
_VARIABLE = re.compile(r"\bENV(?:\.fetch)?[ \t]*[\[(]")
_NAME = re.compile(r"""\s*(["'])(\w{1,200})\1\s*(?:\]\s*=(?![=~]))?""")
_REQUIRE = re.compile(r"\brequire(?P<relative>_relative)?(?=[\s(])")
_MODULE = re.compile(r"""\s*\(?\s*["']([^"'\n]{1,200})["']""")
_TESTS = frozenset({"minitest", "minitest/autorun", "minitest/spec", "test/unit", "rspec"})
_ANSWER = re.compile(r"(?<!ARGF\.)\bgets\b")
_LINES_OF_DATA = re.compile(r"\b(?:while|until)\b[^\n]{0,80}\bgets\b")
_DECLARES = re.compile(
    r"(?:require(?:_relative)?|load|def|class|module|end|private|public|include|extend|using"
    r"|attr_\w+|[A-Z]\w*\s*\|?\|?=[^=~])(?:\b|\s)|[\])}]"
)
_LINE = re.compile(r"^\S.*$", re.MULTILINE)


def read_ruby(text: str, *, filename: str = "") -> Signature:
    """Read a script without running it; any text gives a signature."""
    description = first_paragraph(first_comment(text, "ruby", filename))
    text = text[:_LONGEST]
    code = blanked_ruby(text)
    known = read_option_parser(text, code) if "OptionParser" in code else None
    takes_words = "OptionParser" in code or bool(_WORDS.search(code))
    imports = _imports(text, code)
    usage = own_usage(text, filename)
    return Signature(
        reader="optparse" if known else "argv" if takes_words else "comments",
        interface=_interface(description, known, usage if takes_words else None),
        uncertain="" if known or "OptionParser" not in code else _NOT_LITERAL,
        variables=_variables(text, code),
        imports=imports,
        has_entry=any(not _DECLARES.match(line.group()) for line in _LINE.finditer(code)),
        is_test=bool(imports & _TESTS),
        reads_input=bool(_ANSWER.search(code)) and not _LINES_OF_DATA.search(code),
    )


def _interface(description: str, known: list[Planned] | None, usage: str | None) -> Interface:
    if known:
        return planned(description, known)
    if usage is not None:
        return argument_list(description, usage)
    return Interface(convention="stdin", description=description)


def _variables(text: str, code: str) -> tuple[str, ...]:
    """`ENV["X"]` and `ENV.fetch("X")`, unless it is given a value."""
    found = (_NAME.match(text, match.end()) for match in _VARIABLE.finditer(code))
    return tuple(sorted({name.group(2) for name in found if name and name.group()[-1] != "="}))


def _imports(text: str, code: str) -> frozenset[str]:
    modules: set[str] = set()
    for match in _REQUIRE.finditer(code):
        if module := _MODULE.match(text, match.end()):
            name = module.group(1)
            is_neighbour = match["relative"] and not name.startswith(".")
            modules.add(f"./{name}" if is_neighbour else name)
    return frozenset(modules)
