"""Follows the words of a command line through a shell script: flags, sub-commands, positionals."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from skillpouch.signatures.shell.conditions import (
    HELP_WORDS,
    Condition,
    Counts,
    IsEmpty,
    Not,
    UnclearWordsError,
    asks_for_help,
    block_exit,
    condition_of,
    exit_of,
    literal_of,
    may_succeed,
    split_condition,
    start_of,
)
from skillpouch.signatures.shell.flag_loops import (
    LoopWords,
    read_for,
    read_getopts,
    read_while,
)
from skillpouch.signatures.shell.iteration import (
    Constant,
    GivenWord,
)
from skillpouch.signatures.shell.parsing import parse_shell
from skillpouch.signatures.shell.syntax import (
    Arithmetic,
    Case,
    CaseItem,
    Chain,
    If,
    Loop,
    ShellFunction,
    ShellGroup,
    ShellSyntaxError,
    Simple,
    Statement,
    cases_in,
    commands_in,
    inner,
    is_word,
    own_words,
    parameters_in,
)
from skillpouch.signatures.shell.word_uses import SHOWING, CommandWords, View, WordNotes

_DEEPEST_CALL = 6


_LATER = "its words are read again after the loop over them"


class WordFlow(WordNotes):
    """Walks a script in the order in which it runs; raises UnclearWordsError."""

    def __init__(self, functions: Mapping[str, ShellFunction], *, strict: bool) -> None:
        super().__init__(functions, strict=strict)
        self.followers: dict[type, Callable[..., View | None]] = {
            Simple: self.simple,
            Loop: self.loop,
            Case: self.case,
            Chain: self.chain,
            If: self.decide,
        }

    def walk(
        self, block: Sequence[Statement], view: View, *, certain: bool = True, depth: int = 0
    ) -> View | None:
        """Return what the words are after a block; None if the script has ended."""
        for place, statement in enumerate(block):
            if isinstance(statement, Case) and self.dispatches(statement, view):
                self.dispatch(statement, block[place + 1 :], view, depth)
                return None
            after = self.step(statement, view, certain=certain, depth=depth)
            if after is None:
                return None
            view = after
        return view

    def step(self, statement: Statement, view: View, *, certain: bool, depth: int) -> View | None:
        match statement:
            case ShellFunction():
                return view
            case Simple() | Loop() | Case() | Chain() | If():
                follow = self.followers[type(statement)]
                return follow(statement, view, certain=certain, depth=depth)
            case ShellGroup(body=body, subshell=False, texts=texts):
                self.read(texts, view, start_of(statement), certain=certain)
                return self.walk(body, view, certain=certain, depth=depth)
            case _:
                return self.inside(statement, view, depth)

    def chain(self, statement: Chain, view: View, *, certain: bool, depth: int) -> View | None:
        first = statement.first
        if not isinstance(first, Simple) or first.name != "shift":
            return self.decide(statement, view, certain=certain, depth=depth)
        # `shift || true`, `shift || usage`: with enough words only the first part runs.
        if not all(self.is_harmless(other) for _, other in statement.rest):
            return self.inside(statement, view, depth)
        return self.simple(first, view, certain=certain, depth=depth)

    def is_harmless(self, statement: Statement) -> bool:
        ends = block_exit(self.functions, (statement,)) is not None
        return ends or all(each.name in (*SHOWING, "shift") for each in commands_in(statement))

    # Simple commands

    def simple(self, statement: Simple, view: View, *, certain: bool, depth: int) -> View | None:
        name = statement.name or ""
        for assigned in statement.assigned:
            self.assign(assigned, view, statement.start, certain=certain, depth=depth)
        if name == "shift":
            return self.shift(statement, view, certain=certain)
        if name in ("set", "eval") and self.sets_words(statement):
            return self.new_words(statement, view, certain=certain)
        if name in ("exit", "return"):
            self.level.may_end = self.level.may_end or may_succeed(statement)
            return None if certain else view
        if name in self.functions and depth < _DEEPEST_CALL:
            return self.call(statement, view, certain=certain, depth=depth)
        self.uses_words(statement, view, certain=certain)
        return view

    def uses_words(self, statement: Simple, view: View, *, certain: bool) -> None:
        """Note the words of any other command; tests and messages say little about them."""
        quietly = statement.name in ("[", "[[", "test", "echo", "printf")
        if quietly and any(read.name == "#" for read in parameters_in(statement)):
            self.level.counts = True
        if quietly:
            self.refuse_flags(condition_of((statement,)), view, statement.start)
        words = [*statement.words, *statement.texts]
        self.read(words, view, statement.start, certain=certain, quietly=quietly)

    def shift(self, statement: Simple, view: View, *, certain: bool) -> View:
        text = "1" if len(statement.words) == 1 else statement.words[1].literal
        if view.why == _UNSHIFTED and len(statement.words) > 1:
            sums = [part for part in statement.words[1].parts if isinstance(part, Arithmetic)]
            if sums and re.fullmatch(r"\s*\$?\{?OPTIND\}?\s*-\s*1\s*", sums[0].text):
                return View()
        if text is None or not text.isdigit() or not certain:
            raise UnclearWordsError("words are shifted only in some cases", statement.start)
        return view.shift(int(text))

    def sets_words(self, statement: Simple) -> bool:
        texts = [word.literal for word in statement.words[1:]]
        if statement.name == "eval":
            return "set" in texts[:1] or any(text and text.startswith("set ") for text in texts)
        return "--" in texts or None in texts[:1]

    def new_words(self, statement: Simple, view: View, *, certain: bool) -> View:
        """`set -- "${POSITIONAL[@]}"` after a loop that collects the words there."""
        given = [word for word in statement.words[1:] if word.literal not in ("--", "set")]
        only = given[0].parameter if len(given) == 1 else None
        taken = self.level.taken
        is_list = bool(only and only.subscript in ("@", "*")) and certain and view.base is None
        if is_list and only and [(only.name, True)] == [(put.name, put.append) for put in taken]:
            self.level.taken = []
            return View()
        raise UnclearWordsError(f"{statement.name!r} replaces its words", statement.start)

    # Functions

    def call(self, statement: Simple, view: View, *, certain: bool, depth: int) -> View | None:
        """Follow the words into a function that gets some of them."""
        entries: list[GivenWord | Constant | None] = []
        base: int | None = None
        why = ""
        for place, word in enumerate(statement.words[1:], start=2):
            only = word.parameter
            is_last = place == len(statement.words)
            if only and only.name == "@" and not only.subscript and is_last:
                passed = view.shift(self.slice(only, statement.start))
                entries += passed.entries
                base, why = passed.base, passed.why
                continue
            value = self.value(only, view, statement.start) if only else None
            is_given = isinstance(value, GivenWord) and only is not None and self.is_plain(only)
            if not is_given:
                self.read([word], view, statement.start, certain=certain)
            elif only and isinstance(value, GivenWord):
                self.note(value.number, only, certain=certain, quietly=True)
            entries.append(value if is_given else None)
        if base is None and not any(isinstance(each, GivenWord) for each in entries):
            return self.unrelated(statement, view, certain=certain)
        had_loop, kept = self.level.has_loop, dict(self.known)
        function = self.functions[statement.name or ""]
        after = self.walk(
            function.body, View(tuple(entries), base, why), certain=certain, depth=depth + 1
        )
        self.known = kept
        if after is None and self.level.commands:
            return None
        if exit_of(self.functions, function.name) is not None and certain:
            return None
        return View((), None, _LATER) if self.level.has_loop and not had_loop else view

    def unrelated(self, statement: Simple, view: View, *, certain: bool) -> View | None:
        ended = exit_of(self.functions, statement.name or "") is not None
        return None if ended and certain else view

    # Loops

    def loop(self, statement: Loop, view: View, *, certain: bool, depth: int) -> View | None:
        is_getopts = any(
            each.name == "getopts" for part in statement.condition for each in commands_in(part)
        )
        if is_getopts:
            return self.flags(
                read_getopts(statement, self.functions), statement, view, certain=certain
            )
        if statement.kind == "for" and self.is_over_words(statement):
            if cases_in(statement.body):
                return self.flags(
                    read_for(statement, self.functions), statement, view, certain=certain
                )
            self.read_all(view, statement.start, quietly=False)
            self.level.rest_name = statement.name
            return view
        if statement.kind in ("while", "until") and self.consumes(statement):
            return self.flags(
                read_while(statement, self.functions), statement, view, certain=certain
            )
        return self.inside(statement, view, depth)

    def is_over_words(self, statement: Loop) -> bool:
        if statement.words is None:
            return True
        only = statement.words[0].parameter if len(statement.words) == 1 else None
        return bool(only and only.name in ("@", "*") and not only.subscript and not only.operator)

    def consumes(self, statement: Loop) -> bool:
        return any(
            each.name in ("shift", "getopts")
            for part in statement.body
            for each in commands_in(part)
        )

    def flags(self, found: LoopWords, loop: Loop, view: View, *, certain: bool) -> View:
        level = self.level
        if level.has_loop:
            raise UnclearWordsError("its words go through two loops", loop.start)
        if not certain:
            raise UnclearWordsError("its loop over the words runs only in some cases", loop.start)
        named = {number for number, use in level.uses.items() if use.names}
        if view.entries or view.base is None or view.base != len(named) + 1:
            raise UnclearWordsError("words are read before the loop and by it, too", loop.start)
        level.before = {number: use for number, use in level.uses.items() if number < view.base}
        level.uses, level.rest, level.has_loop, level.start = {}, None, True, loop.start
        level.flags, level.known = found.flags, found.known
        level.taken, level.dashes = found.taken, found.dashes
        level.guarded, level.refused = not found.dashes, found.words
        self.known.clear()
        if loop.kind == "for":
            return View((), None, _LATER)
        if _is_getopts(loop):
            return View((), None, _UNSHIFTED)
        return View() if found.stays else View((), None)

    # Conditions

    def decide(
        self, statement: If | Chain, view: View, *, certain: bool, depth: int
    ) -> View | None:
        condition, body, others = split_condition(statement)
        if condition is not None and not others:
            if asks_for_help(condition) and block_exit(self.functions, body) is not None:
                if self.refuses(body):
                    self.require(condition, view, certain=certain)
                self.quiet(condition, view)
                return view
            if self.refuses(body):
                self.require(condition, view, certain=certain)
                self.tests(statement, view)
                return view
            if isinstance(condition, Counts | IsEmpty | Not) and self.is_about_words(condition):
                self.tests(statement, view)
                return self.only_with_words(condition, body, view, certain=certain, depth=depth)
        return self.inside(statement, view, depth)

    def only_with_words(
        self,
        condition: Condition,
        body: Sequence[Statement],
        view: View,
        *,
        certain: bool,
        depth: int,
    ) -> View | None:
        """Follow `if [ $# -gt 0 ]; then …`: what handles words needs them."""
        self.level.counts = self.level.counts or not isinstance(condition, IsEmpty)
        has_words = condition in (Counts(">", 0), Counts("!=", 0), Counts(">=", 1)) or (
            isinstance(condition, Not) and isinstance(condition.inner, IsEmpty)
        )
        handles = any(
            isinstance(each, Loop | Case) and any(map(is_word, parameters_in(each)))
            for each in body
        )
        if has_words and handles and certain:
            before = self.level.may_end
            after = self.walk(body, view, certain=True, depth=depth)
            self.level.may_end = before or after is None
            return after if after is not None or not self.level.commands else None
        group = ShellGroup(tuple(body))
        return self.inside(group, view, depth)

    def inside(self, statement: Statement, view: View, depth: int) -> View:
        """Follow what runs only in some cases: it may read words, but not take any away."""
        if any(map(may_succeed, commands_in(statement))):
            self.level.may_end = True
        had = (self.level.has_loop, dict(self.known), dict(self.level.initial))
        self.read(list(own_words(statement)), view, start_of(statement), certain=False)
        for block in inner(statement):
            for each in block:
                if (
                    isinstance(each, Case)
                    and self.subject(each, view)
                    and self.dispatches(each, view)
                ):
                    raise UnclearWordsError("sub-commands are read only in some cases", each.start)
                after = self.step(each, view, certain=False, depth=depth)
                if after is not None and after != view:
                    raise UnclearWordsError("words are taken only in some cases", start_of(each))
        self.known = had[1]
        return view

    # Sub-commands

    def subject(self, statement: Case, view: View) -> GivenWord | None:
        only = statement.subject.parameter
        value = self.value(only, view, statement.start) if only else None
        if only is None or only.operator not in ("", ":-", "-"):
            return None
        return value if isinstance(value, GivenWord) else None

    def case(self, statement: Case, view: View, *, certain: bool, depth: int) -> View | None:
        """A `case` about something else: the values of a variable, which may be choices."""
        only = statement.subject.parameter
        texts = self.allowed(statement)
        if self.subject(statement, view) and any(map(self.is_flag, statement.items)):
            raise UnclearWordsError("a 'case' takes a word for a flag", statement.start)
        number = self.subject(statement, view)
        if texts and certain and not self.level.may_end and number:
            self.use(number.number).choices = texts
        elif texts and certain and only and only.operator in ("", ":-", "-"):
            self.level.choices[only.name] = texts
        return self.inside(statement, view, depth)

    def dispatches(self, statement: Case, view: View) -> bool:
        """Tell whether a `case` chooses among commands, and not among values or help flags."""
        number = self.subject(statement, view)
        if not number or any(earlier < number.number for earlier in self.level.uses):
            return False  # after another word it is the value of an argument
        bodies = [item for item in statement.items if not self.is_help(item)]
        named = [item for item in bodies if any(literal_of(each) for each in item.patterns)]
        # Items that only set variables choose among values.
        return any(_active(item.body) for item in named)

    def dispatch(self, statement: Case, later: Sequence[Statement], view: View, depth: int) -> None:
        """Read each item as a sub-command with words of its own."""
        number = self.subject(statement, view)
        assert number is not None, "the caller has asked"
        level = self.level
        if level.commands or level.taken:
            raise UnclearWordsError("words come before its sub-commands", statement.start)
        if level.rest is not None:
            raise UnclearWordsError("its words are used beside its sub-commands", statement.start)
        for item in statement.items:
            name = self.command_name(item)
            if name:
                level.commands[name] = self.command(item, later, view, number.number, depth)
        level.uses = {}
        if not level.commands:
            raise UnclearWordsError("none of its sub-commands does anything", statement.start)

    def command_name(self, item: CaseItem) -> str:
        texts = [literal_of(pattern) for pattern in item.patterns]
        ends = block_exit(self.functions, item.body)
        if self.is_help(item) or (ends not in (None, "0", "?", "") and not item.body[:-1]):
            return ""
        if None in texts or set(texts) == {""}:
            if ends is None and not self.only_shows(item.body):
                raise UnclearWordsError("words beside its sub-commands have a meaning", item.start)
            return ""
        if item.end != ";;":
            raise UnclearWordsError(f"{item.end!r} goes on with other sub-commands", item.start)
        names = [text for text in texts if text and text not in HELP_WORDS]
        return next((text for text in names if not text.startswith("-")), names[0])

    def command(
        self, item: CaseItem, later: Sequence[Statement], view: View, number: int, depth: int
    ) -> CommandWords:
        """Read one sub-command: its words are counted from the one after its name."""
        outer, known = self.level, dict(self.known)
        self.level = CommandWords(
            initial=dict(outer.initial),
            uses={n - number: use for n, use in outer.uses.items() if n > number},
            dashes=outer.dashes and view.base is not None,
            may_end=False,
            start=item.start,
        )
        self.level.uses = {n: replace(u, names=[*u.names]) for n, u in self.level.uses.items()}
        self.known = {
            name: (GivenWord(value.number - number), read)
            for name, (value, read) in known.items()
            if value.number > number
        }
        moved = View(tuple(_moved(each, number) for each in view.entries), view.base, view.why)
        if moved.base is not None:
            moved = moved._replace(base=moved.base - number)
        try:
            self.walk((*item.body, *later), moved, depth=depth)
        except UnclearWordsError as error:
            self.level = CommandWords(rest=1, unclear=error, start=item.start)
        found, self.level, self.known = self.level, outer, known
        return found


_UNSHIFTED = "words are read before those of getopts are shifted"


def _moved(value: GivenWord | Constant | None, number: int) -> GivenWord | Constant | None:
    if isinstance(value, GivenWord):
        return GivenWord(value.number - number) if value.number > number else None
    return value


def _is_getopts(loop: Loop) -> bool:
    return any(each.name == "getopts" for part in loop.condition for each in commands_in(part))


def _active(block: Sequence[Statement]) -> list[Simple]:
    """Return the commands of a block that do something besides setting variables or showing."""
    commands = [each for statement in block for each in commands_in(statement)]
    passive = (*SHOWING, "shift", "export", "local", "declare", "readonly", "[", "[[", "test")
    return [each for each in commands if each.name and each.name not in passive]


_STRICT = re.compile(r"^[ \t]*set[ \t]+(?:-\w+[ \t]+)*(?:-\w*u|-\w*o[ \t]+nounset)", re.MULTILINE)


def follow_words(text: str) -> CommandWords | None:
    """Return what a script does with its words; None if it is not understood as shell.

    Raises UnclearWordsError if words are used in a way that is not understood.
    """
    try:
        statements = parse_shell(text)
    except (ShellSyntaxError, RecursionError):
        return None
    flow = WordFlow(_functions_in(statements), strict=_STRICT.search(text) is not None)
    flow.walk(statements, View())
    return flow.level


def _functions_in(block: Sequence[Statement]) -> dict[str, ShellFunction]:
    found: dict[str, ShellFunction] = {}
    for statement in block:
        if isinstance(statement, ShellFunction):
            found[statement.name] = statement
        for each in inner(statement):
            found |= _functions_in(each)
    return found


def levels_of(level: CommandWords) -> Iterator[CommandWords]:
    """Yield a command and everything below it."""
    yield level
    for each in level.commands.values():
        yield from levels_of(each)
