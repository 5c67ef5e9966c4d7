"""The options of a Ruby script that uses OptionParser, when they are literal."""

import re
from dataclasses import dataclass

from skillpouch.signatures.argument_list import Planned
from skillpouch.signatures.argv import Argument
from skillpouch.signatures.signature import JsonSchema

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
    described: JsonSchema = {"description": " ".join(call.texts)} if call.texts else {}
    value = _value(call)
    if not value:
        return _read_switch(name, flag, described, negatable=bool(long and long["no"]))
    schema: JsonSchema = {"type": call.kind}
    if call.choices:
        schema["enum"] = list(call.choices)
    is_optional = value.strip(" =").startswith("[")
    argument = Argument(name=name, flag=flag, nargs="?" if is_optional else None)
    return Planned(argument, schema | described)


def _value(call: _Call) -> str:
    """What follows any of the flags: `NAME`, `=NAME`, `[NAME]`, or nothing."""
    matches = [_LONG.fullmatch(flag) or _SHORT.fullmatch(flag) for flag in call.flags]
    return next((match["value"] for match in matches if match and match["value"]), "")


def _read_switch(name: str, flag: str, described: JsonSchema, *, negatable: bool) -> Planned:
    schema = {"type": "boolean"} | described
    if negatable:
        off_flag = flag.replace("--", "--no-", 1)
        argument = Argument(name=name, flag=flag, action="boolean_optional", off_flag=off_flag)
        return Planned(argument, schema)
    return Planned(Argument(name=name, flag=flag, action="store_true"), schema)


def _rest(code: str, names: list[str]) -> list[Planned]:
    """The words that are no options, when the script looks at them."""
    looks = len(_WORDS.findall(code)) > len(_PARSED_WORDS.findall(code))
    if not looks or "args" in names:
        return []
    words: JsonSchema = {"type": "array", "items": {"type": "string"}}
    return [Planned(Argument(name="args", nargs="*", after_dashes=True), words)]
