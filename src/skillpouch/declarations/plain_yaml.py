"""Reads the YAML that nearly all frontmatter is written in; leaves everything else to the parser.

What is read here is what `strict_yaml` reads: a property compares the two.
"""

import re
from math import isfinite
from typing import Any

_NUMBER_START = frozenset("-+.0123456789")
# 300 digits: more than any person needs, and far below the 4,300 at which int() raises.
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}\Z")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]{1,300}|[0-9]{1,300}(?:\.[0-9]{0,300})?)(?:[eE][-+]?[0-9]{1,3})?\Z"
)
_BASED = re.compile(r"0(?:x[0-9a-fA-F]{1,300}|o[0-7]{1,300})\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def plain_scalar(text: str) -> Any:
    """Return null, a boolean, a number or, for everything else, the text. `no` stays text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_START:
        if _INTEGER.match(text):
            return int(text)
        if _FLOAT.match(text):
            number = float(text)
            return number if isfinite(number) else text  # 1e999 would become infinity
        if _BASED.match(text):
            return int(text, 0)
    return text


# Control characters that YAML forbids; the parser refuses a whole text because of one of them.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def drop_control_characters(text: str) -> str:
    """Remove the characters that YAML forbids, so that the rest of the text can be parsed."""
    return _FORBIDDEN.sub("", text)


# Characters that end a line, that YAML forbids, or that parsers treat differently.
_UNUSUAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_BLANK_OR_COMMENT = re.compile(r"(?>(?: *+(?:#.*)?\n)+)")
# No repetition gives back what it took, so that no text is scanned twice: `x*+` of a character,
# `(?>(?:…)*)` of a group. Plain text contains no ": ", which would begin a mapping, and no " #",
# which would begin a comment.
_BLOCK_PLAIN = (
    r"[^\s\-?:,\[\]{}#&*!|>'\"%@`][^:#\n]*+(?>(?::(?=[^ \n])[^:#\n]*+|(?<=[^ ])#[^:#\n]*+)*)"
)
_FLOW_PLAIN = r"\w(?>(?:[\w ./+()@*-]|:(?=[\w*/]))*)"
_DOUBLE, _SINGLE = r'"[^"\\\n]*+"', r"'[^'\n]*+(?>(?:''[^'\n]*+)*)'"
_FLOW_ITEM = rf"(?:{_FLOW_PLAIN}|{_DOUBLE}|{_SINGLE})"
_FLOW_ITEMS = re.compile(_FLOW_ITEM)
_ENTRY = re.compile(
    r"(?P<indent> *+)(?>(?P<dash>- ++)?)(?>(?:(?P<key>[A-Za-z_][\w-]{0,63}+):(?: ++|(?=\n)))?)"
    r"(?>(?:"
    rf"(?P<plain>{_BLOCK_PLAIN})|(?P<quoted>{_DOUBLE}|{_SINGLE})"
    rf"|\[ *+(?P<flow>(?>(?:{_FLOW_ITEM} *+(?>(?:, *+{_FLOW_ITEM} *+)*))?))\]"
    # A block of text without blank lines at its start, all lines at the same indentation.
    r"|(?P<style>[|>]-?) *\n(?P<text>(?P<pad> ++)(?=[^\n]).*+"
    r"(?>(?:\n(?:(?P=pad)(?=[^ \n]).*+|(?=\n)))*))(?!\n(?:(?P=pad) | +\n))"
    r")?) *+\n"
)
_BREAKS = re.compile(r"\n(\n*)")
_DEEPEST = 16


def read_plain(front: str, first_line: int) -> tuple[dict[str, Any], dict[str, int]] | None:
    """Return the values and the line of each key, or None if this needs a YAML parser.

    It reads what nearly all frontmatter uses: maps and lists by indentation, blocks of text, lists
    in brackets on one line. It is five times as fast as the parser and its events.
    """
    if _UNUSUAL.search(front) or not front.endswith("\n"):
        return None
    outline = _Outline()
    lines: dict[str, int] = {}
    place, counted, line = 0, 0, first_line
    while place < len(front):
        if front[place] in " #\n" and (skipped := _BLANK_OR_COMMENT.match(front, place)):
            place = skipped.end()
            continue
        entry = _ENTRY.match(front, place)
        if entry is None or not outline.take(entry):
            return None
        if len(outline.levels) == 1:
            line += front.count("\n", counted, place)
            lines[entry["key"]], counted = line, place
        place = entry.end()
    return outline.root, lines


class _Outline:
    """Builds a value from entries by indentation; `levels` are the maps and lists still open."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.levels: list[tuple[int, Any]] = [(0, self.root)]
        self._open_key: str | None = None  # a key whose value may be the next entries

    def take(self, entry: re.Match[str]) -> bool:
        """Add one entry; return False if only a YAML parser can read it there."""
        spaces, dash, key = entry.group("indent", "dash", "key")
        kind = entry.lastgroup
        if kind == "dash" or not (dash or key):
            return False
        indent = len(spaces)
        holder: Any = self._list_at(indent) if dash else self._map_at(indent)
        if holder is None or len(self.levels) > _DEEPEST:
            return False
        if dash and key:
            indent += len(dash)
            item: dict[str, Any] = {}
            holder.append(item)
            self.levels.append((indent, item))
            holder = item
        if kind == "text" and not (key and len(entry["pad"]) > indent):
            return False
        self._open_key = key if kind == "key" else None
        return _put(holder, key, _value(entry, kind))

    def _list_at(self, indent: int) -> list[Any] | None:
        level, holder = self.levels[-1]
        # The items of a list may have the same indentation as its key.
        if self._open_key is not None and indent >= level:
            items: list[Any] = []
            holder[self._open_key] = items
            self.levels.append((indent, items))
            return items
        while level > indent:
            self.levels.pop()
            level, holder = self.levels[-1]
        return holder if level == indent and type(holder) is list else None

    def _map_at(self, indent: int) -> dict[str, Any] | None:
        level, holder = self.levels[-1]
        if self._open_key is not None and indent > level:
            entries: dict[str, Any] = {}
            holder[self._open_key] = entries
            self.levels.append((indent, entries))
            return entries
        while level > indent or (level == indent and type(holder) is list):
            self.levels.pop()
            level, holder = self.levels[-1]
        return holder if level == indent else None


def _put(holder: Any, key: str, value: Any) -> bool:
    if type(holder) is list:
        holder.append(value)
        return True
    if key in holder:
        return False
    holder[key] = value
    return True


def _value(entry: re.Match[str], kind: str | None) -> Any:
    match kind:
        case "key":
            return None
        case "plain":
            return plain_scalar(entry["plain"].rstrip(" "))
        case "quoted":
            return _unquoted(entry["quoted"])
        case "flow":
            return [_item(text) for text in _FLOW_ITEMS.findall(entry["flow"])]
        case _:
            return _block(entry["style"], entry["text"], entry["pad"])


def _item(text: str) -> Any:
    return _unquoted(text) if text[0] in "\"'" else plain_scalar(text.rstrip(" "))


def _unquoted(text: str) -> str:
    return text[1:-1] if text[0] == '"' else text[1:-1].replace("''", "'")


def _block(style: str, text: str, pad: str) -> str:
    value = f"\n{text}".replace(f"\n{pad}", "\n")[1:].rstrip("\n")
    if style[0] == ">":
        value = _BREAKS.sub(lambda breaks: breaks[1] or " ", value)
    return value if style.endswith("-") else f"{value}\n"
