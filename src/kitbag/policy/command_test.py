"""What a rule can ask about a shell command: which program it runs, with which words.

A permission is for one plain command and nothing beside it. A refusal minds every command in a
text, also behind `sudo`, `env` or `sh -c`, and whatever cannot be told without running it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kitbag.policy.argument_tests import text_of
from kitbag.policy.command_words import CommandText, Word, read_command
from kitbag.policy.patterns import matcher

# Nobody reads a longer one before saying yes to it.
_LONGEST = 4_096
_MOST_STARTS = 256  # past them a call would wait for its policy
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
# Words behind which another command stands, sooner or later.
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"})
_WRAPPERS = _SHELLS | {
    *("sudo", "doas", "env", "nice", "ionice", "timeout", "nohup", "setsid", "stdbuf", "time"),
    *("xargs", "find", "parallel", "watch", "command", "builtin", "exec", "eval", "source", "."),
    *("su", "ssh", "chroot", "unshare", "strace", "coproc", "function", "case", "for", "!", "{"),
    *("if", "then", "else", "elif", "do", "while", "until"),
}
_REST = "*"


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command of these words: `cargo build *`. The last `*` is any further words."""

    pattern: str
    _words: tuple[Callable[[str], object], ...] = field(init=False, repr=False, compare=False)
    _goes_on: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        words = self.pattern.split()
        if not words or words == [_REST]:
            raise ValueError(f"{self.pattern!r} names no program: write 'cargo *' or 'git status'")
        goes_on = words[-1] == _REST
        fits = tuple(matcher(word) for word in (words[:-1] if goes_on else words))
        object.__setattr__(self, "_words", fits)
        object.__setattr__(self, "_goes_on", goes_on)

    def holds(self, value: Any, *, cautious: bool) -> bool:
        text = text_of(value)
        if text is None or len(text) > _LONGEST:
            return cautious
        found = read_command(text)
        if cautious:
            starts = list(islice(_starts(found.commands), _MOST_STARTS))
            is_too_much = len(starts) == _MOST_STARTS
            return is_too_much or _is_in_doubt(found) or any(map(self._may_be, starts))
        if found.is_doubtful or not found.is_single or len(found.commands) != 1:
            return False
        return self._is(found.commands[0])

    def _is(self, words: Sequence[Word]) -> bool:
        """Tell whether a command is exactly what the pattern says."""
        is_whole = len(words) == len(self._words) or (
            self._goes_on and len(words) > len(self._words)
        )
        is_plain = all(word.is_plain for word in words) and not _ASSIGNMENT.match(words[0].text)
        return is_whole and is_plain and all(map(_fits, self._words, words))

    def _may_be(self, words: Sequence[Word]) -> bool:
        """Tell whether a command may be what the pattern says, with more words in between."""
        program, *rest = self._words
        first = words[0]
        if first.is_plain and not program(first.text) and not program(_name(first)):
            return False
        left = iter(words[1:])
        return all(any(not word.is_plain or fits(word.text) for word in left) for fits in rest)


def _is_in_doubt(found: CommandText) -> bool:
    # A shell that may be given its commands by a pipe or a file runs what nobody sees here.
    is_fed = not found.is_single and any(_name(words[0]) in _SHELLS for words in found.commands)
    return found.is_doubtful or is_fed


def _name(word: Word) -> str:
    return word.text.rpartition("/")[2]


def _fits(fits: Callable[[str], object], word: Word) -> bool:
    return bool(fits(word.text))


def _starts(commands: Sequence[Sequence[Word]]) -> Iterator[Sequence[Word]]:
    """Yield everything that may be a command: each, and behind wrappers all that follows."""
    for words in commands:
        is_first, behind_wrapper = True, False
        for place, word in enumerate(words):
            if is_first or behind_wrapper:
                yield words[place:]
                yield from _inside(word, behind_wrapper=behind_wrapper)
            behind_wrapper = behind_wrapper or (is_first and _name(word) in _WRAPPERS)
            is_first = is_first and _ASSIGNMENT.match(word.text) is not None


def _inside(word: Word, *, behind_wrapper: bool) -> Iterator[Sequence[Word]]:
    # `sh -c 'rm x'`: the word is a whole text of its own.
    if behind_wrapper and any(letter in word.text for letter in " \t\n;&|"):
        found = read_command(word.text)
        yield from _starts(found.commands)
        if found.is_doubtful:
            yield [Word("", is_plain=False)]
