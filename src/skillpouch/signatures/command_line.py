"""Reads the words of a command line back into arguments, as the script's own parser would."""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from skillpouch.errors import nearest
from skillpouch.runtime.memoize import memoize_by_id
from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord
from skillpouch.signatures.signature import JsonSchema

_SWITCHES = ("store_true", "store_false", "store_const", "append_const", "boolean_optional")
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_PREFIX = re.compile(r"^\W+")
_FOR_HELP = ("-h", "--help")
_TRUE = frozenset({"true", "yes", "on", "1", "t", "y"})
_FALSE = frozenset({"false", "no", "off", "0", "f", "n"})
_MOST_CHOICES = 8


class CommandLineError(ValueError):
    """Words that are no call of a script; `problems` names each reason, `script` what they run."""

    def __init__(self, *problems: str, script: str = "") -> None:
        self.problems = problems
        self.script = script
        super().__init__("; ".join(problems))


class Alias(NamedTuple):
    """The property that another name stands for; `inverts` for a switch that says no."""

    name: str
    inverts: bool = False


@memoize_by_id
def aliases_of(plan: ArgvPlan) -> Mapping[str, Alias]:
    """Return the other names of arguments: those of their flags, with dashes or underscores.

    `add_argument("--in", dest="input_file")` is known as `input_file`, and people read `--in`. A
    name of two arguments is none of either; the name of an argument itself is never another's.
    """
    found: dict[str, set[Alias]] = {}
    arguments = [part for part in plan if isinstance(part, ArgvArgument)]
    for argument in arguments:
        says_no = argument.action == "store_false"
        flags = [(flag, says_no) for flag in argument.flags]
        flags += [(argument.off_flag, True)] if argument.off_flag else []
        for flag, inverts in flags:
            bare = _PREFIX.sub("", flag)
            for name in {bare, bare.replace("-", "_")}:
                found.setdefault(name, set()).add(Alias(argument.name, inverts))
    own = {argument.name for argument in arguments}
    return {
        name: next(iter(meant))
        for name, meant in found.items()
        if len(meant) == 1 and name not in own
    }


def plan_for(schema: JsonSchema) -> ArgvPlan:
    """Return a plan for a tool that is no command line: one flag for each property."""
    return tuple(
        _flag_of(name, facts if isinstance(facts, dict) else {})
        for name, facts in schema.get("properties", {}).items()
    )


def _flag_of(name: str, facts: JsonSchema) -> ArgvArgument:
    flag, written = f"--{name.replace('_', '-')}", f"--{name}"
    others = (written,) if written != flag else ()
    if facts.get("type") == "boolean":
        off_flag = f"--no-{flag[2:]}"
        return ArgvArgument(
            name=name, flag=flag, action="boolean_optional", off_flag=off_flag, others=others
        )
    if facts.get("type") == "array":
        return ArgvArgument(name=name, flag=flag, action="extend", nargs="+", others=others)
    return ArgvArgument(name=name, flag=flag, others=others)


def usage_of(plan: ArgvPlan, schema: JsonSchema, program: str) -> str:
    """Return `scripts/x.py --in IN [--format {a,b}] [files ...]`."""
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    words = [program]
    for part in plan:
        if isinstance(part, FixedWord):
            words.append(part.text)
            continue
        value = _shown_value(part, properties.get(part.name))
        word = f"{part.flag} {value}".rstrip() if part.flag else value
        words.append(word if part.name in required else f"[{word}]")
    return " ".join(words)


def _shown_value(argument: ArgvArgument, schema: Any) -> str:
    if argument.action in (*_SWITCHES, "count"):
        return ""
    choices = _items(schema).get("enum") if isinstance(schema, dict) else None
    name = argument.name.upper() if argument.flag else argument.name
    if isinstance(choices, list) and len(choices) <= _MOST_CHOICES:
        name = "{" + ",".join(map(str, choices)) + "}"
    if isinstance(argument.nargs, int):
        return " ".join([name] * argument.nargs)
    return f"{name} ..." if argument.nargs in ("*", "+", "...") else name


def _items(schema: JsonSchema) -> JsonSchema:
    while schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        schema = schema["items"]
    return schema


def read_words(plan: ArgvPlan, schema: JsonSchema, words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that words pass to a script; raise CommandLineError if they fit none.

    The words of a sub-command may be left out: the tool that is called names it already.
    """
    levels = _levels(plan)
    try:
        return _Reader(levels, schema).read(words)
    except CommandLineError as error:
        if len(levels) == 1:
            raise
        whole = [("", [one for _, level in levels for one in level])]
        try:
            return _Reader(whole, schema).read(words)
        except CommandLineError:
            raise error from None


def all_said(command: Iterable[str], words: Iterable[str]) -> bool:
    """Tell whether words name a sub-command: each word of it, in order."""
    rest = iter(words)
    return all(word in rest for word in command)


_Level = tuple[str, list[ArgvArgument]]


def _levels(plan: ArgvPlan) -> list[_Level]:
    levels: list[_Level] = [("", [])]
    for part in plan:
        if isinstance(part, FixedWord):
            levels.append((part.text, []))
        else:
            levels[-1][1].append(part)
    return levels


class _Reader:
    """Takes the words one by one; the flags are those of the level that it is at."""

    def __init__(self, levels: Sequence[_Level], schema: JsonSchema) -> None:
        self._levels = levels
        arguments = [one for _, level in levels for one in level]
        # Such a script counts its words, whatever they look like.
        self._is_counting = not any(one.flag or one.after_dashes for one in arguments)
        self._schema = schema
        self._properties = schema.get("properties", {})
        self._values: dict[str, Any] = {}
        self._problems: list[str] = []
        self._flags: dict[str, tuple[ArgvArgument, bool]] = {}
        self._rest: deque[str] = deque()

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        self._rest = deque(words)
        for number, (_, level) in enumerate(self._levels):
            later = self._levels[number + 1 :]
            self._level(level, later[0][0] if later else None)
        self._require()
        if self._problems:
            raise CommandLineError(*self._problems)
        return self._values

    def _level(self, level: list[ArgvArgument], until: str | None) -> None:
        self._flags = {flag: (one, False) for one in level for flag in one.flags}
        self._flags |= {one.off_flag: (one, True) for one in level if one.off_flag}
        positionals = [one for one in level if not one.flag]
        open_from = next((i for i, one in enumerate(positionals) if one.nargs == "..."), None)
        plain: list[str] = []
        said = until is None
        while self._rest:
            word = self._rest.popleft()
            if word == until and len(plain) >= sum(map(_least, positionals)):
                said = True
                break
            if word == "--" and not self._is_counting:
                plain += self._drain()
            elif self._is_flag(word):
                self._flag(word)
            elif until is not None and not positionals:
                raise CommandLineError(f"{word!r} is not the sub-command {until!r}")
            else:
                plain.append(word)
                if open_from is not None and len(plain) >= max(open_from, 1):
                    plain += self._drain()
        if not said:
            raise CommandLineError(f"the sub-command {until!r} is missing")
        self._assign(positionals, plain)

    def _drain(self) -> list[str]:
        rest = list(self._rest)
        self._rest.clear()
        return rest

    def _is_flag(self, word: str) -> bool:
        if self._is_counting or len(word) == 1 or not word:
            return False
        if word in self._flags or word.partition("=")[0] in self._flags:
            return True
        if word[0] != "-" and word[0] not in {flag[0] for flag in self._flags}:
            return False
        if _NEGATIVE_NUMBER.fullmatch(word):
            return any(_NEGATIVE_NUMBER.fullmatch(flag) for flag in self._flags)
        return " " not in word

    def _flag(self, word: str) -> None:
        flag, equals, text = word.partition("=")
        known = None if word in self._flags else text if equals else None
        if word in self._flags or flag in self._flags:
            name = word if word in self._flags else flag
            self._take(name, *self._flags[name], known)
        elif flag in _FOR_HELP:
            raise CommandLineError(f"{flag} asks for help, which is no call")
        elif word[:2] in self._flags and len(word) > 2 and word[1] != word[0]:  # noqa: PLR2004
            self._bundle(word)
        else:
            name = self._abbreviated(flag)
            self._take(name, *self._flags[name], text if equals else None)

    def _abbreviated(self, flag: str) -> str:
        longer = [each for each in self._flags if each.startswith(flag) and flag[:2] == flag[0] * 2]
        meant = {self._flags[each] for each in longer}
        if len(meant) == 1:
            return longer[0]
        if meant:
            raise CommandLineError(f"{flag} may mean {' or '.join(longer)}")
        near = nearest(flag, self._flags, most=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise CommandLineError(f"there is no flag {flag}{hint}")

    def _bundle(self, word: str) -> None:
        """Read `-xvf name` and `-ofile`: switches, of which the last may take a value."""
        dash, letters = word[0], word[1:]
        for place, letter in enumerate(letters):
            flag, behind = f"{dash}{letter}", letters[place + 1 :]
            if flag not in self._flags:
                raise CommandLineError(f"there is no flag {flag} in {word}")
            argument, is_off = self._flags[flag]
            if argument.action in (*_SWITCHES, "count"):
                self._take(flag, argument, is_off, None)
            else:
                self._take(flag, argument, is_off, behind.removeprefix("=") if behind else None)
                return

    def _take(self, flag: str, argument: ArgvArgument, is_off: bool, text: str | None) -> None:
        if argument.action in (*_SWITCHES, "count"):
            if text is not None:
                raise CommandLineError(f"{flag} is a switch and takes no value, not {text!r}")
            self._switch(argument, is_off)
        elif argument.nargs is None:
            self._store(argument, self._value(flag, argument, text))
        elif argument.nargs == "?":
            if text is None and self._rest and not self._ends(self._rest[0]):
                text = self._rest.popleft()
            # Without a value the script takes its own constant.
            value = None if text is None else self._typed(flag, text, argument)
            self._store(argument, value)
        else:
            self._store(argument, self._many(flag, argument, text))

    def _switch(self, argument: ArgvArgument, is_off: bool) -> None:
        if argument.action == "count":
            self._values[argument.name] = self._values.get(argument.name, 0) + 1
        else:
            self._values[argument.name] = not is_off and argument.action != "store_false"

    def _value(self, flag: str, argument: ArgvArgument, text: str | None) -> Any:
        if text is None:
            if not self._rest or self._is_known(self._rest[0]):
                raise CommandLineError(f"{flag} needs a value")
            text = self._rest.popleft()
        return self._typed(flag, text, argument)

    def _many(self, flag: str, argument: ArgvArgument, text: str | None) -> list[Any]:
        count = argument.nargs
        found = [] if text is None else [text]
        if count == "...":
            found += self._drain()
        while text is None and self._rest and not self._ends(self._rest[0]) and len(found) != count:
            found.append(self._rest.popleft())
        least = count if isinstance(count, int) else int(count == "+")
        if len(found) < least:
            raise CommandLineError(f"{flag} needs {least} value{'s' if least > 1 else ''}")
        return [self._typed(flag, each, argument) for each in found]

    def _is_known(self, word: str) -> bool:
        """Tell a flag of the script from a value that only looks like one."""
        flag = word.partition("=")[0]
        return word == "--" or flag in self._flags or flag in _FOR_HELP

    def _ends(self, word: str) -> bool:
        return word == "--" or self._is_flag(word)

    def _store(self, argument: ArgvArgument, value: Any) -> None:
        if argument.action == "append":
            self._values.setdefault(argument.name, []).append(value)
        elif argument.action == "extend":
            items = value if isinstance(value, list) else [value]
            self._values.setdefault(argument.name, []).extend(items)
        else:
            self._values[argument.name] = value

    def _assign(self, positionals: Sequence[ArgvArgument], plain: list[str]) -> None:
        rest = deque(plain)
        for number, one in enumerate(positionals):
            free = len(rest) - sum(map(_least, positionals[number + 1 :]))
            wanted = one.nargs if isinstance(one.nargs, int) else free if _is_list(one) else 1
            count = min(wanted, max(free, 0))
            if count < _least(one):
                continue  # `_require` names all that are missing
            texts = [rest.popleft() for _ in range(count)]
            values = [self._typed(one.name, text, one) for text in texts]
            if _is_list(one) and values:
                self._values[one.name] = values
            elif values:
                self._values[one.name] = values[0]
        if rest:
            raise CommandLineError(f"{rest[0]!r} is one word too many")

    def _require(self) -> None:
        for _, level in self._levels:
            for one in level:
                if one.name in self._schema.get("required", ()) and one.name not in self._values:
                    self._problems.append(f"{one.flag or one.name} is missing")

    def _typed(self, named: str, text: str, argument: ArgvArgument) -> Any:
        schema = self._properties.get(argument.name)
        schema = _items(schema) if isinstance(schema, dict) else {}
        try:
            return typed_value(text, schema)
        except ValueError as error:
            self._problems.append(f"{named}: {text!r:.80} {error}")
            return text


def _least(argument: ArgvArgument) -> int:
    if isinstance(argument.nargs, int):
        return argument.nargs
    return 0 if argument.nargs in ("?", "*", "...") else 1


def _is_list(argument: ArgvArgument) -> bool:
    return argument.nargs is not None and argument.nargs != "?"


def typed_value(text: str, schema: JsonSchema) -> Any:
    """Return the value of a word by its schema; raise ValueError if it is none of that type."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        # The number 1 is written as the word `1`.
        return next((each for each in choices if _written(each) == text), text)
    kinds = schema.get("type")
    wanted = kinds if isinstance(kinds, list) else [kinds]
    if "string" in wanted or wanted == [None]:
        return text
    for kind in wanted:
        value = _READERS[kind](text) if kind in _READERS else None
        if value is not None:
            return value
    named = " or ".join(str(kind) for kind in wanted if kind != "null")
    raise ValueError(f"is no {named}")


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _number(text: str) -> float | None:
    whole = _integer(text)
    if whole is not None:
        return whole
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _boolean(text: str) -> bool | None:
    said = text.lower()
    return True if said in _TRUE else False if said in _FALSE else None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_READERS = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": _json,
    "array": _json,
}
