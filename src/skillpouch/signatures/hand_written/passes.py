"""What a loop over the words of a command line does with each flag, and with all other words.

Its body is followed once for each flag that stands in it, and once for each other word until
nothing new happens. So it makes no difference how the program tells flags apart.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.hand_written.lists import parts
from skillpouch.signatures.hand_written.statements import StatementFollower
from skillpouch.signatures.hand_written.tracking import Env
from skillpouch.signatures.hand_written.values import (
    HELP,
    UNKNOWN,
    Flag,
    Given,
    Joined,
    Known,
    Maybe,
    Ref,
    Routine,
    UnclearError,
    Word,
    Words,
    as_word,
    words_in,
)

_MOST_PLAIN = 12
_STRANGE = ("--unknown-flag-0", "-0z")


@dataclass(slots=True, kw_only=True)
class WordLoop:
    """A loop over words: how its pass begins, and how far it goes."""

    words: Words  # to which an index refers
    start: int  # of the first word, counted on the command line
    body: list[ast.stmt]
    begin: Callable[[Any], None]  # binds the word, its index or the list
    end: Callable[[], int]  # the number of words that the pass took
    ignored: set[Any] = field(default_factory=set)  # variables of the loop itself
    label: str = ""


@dataclass(slots=True)
class Pass:
    """What one pass of a loop did."""

    word: Any
    changed: dict[Any, Any]
    effects: list[Any]
    steps: set[int]
    stops: bool  # a break or a return
    env: Env | None

    @property
    def leaves(self) -> bool:
        return self.env is None and not self.stops


# Follows the body of a loop that is at a word; the flag is "" if the word is none.
Run = Callable[[Any, str, Env], Pass]


class LoopReader:
    """Reads one loop."""

    def __init__(
        self, follower: StatementFollower, run: Run, loop: WordLoop, node: ast.AST
    ) -> None:
        self.follower, self._pass, self.loop, self.node = follower, run, loop, node
        self.reading = follower.reading
        self.before: Env = follower.env
        self.passing: set[Any] = set()  # variables that every pass sets anew
        self.passes: dict[str, Pass] = {}
        self.set_by: dict[Any, list[str]] = {}  # what flags set

    def read(self) -> None:
        if self.reading.loop_start is not None:
            raise UnclearError("it goes over its words more than once", self.node)
        self.reading.loop_start = max(self.loop.start, 0)
        candidates = self._candidates()
        for text in (*_STRANGE, *candidates):
            self._note_passing(self._pass_of(text))
        plain = self._pass(Word("plain", 0), "", self.before)
        self._refuse_any_flag()
        found = [flag.rstrip("=") for flag in candidates if self._read_flag(flag)]
        flags = list(dict.fromkeys(found))
        env = self._after_flags(flags)
        slots = self._read_plain(plain)
        if not self._drop_plain(slots):
            self._check_state(plain, flags)
        self.follower.env = self._after_plain(env, slots)

    def _pass_of(self, flag: str) -> Pass:
        if flag not in self.passes:
            name = "" if flag.endswith("=") else flag
            self.passes[flag] = self._pass(as_word(flag), name, self.before)
        return self.passes[flag]

    def _note_passing(self, made: Pass) -> None:
        """Note new variables that hold the word itself, or are set for an unknown flag, too.

        One that is named after the unknown flag is an option that the loop makes of it.
        """
        strange = next((text for text in _STRANGE if made.word == Known(text)), "")
        for key, value in made.changed.items():
            is_set_anyway = bool(strange) and strange.lstrip("-") not in str(key[1])
            if key not in self.before and (value == made.word or is_set_anyway):
                self.passing.add(key)

    def _candidates(self) -> list[str]:
        self.follower.env = self.before
        nodes: list[ast.AST] = list(self.loop.body)
        for part in list(parts(nodes)):
            routine = self.follower.find(part.id) if isinstance(part, ast.Name) else None
            if isinstance(routine, Routine) and self.follower.is_hot(routine):
                nodes += routine.body()
        return self.follower.texts(nodes)

    def _refuse_any_flag(self) -> None:
        """Refuse a loop that makes an option of any flag."""
        for text in _STRANGE:
            made = self._pass_of(text)
            taken = [word for word in self._taken(made) if word.kind == "value"]
            computed = ("computed key",) in made.effects
            if taken or computed or self._mentions(made, text):
                raise UnclearError("it takes flags of any name", self.node)

    def _mentions(self, made: Pass, text: str) -> bool:
        """Tell whether a part of the flag itself becomes a key."""
        bare = text.lstrip("-")
        return any(bare in str(key[1]) for key in self._relevant(made))

    def _relevant(self, made: Pass) -> dict[Any, Any]:
        return {key: value for key, value in made.changed.items() if key not in self.passing}

    def _taken(self, made: Pass) -> list[Word]:
        used = [effect[-1] for effect in made.effects if effect[0] in ("used", "set")]
        return words_in([*self._relevant(made).values(), *used])

    def _read_flag(self, text: str) -> bool:
        """Read what one flag does; tell whether it is one."""
        if text.endswith("="):
            return self._read_joined(text)
        made = self._pass_of(text)
        if text in HELP or made.leaves:
            return False
        taken = {word for word in self._taken(made) if word.kind == "value"}
        if made.stops or len(made.steps) != 1 or any(word.number > 1 for word in taken):
            raise UnclearError(f"what it does after {text} is not followed", self.node)
        step = next(iter(made.steps))
        if step > 1 and not taken:
            taken = {Word("value", 1, text)}  # only compared
        if not taken and self._may_join(f"{text}="):
            return True
        if not taken and not self._relevant(made) and not made.effects:
            return False
        if step > (2 if taken else 1) or step < 1:
            raise UnclearError(f"what it does after {text} is not followed", self.node)
        self._add(text, "value" if taken else "", made, inspected=bool(taken) and step == 1)
        return True

    def _may_join(self, prefix: str) -> bool:
        """Try whether a flag takes a value behind an equals sign, which it may not expect."""
        env = self.follower.env
        try:
            return self._read_joined(prefix)
        except UnclearError:
            self.follower.end_pass(env)
            return False

    def _read_joined(self, prefix: str) -> bool:
        flag = prefix[:-1]
        made = self._pass_of(prefix)
        taken = [word for word in self._taken(made) if word.kind == "tail"]
        if not taken or flag in self.reading.flags:
            return False
        if made.stops or made.steps != {1}:
            raise UnclearError(f"what it does after {prefix} is not followed", self.node)
        self._add(flag, "tail", made, inspected=False)
        return True

    def _add(self, text: str, takes: str, made: Pass, *, inspected: bool) -> None:
        changed = self._relevant(made)
        lists = [key for key, value in changed.items() if key[1] == "items" and words_in([value])]
        flag = Flag(text, takes, repeats=bool(lists and takes), inspected=inspected)
        flag.effect = frozenset(
            [(repr(key), _normal(value)) for key, value in changed.items()]
            + [("effect", _normal(effect)) for effect in made.effects]
        )
        self.reading.flags[text] = flag
        for key in changed:
            self.set_by.setdefault(key, []).append(text)

    def _after_flags(self, flags: list[str]) -> Env:
        """Return what is known after the loop: what a flag sets may be set."""
        env = dict(self.before)
        for key, setters in self.set_by.items():
            known = [flag for flag in flags if flag in setters]
            first = self.reading.flags[known[0]] if known else None
            alike = first and all(self.reading.flags[one].effect == first.effect for one in known)
            env[key] = UNKNOWN
            if first is not None and alike and key[1] != "items":
                kind = first.takes or ""
                value: Any = Word(kind, 1, known[-1]) if kind else Given((known[-1],))
                env[key] = self.follower.merged(value, self.before.get(key, Known(None)))
                for flag in known:
                    about = self.reading.of(Word(kind, 1, flag)) if kind else None
                    if about is not None and isinstance(env[key], Maybe):
                        self.follower.note_default(Word(kind, 1, flag), env[key].default)
            elif key[1] == "items":
                env[key] = (UNKNOWN,)
        return env

    def _read_plain(self, made: Pass) -> list[set[Any]]:
        """Follow one word after another that is no flag; return what each of them sets."""
        slots: list[set[Any]] = []
        for number in range(_MOST_PLAIN):
            if made.leaves:
                break
            if made.stops or made.steps != {1}:
                raise UnclearError("what it does with other words is not followed", self.node)
            word, changed = Word("plain", number), self._relevant(made)
            set_here = {key for key, value in changed.items() if word in words_in([value])}
            is_used = ("used", word) in made.effects
            if not set_here and not is_used:
                if changed or made.effects:
                    raise UnclearError("what it does with other words is not followed", self.node)
                break
            if is_used or any(key[1] == "items" for key in set_here):
                return self._read_list(slots, set_here, number)
            if slots and set_here == slots[-1]:
                break  # the last one counts
            slots.append(set_here)
            made = self._pass(Word("plain", number + 1), "", made.env or {})
        self.reading.most_plain = len(slots)
        self.reading.plain = "taken" if slots else "ignored"
        return slots

    def _read_list(self, slots: list[set[Any]], keys: set[Any], number: int) -> list[set[Any]]:
        if number:
            raise UnclearError("what it does with other words is not followed", self.node)
        self.reading.plain = "taken"
        self.reading.about.pop(Word("plain", 0), None)
        if not keys:
            self.reading.rest["plain"] = (0, "")
        return [*slots, keys]

    def _name_of(self, ref: Ref) -> str:
        """Return the name of a list: of the variable or member that holds it."""
        held = (key[1] for key, value in self.before.items() if value == ref)
        return next((name for name in held if isinstance(name, str)), "")

    def _drop_plain(self, slots: list[set[Any]]) -> bool:
        """Leave out words that only do what flags do, for those do not depend on an order."""
        values = {flag.word for flag in self.reading.flags.values() if flag.takes}
        if not slots or not all(
            keys and all(values & set(self.set_by.get(key, ())) for key in keys) for keys in slots
        ):
            return False
        for number in range(len(slots) + 1):
            self.reading.about.pop(Word("plain", number), None)
        self.reading.plain, self.reading.most_plain = "ignored", 0
        slots.clear()
        return True

    def _check_state(self, plain: Pass, flags: list[str]) -> None:
        """Refuse a loop in which a flag changes what the words after it mean."""
        expected = self._signature(plain)
        for flag in flags:
            takes = self.reading.flags[flag].takes
            made = self._pass_of(f"{flag}=" if takes == "tail" else flag)
            after = self._pass(Word("plain", 0), "", made.env or {})
            if self._signature(after) != expected:
                reason = f"what a word means depends on whether {flag} comes before it"
                raise UnclearError(reason, self.node)

    def _signature(self, made: Pass) -> Any:
        word = Word("plain", 0)
        keys = {key for key, value in self._relevant(made).items() if word in words_in([value])}
        return made.leaves, made.stops, keys, ("used", word) in made.effects

    def _after_plain(self, env: Env, slots: list[set[Any]]) -> Env:
        for number, keys in enumerate(slots):
            for key in keys:
                if key[1] == "items":
                    if key in self.set_by or self.before.get(key, ()):
                        raise UnclearError("it collects flags and other words", self.node)
                    env[key] = Words(0, "plain")
                    self.reading.plain_list = self._name_of(key[0])
                    continue
                word = Word("plain", number)
                self.follower.name(word, str(key[1]))
                env[key] = self.follower.merged(word, self.before.get(key, Known(None)))
        inspected = [flag.word for flag in self.reading.flags.values() if flag.inspected]
        if slots and inspected:
            reason = f"the value of {inspected[0]} would be one of its other words"
            raise UnclearError(reason, self.node)
        for key in self.loop.ignored:
            if not isinstance(key[0], Ref):
                env[key] = UNKNOWN
        return env


def _normal(value: Any) -> Any:
    """Return a value with the same mark for each word, to compare what two flags do."""
    if isinstance(value, Word):
        return "word"
    if isinstance(value, Joined):
        return "word"
    if isinstance(value, Maybe):
        return ("maybe", _normal(value.value))
    if type(value) is tuple:
        return tuple(_normal(each) for each in value)
    return repr(value)
