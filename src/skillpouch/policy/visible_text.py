"""A question as text: what a terminal would obey, or not show, is written out."""

import json

from skillpouch.needs import Need
from skillpouch.policy.approval import Question
from skillpouch.policy.concerns import reason_for
from skillpouch.text import find_hidden

_LONGEST = 2000
_TWO_DIGITS, _FOUR_DIGITS = 0x100, 0x10000


def described(question: Question) -> str:
    """Return what somebody has to see before saying yes, one fact a line."""
    arguments = json.dumps(dict(question.arguments), ensure_ascii=False, default=repr)
    told = {reason_for(need) for need in question.needs}  # each is one of its lines already
    facts = [
        ("tool", question.tool),
        ("skill", f"{question.skill} {question.digest[:12]}".strip()),
        ("runs", question.runs),
        ("arguments", arguments),
        *(("needs", _need(need)) for need in question.needs),
        *(("because", reason) for reason in dict.fromkeys(question.reasons) if reason not in told),
    ]
    return "\n".join(f"  {name:<9}  {_shortened(visible(text))}" for name, text in facts)


def visible(text: str) -> str:
    r"""Return the text on one line, hidden and unprintable characters like `\x1b`."""
    pieces, end = list[str](), 0
    for place, hidden in find_hidden(text):
        pieces += [_printable(text[end:place]), "".join(map(_written_out, hidden))]
        end = place + len(hidden)
    return "".join([*pieces, _printable(text[end:])])


def _need(need: Need) -> str:
    asked = f" (asked in {need.asked_in})" if need.asked_in else ""
    return f"{need.kind} {need.value}".strip() + asked


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]} … {len(text) - 2 * half:,} characters not shown … {text[-half:]}"


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
