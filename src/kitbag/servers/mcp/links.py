"""Files that calls made, as links that a client can read: those that were told of, no others."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from mcp_types import ResourceLink

from kitbag.results import ChangedFile
from kitbag.untrusted_files import CannotReadError, read_inside

Scheme = Literal["file", "workspace"]

_MOST_REMEMBERED = 10_000
_MOST_LINKS = 100
_MOST_BYTES = 16 * 1024 * 1024


class Links:
    """Links into one workspace.

    A client on the same machine opens `file:` links itself; one that is elsewhere asks for
    `workspace:` links, which say nothing of where the folder is.
    """

    def __init__(self, workspace: Path, scheme: Scheme) -> None:
        self._workspace = workspace
        self._prefix = f"file://{quote(str(workspace))}/" if scheme == "file" else "workspace:///"
        self._told: dict[str, ChangedFile] = {}

    def to(self, files: Iterable[ChangedFile]) -> list[ResourceLink]:
        """Return links to files that a call made or changed, and remember them."""
        return [self._link(file) for file in list(files)[:_MOST_LINKS]]

    def _link(self, file: ChangedFile) -> ResourceLink:
        uri = f"{self._prefix}{quote(file.path)}"
        self._told.pop(uri, None)  # the latest ones last
        self._told[uri] = file
        if len(self._told) > _MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        return ResourceLink(uri=uri, name=file.path, mime_type=file.type, size=file.size)

    def read(self, uri: str) -> tuple[bytes, str] | None:
        """Return a file that was told of, with its media type; None when there is no such."""
        file = self._told.get(uri)
        if file is None:
            return None
        folder = str(self._workspace)
        try:
            return read_inside(f"{folder}/{file.path}", folder, _MOST_BYTES).data, file.type
        except CannotReadError:
            return None
