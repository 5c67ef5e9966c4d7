"""Makes the interface of a shell script of what was read about its words and from its usage."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.command_tree import CliCommand, CommandParameter, interfaces_of
from skillpouch.signatures.shell.conditions import UnclearWordsError
from skillpouch.signatures.shell.flag_loops import LoopFlag
from skillpouch.signatures.shell.word_flow import levels_of
from skillpouch.signatures.shell.word_uses import CommandWords, WordUse
from skillpouch.signatures.signature import JsonSchema, Signature

_MOST_WORDS = 20
_REMARK = re.compile(r"[^\n#]{1,200}[ \t]#+[ \t]*([^\n]{1,200})")
_PLACEHOLDER = re.compile(
    r"<([^<>\n]{1,40})>|\[([^\[\]\n]{1,40})\]|\"?\$?\b([A-Z][A-Z_]{1,30})\b\"?"
)
_GAP = r"(?:[ \t]{2,}|[ \t]+[-–—:]+[ \t]+|:[ \t]+)"  # noqa: RUF001
_OUTPUT = r"^[ \t#*]*(?:(?:echo|printf)\b[^\"'\n]{0,10}[\"'])?[ \t]*(?:[\w./$-]+[ \t]+)?"


_FLAG = r"-{1,2}[A-Za-z0-9?][\w-]*"
_VALUE = (
    r"(?:[ \t]*[= ][ \t]*|\[=)(?:<[^<>\n]{1,60}>|\[[^\[\]\n]{1,60}\]|\{[^{}\n]{1,80}\}"
    r"|[A-Z][A-Z0-9_|,.:/-]*(?![a-z])|[a-z][\w|-]*(?=[ \t]{2}))\]?"
)
_FLAG_ROW = re.compile(
    rf"^[ \t#*]*(?:(?:echo|printf)\b[^\"'\n]{{0,10}}[\"'])?[ \t]*"
    rf"(?P<flags>{_FLAG}(?:{_VALUE})?(?:(?:[ \t]*[,|/][ \t]*| or |[ \t]+){_FLAG})*)"
    rf"(?P<value>{_VALUE})?(?:\.\.\.)?(?:[ \t]{{2,}}|\t|[ \t]*[:—–][ \t]+|[ \t]+-[ \t]+)"  # noqa: RUF001
    r"(?P<text>[^\s\\|&;][^\n]{2,300})",
    re.MULTILINE,
)


class StatedFlag(NamedTuple):
    """A flag that the usage of a script lists, with its other forms; `value` if it shows one."""

    flags: tuple[str, ...]
    value: bool
    text: str
    start: int


def stated_flags(text: str) -> dict[str, StatedFlag]:
    """Return flag → what the script's usage says of it, from lists in comments and output."""
    found: dict[str, StatedFlag] = {}
    if "-" not in text:
        return found
    for match in _FLAG_ROW.finditer(text):
        flags = tuple(re.findall(rf"(?<![\w-]){_FLAG}", match["flags"]))
        value = bool(match["value"]) or bool(re.search(_VALUE, match["flags"]))
        said = " ".join(match["text"].split()).rstrip("\"'\\").removesuffix("\\n").strip()
        stated = StatedFlag(flags, value, said, match.start("flags"))
        for flag in flags:
            found.setdefault(flag, stated)
    return found


class _Script(NamedTuple):
    """The text of a script, with the flags that its usage shows."""

    text: str
    stated: Mapping[str, StatedFlag]


def signature_of(level: CommandWords, text: str, description: str) -> Signature | None:
    """Return the signature that follows from the words of a script; None if none has a name.

    Raises UnclearWordsError if that is not certain, or if the script's own usage differs.
    """
    if not level.has_loop and not level.commands and not any(u.names for u in level.uses.values()):
        return None
    script = _Script(text, stated_flags(text))
    _confirm(level, script)
    interface, commands = interfaces_of(_command(level, script, description, ()))
    name, unclear = next(_unclear(level), ("", None))
    return Signature(
        reader="argv",
        interface=interface,
        commands=commands,
        uncertain=f"those of {name}: {unclear.reason}" if unclear else "",
        uncertain_line=line_of(text, unclear.start) if unclear else None,
    )


def line_of(text: str, start: int) -> int | None:
    """Return the line of a place in a script; None if the place is not known."""
    return text.count("\n", 0, start) + 1 if start else None


def _unclear(level: CommandWords) -> Iterator[tuple[str, UnclearWordsError]]:
    for name, command in level.commands.items():
        if command.unclear:
            yield name, command.unclear
        yield from _unclear(command)


def _confirm(level: CommandWords, script: _Script) -> None:
    """Compare the flags that were read with those that the script's usage shows."""
    levels = list(levels_of(level))
    if any(each.unclear for each in levels) or not any(each.has_loop for each in levels):
        return
    known = {flag for each in levels for flag in each.known} | _HELP
    flags = {text: one for each in levels for one in each.flags for text in one.flags}
    for stated in script.stated.values():
        if not known & set(stated.flags):
            reason = f"its usage shows {stated.flags[-1]}, which it does not read"
            raise UnclearWordsError(reason, stated.start)
        read = next((flags[text] for text in stated.flags if text in flags), None)
        if read and stated.value and read.kind != "value":
            reason = f"its usage shows a value for {stated.flags[-1]}, which it does not take"
            raise UnclearWordsError(reason, stated.start)


_HELP = frozenset({"-h", "-?", "--help", "--version", "-V"})


def _command(
    level: CommandWords, script: _Script, description: str, path: tuple[str, ...]
) -> CliCommand:
    parameters = list(_parameters(level, script, path))
    commands: dict[str, CliCommand] = {}
    for name, each in level.commands.items():
        inner = (each, script, _described(name, script), (*path, name))
        try:
            commands[name] = _command(*inner)
        except UnclearWordsError as error:
            # Words after the name of a sub-command are its own: together they are certain.
            level.commands[name] = CommandWords(rest=1, unclear=error)
            commands[name] = _command(level.commands[name], *inner[1:])
    return CliCommand(
        description=description,
        parameters=parameters,
        commands=commands,
        alone=not level.commands,
    )


def _described(name: str, script: _Script) -> str:
    """Return what the usage of the script says about a sub-command."""
    name = re.escape(name)
    row = rf"{_OUTPUT}{name}\b[^\n)(;]{{0,80}}?{_GAP}#?[ \t]*([^\n]{{3,200}})"
    match = re.search(row, script.text, re.MULTILINE)
    text = match[1].strip().rstrip("\"'").strip() if match else ""
    return "" if re.match(r"[<\[|)]|\$|-", text) else text


def _parameters(
    level: CommandWords, script: _Script, path: tuple[str, ...]
) -> Iterator[CommandParameter]:
    names: set[str] = set()
    ends = any(flag.exits for flag in level.flags)
    unless_ended = _require_first(level)
    for number, use in sorted(level.before.items()):
        name = _free(_name(use, number, path, script), names)
        one = _positional(use, name, script, first=True)
        yield replace(one, unless_ended=number in unless_ended)
    for flag in sorted(level.flags, key=lambda flag: flag.exits):
        yield _flag(flag, level, script, _free(_flag_name(flag), names), certain=not ends)
    yield from _words(level, script, path, names)


def _require_first(level: CommandWords) -> set[int]:
    """Require the words before the flags that the script refuses to be without after them.

    Return those that it is refused without only if no flag ends it.
    """
    changed = {flag.variable for flag in level.flags} | {put.name for put in level.taken}
    ends = any(flag.exits for flag in level.flags)
    unless_ended: set[int] = set()
    later = False
    for number, use in sorted(level.before.items(), reverse=True):
        own = {name for *_, name in use.names} & (level.needed - changed)
        needed = bool(own) and not use.default
        if needed and ends and not use.required:
            unless_ended.add(number)
        use.required = later = use.required or (needed and not ends) or later
    return unless_ended


def _free(name: str, taken: set[str]) -> str:
    free, count = name, 2
    while free in taken:
        free, count = f"{name}_{count}", count + 1
    taken.add(free)
    return free


def _flag_name(flag: LoopFlag) -> str:
    long = next((text for text in flag.flags if text.startswith("--")), "")
    short = next((text for text in flag.flags if len(text) > len("-x")), "")
    name = long or short or flag.variable.lower() or flag.flags[0]
    return re.sub(r"\W", "_", name.lstrip("-")) or "flag"


def _shown_flag(flag: LoopFlag) -> tuple[str, tuple[str, ...]]:
    """Return the flag that words are made with, a long one if there is one, and the others."""
    best = next((text for text in flag.flags if text.startswith("--")), flag.flags[0])
    return best, tuple(text for text in flag.flags if text != best)


def _flag(
    flag: LoopFlag, level: CommandWords, script: _Script, name: str, *, certain: bool
) -> CommandParameter:
    text, others = _shown_flag(flag)
    schema: JsonSchema = {"type": "boolean"}
    action = "store_true"
    if flag.kind == "count":
        schema, action = {"type": "integer", "minimum": 0}, "count"
    elif flag.kind == "value":
        schema, action = _value_schema(flag, level), "append" if flag.append else "store"
    stated = next((script.stated[each] for each in flag.flags if each in script.stated), None)
    if stated and stated.text:
        schema["description"] = stated.text
    initial = level.initial.get(flag.variable, "")
    if flag.kind == "value" and not flag.append and initial and "$" not in initial:
        _add_default(schema, initial)
    alone = sum(flag.variable == other.variable for other in level.flags) == 1
    needed = flag.kind == "value" and flag.variable in level.needed and alone and initial == ""
    needed = needed and not any(put.name == flag.variable for put in level.taken)
    return CommandParameter(
        name=name,
        argument=ArgvArgument(
            name=name,
            flag=text,
            action=action,  # type: ignore[arg-type]  # one of the literals above
            joined=flag.joined if flag.kind == "value" else None,
            others=others,
        ),
        schema=schema,
        required=needed and certain,
        ends=flag.exits,
        unless_ended=needed and not certain,
    )


def _value_schema(flag: LoopFlag, level: CommandWords) -> JsonSchema:
    schema: JsonSchema = {"type": "string"}
    choices = flag.choices or level.choices.get(flag.variable, ())
    initial = level.initial.get(flag.variable, "")
    if flag.digits:
        schema = {"type": "integer", "minimum": 0}
    elif choices and all(choices) and initial is not None:
        schema["enum"] = list(dict.fromkeys(choices))
    return {"type": "array", "items": schema} if flag.append else schema


def _add_default(schema: JsonSchema, text: str) -> None:
    if schema["type"] == "integer":
        if text.isdigit():
            schema["default"] = int(text)
    elif text in schema.get("enum", [text]):
        schema["default"] = text


def _name(use: WordUse, number: int, path: tuple[str, ...], script: _Script) -> str:
    """Return the name of a positional: the variable it goes to, or what the usage calls it."""
    best = sorted(use.names, key=lambda each: each[:2])
    same = {name.lower() for *rank, name in best if rank == list(best[0][:2])}
    if best and (len(same) == 1 or not best[0][0]):
        return best[0][2].lower()
    shown = _usage_names(path, script)
    if number <= len(shown) and not best:
        return shown[number - 1]
    raise UnclearWordsError("a word has no name or several names", 0)


def _usage_names(path: tuple[str, ...], script: _Script) -> list[str]:
    """`add <name> [value]` → name, value; for the script itself, the words of its usage line."""
    if path:
        places = rf"(?<![\w-]){re.escape(' '.join(path))}((?:[ \t]+(?:<[^<>\n]+>|\[[^\[\]\n]+\]))+)"
    else:
        places = r"\busage:?[ \t]*\S+[ \t]+([^\n]{1,200})"
    match = re.search(places, script.text, 0 if path else re.IGNORECASE)
    found: list[str] = []
    for parts in _PLACEHOLDER.findall(match[1]) if match else []:
        name = re.sub(r"\W+", "_", "".join(parts).strip("<>[]. ")).strip("_").lower()
        if not name.isidentifier() or "".join(parts).startswith("-") or name in found:
            return []
        if name != "options":
            found.append(name)
    return found


def _positional(
    use: WordUse,
    name: str,
    script: _Script,
    *,
    level: CommandWords | None = None,
    first: bool = False,
) -> CommandParameter:
    schema: JsonSchema = {"type": "string"}
    if use.start and (remark := _REMARK.match(script.text, use.start)):
        schema["description"] = remark[1].strip()
    if use.default and "$" not in use.default:
        schema["default"] = use.default
    if use.choices and all(use.choices):
        schema["enum"] = list(dict.fromkeys(use.choices))
    return CommandParameter(
        name=name,
        argument=ArgvArgument(
            name=name,
            nargs=None if use.required else "?",
            after_dashes=bool(level and level.dashes),
            first=first,
            skippable=use.skippable and not use.required and not (level and level.counts),
            refuses=_refused(level) if level else "",
        ),
        schema=schema,
        required=use.required,
    )


def _refused(level: CommandWords, *, empty: bool = False) -> str:
    """Return the pattern of words that the loop would not take for this positional."""
    texts = [re.escape(word) for word in sorted(level.refused)]
    if level.has_loop and level.guarded:
        texts.append("-.*")
    return "|".join([*texts, ""]) if empty else "|".join(texts)


def _words(
    level: CommandWords, script: _Script, path: tuple[str, ...], names: set[str]
) -> Iterator[CommandParameter]:
    if level.taken:
        yield from _taken(level, names)
        return
    rest = level.rest
    numbers = [n for n, use in sorted(level.uses.items()) if rest is None or n < rest]
    beyond = [use for n, use in level.uses.items() if rest is not None and n >= rest]
    if len(numbers) > _MOST_WORDS or numbers != list(range(1, len(numbers) + 1)):
        raise UnclearWordsError("some of its words are never read", level.start)
    if any(use.names for use in beyond):
        raise UnclearWordsError("its words are used one by one and all at once", level.start)
    if rest is not None and rest > len(numbers) + 1:
        raise UnclearWordsError("some of its words are never read", level.start)
    uses = [level.uses[number] for number in numbers]
    ends = any(flag.exits for flag in level.flags)  # no words are needed with such a flag
    for number, use in enumerate(uses, start=1):
        needed = use.required or any(other.required for other in uses[number:])
        use.required = needed and not ends
        name = _free(_name(use, number, path, script), names)
        one = _positional(use, name, script, level=level)
        yield replace(one, unless_ended=needed and ends)
    if rest is not None:
        needed = any(use.required for use in beyond)
        found = _list(_free(level.rest_name.lower(), names), level, required=needed and not ends)
        yield replace(found, unless_ended=needed and ends)


def _list(name: str, level: CommandWords, *, required: bool = False) -> CommandParameter:
    return CommandParameter(
        name=name,
        argument=ArgvArgument(
            name=name,
            nargs="+" if required else "*",
            after_dashes=level.dashes,
            refuses=_refused(level) if not level.unclear else "",
        ),
        schema={
            "type": "array",
            "items": {"type": "string"},
            **({"minItems": 1} if required else {}),
        },
        required=required,
    )


def _taken(level: CommandWords, names: set[str]) -> Iterator[CommandParameter]:
    """Return the positionals that the loop itself puts into variables."""
    by_flags = {flag.variable for flag in level.flags if flag.kind == "value"}
    both = [put for put in level.taken if put.name in by_flags]
    if both and len(level.taken) == 1 and not both[0].append:
        return  # its flag gives it a value, too
    in_turn = len(level.taken) > 1
    wrong = [put for put in level.taken if level.initial.get(put.name, "") and not put.append]
    if both or (in_turn and wrong) or level.uses or level.rest is not None:
        raise UnclearWordsError("which variable a word goes to is not clear", level.start)
    for put in level.taken:
        name = _free(put.name.lower(), names)
        if put.append:
            yield _list(name, level)
            continue
        initial = level.initial.get(put.name, "")
        needed = put.name in level.needed and initial == ""
        ends = any(flag.exits for flag in level.flags)
        required = needed and not ends
        schema: JsonSchema = {"type": "string"}
        choices = level.choices.get(put.name, ())
        if choices and all(choices) and initial is not None:
            schema["enum"] = list(dict.fromkeys(choices))
        if initial and "$" not in initial:
            _add_default(schema, initial)
        yield CommandParameter(
            name=name,
            argument=ArgvArgument(
                name=name,
                nargs=None if required else "?",
                refuses=_refused(level, empty=True),
            ),
            schema=schema,
            required=required,
            unless_ended=needed and ends,
        )
