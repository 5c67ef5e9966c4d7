"""`args_template`: words of a command line, each of which stays one word whatever fills it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from skillpouch.templates.errors import FillError, VariableInWordsError
from skillpouch.templates.parts import (
    Argument,
    Filled,
    Part,
    Parts,
    fill_one,
    filled,
    is_left_out,
    names_in,
    refuse_characters,
    variables_in,
)
from skillpouch.templates.words import split_words

_NUL = re.compile("\0")
_NO_NUL = "a word of a command line cannot hold a NUL character"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """One word; `follows_flag` when the word before it is a flag that waits for a value."""

    parts: Parts
    follows_flag: bool = False
    follows_dashes: bool = False

    @property
    def alone(self) -> Argument | None:
        """The argument that is the whole word, if one is."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Argument) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgvTemplate:
    """Words; `dashed` are the arguments whose texts may begin with `-` wherever they stand."""

    words: tuple[_Word, ...]
    names: frozenset[str]
    dashed: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, *, dashed: frozenset[str] = frozenset()) -> Self:
        """Split a template into words; raise TemplateError for one that cannot be used.

        Environment variables are refused: every user of a machine can read the command line of
        every process there (/proc/PID/cmdline has mode 0444).
        """
        words: list[_Word] = []
        after_dashes = False
        for parts in split_words(text):
            is_value = bool(words) and _is_flag(words[-1].parts) and not after_dashes
            words.append(_Word(parts=parts, follows_flag=is_value, follows_dashes=after_dashes))
            after_dashes = after_dashes or parts == ("--",)
        every: list[Part] = [part for word in words for part in word.parts]
        for variable in sorted(variables_in(every)):
            raise VariableInWordsError(variable, text.find(f"${{env:{variable}}}"))
        return cls(words=tuple(words), names=names_in(every), dashed=dashed)

    def fill(self, arguments: Mapping[str, Any], _secrets: Mapping[str, str]) -> list[str]:
        """Return the words of one call; no secret is ever one of them.

        A word that is one list spreads it. A word whose arguments are not given is left out, and
        so is the flag right before it.
        """
        found: list[str] = []
        for word in self.words:
            texts = self._texts(word, arguments)
            if not texts and word.follows_flag:
                found.pop()
            found += texts
        return found

    def _texts(self, word: _Word, arguments: Mapping[str, Any]) -> list[str]:
        if is_left_out(word.parts, arguments):
            return []
        if word.alone is not None and isinstance(arguments[word.alone.name], list | tuple):
            items = [fill_one(word.alone, item) for item in arguments[word.alone.name]]
            return [self._checked(word, [item], item) for item in items]
        texts = list(filled(word.parts, arguments, {}))
        return [self._checked(word, texts, texts[0] if texts else None)]

    def _checked(self, word: _Word, texts: list[Filled], first: Filled | None) -> str:
        for one in texts:
            refuse_characters(one, _NUL, _NO_NUL)
        text = "".join(one.text for one in texts)
        if first is not None and not word.follows_dashes:
            self._refuse_flag(first, text)
        return text

    def _refuse_flag(self, first: Filled, text: str) -> None:
        """Refuse a value that would be read as a flag. A lone `-` and a number are none."""
        if not isinstance(first.part, Argument) or not text.startswith("-") or text == "-":
            return
        name = first.part.name
        if name in self.dashed or isinstance(first.value, int | float):
            return
        raise FillError(
            name,
            "it begins with '-' and would be taken for a flag",
            hint=f"in args_template write --flag=${{{name}}}, or put -- before ${{{name}}}",
        )


def _is_flag(parts: Parts) -> bool:
    """Tell whether a word is a flag that can have its value in the next word."""
    only = parts[0] if len(parts) == 1 else ""
    return isinstance(only, str) and re.match(r"--?[^-=][^=]*\Z", only) is not None
