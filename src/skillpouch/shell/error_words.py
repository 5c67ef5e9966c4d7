"""The words of an error of the host as a script may read them: without the host's secrets.

A script was perhaps written by a model that read a stranger's text; an error of a library may
repeat the header, the address or the key it was called with.
"""

from collections.abc import Iterable

from skillpouch.checks.secret_shapes import find_shaped
from skillpouch.environment import secret_variables
from skillpouch.secrets.redaction import Redactor

_LONGEST = 4_000
_SHORTEST_VALUE = 8  # a shorter one is found in ordinary words
_HIDDEN = "[redacted]"


def without_secrets(words: str) -> str:
    """Return words without what the host's variables keep secret, and what looks like a key."""
    words = words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
    values = {
        name: value for name, value in secret_variables().items() if len(value) >= _SHORTEST_VALUE
    }
    words = Redactor(values).text(words)
    return _without(words, ((found.start, found.end) for found in find_shaped(words)))


def _without(text: str, stretches: Iterable[tuple[int, int]]) -> str:
    for start, end in sorted(stretches, reverse=True):
        text = f"{text[:start]}{_HIDDEN}{text[end:]}"
    return text
