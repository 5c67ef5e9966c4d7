"""Where bash calculates: a variable that holds text is run there, `b[$(rm x)]` for one.

So what is calculated with must be known to hold numbers. Whatever else a text, a file or another
program may have put into it cannot be told without running it.
"""

import re
from collections.abc import Iterator

from skillpouch.policy.command_programs import EVALUATING
from skillpouch.policy.command_text import ASSIGNMENT, MARKS, CommandText, SimpleCommand, Word

_NAME = re.compile(r"(?<![\w#])[A-Za-z_]\w*", re.ASCII)
_SET = re.compile(r"(?<![\w#])([A-Za-z_]\w*)\s*=(?!=)", re.ASCII)
_DEFAULT = re.compile(r"\{(\w+):?=", re.ASCII)
# Of these nobody knows what they hold: positional parameters, the output of a command, quotes.
_UNKNOWN = re.compile(r"\$\{?[0-9@*-]|\$\(|[`'\"]")
_SUBSCRIPTED = re.compile(r"\A[A-Za-z_]\w*\[([^]]+)", re.ASCII)
_LONGEST_NAME = 32
_COMPARED = re.compile(r"(\S+)\s+-(?:eq|ne|lt|le|gt|ge)\s+(\S+)")
_COMPARABLE = re.compile(
    r'"?(?:-?\d+|\$?([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\}|\$[#?$!]|\$\{#\w+(?:\[[@*]\])?\})"?',
    re.ASCII,
)
_NUMBER = re.compile(r"[-+]?\d*", re.ASCII)
# What bash itself sets to a number, whatever is assigned to it.
_ALWAYS_NUMBERS = frozenset(("RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID"))


def calculates_with_text(read: CommandText, text: str) -> bool:
    """Tell whether bash may calculate with something that is not known to be a number."""
    expressions = [*read.evaluated, *_given_to_builtins(read)]
    compared = list(_compared(text)) if "[[" in text else []
    if not expressions and not compared:
        return False
    if None in compared or any(_UNKNOWN.search(each) for each in expressions):
        return True
    used = {name for each in expressions for name in _NAME.findall(each)}
    used |= {name for name in compared if name}
    numbers = {name for each in expressions for name in _SET.findall(each)} | _ALWAYS_NUMBERS
    known, texts = _assigned(read)
    return not used <= (known | numbers) - texts


def _given_to_builtins(read: CommandText) -> Iterator[str]:
    """Yield what `let` calculates, and the subscripts in names, quoted or not."""
    for command in read.commands:
        texts = [word.text for word in command.words]
        if "let" in texts:
            yield from texts[texts.index("let") + 1 :]
        if not EVALUATING.isdisjoint(texts):
            yield from (part for text in texts for part in _SUBSCRIPTED.findall(text))


def _compared(text: str) -> Iterator[str | None]:
    """Yield the names that `[[` compares as numbers; None for what is no name and no number."""
    for operands in _COMPARED.findall(text.replace("\\\n", "")):
        for operand in operands:
            found = _COMPARABLE.fullmatch(operand)
            yield (found[1] or found[2] or "") if found else None


def _assigned(read: CommandText) -> tuple[set[str], set[str]]:
    """Return the names that a text gives numbers to, and those that may hold something else."""
    numbers: set[str] = set()
    texts: set[str] = set()
    for command in read.commands:
        looped = _loop(command)
        words = [] if any(word.text == "let" for word in command.words) else command.words
        for place, word in enumerate(words):
            assigned = ASSIGNMENT.match(word.text)
            if assigned:
                name = _NAME.findall(word.text)[0]
                (numbers if _is_number(word, assigned.end()) else texts).add(name)
            elif place == looped:
                numbers.add(word.text)
            else:  # `read n`, `printf -v n`, `getopts`: it may be the name of a variable
                texts.update(_names(word.text))
        texts.update(name for word in command.fed for name in _DEFAULT.findall(word.text))
    return numbers, texts


def _names(text: str) -> Iterator[str]:
    """Yield the names that a word may give to a builtin: `n`, `n[0]`, `-vn`."""
    text = text.partition("[")[0]
    yield text
    if text.startswith("-"):
        yield from (text[place:] for place in range(2, min(len(text), _LONGEST_NAME)))


def _loop(command: SimpleCommand) -> int:
    """Return where the name of a loop over numbers is, 0 when there is none."""
    words = [word.text for word in command.words]
    if "for" not in words:
        return 0
    place = words.index("for") + 1
    values = command.words[place + 2 :]
    is_counted = words[place + 1 : place + 2] == ["in"] and all(map(_is_number, values))
    return place if is_counted else 0


def _is_number(word: Word, start: int = 0) -> bool:
    value = "".join(letter for letter in word.text[start:] if letter not in MARKS)
    return not word.holds_text and _NUMBER.fullmatch(value) is not None
