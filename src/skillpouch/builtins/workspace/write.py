"""`write`: writes a whole file of the workspace, in one step."""

from hashlib import file_digest

from skillpouch.builtins.workspace.context import (
    Definition,
    ToolAnswer,
    WorkspaceSession,
    files_of,
    files_to_write,
    remember_written,
    switch,
    text,
)
from skillpouch.calls import ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.workspace.files import Stamp, Written, changed
from skillpouch.workspace.workspace import changed_file

DEFINITION = Definition(
    name="write",
    description=(
        "Write a whole file of the workspace; missing folders are made. To change a part, use"
        " `edit`."
    ),
    parameters={
        "file_path": text("the file, relative to the workspace or absolute inside it"),
        "content": text("all of the new content"),
        "append": switch("append to the file instead of replacing it"),
        "expected_sha256": text(
            "replace the file only if it still has this SHA-256", pattern="^[0-9A-Fa-f]{64}$"
        ),
    },
    required=("file_path", "content"),
    effects=("write",),
)


def run(call: ToolCall, session: WorkspaceSession) -> ToolAnswer:
    """Write, and say how much and whether the file is new."""
    arguments = call.arguments
    path, data = arguments["file_path"], arguments["content"].encode()
    appends = arguments.get("append", False)
    written = _append(call, data) if appends else _replace(call, data)
    remember_written(call, session, written)
    verb = "created" if written.created else "added to" if appends else "replaced"
    facts = {"path": written.path, "bytes": len(data), "created": written.created}
    return ToolAnswer(
        text=f"{verb} {path}: {len(data):,} bytes",
        structured={**facts, "size": written.size},
        files=(
            changed_file(written.path, written.size, "created" if written.created else "modified"),
        ),
    )


def _append(call: ToolCall, data: bytes) -> Written:
    if "expected_sha256" in call.arguments:
        raise ToolFaultError("invalid_argument", "give `append` or `expected_sha256`, not both")
    return files_to_write(call).append(call.arguments["file_path"], data)


def _replace(call: ToolCall, data: bytes) -> Written:
    expected = _expected(call)
    return files_to_write(call).replace(call.arguments["file_path"], data, expected=expected)


def _expected(call: ToolCall) -> Stamp | None:
    wanted = call.arguments.get("expected_sha256")
    if wanted is None:
        return None
    path = call.arguments["file_path"]
    with files_of(call).reading(path) as opened:
        if file_digest(opened.file, "sha256").hexdigest() != wanted.lower():
            raise changed(path)
        return opened.stamp
