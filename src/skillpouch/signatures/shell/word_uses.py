"""Notes what a shell script does with each word: its name, its default, whether it is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from skillpouch.signatures.shell.conditions import (
    HELP_WORDS,
    Condition,
    Counts,
    Either,
    IsEmpty,
    IsEqual,
    IsThere,
    Not,
    UnclearWordsError,
    block_exit,
    glob_of,
    literal_of,
)
from skillpouch.signatures.shell.flag_loops import LoopFlag
from skillpouch.signatures.shell.iteration import Constant, GivenWord, Put
from skillpouch.signatures.shell.syntax import (
    Assigned,
    Case,
    CaseItem,
    Parameter,
    ShellFunction,
    ShellWord,
    Statement,
    commands_in,
    is_word,
    parameters_of,
)

SHOWING = frozenset(
    {
        "echo",
        "printf",
        "cat",
        "exit",
        "return",
        "true",
        ":",
        "sed",
        "grep",
        "head",
        "tail",
        "basename",
    }
)
_DEEPEST_CALL = 6


@dataclass(slots=True)
class WordUse:
    """One positional word and what the script does with it."""

    names: list[tuple[bool, int, str]] = field(default_factory=list)  # not certain, depth, name
    default: str | None = None
    skippable: bool = True  # every read of it takes an empty word for its default
    required: bool = False
    choices: tuple[str, ...] = ()
    start: int = 0  # where it gets its name


@dataclass(slots=True)
class CommandWords:
    """The words of a script or of one of its sub-commands, in the order of a command line."""

    before: dict[int, WordUse] = field(default_factory=dict)  # read before the flags
    flags: list[LoopFlag] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    uses: dict[int, WordUse] = field(default_factory=dict)
    rest: int | None = None  # all words from here on are used together
    rest_name: str = "args"
    taken: list[Put] = field(default_factory=list)
    dashes: bool = False
    guarded: bool = False  # a loop would take a word with a dash for a flag
    refused: set[str] = field(default_factory=set)
    commands: "dict[str, CommandWords]" = field(default_factory=dict)
    initial: dict[str, str | None] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    has_loop: bool = False
    counts: bool = False  # it asks how many words there are, not only to refuse too few
    unclear: UnclearWordsError | None = None  # why its words are not known one by one
    may_end: bool = False  # it may have ended successfully before this point
    start: int = 0


class View(NamedTuple):
    """What `$1`, `$2` … are: first the entries, then the words from number `base` on.

    Without `base` there are no further words; `why` says why they must not be read.
    """

    entries: "tuple[GivenWord | Constant | None, ...]" = ()
    base: int | None = 1
    why: str = ""

    def shift(self, count: int) -> "View":
        kept = self.entries[count:]
        further = max(0, count - len(self.entries))
        return View(kept, None if self.base is None else self.base + further, self.why)

    def word(self, number: int, start: int) -> "GivenWord | Constant | None":
        if number <= len(self.entries):
            return self.entries[number - 1]
        if self.base is None:
            if self.why:
                raise UnclearWordsError(self.why, start)
            return None
        return GivenWord(self.base + number - len(self.entries) - 1)


class WordNotes:
    """Notes the uses of words while statements are followed; raises UnclearWordsError."""

    def __init__(self, functions: Mapping[str, ShellFunction], *, strict: bool) -> None:
        self.functions = functions
        self.strict = strict  # `set -u`: reading a missing word ends the script
        self.level = CommandWords()
        self.known: dict[str, tuple[GivenWord, Parameter]] = {}

    def assign(
        self, assigned: Assigned, view: View, start: int, *, certain: bool, depth: int
    ) -> None:
        only = assigned.value.parameter
        value = self.value(only, view, start) if only else None
        simply = not assigned.append and not assigned.subscript
        if isinstance(value, GivenWord) and only and simply and self.is_plain(only):
            use = self.use(value.number)
            use.start = use.start or start
            use.names.append((not certain, depth, assigned.name))
            self.known[assigned.name] = (value, only)
            self.read([assigned.value], view, start, certain=certain)
            return
        self.read([assigned.value, *(assigned.items or ())], view, start, certain=certain)
        self.known.pop(assigned.name, None)
        if not self.level.has_loop:
            literal = assigned.value.literal if assigned.items is None else None
            first = assigned.name not in self.level.initial
            self.level.initial[assigned.name] = literal if certain and (first or literal) else None
        elif literal_change(assigned):
            self.level.needed.discard(assigned.name)
            self.level.initial[assigned.name] = None

    def is_plain(self, read: Parameter) -> bool:
        return read.operator in ("", "-", ":-", "?", ":?", "=", ":=")

    def value(self, read: Parameter, view: View, start: int) -> "GivenWord | Constant | None":
        if read.name.isdigit() and read.name != "0":
            return view.word(int(read.name), start)
        if read.name in self.known and not read.subscript:
            return self.known[read.name][0]
        return None

    def use(self, number: int) -> WordUse:
        return self.level.uses.setdefault(number, WordUse())

    def read(
        self,
        words: Sequence[ShellWord],
        view: View,
        start: int,
        *,
        certain: bool,
        quietly: bool = False,
    ) -> None:
        """Note every word that is read; `quietly` for what only shows or tests it."""
        for word in words:
            only = word.parameter
            for read in parameters_of(word):
                if read.name == "#" and not read.operator:
                    self.level.counts = self.level.counts or not quietly
                elif read.name in ("@", "*") and not read.subscript:
                    self.read_all(view, start, quietly=quietly)
                elif is_word(read):
                    value = view.word(int(read.name), start)
                    if isinstance(value, GivenWord):
                        self.note(value.number, read, certain=certain, quietly=quietly)
                        self.note_default(value.number, read if read is only else None)
                elif read.operator in ("?", ":?") and certain and not self.level.may_end:
                    self.level.needed.add(read.name)

    def note_default(self, number: int, read: Parameter | None) -> None:
        if read and read.operand and read.operator in (":-", ":=", "-"):
            use = self.use(number)
            use.default = use.default or read.operand.literal

    def note(self, number: int, read: Parameter, *, certain: bool, quietly: bool) -> None:
        use = self.use(number)
        if read.operator in ("?", ":?"):
            use.required = use.required or (certain and not self.level.may_end)
        elif read.operator not in ("-", ":-", "=", ":=", "+", ":+") and not quietly:
            use.required = use.required or (self.strict and certain and not self.level.may_end)
        if read.operator not in (":-", ":=", ":+", ":?") and not quietly:
            use.skippable = False

    def read_all(self, view: View, start: int, *, quietly: bool) -> None:
        if view.base is None:
            if view.why and not quietly:
                raise UnclearWordsError(view.why, start)
        elif not quietly:
            rest = self.level.rest
            self.level.rest = view.base if rest is None else min(rest, view.base)

    def refuses(self, body: Sequence[Statement]) -> bool:
        status = block_exit(self.functions, body)
        if status is None:
            return False
        shows = any(
            "sage" in (word.literal or "") or "sage" in (command.name or "")
            for each in body
            for command in commands_in(each)
            for word in command.words
        )
        return status != "0" or shows

    def require(self, condition: Condition, view: View, *, certain: bool) -> None:
        """Note what a script ends without."""
        if not certain or self.level.may_end:
            return
        match condition:
            case Either(first, second, both=False):
                self.require(first, view, certain=True)
                self.require(second, view, certain=True)
            case Not(Either(first, second, both=True)):
                self.require(Not(first), view, certain=True)
                self.require(Not(second), view, certain=True)
            case Not(Not(inside)):
                self.require(inside, view, certain=True)
            case Not(Counts(operator, number)):
                negated = {">=": "<", ">": "<=", "!=": "==", "==": "!="}.get(operator, "")
                self.require_count(Counts(negated, number), view)
            case Counts():
                self.require_count(condition, view)
            case IsEmpty(word) | Not(IsThere(word)):
                self.require_word(word, view)
            case _:
                return

    def require_count(self, test: Counts, view: View) -> None:
        fewest = {"<": test.number, "<=": test.number + 1, "!=": test.number}.get(test.operator)
        if test.operator == "==" and test.number == 0:
            fewest = 1
        if fewest is None or view.base is None:
            return
        for number in range(view.base, view.base + max(0, fewest - len(view.entries))):
            self.use(number).required = True

    def require_word(self, word: ShellWord, view: View) -> None:
        only = word.parameter
        if only is None or (only.operator in (":-", "-") and only.operand):
            return
        value = self.value(only, view, 0)
        if isinstance(value, GivenWord):
            read = self.known[only.name][1] if only.name in self.known else None
            if not (read and read.operator in (":-", "-", "=", ":=") and read.operand):
                self.use(value.number).required = True
        elif not only.name.isdigit() and not only.subscript:
            self.level.needed.add(only.name)

    def slice(self, read: Parameter, start: int) -> int:
        if not read.operator:
            return 0
        text = read.operand.literal if read.operand else None
        if read.operator != ":" or text is None or not text.strip().isdigit():
            raise UnclearWordsError("a part of its words is passed on", start)
        return max(0, int(text) - 1)

    def refuse_flags(self, condition: Condition, view: View, start: int) -> None:
        """Give up on `[ "$1" = "--fast" ]`: such a word is a flag, not a value."""
        match condition:
            case IsEqual(word, pattern):
                only = word.parameter
                value = self.value(only, view, start) if only else None
                glob = glob_of(pattern) or ""
                is_flag = glob.startswith("\\-") and pattern.literal not in HELP_WORDS
                if isinstance(value, GivenWord) and is_flag:
                    raise UnclearWordsError("a test takes a word for a flag", start)
            case Not(inside):
                self.refuse_flags(inside, view, start)
            case Either(first, second):
                self.refuse_flags(first, view, start)
                self.refuse_flags(second, view, start)
            case _:
                return

    def is_about_words(self, condition: Condition) -> bool:
        if isinstance(condition, Not):
            return self.is_about_words(condition.inner)
        if isinstance(condition, IsEmpty):
            only = condition.word.parameter
            return bool(only and only.name.isdigit())
        return isinstance(condition, Counts)

    def tests(self, statement: Statement, view: View) -> None:
        for command in commands_in(statement):
            self.read(command.words, view, command.start, certain=False, quietly=True)

    def quiet(self, condition: Condition, view: View) -> None:
        if isinstance(condition, IsEqual):
            self.read([condition.word], view, 0, certain=False, quietly=True)

    def allowed(self, statement: Case) -> tuple[str, ...]:
        """Return the only values that a `case` does not refuse."""
        found: list[str] = []
        for item in statement.items:
            texts = [literal_of(pattern) for pattern in item.patterns]
            if block_exit(self.functions, item.body) is not None:
                if any(glob_of(pattern) == ".*" for pattern in item.patterns):
                    return tuple(found)
                continue
            if None in texts:
                return ()
            found += [text for text in texts if text is not None]
        return ()

    def is_flag(self, item: CaseItem) -> bool:
        texts = {literal_of(pattern) or "" for pattern in item.patterns} - HELP_WORDS
        exits = block_exit(self.functions, item.body) is not None
        return not exits and any(text.startswith("-") for text in texts)

    def is_help(self, item: CaseItem) -> bool:
        texts = {literal_of(pattern) for pattern in item.patterns}
        return texts != {""} and texts - {""} <= HELP_WORDS

    def only_shows(self, body: Sequence[Statement], depth: int = 0) -> bool:
        for each in body:
            for command in commands_in(each):
                name = command.name or ""
                function = self.functions.get(name)
                if function and depth < _DEEPEST_CALL and self.only_shows(function.body, depth + 1):
                    continue
                if name not in SHOWING and (name or not command.assigned):
                    return False
        return True


def literal_change(assigned: Assigned) -> bool:
    """Tell whether a variable gets another value, not just a cleaner form of its own."""
    reads = [read.name for read in parameters_of(assigned.value)]
    return assigned.name not in reads or ":-" in {
        read.operator for read in parameters_of(assigned.value)
    }
