"""How arguments become the words of a command line: a plan made once, words made per call."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, NamedTuple

Action = Literal[
    "store",
    "store_true",
    "store_false",
    "store_const",
    "append",
    "append_const",
    "extend",
    "count",
    "boolean_optional",
]


# Named tuples, which are cheap to make: every start makes all plans again from the index.


class FixedWord(NamedTuple):
    """A word that is always there, such as the name of a sub-command."""

    text: str


class ArgvArgument(NamedTuple):
    """One property of the input schema and the words it turns into.

    `flag` is None for a positional. `off_flag` switches off (`--no-color`). `after_dashes` is true
    if the script's parser knows what `--` means; a script that reads its words by number would
    take `--` for one of them. `others` are further flags for the same argument, such as `-o`:
    words are made with `flag`, but people write any of them.

    A script that reads its words by hand knows fewer forms than a parser: `joined` says whether
    flag and value are always one word (`--out=x`) or always two; None leaves it to the value.
    `first` puts a positional before all flags. `skippable` means that an empty word is the same as
    none. `refuses` is a pattern of values that the script would not take as a value of this one.
    `literal` means that it reads the value as a literal of Python.
    """

    name: str
    flag: str | None = None
    action: Action = "store"
    nargs: int | Literal["?", "*", "+", "..."] | None = None
    off_flag: str | None = None
    after_dashes: bool = False
    joined: bool | None = None
    first: bool = False
    skippable: bool = False
    refuses: str = ""
    literal: bool = False
    others: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Every flag that gives the argument a value; none for a positional."""
        return (self.flag, *self.others) if self.flag else ()


ArgvPlan = tuple[FixedWord | ArgvArgument, ...]

_SWITCHES = ("store_true", "store_false", "store_const", "append_const", "boolean_optional")

# What argparse reads as a number, not as a flag.
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class Defaults(NamedTuple):
    """Values for missing positionals: for `all` of them, or only for those before a passed one."""

    values: Mapping[str, Any] = {}
    all: bool = False


NO_DEFAULTS = Defaults()


def words(
    plan: ArgvPlan, arguments: Mapping[str, Any], defaults: Defaults = NO_DEFAULTS
) -> list[str]:
    """Return the words that pass these arguments; a missing argument adds none.

    Raises ValueError for a value that cannot be passed on a command line, or not on this one, and
    for a positional after a missing one without a default, whose place it would take.
    """
    result: list[str] = []
    level: list[ArgvArgument] = []
    for part in plan:
        if isinstance(part, FixedWord):
            filled = _filled(level, arguments, defaults)
            result += [*_level(level, filled, before_word=True), part.text]
            level = []
        else:
            level.append(part)
    result += _level(level, _filled(level, arguments, defaults), before_word=False)
    for word in result:
        if "\0" in word:
            raise ValueError(f"a word of a command line cannot hold a NUL character: {word!r}")
    return result


def _filled(
    level: Sequence[ArgvArgument], arguments: Mapping[str, Any], defaults: Defaults
) -> Mapping[str, Any]:
    """Return the arguments, with defaults for positionals that are missing before passed ones."""
    positionals = [one for one in level if not one.flag]
    given = [place for place, one in enumerate(positionals) if one.name in arguments]
    if not defaults.all and (not given or given[-1] == len(given) - 1):
        return arguments  # the usual case: nothing is missing in between
    last, filled = given[-1] if given else -1, dict(arguments)
    for place, one in enumerate(positionals):
        if one.name in arguments or (place > last and not defaults.all):
            continue
        if one.name in defaults.values:
            filled[one.name] = defaults.values[one.name]
        elif one.skippable and place < last:
            filled[one.name] = ""
        elif place > last:
            break  # without this one, no later one can be filled in
        elif _leaves_gap(one, positionals[place + 1 :], arguments):
            raise ValueError(
                f"{positionals[last].name!r} cannot be given without {one.name!r}, which comes"
                f" before it on the command line and has no default"
            )
    return filled


def _leaves_gap(
    missing: ArgvArgument, later: Sequence[ArgvArgument], arguments: Mapping[str, Any]
) -> bool:
    """Tell whether the script would read the word of a later positional as this missing one."""
    if missing.nargs in ("*", "..."):
        return False
    if missing.nargs != "?" or not missing.after_dashes:
        return True
    # A parser skips an optional positional only if the words are needed for required ones.
    return any(one.name in arguments and one.nargs in ("?", "*", "...") for one in later)


def _level(
    level: Sequence[ArgvArgument], arguments: Mapping[str, Any], *, before_word: bool
) -> list[str]:
    """Return the words of one (sub-)command: flags, then positionals, unless these go first."""
    given = [argument for argument in level if argument.name in arguments]
    for argument in given:
        _refuse(argument, arguments[argument.name])
    # A flag that takes any number of values goes first, so that the next flag ends it.
    flags = sorted((one for one in given if one.flag), key=lambda one: not _is_open(one))
    result: list[str] = []
    ends_open = False
    for argument in flags:
        if added := _flag_words(argument, arguments[argument.name]):
            result += added
            ends_open = _is_open(argument)
    first = [argument for argument in given if argument.first]
    if first:
        result = [*_positional_words(first, arguments, after_open=False), *result]
    positionals = [argument for argument in given if not argument.flag and not argument.first]
    tail = list(_positional_words(positionals, arguments, after_open=ends_open))
    if before_word and ends_open and not tail:
        tail = ["--"]
    return result + tail


def _refuse(argument: ArgvArgument, value: Any) -> None:
    """Refuse a value that the script would take for a flag, or for something else."""
    if not argument.refuses:
        return
    for item in _items(value):
        if re.fullmatch(argument.refuses, _text(item), re.DOTALL):
            raise ValueError(
                f"{argument.name}: the script would not take {_text(item)!r} as the value of"
                f" {argument.flag or 'this argument'}"
            )


def _is_open(argument: ArgvArgument) -> bool:
    return argument.nargs in ("*", "+", "?", "...")


def _flag_words(argument: ArgvArgument, value: Any) -> list[str]:
    flag = argument.flag or ""
    if argument.action in _SWITCHES:
        return _switch_words(argument, value)
    if argument.action == "count":
        return [flag] * int(value)
    if argument.action == "append":
        return [word for item in _items(value) for word in _one_flag(argument, item)]
    if argument.action == "extend" and any(_text(item).startswith("-") for item in _items(value)):
        # A separate flag for each value gives the same result.
        return [word for item in _items(value) for word in _with_value(flag, _text(item))]
    return _one_flag(argument, value)


def _switch_words(argument: ArgvArgument, value: Any) -> list[str]:
    flag = argument.flag
    if argument.action == "store_false":
        flag = flag if value is False else None
    elif not value:
        flag = argument.off_flag
    return [flag] if flag else []


def _one_flag(argument: ArgvArgument, value: Any) -> list[str]:
    """Return one occurrence of a flag with its value or values."""
    flag = argument.flag or ""
    if argument.joined is not None and argument.nargs is None:
        text = repr(value) if argument.literal else _text(value)
        return [f"{flag}={text}"] if argument.joined else [flag, text]
    if argument.nargs is None:
        return _with_value(flag, _text(value))
    if argument.nargs == "?":
        return [flag] if value is None else _with_value(flag, _text(value))
    values = [_text(item) for item in _items(value)]
    if len(values) == 1 and argument.nargs != "...":
        return _with_value(flag, values[0])
    return [flag, *(_undashed(argument, text) for text in values)]


def _with_value(flag: str, text: str) -> list[str]:
    """Join flag and value if a parser could read the value as a flag, or as `@file` with words."""
    if not text.startswith(("-", "@", flag[0])):
        return [flag, text]
    if text == "--":
        raise ValueError(f"{flag}: argparse before Python 3.13 loses the value '--'")
    is_short = len(flag) == 2  # noqa: PLR2004 - a dash and a letter
    return [flag + text] if is_short else [f"{flag}={text}"]


def _undashed(argument: ArgvArgument, text: str) -> str:
    if text.startswith("-") and text != "-" and not _NEGATIVE_NUMBER.fullmatch(text):
        raise ValueError(
            f"{argument.name}: {text!r} starts with '-' and would be taken for a flag; "
            f"{argument.flag or 'this argument'} has no way to pass it"
        )
    return text


def _positional_words(
    positionals: Sequence[ArgvArgument], arguments: Mapping[str, Any], *, after_open: bool
) -> Iterator[str]:
    guarded = False
    seen = False
    for argument in positionals:
        value = arguments[argument.name]
        texts = [_text(item) for item in _items(value)] if _is_list(argument) else [_text(value)]
        if argument.after_dashes and texts and not guarded:
            if argument.nargs == "...":
                texts = texts if seen else [_undashed(argument, texts[0]), *texts[1:]]
            elif after_open or any(text.startswith("-") for text in texts):
                guarded = True
                yield "--"
        seen = seen or bool(texts)
        yield from texts


def _is_list(argument: ArgvArgument) -> bool:
    return argument.nargs is not None and argument.nargs != "?"


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(value: float) -> str:
    # 3.0 is a JSON integer, but `int("3.0")` fails.
    if value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 - exact below that
        return str(int(value))
    if value < 0 and isfinite(value):
        from decimal import Decimal

        # argparse reads -1e16 as a flag.
        return format(Decimal(repr(value)), "f")
    return json.dumps(value)
