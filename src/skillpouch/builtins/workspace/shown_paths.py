"""A path as it may be shown: a name need not be text, nor be seen whole."""

import os
from functools import lru_cache

from skillpouch.text import clean


@lru_cache(maxsize=4096)
def shown_path(path: str) -> str:
    """Return a path in one line, without characters that are not seen."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return clean(text).replace("\n", "\\n")
