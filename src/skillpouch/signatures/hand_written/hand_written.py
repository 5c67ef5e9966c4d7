"""Programs that read their command line by hand: their arguments, and whether usage agrees."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from skillpouch.signatures.argv import ArgvArgument, FixedWord
from skillpouch.signatures.hand_written.loops import LoopFollower
from skillpouch.signatures.hand_written.tracking import HandWrittenProgram
from skillpouch.signatures.hand_written.values import (
    HELP,
    About,
    Flag,
    Reading,
    UnclearError,
    Word,
    starts,
)
from skillpouch.signatures.signature import Interface, JsonSchema
from skillpouch.signatures.usage_lines import Planned, object_schema

_MOST = 20
_MOST_FLAGS = 60
_USAGE_WORD = re.compile(r"<[^<>]{1,60}>|\[[^\[\]]{1,60}\]|\"[^\"]*\"|'[^']*'|\S+")
_USAGE_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_NUMBERED = re.compile(r"(?:arg|word)\d+")
_SCRIPT = re.compile(r"\.(?:py|js|mjs|cjs|ts)$")


class OwnUsage(NamedTuple):
    """What a program says of its own use: the line after `Usage:`, and the flags that it lists."""

    line: str
    flags: frozenset[str] = frozenset()


class HandWritten(NamedTuple):
    """The interface of a program, or the reason why there is none, and where in the program."""

    interface: Interface | None
    reason: str = ""
    line: int | None = None


def read_hand_written(
    program: HandWrittenProgram, usage: OwnUsage, description: str = ""
) -> HandWritten:
    """Return the interface of a program that reads its words by hand, if they have names."""
    try:
        reading = LoopFollower(program).run()
        return HandWritten(_Builder(reading, usage, program).interface(description))
    except UnclearError as error:
        return HandWritten(None, error.reason, error.line)
    except RecursionError:
        return HandWritten(None, "it is nested too deeply to follow")


class _Builder:
    def __init__(self, reading: Reading, usage: OwnUsage, program: HandWrittenProgram) -> None:
        self.reading = reading
        self.usage, self.listed = usage
        self.program = program
        self.flags = _distinct(reading)
        self.dependent: dict[str, list[str]] = {}
        self.at = self._numbered("at")
        self.plain = self._numbered("plain")

    def interface(self, description: str) -> Interface | None:
        """Return the interface; None if numbers would tell no more than a list of words does."""
        self._refuse_gaps()
        positionals = self._positionals()
        flags = [self._planned_flag(flag) for flag in self.flags]
        if not positionals and not flags:
            raise UnclearError("no argument was found in how it reads its words")
        if len(positionals) > _MOST or len(flags) > _MOST_FLAGS:
            raise UnclearError("it has too many arguments")
        self._agree(positionals)
        if not flags and all(_NUMBERED.fullmatch(one.argument.name) for one in positionals):
            return None
        self._depend(positionals, flags)
        schema: JsonSchema = {
            **object_schema(
                {one.argument.name: one.schema for one in [*positionals, *flags]},
                [one.argument.name for one in [*positionals, *flags] if one.required],
            ),
            "additionalProperties": False,
        }
        if self.dependent:
            schema["dependentRequired"] = self.dependent
        arguments = [one.argument for one in positionals]
        plan: list[FixedWord | ArgvArgument] = list(arguments)
        for number, text in sorted(self.reading.fixed.items()):
            plan.insert(number, FixedWord(text))
        plan += [one.argument for one in flags]
        return Interface(
            convention="argv", description=description, input_schema=schema, plan=tuple(plan)
        )

    def _numbered(self, kind: str) -> dict[int, About]:
        return {
            word.number: about
            for word, about in self.reading.about.items()
            if word.kind == kind and word.number >= 0
        }

    def _refuse_gaps(self) -> None:
        fixed, plain = self.reading.fixed, self.plain
        self._refuse_flags_at_a_place()
        if fixed and (self.flags or plain or set(fixed) - set(self.at)):
            raise UnclearError("it has words that are always the same")
        for number in fixed:
            del self.at[number]
        places = {*self.at, *fixed}
        if places != set(range(len(places))) or set(plain) != set(range(len(plain))):
            raise UnclearError("it reads a word, but not the one before it")
        start = self.reading.loop_start
        if plain and start != len(places):
            raise UnclearError("it reads words by number and also one after another")
        if start is not None and self.flags and start > len(places):
            raise UnclearError("it skips a word")

    def _refuse_flags_at_a_place(self) -> None:
        for number, about in [*self.at.items(), *self.plain.items()]:
            for text in about.compared:
                if text.startswith("-") and self.reading.fixed.get(number) != text:
                    raise UnclearError(f"the word {text!r} has a meaning at one place only")

    def _positionals(self) -> list[Planned]:
        most = self.reading.most_plain
        plain = {number: one for number, one in self.plain.items() if most is None or number < most}
        numbered = [(number, one, "") for number, one in sorted(self.at.items())]
        numbered += [(number, one, "plain") for number, one in sorted(plain.items())]
        names = self._names([about for _, about, _ in numbered])
        made: list[Planned] = []
        required = False
        for (number, about, base), name in reversed(list(zip(numbered, names, strict=True))):
            fewest = self.reading.fewest.get(base, 0)
            by_count = number < fewest and not (about.without and self.flags)
            required = required or about.required or by_count
            self._refuse_unclear(number, about, fewest, is_required=required)
            made.insert(0, self._positional(name, about, base, required=required))
        for base in ("", "plain"):
            made += self._rest(base, len(self.plain if base else self.at), names)
        return made

    def _refuse_unclear(self, number: int, about: About, fewest: int, *, is_required: bool) -> None:
        """Refuse a word that is read only if later ones are there."""
        if not is_required and any(least > max(number + 1, fewest) for least in about.guards):
            raise UnclearError("it reads a word only if a later one is there, too")

    def _positional(self, name: str, about: About, base: str, *, required: bool) -> Planned:
        refused = [*about.refuses, *(self.reading.plain_refuses if base else ()), *self._special()]
        argument = ArgvArgument(
            name=name,
            nargs=None if required else "?",
            first=bool(self.flags) and (not base or any(flag.inspected for flag in self.flags)),
            skippable=about.skippable and not required,
            refuses=_pattern(refused),
        )
        return Planned(argument, _schema(about, required=required), required)

    def _rest(self, base: str, count: int, names: list[str]) -> list[Planned]:
        """Return the argument that takes all further words."""
        collected = (0, self.reading.plain_list) if base and not self.plain else (0, "...")
        is_collected = self.reading.plain == "taken" and self.reading.most_plain is None
        start, name = self.reading.rest.get(base, collected if is_collected else (0, "..."))
        is_text = name == "..."  # words joined by spaces are one text
        if is_text:
            return []
        if start != count or (not base and self.flags):
            raise UnclearError("it reads words by number and also as a whole")
        if any(flag.inspected for flag in self.flags):
            raise UnclearError("the value of a flag would be one of its other words")
        shown = self._usage_names()
        name = name or self.reading.plain_list or (shown[count] if len(shown) == count + 1 else "")
        name = next(one for one in (name, "args", "words", "_") if one and one not in names)
        required = self.reading.fewest.get(base, 0) > count
        refused = [*(self.reading.plain_refuses if base else ()), *self._special()]
        schema: JsonSchema = {"type": "array", "items": {"type": "string"}}
        if required:
            schema["minItems"] = 1
        nargs = "+" if required else "*"
        argument = ArgvArgument(name=name, nargs=nargs, refuses=_pattern(refused))  # type: ignore[arg-type]  # "+" or "*"
        return [Planned(argument, schema, required)]

    def _names(self, abouts: list[About]) -> list[str]:
        """Return the names in the program, else those in its usage, else numbers."""
        shown = self._usage_names()
        if len(shown) > len(abouts):
            shown = []
        shown += [""] * (len(abouts) - len(shown))
        taken = {_flag_name(flag.word) for flag in self.flags}
        names: list[str] = []
        for number, (about, usage) in enumerate(zip(abouts, shown, strict=True), 1):
            own = about.name.lower() if self.program.is_python else about.name
            choices = [own.strip("_$"), usage.lower(), f"arg{number}", f"word{number}"]
            names.append(
                next(one for one in choices if one.isidentifier() and one not in {*taken, *names})
            )
        return names

    def _planned_flag(self, flag: Flag) -> Planned:
        name = _flag_name(flag.word)
        if not flag.takes:
            argument = ArgvArgument(
                name=name, flag=flag.word, action="store_true", others=flag.aliases
            )
            return Planned(argument, {"type": "boolean"})
        words = [Word(flag.takes, 1, one) for one in (flag.word, *flag.aliases)]
        abouts = [self.reading.about[word] for word in words if word in self.reading.about]
        about = abouts[0] if abouts else About()
        refused = [pattern for one in abouts for pattern in one.refuses]
        if flag.takes == "value":
            refused += self._special()
        if flag.inspected:
            refused += self.reading.plain_refuses if self.reading.plain != "taken" else ()
        required = flag.required or any(one.required for one in abouts)
        argument = ArgvArgument(
            name=name,
            flag=flag.word,
            action="append" if flag.repeats else "store",
            joined=flag.takes == "tail",
            others=flag.aliases,
            refuses=_pattern(refused),
        )
        schema = _schema(about, required=required)
        if flag.repeats:
            schema = {"type": "array", "items": {"type": about.kind}}
        return Planned(argument, schema, required)

    def _special(self) -> list[str]:
        return [
            starts(text) if text.endswith("=") else re.escape(text) for text in self.reading.special
        ]

    def _depend(self, positionals: list[Planned], flags: list[Planned]) -> None:
        """A word that is left out must not be replaced by the next one."""
        before: list[str] = []
        for one in positionals:
            argument = one.argument
            if argument.nargs in ("?", "*") and before:
                self.dependent[argument.name] = list(before)
            filled = argument.skippable or "default" in one.schema
            if argument.nargs == "?" and not filled:
                before.append(argument.name)
        numbered = [
            (one.argument, self.at[number].without or set())
            for number, one in zip(sorted(self.at), positionals, strict=False)
            if not one.required and not _avoids_flags(one.argument)
        ]
        for planned, flag in zip(flags, self.flags, strict=True):
            needed = [argument.name for argument, without in numbered if flag.word not in without]
            if flag.inspected and self.plain:
                others = positionals[len(self.at) :]
                needed += [one.argument.name for one in others if not one.required]
            if needed:
                self.dependent[planned.argument.name] = needed

    def _usage_names(self) -> list[str]:
        """`convert.py <input> [output dir]` → input, output_dir; none when it is unclear."""
        words = [word for word in self._usage_words() if not word.startswith(("-", "[-"))]
        names = [re.sub(r"\W+", "_", word.strip("<>[]\"'")).strip("_") for word in words]
        unclear = "..." in self.usage or "|" in self.usage or "…" in self.usage
        return [] if unclear or not all(name.isidentifier() for name in names) else names

    def _usage_words(self) -> list[str]:
        """Return the words after the script's name, without the values of flags."""
        words: list[str] = _USAGE_WORD.findall(self.usage)
        position = next((at for at, word in enumerate(words) if _SCRIPT.search(word)), 0)
        found: list[str] = []
        values = {flag.word for flag in self.flags if flag.takes}
        for word in words[position + 1 :]:
            if word.lower().strip("[]<>.") in ("options", "flags", "args"):
                continue
            if found and found[-1] in values:
                found[-1] += "="
                continue
            found.append(word)
        return found

    def _agree(self, positionals: list[Planned]) -> None:
        """Refuse what the usage of the program contradicts."""
        known = {*self.reading.flags, *self.reading.special, *HELP, *self.reading.fixed.values()}
        known |= {text for pattern in self.reading.plain_refuses for text in [_literal(pattern)]}
        for shown in (*_USAGE_FLAG.findall(self.usage), *sorted(self.listed)):
            if shown not in known:
                raise UnclearError(f"its usage shows {shown}, which was not found in its code")
        names = self._usage_names()
        takes_list = any(one.argument.nargs in ("*", "+") for one in positionals)
        if names and len(names) > len(positionals) + len(self.reading.fixed) and not takes_list:
            count = len(positionals)
            raise UnclearError(f"its usage shows {len(names)} arguments, its code reads {count}")


def _distinct(reading: Reading) -> list[Flag]:
    """Return flags without those that do the same as another."""
    groups: list[list[Flag]] = []
    asking = HELP.union(*(group for group in reading.alike if not HELP.isdisjoint(group)))
    for flag in reading.flags.values():
        if flag.word in asking:
            continue
        alike = next((group for group in groups if _are_alike(group[0], flag, reading)), None)
        if alike is None:
            groups.append([flag])
        else:
            alike.append(flag)
    made: list[Flag] = []
    for group in groups:
        best = max(group, key=lambda flag: (flag.word.startswith("--"), len(flag.word)))
        best.aliases = tuple(flag.word for flag in group if flag is not best)
        best.required = any(flag.required for flag in group)
        made.append(best)
    return made


def _are_alike(one: Flag, other: Flag, reading: Reading) -> bool:
    if one.takes != other.takes:
        return False
    if one.effect is not None and other.effect is not None:
        return bool(one.effect) and one.effect == other.effect
    times = sum(one.word in group and other.word in group for group in reading.alike)
    return bool(times) and times == one.lookups == other.lookups


def _schema(about: About, *, required: bool) -> JsonSchema:
    schema: JsonSchema = {"type": about.kind}
    if about.choices and about.kind == "string":
        schema["enum"] = list(about.choices)
    kinds = {"string": (str,), "integer": (int,), "number": (int, float)}[about.kind]
    default = about.default
    if default is not None and not required and isinstance(default, kinds):
        schema["default"] = default
    return schema


def _flag_name(flag: str) -> str:
    name = re.sub(r"\W", "_", flag.lstrip("-"))
    return name if name.isidentifier() else f"_{name}"


def _pattern(refused: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(refused))
    return f"(?:{'|'.join(distinct)})" if distinct else ""


def _avoids_flags(argument: ArgvArgument) -> bool:
    """Tell whether a word is passed over when a flag stands in its place."""
    return any(starts(dashes) in argument.refuses for dashes in ("-", "--"))


def _literal(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern)
