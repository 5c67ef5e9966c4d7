"""CommandTest: the condition of a rule on a shell command, by program and arguments.

A rule that allows matches only a text of one simple command. A rule that refuses matches if any
command in a text may match, also after `sudo`, `env` or `sh -c`, or if that is uncertain.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillpouch.policy.command_programs import (
    ANY,
    ASSIGNMENT,
    EVALUATING,
    GLOB,
    MARKS,
    SPLIT,
    CommandWord,
)
from skillpouch.policy.command_runs import Candidate, is_code_in_name, what_may_run
from skillpouch.policy.command_words import read_command
from skillpouch.policy.conditions import text_of
from skillpouch.policy.patterns import literal_ends, matcher

# A longer command is uncertain: nobody would read it before approving it.
_LONGEST = 4_096
_REST = "*"
_FLAGS = re.compile(r"-[A-Za-z]+")
_CLUSTER = re.compile(r"-[^-]")


@dataclass(frozen=True, slots=True)
class CommandTest:
    """A shell command of these words: `cargo build *`. A `*` at the end is any further words."""

    pattern: str
    _words: tuple[Callable[[str], object], ...] = field(init=False, repr=False, compare=False)
    _refused: tuple[Callable[[str], object] | frozenset[str], ...] = field(
        init=False, repr=False, compare=False
    )
    _program: str | None = field(init=False, repr=False, compare=False)  # None: a pattern
    _goes_on: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        words = self.pattern.split()
        if not words or words == [_REST]:
            raise ValueError(f"{self.pattern!r} names no program: write 'cargo *' or 'git status'")
        goes_on = words[-1] == _REST
        fits = tuple(matcher(word) for word in (words[:-1] if goes_on else words))
        refused = tuple(map(_letters_or, words[1:], fits[1:]))
        name, _, is_one = literal_ends(words[0])
        object.__setattr__(self, "_words", fits)
        object.__setattr__(self, "_refused", refused)
        object.__setattr__(self, "_program", name if is_one else None)
        object.__setattr__(self, "_goes_on", goes_on)

    def holds(self, value: Any, *, cautious: bool) -> bool:
        text = text_of(value)
        if text is None or len(text) > _LONGEST:
            return cautious
        if cautious:
            found = what_may_run(text)
            return found.is_doubtful or any(map(self._may_be, found.candidates))
        read = read_command(text)
        if read.is_doubtful or not read.is_single or len(read.commands) != 1:
            return False
        return self._is(read.commands[0].words)

    def _is(self, words: Sequence[CommandWord]) -> bool:
        """Tell whether a command matches the pattern exactly."""
        is_whole = len(words) == len(self._words) or (
            self._goes_on and len(words) > len(self._words)
        )
        is_plain = all(word.is_plain for word in words) and not ASSIGNMENT.match(words[0].text)
        is_plain = is_plain and not _is_evaluated(words)
        return is_whole and is_plain and all(map(_fits, self._words, words))

    def _may_be(self, candidate: Candidate) -> bool:
        """Tell whether a command may match the pattern, with more words in between."""
        for place, word in enumerate(candidate.words):
            if self._may_be_program(word):
                left = candidate.words[place if SPLIT in word else place + 1 :]
                return _may_follow(self._refused, left)
            if not candidate.anywhere:
                return False
        return False

    def _may_be_program(self, word: str) -> bool:
        if MARKS.isdisjoint(word):
            fits = self._words[0]
            return bool(fits(word) or fits(word.rpartition("/")[2]))
        if self._program is None or SPLIT in word:
            return True
        # Only the text after the last unknown part is certain to be the end of the name.
        known = re.split(f"[{ANY}]", word)[-1]
        begins = "" if ANY not in word or "/" in known else ".*"
        name = known.rpartition("/")[2]
        pattern = begins + ".*".join(map(re.escape, re.split(f"{GLOB}+", name)))
        program = self._program.rpartition("/")[2]
        return re.fullmatch(pattern, program, re.DOTALL) is not None


def _fits(fits: Callable[[str], object], word: CommandWord) -> bool:
    return bool(fits(word.text))


def _is_evaluated(words: Sequence[CommandWord]) -> bool:
    # Bash evaluates a name such as `x[$(rm y)]` in these arguments, even if it is quoted.
    return words[0].text in EVALUATING and any(map(is_code_in_name, words[1:]))


def _letters_or(
    word: str, fits: Callable[[str], object]
) -> Callable[[str], object] | frozenset[str]:
    """Return the letters of `-rf`: a refusal matches them in any order, also in several words."""
    return frozenset(word[1:]) if _FLAGS.fullmatch(word) else fits


def _may_follow(
    rest: Sequence[Callable[[str], object] | frozenset[str]], words: Sequence[str]
) -> bool:
    """Tell whether words may contain all words of a pattern, in this order."""
    given = frozenset("".join(word[1:] for word in words if _CLUSTER.match(word)))
    left = iter(words)
    for asked in rest:
        if isinstance(asked, frozenset):
            if not asked <= given and not any(not MARKS.isdisjoint(word) for word in words):
                return False
            continue
        for word in left:
            if SPLIT in word:
                return True  # it may expand to all the words that are missing
            if not MARKS.isdisjoint(word) or asked(word):
                break
        else:
            return False
    return True
