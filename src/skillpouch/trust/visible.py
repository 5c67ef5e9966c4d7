"""What strangers wrote, shown so that nothing in it hides or acts."""

from skillpouch.text import find_hidden


def has_hidden(text: str) -> bool:
    """Tell whether a text holds characters that are not seen, or that a terminal obeys."""
    return not text.isprintable() or any(True for _ in find_hidden(text))


def visible(text: str) -> str:
    """Return the text as it is, or as Python would write it when something in it is hidden."""
    plain = text.encode("utf-8", "backslashreplace").decode()
    return ascii(plain) if has_hidden(plain) else plain
