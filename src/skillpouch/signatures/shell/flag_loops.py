"""Reads loops over the words of a command line: `while … case`, `for … case`, `getopts`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillpouch.signatures.shell.conditions import (
    First,
    FlagWord,
    IsEqual,
    JoinedWord,
    NoWord,
    PlainWord,
    UnclearWordsError,
    condition_of,
    glob_of,
    start_of,
)
from skillpouch.signatures.shell.iteration import (
    ALL,
    CodePath,
    Counted,
    GivenWord,
    Iteration,
    Put,
)
from skillpouch.signatures.shell.syntax import (
    Case,
    Loop,
    ShellFunction,
    ShellWord,
    Simple,
    Statement,
    inner,
)

_HELP = frozenset({"-h", "-H", "-?", "--help", "--usage", "-help", "-V", "--version", "-version"})
_MOST_FLAGS = 100
_NEXT = 2  # the number of the word after a flag


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFlag:
    """A flag that a loop reads; `kind` is what it does with the words after it."""

    flags: tuple[str, ...]
    kind: str  # "value", "switch", "count"
    variable: str = ""
    append: bool = False
    joined: bool = False
    choices: tuple[str, ...] = ()
    digits: bool = False
    exits: bool = False
    start: int = 0


@dataclass(slots=True, kw_only=True)
class LoopWords:
    """What a loop does with all words: its flags, and where other words go.

    `taken` are variables that get the words which are no flags, the first word into the first;
    the last may be a list. `stays` is true if such words are left for what comes after the loop.
    `dashes` tells whether `--` lets words begin with a dash.
    """

    flags: list[LoopFlag] = field(default_factory=list)
    known: set[str] = field(default_factory=set)  # every flag it knows, also help
    taken: list[Put] = field(default_factory=list)
    stays: bool = False
    dashes: bool = False
    words: set[str] = field(default_factory=set)  # words without dash that it knows
    shifts: bool = False  # for a loop that shifts words without reading them by number


def read_while(loop: Loop, functions: Mapping[str, ShellFunction]) -> LoopWords:
    """Return what a `while` loop does; raises UnclearWordsError if that is not sure."""
    return _While(loop, functions).read()


def read_for(loop: Loop, functions: Mapping[str, ShellFunction]) -> LoopWords:
    """Return what a `for` loop over all words does; raises UnclearWordsError."""
    return _For(loop, functions).read()


def read_getopts(loop: Loop, functions: Mapping[str, ShellFunction]) -> LoopWords:
    """Return what a loop of `getopts` does; raises UnclearWordsError."""
    command = loop.condition[-1]
    assert isinstance(command, Simple), "the caller has looked"
    if len(command.words) != 3:  # noqa: PLR2004 - getopts, the letters, the variable
        raise UnclearWordsError("getopts is given words of its own", loop.start)
    letters, name = command.words[1].literal, command.words[2].literal
    if letters is None or name is None or "-" in letters:
        raise UnclearWordsError("the letters of getopts are not plain", loop.start)
    return _Getopts(loop, functions, letters, name).read()


class _While:
    numbered = True

    def __init__(self, loop: Loop, functions: Mapping[str, ShellFunction]) -> None:
        self.loop = loop
        self.functions = functions
        self.found = LoopWords()
        self.bound: Mapping[str, GivenWord] = {}

    def fail(self, reason: str, start: int = 0) -> UnclearWordsError:
        return UnclearWordsError(reason, start or self.loop.start)

    def read(self) -> LoopWords:
        self.check_end()
        groups = self.candidates()
        if not any(groups) or sum(map(len, groups)) > _MOST_FLAGS:
            raise self.fail("its loop knows no flags" if not any(groups) else "it has many flags")
        for texts, start in groups:
            self.item(texts, start)
        self.plain()
        self.dashes()
        return self.found

    def candidates(self) -> list[tuple[list[str], int]]:
        """Return the texts that the loop compares words with, item by item."""
        found = [*_compared(self.loop.body)]
        return [(list(dict.fromkeys(texts)), start) for texts, start in found if texts]

    def iteration(self, first: First, fewest: int) -> Iteration:
        return Iteration(
            functions=self.functions,
            first=first,
            fewest=fewest,
            bound=self.bound,
            numbered=self.numbered,
        )

    def goes_on(self, first: First, fewest: int = 1) -> bool | None:
        """Tell whether the loop has another round for this word."""
        iteration = self.iteration(first, fewest)
        truths = {
            truth for _, truth in iteration.tested(condition_of(self.loop.condition), CodePath())
        }
        found = next(iter(truths)) if len(truths) == 1 else None
        return not found if found is not None and self.loop.kind == "until" else found

    def check_end(self) -> None:
        """Make sure that the loop ends when there are no more words."""
        on = self.goes_on(NoWord(), 0)
        if on is False:
            return
        ways = self.iteration(NoWord(), 0).run(self.loop.body) if on else []
        if not ways or not all(way.end == "break" for way in ways):
            raise self.fail("when its loop over the words ends is not clear")

    def ways(self, first: First, fewest: int) -> list[CodePath]:
        if self.goes_on(first, fewest) is not True:
            raise self.fail("its loop may end before a flag is read")
        return self.iteration(first, fewest).run(self.loop.body)

    def item(self, texts: Sequence[str], start: int) -> None:
        """Read the flags of one pattern: the same meaning makes them one argument."""
        read: list[LoopFlag] = []
        if any(text in _HELP for text in texts):
            self.found.known |= set(texts)
            return
        for text in texts:
            is_joined = text.endswith("=*")
            plain = text[:-2] if is_joined else text
            if plain in ("--", "-", ""):
                continue
            self.found.known.add(plain)
            if not plain.startswith("-"):
                self.found.words.add(plain)
                continue
            first = JoinedWord(f"{plain}=") if is_joined else FlagWord(plain)
            try:
                one = self.flag(first, plain, start)
            except UnclearWordsError:
                if not is_joined or not any(
                    plain in each.flags for each in (*self.found.flags, *read)
                ):
                    raise
                continue
            if one is not None:
                read.append(one)
        self.add(read)

    def add(self, read: Sequence[LoopFlag]) -> None:
        for one in read:
            known = [each for each in self.found.flags if one.flags[0] in each.flags]
            if any(each.kind == "value" for each in known):
                continue  # the form with `=` of a flag that also takes the next word
            same = next(
                (each for each in self.found.flags if replace(each, flags=one.flags) == one), None
            )
            if same and not known:
                place = self.found.flags.index(same)
                self.found.flags[place] = replace(same, flags=(*same.flags, *one.flags))
            elif not known or one.kind == "value":
                self.found.flags.append(one)

    def flag(self, first: First, text: str, start: int) -> LoopFlag | None:
        ways = self.ways(first, 2)
        left = [way for way in ways if way.end in ("", "continue")]
        if not left:
            return self.ending(ways, text, start)
        if any(way.end == "break" for way in ways):
            raise self.fail(f"{text} may end the loop", start)
        return self.kept(left, first, text, start)

    def ending(self, ways: Sequence[CodePath], text: str, start: int) -> LoopFlag | None:
        """Return a flag after which the script ends; none for help and for what it refuses."""
        if text in _HELP or all(way.end == "exit" and way.status not in ("", "0") for way in ways):
            return None
        takes = {_NEXT in way.reads for way in ways}
        if any(way.end != "exit" or way.reads - {1, _NEXT} for way in ways) or len(takes) > 1:
            raise self.fail(f"what comes after {text} is not clear", start)
        kind = "value" if takes == {True} else "switch"
        return LoopFlag(flags=(text,), kind=kind, exits=True, start=start)

    def kept(self, ways: Sequence[CodePath], first: First, text: str, start: int) -> LoopFlag:
        shifts = {way.shifted for way in ways}
        if any(ALL in way.reads for way in ways):
            raise self.fail(f"{text} reads all words", start)
        if len(shifts) > 1:
            raise self.fail(f"how many words {text} takes depends on more than the flag", start)
        if isinstance(first, JoinedWord):
            return self.valued(ways, GivenWord(1, "after"), text, start, shift=1)
        if shifts == {2}:
            return self.valued(ways, GivenWord(2), text, start, shift=2)
        if shifts != {1} or any(way.reads - {1} for way in ways):
            raise self.fail(f"how many words {text} takes is not clear", start)
        again = [way for way in self.ways(first, 1) if way.end in ("", "continue")]
        if {way.shifted for way in again} != {1}:
            raise self.fail(f"{text} depends on how many words follow", start)
        return self.switch(ways, text, start)

    def switch(self, ways: Sequence[CodePath], text: str, start: int) -> LoopFlag:
        puts = [put for way in ways for put in way.puts if put.name not in self.bound]
        holding = [{put for put in way.puts if isinstance(put.value, GivenWord)} for way in ways]
        if any(each != holding[0] for each in holding):
            raise self.fail(f"what {text} does depends on the words before it", start)
        counted = next((put.name for put in puts if isinstance(put.value, Counted)), "")
        own = [put.name for put in puts if not isinstance(put.value, GivenWord)]
        return LoopFlag(
            flags=(text,),
            kind="count" if counted else "switch",
            variable=counted or (own[0] if own else ""),
            start=start,
        )

    def valued(
        self, ways: Sequence[CodePath], value: GivenWord, text: str, start: int, *, shift: int
    ) -> LoopFlag:
        holding = [tuple(p for p in way.puts if _holds(p, value)) for way in ways]
        names = {tuple((put.name, put.append) for put in each) for each in holding}
        reads = all(value.number in way.reads for way in ways)
        is_taken = bool(holding[0]) or (reads and not value.part)
        if len(names) > 1 or not is_taken or any(way.shifted != shift for way in ways):
            raise self.fail(f"where the value of {text} goes is not clear", start)
        chosen = [way.chosen for way in ways]
        put = _lasting(holding[0])
        return LoopFlag(
            flags=(text,),
            kind="value",
            variable=put.name if put else "",
            append=bool(put and put.append),
            joined=value.number == 1,
            choices=tuple(dict.fromkeys(t for each in chosen for t in each)) if all(chosen) else (),
            digits=all(way.digits for way in ways),
            start=start,
        )

    def plain(self) -> None:
        """Read what happens with a word that is no flag."""
        on = self.goes_on(PlainWord())
        if on is not True:
            if on is None:
                raise self.fail("its loop may end at a word that is no flag")
            self.found.stays = True
            return
        ways = self.iteration(PlainWord(), 1).run(self.loop.body)
        left = [way for way in ways if way.end in ("", "continue")]
        breaks = [way for way in ways if way.end == "break"]
        if breaks:
            if left or any(way.shifted or _puts_word(way) for way in breaks):
                raise self.fail("a word that is no flag may end the loop")
            self.found.stays = True
        elif left:
            self.found.taken = self.taken(left)

    def taken(self, ways: Sequence[CodePath]) -> list[Put]:
        """Return the variables that get words: in turn, each while it is empty, or a list."""
        if any(way.shifted != 1 or way.reads - {1} for way in ways):
            raise self.fail("how it takes a word that is no flag is not clear")
        return self.in_turn(ways)

    def in_turn(self, ways: Sequence[CodePath]) -> list[Put]:
        order = sorted(ways, key=lambda way: len(way.empty))
        found: list[Put] = []
        used: list[CodePath] = []
        for way in order:
            puts = [put for put in way.puts if _holds(put, GivenWord(1))]
            own = [put for put in puts if put.name not in self.passing(way)]
            filled = {put.name for put in found}
            facts = [fact for fact in way.empty if fact[0] in filled or fact[1]]
            before = [(put.name, False) for put in found]
            if len(own) != 1:
                if own or (1 in way.reads and not puts):
                    raise self.fail("what it does with a word that is no flag is not clear")
                expected = before
            else:
                put = own[0]
                last = [] if put.append or len(ways) == 1 else [(put.name, True)]
                expected = before + last
                found.append(put)
            if facts != expected and not (len(facts) == 1 and len(ways) == 1):
                raise self.fail("which variable a word goes to is not clear")
            used.append(way)
        if any(
            put.append or (isinstance(put.value, GivenWord) and put.value.part)
            for put in found[:-1]
        ):
            raise self.fail("which variable a word goes to is not clear")
        return found

    def passing(self, way: CodePath) -> set[str]:
        """Return variables that only hold the word on its way into another one."""
        return {
            put.name
            for put in way.puts[:1]
            if len([p for p in way.puts if _holds(p, GivenWord(1))]) > 1
        }

    def dashes(self) -> None:
        """Read what `--` does: at best it lets the words after it begin with a dash."""
        first = FlagWord("--")
        if self.goes_on(first, 2) is not True:
            return
        try:
            ways = self.iteration(first, 2).run(self.loop.body)
        except UnclearWordsError:
            return
        if not all(way.end == "break" and way.shifted == 1 for way in ways):
            return
        puts = [put for way in ways for put in way.puts if put.value == GivenWord(ALL)]
        if self.found.stays:
            self.found.dashes = not puts
        elif len(self.found.taken) == 1 and self.found.taken[0].append:
            target = self.found.taken[0].name
            self.found.dashes = bool(puts) and all(p.append and p.name == target for p in puts)


class _For(_While):
    """Every word is read by itself; `$1` stays what it is."""

    numbered = False

    def __init__(self, loop: Loop, functions: Mapping[str, ShellFunction]) -> None:
        super().__init__(loop, functions)
        self.bound = {loop.name: GivenWord(1)}

    def goes_on(self, first: First, fewest: int = 1) -> bool | None:
        del fewest
        return not isinstance(first, NoWord)

    def ways(self, first: First, fewest: int) -> list[CodePath]:
        return [self.unshifted(way) for way in self.iteration(first, fewest).run(self.loop.body)]

    def unshifted(self, way: CodePath) -> CodePath:
        self.found.shifts = self.found.shifts or bool(way.shifted)
        return replace(way, shifted=1)

    def plain(self) -> None:
        ways = self.ways(PlainWord(), 1)
        left = [way for way in ways if way.end in ("", "continue")]
        if any(way.end == "break" for way in ways):
            raise self.fail("a word that is no flag may end the loop")
        self.found.taken = self.taken(left) if left else []

    def dashes(self) -> None:
        """`--` is a word like others."""


class _Getopts(_While):
    numbered = False

    def __init__(
        self, loop: Loop, functions: Mapping[str, ShellFunction], letters: str, name: str
    ) -> None:
        super().__init__(loop, functions)
        self.letters = letters
        self.bound = {name: GivenWord(1), "OPTARG": GivenWord(2)}

    def read(self) -> LoopWords:
        for letter, colon in re.findall(r"([^:])(:?)", self.letters):
            self.letter(letter, takes_value=bool(colon))
        self.found.stays = self.found.dashes = True
        return self.found

    def letter(self, letter: str, *, takes_value: bool) -> None:
        text, start = f"-{letter}", self.loop.start
        self.found.known.add(text)
        ways = self.iteration(FlagWord(letter), 1).run(self.loop.body)
        left = [way for way in ways if way.end in ("", "continue")]
        if any(way.shifted or way.end == "break" for way in ways):
            raise self.fail(f"{text} shifts words while getopts counts them")
        if not left:
            found = self.ending(ways, text, start)
        elif takes_value:
            found = self.valued(left, GivenWord(2), text, start, shift=0)
        else:
            found = self.switch(left, text, start)
        if found is not None:
            self.found.flags.append(found)


def _holds(put: Put, value: GivenWord) -> bool:
    if not isinstance(put.value, GivenWord) or put.value.number != value.number:
        return False
    return put.value.part == value.part if value.part else put.value.part in ("", "some")


def _lasting(puts: Sequence[Put]) -> Put | None:
    """Return the variable a value stays in: the last one that it is copied to."""
    return puts[-1] if puts else None


def _puts_word(way: CodePath) -> bool:
    return any(put.value == GivenWord(1) and put.append for put in way.puts)


def _compared(block: Sequence[Statement]) -> Iterator[tuple[list[str], int]]:
    """Yield the texts with which `case` and tests compare words; `--out=*` keeps its star."""
    for statement in block:
        if isinstance(statement, Case):
            for item in statement.items:
                texts = [text for pattern in item.patterns if (text := _text(pattern))]
                yield texts, item.start
        elif isinstance(statement, Simple):
            condition = condition_of((statement,))
            if isinstance(condition, IsEqual) and (text := _text(condition.pattern)):
                yield [text] if text.startswith("-") else [], start_of(statement)
        for each in inner(statement):
            yield from _compared(each)


def _text(pattern: ShellWord) -> str | None:
    """Return the flag that a pattern stands for; None for a pattern of many words."""
    glob = glob_of(pattern)
    if glob is None:
        return None
    head = re.sub(r"\\(.)", r"\1", glob)
    if pattern.literal is not None and re.escape(pattern.literal) == glob:
        return pattern.literal
    match = re.fullmatch(r"((?:\\.|[\w-])+)=\.\*", glob)
    return re.sub(r"\\(.)", r"\1", match[1]) + "=*" if match and head else None
