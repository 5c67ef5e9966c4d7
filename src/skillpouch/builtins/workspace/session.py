"""What Skillpouch's own tools remember from one call to the next."""

import threading
from collections import OrderedDict
from pathlib import Path

from skillpouch.builtins.workspace.jobs import Jobs
from skillpouch.runtime.memoize import Shared
from skillpouch.workspace.files import Stamp

_MOST_SEEN = 4096


class WorkspaceSession(Shared):
    """One conversation's memory: where its shell is, which files it has read, what still runs.

    At most `most_jobs` run in the background, each for `job_seconds`; they end with `close`, with
    the session itself, and with the process.
    """

    def __init__(self, *, most_jobs: int = 8, job_seconds: float = 3600.0) -> None:
        self._folders: dict[Path, str] = {}
        self._seen: OrderedDict[tuple[Path, str], Stamp] = OrderedDict()
        self._lock = threading.Lock()
        self.jobs = Jobs(most=most_jobs, seconds=job_seconds)

    def folder(self, workspace: Path) -> str:
        """Return where the shell is, relative to the workspace."""
        return self._folders.get(workspace, ".")

    def move_to(self, workspace: Path, folder: str) -> None:
        self._folders[workspace] = folder

    def saw(self, workspace: Path, path: str, stamp: Stamp) -> None:
        """Remember a file as it is now known to whoever calls."""
        with self._lock:  # tools that read and write files run in threads
            self._seen[workspace, path] = stamp
            self._seen.move_to_end((workspace, path))
            while len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)

    def seen(self, workspace: Path, path: str) -> Stamp | None:
        """Return what the file was when it was last read or written here, if it was."""
        return self._seen.get((workspace, path))

    def close(self) -> None:
        """End what runs in the background."""
        self.jobs.close()
