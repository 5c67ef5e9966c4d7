"""The options of a script that calls Node's `parseArgs`, when they are literal."""

import re

from skillpouch.signatures.argument_list import Planned
from skillpouch.signatures.argv import Argument
from skillpouch.signatures.javascript.statements import declared_names
from skillpouch.signatures.javascript.tokens import Code, Span
from skillpouch.signatures.javascript.values import Entry, read_entries, read_literal

_NAME = re.compile(r"[A-Za-z0-9][\w-]*")
_OWN_WORDS = (  # the words of the command line itself, and not some of them
    ("process", ".", "argv", ".", "slice", "(", "2", ")"),
    ("argv", ".", "slice", "(", "2", ")"),
    ("Bun", ".", "argv", ".", "slice", "(", "2", ")"),
    ("Deno", ".", "args"),
)
_ASKS_FOR_TEXT = frozenset({"help", "version"})
UTIL = frozenset({"util", "node:util"})
_DECLARE = frozenset({"function", "const", "let", "var"})


def parse_args_calls(code: Code) -> list[int]:
    """Where `parseArgs` is called; nowhere when the script has a function of that name itself."""
    if any(code[at - 1].text in _DECLARE for at in code.find("parseArgs")):
        return []
    return [at for at in code.find("parseArgs") if code[at + 1].text == "("]


def find_parse_args(code: Code, modules: frozenset[str]) -> int | None:
    """The position of the only call of Node's `parseArgs`."""
    calls = parse_args_calls(code) if modules & UTIL else []
    return calls[0] if len(calls) == 1 else None


def read_parse_args(code: Code, call: int) -> list[Planned] | None:
    """The arguments that the call describes; None when something in it is not literal."""
    opener = call + 2
    if code[opener].text != "{":
        return None
    config = {entry.key: entry.value for entry in read_entries(code, opener)}
    if "" in config or not _reads_all_words(code, config.get("args")):
        return None
    options = _read_options(code, config["options"]) if "options" in config else []
    positionals = read_literal(code, config.get("allowPositionals", (0, 0)))
    if options is None:
        return None
    return [*options, *_words(options)] if positionals is True else options


def _reads_all_words(code: Code, span: Span | None) -> bool:
    if span is None:
        return True
    declared = declared_names(code).get(code[span[0]].text) if span[1] - span[0] == 1 else None
    start = declared.position if declared else span[0]
    return any(code.texts(start, len(words)) == words for words in _OWN_WORDS)


def _read_options(code: Code, span: Span) -> list[Planned] | None:
    start = span[0]
    if span[1] - start == 1 and code[start].text in (names := declared_names(code)):
        start = names[code[start].text].position
    if code[start].text != "{":
        return None
    options = [_read_option(code, entry) for entry in read_entries(code, start)]
    known = [option for option in options if option is not None]
    if len(known) < len(options):
        return None
    return [each for each in known if each.argument.name not in _ASKS_FOR_TEXT]


def _read_option(code: Code, entry: Entry) -> Planned | None:
    if code[entry.value[0]].text != "{" or not _NAME.fullmatch(entry.key):
        return None
    settings = {
        each.key: read_literal(code, each.value) for each in read_entries(code, entry.value[0])
    }
    if settings.get("type") not in {"string", "boolean"}:
        return None
    name, flag = entry.key.replace("-", "_"), f"--{entry.key}"
    schema = {"type": settings["type"]}
    if settings["type"] == "boolean":
        return Planned(Argument(name=name, flag=flag, action="store_true"), schema)
    if settings.get("multiple") is True:
        schema = {"type": "array", "items": schema}
        return Planned(Argument(name=name, flag=flag, action="append"), schema)
    default = settings.get("default")
    shown = {"default": default} if isinstance(default, str) else {}
    return Planned(Argument(name=name, flag=flag), schema | shown)


def _words(options: list[Planned]) -> list[Planned]:
    taken = {option.argument.name for option in options}
    name = next(name for name in ("args", "positionals", "_") if name not in taken)
    words = {"type": "array", "items": {"type": "string"}}
    return [Planned(Argument(name=name, nargs="*", after_dashes=True), words)]
