"""`glob`: finds files of the workspace whose paths match a pattern."""

from collections.abc import Iterator

from skillpouch.builtins.workspace.context import (
    Definition,
    Patience,
    ToolAnswer,
    WorkspaceSession,
    files_of,
    number,
    shown_path,
    switch,
    text,
)
from skillpouch.builtins.workspace.search.patterns import PathPattern, PatternError
from skillpouch.builtins.workspace.search.searching import WalkOptions
from skillpouch.calls import ToolCall
from skillpouch.errors import OutsideWorkspaceError, ToolFaultError

DEFINITION = Definition(
    name="glob",
    description=(
        "Find files of the workspace by a pattern such as `**/*.py` or `src/{a,b}/*.ts`. "
        "What .gitignore leaves out is not found."
    ),
    parameters={
        "pattern": text("`*` and `?` stay inside a folder, `**` goes through folders", minLength=1),
        "path": text("the folder in which the pattern begins", default="."),
        "limit": number("files to show at most", minimum=1, default=100),
        "sort": text("by path, or the last changed first", enum=["path", "mtime"], default="path"),
        "hidden": switch("find files and folders whose names begin with a dot, too"),
    },
    required=("pattern",),
)


def run(call: ToolCall, session: WorkspaceSession) -> ToolAnswer:  # noqa: ARG001 - the same for all tools
    """Return the paths, relative to the workspace, and how many there are."""
    limit = call.arguments.get("limit", 100)
    by_time = call.arguments.get("sort", "path") == "mtime"
    found = sorted(_found(call), key=lambda each: (-each[0] if by_time else 0, each[1]))
    paths = [shown_path(path) for _, path in found[:limit]]
    notes = [f"[{limit:,} of {len(found):,} files]"] if len(found) > limit else []
    return ToolAnswer(
        text="\n".join([*paths, *notes] or ["[no files fit]"]),
        structured={"files": paths, "total": len(found)},
        data="".join(f"{path}\n" for path in paths),
        truncated=len(found) > limit,
    )


def _found(call: ToolCall) -> Iterator[tuple[int, str]]:
    pattern, path = _pattern(call), call.arguments.get("path", ".")
    by_time = call.arguments.get("sort") == "mtime"
    hidden = call.arguments.get("hidden", False)
    files = files_of(call)
    with files.listing(path) as (_, start), files.listing(".") as (top, _):
        skipped = 0 if start == "." else len(start) + 1
        walk = WalkOptions(hidden=hidden).below(top, start)
        for entry in Patience(call.limits.timeout_seconds).over(walk):
            if not entry.is_folder and pattern.matches(entry.path[skipped:].split("/")):
                status = entry.found.stat(follow_symlinks=False) if by_time else None
                yield status.st_mtime_ns if status else 0, entry.path


def _pattern(call: ToolCall) -> PathPattern:
    """Return the pattern; one that begins with the path of the workspace is made relative to it."""
    pattern, root = call.arguments["pattern"], call.terms.workspace
    if pattern.startswith("/"):
        inside = pattern.removeprefix(f"{root}/")
        if inside == pattern or call.arguments.get("path", ".") not in (".", str(root)):
            raise OutsideWorkspaceError(pattern, root)
        pattern = inside
    if ".." in pattern.split("/"):
        raise OutsideWorkspaceError(pattern, root)
    try:
        return PathPattern(pattern)
    except PatternError as error:
        raise ToolFaultError("invalid_argument", f"{pattern!r}: {error}") from None
