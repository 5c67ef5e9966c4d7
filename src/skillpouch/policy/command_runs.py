"""Finds the commands that a shell text may run, and whether it may run others, unknown ones.

The answer does not depend on any rule, so one reading is enough for all rules about a call.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from skillpouch.policy.command_programs import (
    ANY,
    ASSIGNMENT,
    DATA,
    DATA_UNLESS,
    DECLARING,
    EVALUATING,
    FILTERS,
    FIND_RUNS,
    FIND_VALUES,
    GIT_DATA,
    GLOB,
    HANDLING_CODE,
    KNOWN,
    LOOPS,
    MARKS,
    ORDINARY,
    OUT_OF_ORDER,
    RESERVED,
    RUN_VARIABLES,
    RUNNERS,
    SHELLS,
    SPLIT,
    STARTING_SHELLS,
    TAKING_CODE,
    WITH_SUBCOMMANDS,
    CommandText,
    CommandWord,
    Runner,
    SimpleCommand,
    calculates_with_text,
)
from skillpouch.policy.command_words import read_command

_RUN_VARIABLE = re.compile(RUN_VARIABLES)
_PATH = re.compile(r"(?:-\w+)?PATH(?:\+?=|\Z)")
_TOKEN = re.compile(r"""[^\s;&|()<>'"`=!,:{}\[\]$#*?~^%@\\]+""")
_SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_ONLY_READ = DATA | FILTERS
_CODE = ("$(", "`", "${")
_DEEPEST = 6
_MOST_COMMANDS = 256  # reading more would delay the call
_LONGEST_CHAIN = 20  # runners before a program, as in `sudo env timeout …`
_LONGEST_OPTION = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """Words of which the first is a program; with `anywhere`, any of them may be one."""

    words: tuple[str, ...]
    anywhere: bool = False


@dataclass(slots=True)
class MayRun:
    """Everything that a text may run; if `is_doubtful`, it may run anything else, too."""

    candidates: list[Candidate] = field(default_factory=list)
    is_doubtful: bool = False


@lru_cache(maxsize=128)
def what_may_run(text: str) -> MayRun:
    """Return what a text may run; cached for all rules about a call."""
    found = MayRun()
    _Text(found, 0).read(text)
    return found


class _Text:
    """Reads one shell text, and collects in `found` what it may run."""

    def __init__(self, found: MayRun, depth: int, *, wrote: bool = False) -> None:
        self._found = found
        self._depth = depth
        self._wrote = wrote
        self._is_fed = False

    def read(self, text: str) -> None:
        read = read_command(text)
        self._doubt(read.is_doubtful or self._depth > _DEEPEST)
        self._doubt(len(read.commands) > _MOST_COMMANDS)
        if self._found.is_doubtful:
            return
        words = [word for command in read.commands for word in (*command.words, *command.fed)]
        self._doubt(any(_RUN_VARIABLE.search(word.text) for word in words))
        # With another PATH, a command name may mean a file that this text wrote.
        writes = any(map(_writes, read.commands))
        self._doubt(writes and any(_PATH.match(word.text) for word in words))
        # In a loop, the last command may run before the first one of the next round.
        self._wrote |= writes and any(word.text in LOOPS for word in words)
        self._doubt(any(_name(word) in KNOWN for word in read.functions))
        self._doubt(calculates_with_text(read, text))
        if any(word.text in ("read", "mapfile", "readarray") for word in words):
            self._doubt(any(map(is_code_in_name, words)))
        self._is_fed = read.passes_text
        self._commands(read)
        if self._is_fed_on(read):
            self._seen(words)

    def _commands(self, read: CommandText) -> None:
        """Add each command, considering files written before it or while it runs."""
        before = self._wrote
        writing = [each for each in read.commands if _writes(each)]
        has_no_order = bool(read.functions) or read.has_jobs
        has_no_order |= any(
            word.text in OUT_OF_ORDER for each in read.commands for word in each.words
        )
        for command in read.commands:
            if has_no_order:
                self._wrote = before or any(each is not command for each in writing)
            self._command(command)
            self._wrote |= _writes(command)

    def _is_fed_on(self, read: CommandText) -> bool:
        """Tell whether a program gets the output of another, and may run it as commands."""
        first = (each.words[0] for each in read.commands if each.words)
        return read.passes_text and any(_name(word) not in _ONLY_READ for word in first)

    def _doubt(self, is_so: bool) -> None:
        self._found.is_doubtful |= is_so

    def _command(self, command: SimpleCommand) -> None:
        if command.is_array:
            for word in command.words:
                self._value(word)
            return
        words = self._behind_reserved(command.words)
        while words and ASSIGNMENT.match(words[0].text):
            self._value(words[0])
            words = words[1:]
        if words:
            self._start(words, command.fed)
        else:
            self._seen(command.fed)

    def _behind_reserved(self, words: Sequence[CommandWord]) -> Sequence[CommandWord]:
        while words and words[0].is_bare and words[0].text in RESERVED:
            words = words[1:]
        if words and words[0].is_bare and words[0].text in ("for", "select", "case"):
            for word in words[1:]:
                self._value(word)
            begins = [n for n, word in enumerate(words) if word.text in ("do", "{")]
            return self._behind_reserved(words[begins[0] + 1 :]) if begins else ()
        if words and words[0].is_bare and words[0].text == "function":
            self._doubt(any(_name(word) in KNOWN for word in words[1:2]))
            return self._behind_reserved(words[2:])
        return words

    def _value(self, word: CommandWord) -> None:
        """Add the value of a variable: it may be run or evaluated where the variable is used."""
        self._doubt(any(sign in word.text for sign in _CODE))
        self._seen([word])

    def _start(
        self, words: Sequence[CommandWord], fed: Sequence[CommandWord] = (), behind: int = 0
    ) -> None:
        """Add a command whose program is the first word; `behind` counts the runners before it."""
        self._doubt(behind > _LONGEST_CHAIN)
        if self._found.is_doubtful:
            return
        self._found.candidates.append(Candidate(tuple(word.text for word in words)))
        name, rest = _name(words[0]), words[1:]
        if "/" in words[0].text and not words[0].text.startswith(_SYSTEM):
            self._file(words=[])
        self._evaluated(name, rest)
        if name in RUNNERS:
            self._runner(name, rest, behind)
        elif name in SHELLS:
            self._shell(rest)
        elif name in _SPECIAL:
            _SPECIAL[name](self, rest)
        elif name in HANDLING_CODE:
            self._doubt(bool(rest) or name == "coproc")
        elif not _is_data(name, rest):
            self._other(name, rest, fed)

    def _evaluated(self, name: str, rest: Sequence[CommandWord]) -> None:
        """Check words that bash itself evaluates, and options that enable history expansion."""
        if name in EVALUATING:
            self._doubt(any(map(is_code_in_name, rest)))
            self._doubt(_may_name(name, rest))
            self._doubt(_may_be_asked_for_name(name, rest))
        self._doubt(name == "set" and any("hist" in w.text or "H" in w.text for w in rest))

    def _other(self, name: str, rest: Sequence[CommandWord], fed: Sequence[CommandWord]) -> None:
        if name not in ORDINARY:
            self._file(words=[])
            self._doubt(name in STARTING_SHELLS and (self._is_fed or bool(fed)))
            self._loose([*rest, *fed])
            self._given(name, rest)
            return
        if name in WITH_SUBCOMMANDS and rest and not rest[0].text.startswith("-"):
            rest = rest[1:]
        self._seen([*rest, *fed])

    def _seen(self, words: Sequence[CommandWord]) -> None:
        """Add the names of programs that are written out in these words."""
        tokens = [token for word in words for token in _tokens(word.text)]
        written = tuple(token for token in map(_written, tokens) if token)
        self._found.candidates.append(Candidate(written, anywhere=True))

    def _loose(self, words: Sequence[CommandWord]) -> None:
        """Add all words: an unknown program may run any of them."""
        tokens = tuple(token for word in words for token in _tokens(word.text))
        self._found.candidates.append(Candidate(tokens, anywhere=True))

    def _given(self, name: str, words: Sequence[CommandWord]) -> None:
        """Add a shell that a program is told to run, and arguments that are shell code."""
        for place, word in enumerate(words):
            if _name(word) in SHELLS:
                self._start(words[place:])
                return
        for word in words if name in TAKING_CODE else ():
            if any(letter.isspace() for letter in word.text):
                self._code(word)

    def _file(self, words: Sequence[CommandWord]) -> None:
        """Check a file of commands: the content is unknown if this text may have written it."""
        self._doubt(self._wrote)
        self._doubt(any(_may_be_input(word.text) for word in words[:1]))

    def _code(self, word: CommandWord) -> None:
        """Read a word that is itself shell code."""
        self._doubt(not MARKS.isdisjoint(word.text))
        inner = _Text(self._found, self._depth + 1, wrote=self._wrote)
        inner.read(word.text)

    def _runner(self, name: str, rest: Sequence[CommandWord], behind: int) -> None:
        if name == "command" and rest and rest[0].text in ("-v", "-V"):
            return  # it only prints where a program is
        inner = _behind_options(RUNNERS[name], rest)
        if inner is None:
            self._doubt(name == "env")  # `env -S` has quotes and variables of its own
            self._loose(rest)
        elif not inner:
            self._doubt(name in ("sudo", "doas"))  # starts a shell, which runs its input
        else:
            self._start(inner, behind=behind + 1)
            if name == "xargs":
                self._doubt(not _takes_any_words(inner, rest))
                words = tuple(word.text for word in inner)
                self._found.candidates.append(Candidate((*words, SPLIT)))

    def _shell(self, rest: Sequence[CommandWord]) -> None:
        has_code, names = False, 0  # each `o` takes a name, as in `-euo pipefail`
        for place, word in enumerate(rest):
            if names:
                self._doubt(not MARKS.isdisjoint(word.text))
                names -= 1
            elif word.text[:1] in "-+" and word.text not in ("", "-"):
                self._shell_option(word)
                has_code |= "c" in word.text
                names = word.text.count("o") + word.text.count("O")
            else:
                self._shell_runs(rest[place:], has_code=has_code)
                return
        self._doubt(True)  # it runs its standard input

    def _shell_option(self, word: CommandWord) -> None:
        self._doubt(word.text.startswith("--") or not _SHELL_OPTION.match(word.text))
        if "i" in word.text or "l" in word.text:
            self._file(words=[])  # it reads `.bashrc` or `.profile`

    def _shell_runs(self, words: Sequence[CommandWord], *, has_code: bool) -> None:
        if has_code:
            self._code(words[0])
            self._seen(words[1:])
        else:
            self._doubt(words[0].text == "-" or _is_unknown(words[0]))
            self._file(words)

    def _eval(self, rest: Sequence[CommandWord]) -> None:
        self._code(CommandWord(" ".join(word.text for word in rest)))

    def _trap(self, rest: Sequence[CommandWord]) -> None:
        rest = [word for word in rest if word.text not in ("--", "-l", "-p", "-")]
        for word in rest[:1]:
            self._code(word)

    def _source(self, rest: Sequence[CommandWord]) -> None:
        self._doubt(any(_is_unknown(word) and "/" not in word.text for word in rest[:1]))
        self._file(rest)

    def _declare(self, rest: Sequence[CommandWord]) -> None:
        for word in rest:
            self._doubt(not MARKS.isdisjoint(word.text.partition("=")[0]))
            # -n makes a reference to another variable, -i evaluates each assigned value.
            self._doubt(word.text[:1] in "-+" and not {"n", "i"}.isdisjoint(word.text))
            self._value(word)

    def _mapfile(self, rest: Sequence[CommandWord]) -> None:
        options = [word.text for word in rest if word.text.startswith("-")]
        self._doubt(any(option != "-t" for option in options))
        self._doubt(any(not MARKS.isdisjoint(word.text) for word in rest))

    def _find(self, rest: Sequence[CommandWord]) -> None:
        places = [place for place, word in enumerate(rest) if word.text in FIND_RUNS]
        for place, end in pairwise([*places, len(rest)]):
            inner = [_found_file(word) for word in rest[place + 1 : end]]
            if inner:
                self._start(inner)
        paths = next((n for n, word in enumerate(rest) if word.text[:1] in "-(!"), len(rest))
        for place, word in enumerate(rest[: places[0] if places else None]):
            # An unknown word may expand to -exec and a command.
            is_value = place < paths or rest[place - 1].text in FIND_VALUES
            self._doubt(not is_value and _may_be_option(word))
        if any(map(_is_unknown, rest[:paths])):
            self._doubt(sum(map(_is_unknown, rest[:paths])) > 1)
            self._seen(rest)

    def _git(self, rest: Sequence[CommandWord]) -> None:
        while rest and rest[0].text in ("-C", "--no-pager", "-P"):
            rest = rest[2 if rest[0].text == "-C" else 1 :]
        if not rest or (rest[0].text in GIT_DATA and not _git_runs(rest)):
            return
        self._other("git", rest, ())


_SHELL_OPTION = re.compile(r"[-+][abcefhiklmnprtuvxBCEHPTDOo]+\Z")
_SPECIAL = {
    "eval": _Text._eval,  # noqa: SLF001 - a table of its own methods
    "trap": _Text._trap,  # noqa: SLF001 - as above
    "source": _Text._source,  # noqa: SLF001 - as above
    ".": _Text._source,  # noqa: SLF001 - as above
    "mapfile": _Text._mapfile,  # noqa: SLF001 - as above
    "readarray": _Text._mapfile,  # noqa: SLF001 - as above
    "find": _Text._find,  # noqa: SLF001 - as above
    "git": _Text._git,  # noqa: SLF001 - as above
    **dict.fromkeys(DECLARING, _Text._declare),  # noqa: SLF001 - as above
}


def is_code_in_name(word: CommandWord) -> bool:
    """Tell whether a word, used as the name of a variable, would run a command."""
    return "[" in word.text and any(sign in word.text for sign in _CODE)


def _may_name(name: str, rest: Sequence[CommandWord]) -> bool:
    """Tell whether an unknown word may be used as the name of a variable."""
    if name in ("printf", "test", "[", "[["):
        rest = rest if any(word.text.startswith("-v") for word in rest) else ()
    return name in DATA and any(not MARKS.isdisjoint(word.text) for word in rest)


def _may_be_asked_for_name(name: str, rest: Sequence[CommandWord]) -> bool:
    """Tell whether unknown words may be `-v` and a name, as in `test $a $b`."""
    rest = rest[1:] if rest and rest[0].text == "!" else rest
    rest = rest[:-1] if name == "[" else rest
    is_pair = len(rest) == 2 if name in ("test", "[") else name == "printf" and len(rest) > 1  # noqa: PLR2004 - an option, a name
    return is_pair and all(map(_is_unknown, rest[:2]))


def _may_be_option(word: CommandWord) -> bool:
    return _is_unknown(word) or (word.text[:1] == "-" and not MARKS.isdisjoint(word.text))


def _may_be_input(path: str) -> bool:
    """Tell whether a path may be the command's own input: `/dev/stdin`, or `fd/0` in `/dev`."""
    last = path.rpartition("/")[2]
    is_unknown = "/" in path and not MARKS.isdisjoint(last)
    return path.startswith(("/dev/", "/proc/")) or last.isdigit() or last == "stdin" or is_unknown


def _is_unknown(word: CommandWord) -> bool:
    """Tell whether the beginning of a word is unknown."""
    return SPLIT in word.text or word.text[:1] in MARKS


def _name(word: CommandWord) -> str:
    return word.text.rpartition("/")[2]


def _writes(command: SimpleCommand) -> bool:
    # Files that other programs write do not count: such a program could have run anything itself.
    if command.writes or not command.words:
        return command.writes
    name, given = _name(command.words[0]), command.words[1:]
    if name in ("cp", "install", "ln", "mv"):
        is_known = all(MARKS.isdisjoint(word.text) for word in given)
        return not is_known or bool(command.fed) or any(_may_be_input(w.text) for w in given)
    if name in ("uniq", "xxd"):
        return sum(word.text == "-" or not word.text.startswith("-") for word in given) > 1
    if name == "sort":
        return any(_may_be_option(w) or w.text.startswith(("-o", "--o")) for w in given)
    return name in ("tee", "dd")


def _is_data(name: str, rest: Sequence[CommandWord]) -> bool:
    if name in DATA_UNLESS:
        unless = DATA_UNLESS[name]
        return not any(_may_be_option(word) or word.text.startswith(unless) for word in rest)
    return name in DATA


def _git_runs(rest: Sequence[CommandWord]) -> bool:
    return any(word.text.startswith(("--exec", "--upload-pack", "-c")) for word in rest[1:])


def _found_file(word: CommandWord) -> CommandWord:
    return CommandWord(word.text.replace("{}", ANY), is_plain=False) if "{}" in word.text else word


def _behind_options(runner: Runner, words: Sequence[CommandWord]) -> Sequence[CommandWord] | None:
    """Return the words of the command that a runner runs; None if that is not certain."""
    left = list(words)
    while left and left[0].text.startswith("-"):
        option = left.pop(0).text
        if option == "--":
            break
        taken = _option_words(runner, option)
        if taken is None:
            return None
        del left[:taken]
    if any(not MARKS.isdisjoint(word.text) for word in words[: len(words) - len(left)]):
        return None
    while left and runner.takes_assignments and "=" in left[0].text:
        if not MARKS.isdisjoint(left.pop(0).text.partition("=")[0]):
            return None
    before, left = left[: runner.words_before], left[runner.words_before :]
    return None if any(map(_is_unknown, before)) else left


def _option_words(runner: Runner, option: str) -> int | None:
    if option.startswith("--"):
        return 0 if option.partition("=")[0] in runner.long else None
    for place, letter in enumerate(option[1:], 2):
        if letter in runner.with_word:
            return 1 if place == len(option) else 0
        if letter not in runner.without and not letter.isdigit():
            return None
    return 0


def _takes_any_words(inner: Sequence[CommandWord], options: Sequence[CommandWord]) -> bool:
    """Tell whether a program is safe with unknown arguments: those that `xargs` reads."""
    name = _name(inner[0])
    before = [word.text for word in options[: len(options) - len(inner)]]
    is_replaced = any(text.startswith(("-I", "-i", "--r")) for text in before)
    replaced = [*(text[2:] for text in before), *before, "{}"]
    if is_replaced and any(text and text in inner[0].text for text in replaced):
        return False
    return name in DATA or name in ORDINARY or name in DATA_UNLESS


def _written(token: str) -> str:
    """Return a token if the beginning or end of its name is written out, else ""."""
    name = token.replace(SPLIT, ANY).rpartition("/")[2]
    if ANY not in name:
        return token
    head, tail = name.partition(ANY)[0], name.rpartition(ANY)[2]
    return f"{ANY}{tail}" if tail else f"{head}{GLOB}" if head else ""


def _tokens(text: str) -> list[str]:
    """Return the parts of a word that may be names of programs, also one right after an option."""
    found = []
    for token in _TOKEN.findall(text):
        found.append(token)
        if token.startswith("-") and not token.startswith("--"):
            found += [token[place:] for place in range(2, min(len(token), _LONGEST_OPTION))]
    return found
