"""The one line a catalogue shows."""

import pytest

from skillpouch.signatures.signature import first_paragraph


@pytest.mark.parametrize(
    ("text", "paragraph"),
    [
        ("", ""),
        ("One line.", "One line."),
        ("\n\n  One\n  paragraph.\n\nAnother.", "One paragraph."),
        ("Title\n=====\n\nText.", "Title"),
        ("-----\nTitle\n-----\nText.", "Title"),
        ("a" * 256, "a" * 256),
        ("a" * 257, "a" * 256),
        ("word " * 60, "word " * 51 + "w"),
    ],
)
def test_it_is_the_first_paragraph_on_one_line_and_short(text: str, paragraph: str) -> None:
    assert first_paragraph(text) == paragraph
    assert len(paragraph) <= 256
