"""Text from skills, marked as such: a model sees where it begins and ends, and nothing hidden."""

import re
from html import escape

from skillpouch.text import clean

_SPACE = re.compile(r"\s+")


def marked(tag: str, text: str, **attributes: str) -> str:
    """Put text between two tags; what looks like the closing one inside of it is written out."""
    facts = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items())
    inside = re.sub(rf"<(?=\s*/\s*{tag}\b)", "&lt;", clean(text), flags=re.IGNORECASE)
    return f"<{tag}{facts}>\n{inside}\n</{tag}>"


def element(tag: str, text: str, **attributes: str) -> str:
    """Write a short text as one element in one line."""
    facts = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{facts}>{escaped(text)}</{tag}>"


def attribute(text: str) -> str:
    """Write text as the value of an attribute."""
    return escape(one_line(text), quote=True)


def escaped(text: str) -> str:
    """Write text as what stands between two tags."""
    return escape(one_line(text), quote=False)


def one_line(text: str) -> str:
    """Give text as a single line without anything that is not seen."""
    return _SPACE.sub(" ", clean(text)).strip()
