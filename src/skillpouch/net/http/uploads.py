"""Files of the workspace that a request sends, opened so that no link leads them elsewhere."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePath

from skillpouch.errors import OutsideWorkspaceError, ToolFaultError
from skillpouch.net.http.errors import ExchangeError
from skillpouch.workspace.files import WorkspaceFiles

_PIECE_BYTES = 256 * 1024


class UploadError(ValueError):
    """A path that is not sent; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file that was opened and looked at: exactly `size` bytes of it are sent."""

    fd: int
    name: str
    size: int

    async def pieces(self) -> AsyncIterator[bytes]:
        """Read from the start each time: a request may have to be sent again."""
        place = 0
        while place < self.size:
            most = min(_PIECE_BYTES, self.size - place)
            piece = await asyncio.to_thread(os.pread, self.fd, most, place)
            if not piece:
                raise ExchangeError("upload", f"{self.name} became shorter while it was sent")
            place += len(piece)
            yield piece


def open_upload(
    workspace: Path, path: str, *, most_bytes: int | None, stack: ExitStack
) -> OpenFile:
    """Open a regular file of the workspace, as Skillpouch's own tools do; `stack` closes it."""
    try:
        with WorkspaceFiles(workspace).reading(path) as opened:
            # Of its own: what goes wrong later is not about the path.
            file = os.dup(opened.file.fileno())
    except (OutsideWorkspaceError, ToolFaultError) as error:
        raise UploadError("; ".join(filter(None, (str(error), error.hint)))) from None
    stack.callback(os.close, file)
    if most_bytes is not None and opened.size > most_bytes:
        raise UploadError(f"{path}: it has {opened.size:,} bytes, the limit is {most_bytes:,}")
    return OpenFile(fd=file, name=PurePath(opened.path).name, size=opened.size)
