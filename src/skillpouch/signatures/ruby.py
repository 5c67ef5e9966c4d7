"""Reads the interface of a Ruby script: comments, OptionParser, ARGV."""

import re
from dataclasses import dataclass
from typing import Literal

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.blanked import blanked_ruby
from skillpouch.signatures.comments import first_comment
from skillpouch.signatures.signature import Interface, JsonSchema, Signature, first_paragraph
from skillpouch.signatures.usage_lines import Planned, argument_list, own_usage, planned

_CALL = re.compile(r"\.on(?:_head)?(?:[ \t]*\(|[ \t])")
_WORDS = re.compile(r"\bARGV\b")
_PARSED_WORDS = re.compile(r"\bparse!?[ \t(]+ARGV\b")
_MOST_PARTS = 12
_PART = re.compile(
    r"""\s*(?:"(?P<double>[^"\\#]*)"|'(?P<single>[^'\\]*)'|(?P<constant>[A-Z]\w*)
    |%[wi]\[(?P<words>[^\]]*)\]|\[(?P<list>[^\[\]]*)\])\s*(?P<more>,?)""",
    re.VERBOSE,
)
_ITEM = re.compile(r"""["']([^"']*)["']|:(\w+)""")
_LONG = re.compile(r"--(?P<no>\[no-\])?(?P<name>[A-Za-z][\w-]*)(?P<value>[ =\[].*)?")
_SHORT = re.compile(r"-(?P<name>\w)(?P<value>[ =\[]?.*)")
_TYPES = {"Integer": "integer", "Float": "number", "Numeric": "number"}
_ASKS_FOR_TEXT = frozenset({"help", "version"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """`on("-n", "--name NAME", Integer, "How many")`, taken apart."""

    flags: tuple[str, ...]
    texts: tuple[str, ...]
    kind: str = "string"
    choices: tuple[str, ...] = ()


def read_option_parser(text: str, code: str) -> list[Planned] | None:
    """The arguments that `on` calls describe; None when one of them is not literal."""
    planned: list[Planned] = []
    for match in _CALL.finditer(code):
        call = _read_call(text, match.end())
        option = _read_option(call) if call else None
        if option is None:
            return None
        planned.append(option)
    names = [each.argument.name for each in planned]
    if not planned or len(set(names)) < len(names):
        return None
    known = [each for each in planned if each.argument.name not in _ASKS_FOR_TEXT]
    return known + _rest(code, names)


def _read_call(text: str, position: int) -> _Call | None:
    strings: list[str] = []
    kind, more = "string", ","
    choices: tuple[str, ...] = ()
    for _ in range(_MOST_PARTS):
        part = _PART.match(text, position) if more else None
        if part is None:
            break
        position, more = part.end(), part["more"]
        if part["constant"]:
            kind = _TYPES.get(part["constant"], "string")
        elif part["words"] or part["list"]:
            choices = _choices(part["words"], part["list"])
        else:
            strings.append(part["double"] or part["single"] or "")
    flags = tuple(each for each in strings if each.startswith("-"))
    texts = tuple(each for each in strings if each and not each.startswith("-"))
    ended = not more and bool(flags)
    return _Call(flags=flags, texts=texts, kind=kind, choices=choices) if ended else None


def _choices(words: str | None, listed: str | None) -> tuple[str, ...]:
    if words:
        return tuple(words.split())
    return tuple(match.group(1) or match.group(2) for match in _ITEM.finditer(listed or ""))


def _read_option(call: _Call) -> Planned | None:
    long = next((match for flag in call.flags if (match := _LONG.fullmatch(flag))), None)
    match = long or _SHORT.fullmatch(call.flags[0])
    if match is None:
        return None
    flag = f"--{match['name']}" if long else f"-{match['name']}"
    name = match["name"].replace("-", "_")
    others = _short_flags(call) if long else ()
    described: JsonSchema = {"description": " ".join(call.texts)} if call.texts else {}
    value = _value(call)
    if not value:
        argument = ArgvArgument(name=name, flag=flag, action="store_true", others=others)
        return _read_switch(argument, described, negatable=bool(long and long["no"]))
    schema: JsonSchema = {"type": call.kind}
    if call.choices:
        schema["enum"] = list(call.choices)
    is_optional = value.strip(" =").startswith("[")
    nargs: Literal["?"] | None = "?" if is_optional else None
    argument = ArgvArgument(name=name, flag=flag, nargs=nargs, others=others)
    return Planned(argument, schema | described)


def _short_flags(call: _Call) -> tuple[str, ...]:
    matches = [match for flag in call.flags if (match := _SHORT.fullmatch(flag))]
    return tuple(f"-{match['name']}" for match in matches)


def _value(call: _Call) -> str:
    """What follows any of the flags: `NAME`, `=NAME`, `[NAME]`, or nothing."""
    matches = [_LONG.fullmatch(flag) or _SHORT.fullmatch(flag) for flag in call.flags]
    return next((match["value"] for match in matches if match and match["value"]), "")


def _read_switch(switch: ArgvArgument, described: JsonSchema, *, negatable: bool) -> Planned:
    schema = {"type": "boolean"} | described
    if negatable and switch.flag:
        off_flag = switch.flag.replace("--", "--no-", 1)
        switch = switch._replace(action="boolean_optional", off_flag=off_flag)
    return Planned(switch, schema)


def _rest(code: str, names: list[str]) -> list[Planned]:
    """Return an argument for the words that are not options, if the script reads them."""
    looks = len(_WORDS.findall(code)) > len(_PARSED_WORDS.findall(code))
    if not looks or "args" in names:
        return []
    words: JsonSchema = {"type": "array", "items": {"type": "string"}}
    return [Planned(ArgvArgument(name="args", nargs="*", after_dashes=True), words)]


_LONGEST = 120_000  # only the beginning of anything longer is read
_NOT_LITERAL = "the options given to OptionParser are not all literal"

# Their argument is blanked in the code; the text has it at the same position.
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
        has_entry=any(_does(line.group()) for line in _LINE.finditer(code)),
        is_test=bool(imports & _TESTS),
        reads_input=bool(_ANSWER.search(code)) and not _LINES_OF_DATA.search(code),
    )


def _does(line: str) -> bool:
    """Tell whether a line is more than declarations, also after one: `require "json"; run`."""
    is_block = re.match(r"(?:def|class|module)\b", line) and re.search(r"\bend\b", line)
    ends = re.split(r"\bend\b", line)[-1] if is_block else line
    statements = (part.strip() for part in ends.split(";"))
    return any(part and not _DECLARES.match(f"{part}  ") for part in statements)


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
