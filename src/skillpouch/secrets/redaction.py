"""Removes secrets from text, bytes, JSON values and results, in every common form."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from skillpouch.results import FileChange, HttpAnswer, ToolResult
from skillpouch.secrets.encoded_forms import (
    BLANKS,
    QUOTING,
    bytes_of,
    forms_of,
    unquoted_forms_of,
    unspaced_forms_of,
    wrapping_forms_of,
)
from skillpouch.secrets.literal_search import LiteralSearch, Match
from skillpouch.text import clean

# Values of at least this length are searched for everywhere and in every form.
WHOLE_CHARACTERS = 6
# Values of at least this length are searched for as they are, and only as whole words: `1234` is in
# many numbers. Shorter ones (`1`, `yes`, `on`) are not redacted: that would spoil every answer.
WORD_CHARACTERS = 4

_WORD = rb"0-9A-Za-z_\x80-\xff"
_LINE_ENDS = b"\r\n"
_QUOTES = QUOTING.translate(None, _LINE_ENDS)


class Redactor:
    """Replaces each secret by `[redacted NAME]`.

    Values of six characters and more are found anywhere: as they are, in base64 (standard and
    URL-safe, inside a longer text too, broken into lines too), percent-encoded, in hex,
    HTML-escaped, and quoted as in JSON, a shell, CSV or any language whose escapes begin with a
    backslash, however often. Long lines of a value, and long texts of one that is JSON, are
    secrets of their own. Values of four and five characters are found as whole words only;
    `unprotected` names the shorter ones, which are left alone.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        # A value that was read from a file often ends with a line end.
        secrets = {name: value.strip() for name, value in secrets.items()}
        whole = {name: value for name, value in secrets.items() if len(value) >= WHOLE_CHARACTERS}
        self.unprotected = tuple(
            name for name, value in secrets.items() if 0 < len(value) < WORD_CHARACTERS
        )
        self._names = tuple(name for name in secrets if name not in self.unprotected)
        self._anywhere = LiteralSearch(_by_form(whole, forms_of))
        self._broken_up = (
            _SearchWithout(_LINE_ENDS, _by_form(whole, wrapping_forms_of), where=_LINE_ENDS),
            _SearchWithout(QUOTING, _by_form(whole, unquoted_forms_of), where=_QUOTES),
            _SearchWithout(QUOTING + BLANKS, _by_form(whole, unspaced_forms_of), where=_LINE_ENDS),
        )
        self._words = {
            bytes_of(value): name
            for name, value in secrets.items()
            if WORD_CHARACTERS <= len(value) < WHOLE_CHARACTERS
        }
        self._word_pattern = _whole_words(self._words)
        searches = (self._anywhere, *self._broken_up)
        longest = max(0, *map(len, self._words), *(search.longest for search in searches))
        self._active = longest > 0
        self.is_idle = not self._active  # there is nothing to redact
        self.most_held = 2 * longest + 16  # what a stream keeps back at most, line ends included

    def __repr__(self) -> str:
        return f"Redactor({', '.join(self._names)})"

    def text(self, text: str) -> str:
        """Return the text without secrets.

        When invisible characters split a secret, they are removed from the text, too.
        """
        if not self._active:
            return text
        done = self._redacted(text)
        visible = clean(done)
        if visible == done:
            return done
        # An escape sequence or a zero-width character inside a secret hides it from the search, but
        # not from a person who sees the text on a terminal or after cleaning.
        cleaned = self._redacted(visible)
        return done if cleaned == visible else cleaned

    def _redacted(self, text: str) -> str:
        raw = text.encode(errors="surrogatepass")
        matches = self.find(raw)
        if not matches:
            return text
        done = b"".join(_replaced(raw, matches))
        try:
            return done.decode(errors="surrogatepass")
        except UnicodeDecodeError:  # a binary secret ended inside a character
            return done.decode(errors="replace")

    def data(self, data: bytes) -> bytes:
        """Return the bytes without secrets."""
        if not self._active:
            return data
        matches = self.find(data)
        return b"".join(_replaced(data, matches)) if matches else data

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets: in its texts, keys and numbers."""
        if not self._active:
            return value
        top = [value]
        todo: list[Any] = [top]
        while todo:  # no recursion: an answer may be nested deeper than the stack allows
            inside = todo.pop()
            pairs = list(inside.items()) if isinstance(inside, dict) else list(enumerate(inside))
            for key, item in pairs:
                inside[key] = self._inner(item)
                if isinstance(item, dict | list | tuple):
                    todo.append(inside[key])
        return top[0]

    def stream(self) -> "RedactingStream":
        """Return a redactor for bytes that arrive in pieces."""
        return RedactingStream(self)

    def find(self, data: bytes, before: bytes = b"") -> list[Match]:
        """Return where secrets are in `data`, in order; `before` is the byte before `data`."""
        found = self._anywhere.find(data)
        for search in self._broken_up:
            found += search.find(data)
        if self._word_pattern is not None:
            shift = len(before)
            for match in self._word_pattern.finditer(before + data, shift):
                start = match.start() - shift
                found.append(Match(start, match.end() - shift, self._words[match[0]]))
        found.sort(key=lambda match: (match.start, -match.end))
        return found

    def open_from(self, data: bytes) -> int:
        """Return where a secret may begin whose end is not in `data` yet."""
        place = self._anywhere.open_from(data)
        tail = data[-self.most_held :]
        for search in self._broken_up:
            place = min(place, len(data) - len(tail) + search.open_from(tail))
        for word in self._words:
            for size in range(1, len(word) + 1):
                if data.endswith(word[:size]):
                    place = min(place, len(data) - size)
        return max(place, len(data) - self.most_held)

    def _inner(self, item: Any) -> Any:
        if isinstance(item, dict):
            return {self.text(key): inner for key, inner in item.items()}
        if isinstance(item, list | tuple):
            return list(item)
        if isinstance(item, str):
            return self.text(item)
        if item is None or isinstance(item, bool):
            return item
        shown = repr(item)
        return item if self.text(shown) == shown else self.text(shown)


class RedactingStream:
    """Redacts bytes that arrive in pieces; holds back what may be the start of a secret.

    The pieces joined are equal to `Redactor.data` of the whole.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        self._covered = 0  # bytes of `_held` that were already replaced by a mark
        self._before = b""

    def feed(self, data: bytes) -> bytes:
        """Take a piece; return the output that is safe to show now."""
        data = self._held + data
        return self._let_go(data, self._redactor.open_from(data))

    def close(self) -> bytes:
        """Return the output that was held back; no more input follows."""
        return self._let_go(self._held, len(self._held))

    def _let_go(self, data: bytes, end: int) -> bytes:
        ready = [m for m in self._redactor.find(data, self._before) if m.start < end]
        covered = max([self._covered, *(match.end for match in ready)])
        shown = b"".join(_replaced(data, ready, start=self._covered, end=end))
        if end:
            self._before = data[end - 1 : end]
        self._held = data[end:]
        self._covered = max(0, covered - end)
        return shown


class _SearchWithout:
    """Searches as if the bytes of `left_out` were not there, in texts with one of `where`."""

    def __init__(self, left_out: bytes, names: Mapping[bytes, str], *, where: bytes) -> None:
        self._left_out = left_out
        self._where = where
        self._pattern = re.compile(b"[" + re.escape(left_out) + b"]")
        self._search = LiteralSearch(names)
        self.longest = self._search.longest

    def find(self, data: bytes) -> list[Match]:
        if not self.longest or not any(byte in data for byte in self._where):
            return []  # `LiteralSearch` finds it without this
        found = self._search.find(data.translate(None, self._left_out))
        if not found:
            return []
        gaps = self._gaps(data)
        return [Match(_place(gaps, m.start), _place(gaps, m.end - 1) + 1, m.name) for m in found]

    def open_from(self, data: bytes) -> int:
        """Return where a string may begin whose end is not in `data` yet."""
        flat = data.translate(None, self._left_out)
        inside = self._search.open_from(flat)
        return _place(self._gaps(data), inside) if inside < len(flat) else len(data)

    def _gaps(self, data: bytes) -> list[int]:
        """Return, for each byte that is left out, how many kept bytes come before it."""
        places = (match.start() for match in self._pattern.finditer(data))
        return [place - number for number, place in enumerate(places)]


def _place(gaps: list[int], flat: int) -> int:
    """Return the position in the full text of a position in the text without the left-out bytes."""
    return flat + bisect_right(gaps, flat)


def _by_form(secrets: Mapping[str, str], forms: Callable[[str], set[bytes]]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for name, value in secrets.items():
        for form in forms(value):
            found.setdefault(form, name)
    return found


def _whole_words(words: Mapping[bytes, str]) -> re.Pattern[bytes] | None:
    if not words:
        return None
    either = b"|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rb"(?<![" + _WORD + rb"])(?:" + either + rb")(?![" + _WORD + rb"])")


def _replaced(
    data: bytes, matches: list[Match], *, start: int = 0, end: int | None = None
) -> Iterator[bytes]:
    """Yield the parts of `data` up to `end`; overlapping matches become one mark."""
    place = start
    limit = len(data) if end is None else end
    for match in matches:
        if match.start >= place:
            yield data[place : match.start]
            yield f"[redacted {match.name}]".encode()
        place = max(place, match.end)
    yield data[place:limit]


def redact_changes(changes: tuple[FileChange, ...], redactor: Redactor) -> tuple[FileChange, ...]:
    """Return what a call changed without values of secrets in its paths."""
    return tuple(
        replace(each, path=redactor.text(each.path), old_path=redactor.text(each.old_path))
        for each in changes
    )


def redact_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Return the result with secrets removed from its texts, its value and its file names."""
    if redactor.is_idle:
        return result
    return replace(
        result,
        content=redactor.text(result.content),
        structured=redactor.value(result.structured),
        stdout=redactor.text(result.stdout),
        stderr=redactor.text(result.stderr),
        files=tuple(replace(file, path=redactor.text(file.path)) for file in result.files),
        changes=redact_changes(result.changes, redactor),
        conflicts=tuple(replace(each, path=redactor.text(each.path)) for each in result.conflicts),
        run_later=tuple(map(redactor.text, result.run_later)),
        refused_hosts=tuple(map(redactor.text, result.refused_hosts)),
        looked_up=tuple(map(redactor.text, result.looked_up)),
        notes=tuple(map(redactor.text, result.notes)),
        http=result.http and _answer(result.http, redactor),
    )


def _answer(http: HttpAnswer, redactor: Redactor) -> HttpAnswer:
    headers = {name: redactor.text(value) for name, value in http.headers.items()}
    return replace(http, url=redactor.text(http.url), headers=headers)


NO_SECRETS = Redactor({})
