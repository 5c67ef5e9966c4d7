"""Finds, removes and writes out characters that a reader does not see."""

import re
from collections.abc import Iterator
from functools import cache

# ECMA-48: CSI; the string sequences OSC, DCS, SOS, PM and APC; escapes of one character.
# Each repetition is possessive and stops at the next introducer, so no input is scanned twice.
# A string sequence ends within its line: an unclosed one must not swallow the rest of a text.
_ESCAPE = (
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\n\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-~]"
    r"|[\x1b\x80-\x9f]"
)
_CONTROL = r"\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f"

# Soft hyphen, bidi controls, word joiner and invisible operators, BOM, fillers,
# annotation and notation marks, tag characters: never seen, whatever stands beside them.
_INVISIBLE = (
    r"\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
# The only tag characters that are seen: the flags of regions, such as Scotland's (gbsct).
_FLAG = (
    r"\U0001f3f4[\U000e0061-\U000e007a]{2}"
    r"[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,3}\U000e007f"
)

# Zero-width space and joiners, Mongolian and other variation selectors: invisible too, but
# some scripts and emoji need one in the right place. Any other counts as hidden text.
_SELECTORS = r"\u034f\u200b-\u200d\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_EMOJI = (
    r"\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Arabic to Myanmar, Khmer and Mongolian, the later Brahmic and Arabic blocks.
_JOINING = (
    r"\u0600-\u109f\u1700-\u18af\u1a20-\u1cff\ua800-\ua8ff\ua930-\uabff\ufb50-\ufdff\ufe70-\ufefe"
    r"\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
# Thai, Lao, Myanmar, Khmer and Tai scripts write no spaces: a zero-width one breaks their lines.
_SPACELESS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf"
_NEEDED = (
    rf"(?:(?<=[{_EMOJI}])\ufe0f?\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_JOINING}])[\u200c\u200d\u180b-\u180f]|[\u200c\u200d](?=[{_JOINING}])"
    rf"|(?<=[{_SPACELESS}])\u200b|\u200b(?=[{_SPACELESS}])"
    r"|(?<=[^\x00-\x7f])[\u034f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    rf"|(?<=[#*0-9])[\ufe0e\ufe0f])(?![{_SELECTORS}])"
)

# Measured: searching for one set of characters is 20 times faster than the patterns below, and for
# most texts nothing else is needed. Adjacent ranges are merged: fewer, longer ones are faster.
_SUSPECT = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ALWAYS = rf"(?P<flag>{_FLAG})|{_ESCAPE}|[{_CONTROL}{_INVISIBLE}]++"
_SELECTED = rf"(?P<needed>{_NEEDED})|[{_SELECTORS}]++"

# The surrogates that stand for bytes of a file name that are not UTF-8 (PEP 383).
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF
_LAST_OF_FOUR = 0xFFFF

# Compiling a pattern takes longer than most calls: each is compiled once, when it is first needed.
_compiled = cache(re.compile)


def clean(text: str) -> str:
    r"""Return `text` without terminal escapes and without invisible characters.

    Line ends become `\n`. Joiners and selectors stay where emoji and scripts need them.
    """
    if _SUSPECT.search(text) is None:
        return text
    text = _compiled(_ALWAYS).sub(r"\g<flag>", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Last: a selector's neighbours are known only when all other hidden text is removed.
    if text.isascii():
        return text
    return _compiled(_SELECTED).sub(r"\g<needed>", text)


def find_hidden(text: str) -> Iterator[tuple[int, str]]:
    """Yield position and text of each hidden piece: one escape, or a run of other characters."""
    if _SUSPECT.search(text) is None:
        return
    # A lone carriage return makes a terminal overwrite what it has just shown.
    for match in _compiled(rf"{_ALWAYS}|{_SELECTED}|\r(?=[^\r\n])").finditer(text):
        if match.lastgroup is None:
            yield match.start(), match[0]


def escape_hidden(name: str) -> str:
    r"""Return a file name with its invisible characters written out, such as `\u200b`.

    Different names stay different, and none becomes another path: a backslash is doubled, so that
    it is never taken for one of these escapes.
    """
    if name.isascii() and name.isprintable() and "\\" not in name:
        return name
    pieces = ((place, len(piece)) for place, piece in find_hidden(name))
    hidden = {place + step for place, length in pieces for step in range(length)}
    shown = "".join(_escaped(each, place in hidden) for place, each in enumerate(name))
    # Escaping one character may leave a selector without the neighbour that needed it; then every
    # character that is not ASCII is escaped.
    return shown if clean(shown) == shown else "".join(_escaped(c, not c.isascii()) for c in name)


def _escaped(character: str, hidden: bool) -> str:
    number = ord(character)
    if character == "\\":
        return "\\\\"
    if _FIRST_BYTE <= number <= _LAST_BYTE:
        return f"\\x{number - 0xDC00:02x}"
    if not hidden and character not in "\t\r\n":
        return character
    return f"\\u{number:04x}" if number <= _LAST_OF_FOUR else f"\\U{number:08x}"


_TWO_DIGITS, _FOUR_DIGITS = 0x100, 0x10000  # numbers of characters below them


def visible(text: str) -> str:
    r"""Return the text on one line, hidden and unprintable characters like `\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    pieces, end = list[str](), 0
    for place, hidden in find_hidden(text):
        pieces += [_printable(text[end:place]), "".join(map(_written_out, hidden))]
        end = place + len(hidden)
    return "".join([*pieces, _printable(text[end:])])


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(part if part.isprintable() else _written_out(part) for part in text)


def _written_out(character: str) -> str:
    code = ord(character)
    if character in "\n\r\t":
        return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}[character]
    if code < _TWO_DIGITS:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _FOUR_DIGITS else f"\\U{code:08x}"
