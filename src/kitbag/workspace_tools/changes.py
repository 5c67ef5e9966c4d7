"""A file that a tool has just written, as the result names it."""

from mimetypes import guess_type

from kitbag.results import ChangedFile
from kitbag.workspace_files import Written


def changed_file(written: Written) -> ChangedFile:
    """Return it with its type, guessed from its name."""
    kind = guess_type(written.path)[0] or "application/octet-stream"
    return ChangedFile(path=written.path, type=kind, size=written.size)
