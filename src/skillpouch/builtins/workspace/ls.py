"""`ls`: lists a folder of the workspace."""

import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass

from skillpouch.builtins.workspace.context import (
    Definition,
    Patience,
    ToolAnswer,
    WorkspaceSession,
    files_of,
    number,
    shown_path,
    text,
)
from skillpouch.builtins.workspace.search.searching import FolderEntry, WalkOptions
from skillpouch.calls import ToolCall

DEFINITION = Definition(
    name="ls",
    description=(
        "List a folder of the workspace: folders first, then files with their sizes. "
        "What .gitignore leaves out is named and not looked into."
    ),
    parameters={
        "path": text("the folder, relative to the workspace or absolute inside it", default="."),
        "depth": number("levels of folders to list", minimum=1, maximum=20, default=1),
        "limit": number("entries to show at most", minimum=1, default=1000),
    },
)


def run(call: ToolCall, session: WorkspaceSession) -> ToolAnswer:  # noqa: ARG001 - the same for all tools
    """Return one line for each entry, and how many there are."""
    path, limit = call.arguments.get("path", "."), call.arguments.get("limit", 1000)
    files = files_of(call)
    walk = WalkOptions(depth=call.arguments.get("depth", 1), show_ignored=True)
    with files.listing(path) as (_, start), files.listing(".") as (top, _):
        entries = Patience(call.limits.timeout_seconds).over(walk.below(top, start))
        found = sorted((_listed(entry, start) for entry in entries), key=_folders_first)
    shown = found[:limit]
    notes = [f"[{limit:,} of {len(found):,} entries]"] if len(found) > limit else []
    rows = [each.row() for each in shown] or ["[the folder is empty]"]
    listed = [asdict(each) for each in shown]
    return ToolAnswer(
        text="\n".join([*rows, *notes]),
        structured={"path": start, "entries": listed, "total": len(found)},
        data="".join(f"{each.path}\n" for each in shown),
        truncated=len(found) > limit,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """One entry; `path` is relative to the folder that is listed."""

    path: str
    type: str
    size: int
    target: str = ""
    ignored: bool = False

    def row(self) -> str:
        size = f"{self.size:,}" if self.type == "file" else ""
        name = f"{self.path}/" if self.type == "folder" else self.path
        target = f" -> {self.target}" if self.target else ""
        return f"{self.type:<6} {size:>14}  {name}{target}{' (ignored)' if self.ignored else ''}"


def _listed(entry: FolderEntry, start: str) -> _Listed:
    size, kind, target = 0, "folder" if entry.is_folder else "other", ""
    with suppress(OSError):  # the entry was just removed
        status = entry.found.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            size, kind = status.st_size, "file"
        elif stat.S_ISLNK(status.st_mode):
            kind, target = "link", os.readlink(entry.found.name, dir_fd=entry.folder)
    path = entry.path if start == "." else entry.path[len(start) + 1 :]
    return _Listed(
        path=shown_path(path),
        type=kind,
        size=size,
        target=shown_path(target),
        ignored=entry.ignored,
    )


def _folders_first(listed: _Listed) -> list[tuple[bool, str]]:
    *folders, name = listed.path.split("/")
    return [*((False, folder) for folder in folders), (listed.type != "folder", name)]
