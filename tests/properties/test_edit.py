"""An edit changes exactly what it names, however the file stores its lines."""

import codecs

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skillpouch.builtins.workspace.edit import apply, find_changes, short_diff
from skillpouch.builtins.workspace.read import StoredText
from skillpouch.errors import ToolFaultError

pytestmark = pytest.mark.slow

_text = st.text(alphabet="ab \n\té漢\r", max_size=12)
_plain = st.text(alphabet="ab \n\té漢", max_size=12)
_some = st.text(alphabet="ab \n", min_size=1, max_size=3)
_line = st.text(alphabet="abc é", max_size=6)
_mark = st.sampled_from([b"", codecs.BOM_UTF8])


def edited(data: bytes, old: str, new: str, *, everywhere: bool = False) -> bytes:
    stored = StoredText.of(data)
    arguments = {"old_string": old, "new_string": new, "replace_all": everywhere}
    return apply(stored, find_changes(stored, arguments, "f"))


@settings(deadline=None, max_examples=400)
@given(before=_text, old=_plain.filter(bool), after=_text, new=_plain, mark=_mark)
def test_an_edit_changes_exactly_the_match(
    before: str, old: str, after: str, new: str, mark: bytes
) -> None:
    # A line end that is half inside the match is no line end of the file's own.
    assume(not before.endswith("\r") and not after.startswith("\n"))
    data = mark + (before + old + after).encode()

    try:
        result = edited(data, old, new)
    except ToolFaultError:
        assert old == new or (before + old + after).replace("\r\n", "\n").count(old[0]) > 1
        return

    head, tail = mark + before.encode(), after.encode()
    assert result.startswith(head)
    assert result.endswith(tail)
    middle = result[len(head) : len(result) - len(tail)].decode()
    assert middle.replace("\r\n", "\n") == new


@settings(deadline=None, max_examples=300)
@given(
    lines=st.lists(_line, min_size=1, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=_mark,
    new=st.lists(_line, min_size=1, max_size=3),
    place=st.integers(0, 7),
)
def test_line_ends_and_mark_stay_and_undoing_restores_every_byte(
    lines: list[str], end: str, mark: bytes, new: list[str], place: int
) -> None:
    data = mark + (end.join(lines) + end).encode()
    old = "\n".join(lines[place % len(lines) :][:2])
    assume(old)
    try:
        result = edited(data, old, "\n".join(new))
        undone = edited(result, "\n".join(new), old)
    except ToolFaultError:
        return

    assert result.startswith(mark)
    body = result[len(mark) :].decode()
    assert body.count("\r\n") == (body.count("\n") if end == "\r\n" else 0)
    assert undone == data


@settings(deadline=None, max_examples=300)
@given(text=_plain, old=_some, new=_plain)
def test_replace_all_is_what_replace_does(text: str, old: str, new: str) -> None:
    try:
        result = edited(text.encode(), old, new, everywhere=True)
    except ToolFaultError:
        assert old == new or old not in text
        return

    assert result.decode() == text.replace(old, new)


@settings(deadline=None)
@given(data=st.binary(max_size=60), old=st.text(min_size=1, max_size=3), new=_text)
def test_any_bytes_are_edited_or_refused(data: bytes, old: str, new: str) -> None:
    try:
        edited(data, old, new)
    except (ToolFaultError, UnicodeDecodeError):
        return


@settings(deadline=None, max_examples=300)
@given(text=_plain, old=_some, new=_plain)
def test_a_diff_holds_every_line_that_changed(text: str, old: str, new: str) -> None:
    stored = StoredText.of(text.encode())
    try:
        changes = find_changes(stored, {"old_string": old, "new_string": new}, "f")
    except ToolFaultError:
        return

    rows = short_diff(stored.text, changes).split("\n")[1:]

    removed = [row[1:] for row in rows if row.startswith(("-", " "))]
    added = [row[1:] for row in rows if row.startswith(("+", " "))]
    assert "\n".join(removed) in text
    assert "\n".join(added) in apply(stored, changes).decode()
