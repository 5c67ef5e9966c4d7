"""`grep`: lines of the workspace that fit a regular expression."""

import asyncio
from typing import Any

from skillpouch.builtins.workspace.answer import Answer
from skillpouch.builtins.workspace.definition import Definition, number, switch, text
from skillpouch.builtins.workspace.file_types import FILE_TYPES
from skillpouch.builtins.workspace.found_lines import FoundFile, read_found
from skillpouch.builtins.workspace.pages import page_of
from skillpouch.builtins.workspace.protected import files_of
from skillpouch.builtins.workspace.search.patterns import PathPattern, PatternError
from skillpouch.builtins.workspace.search.searching import SNIFFED, Search, is_binary
from skillpouch.builtins.workspace.search.walking import is_left_out
from skillpouch.builtins.workspace.searches import ripgrep, run_search
from skillpouch.calls import ToolCall
from skillpouch.errors import OutsideWorkspaceError, ToolFaultError
from skillpouch.execution.command import Ended
from skillpouch.untrusted_files import find_place
from skillpouch.workspace.files import WorkspaceFiles, not_found

# One would do, but a file that ripgrep has not read to its end must be opened here once more.
_ENOUGH = 8
_AROUND = {"maximum": 100, "default": 0}

DEFINITION = Definition(
    name="grep",
    description=(
        "Search the files of the workspace for a regular expression (ripgrep's syntax). "
        "Leaves out binary files, version control and what .gitignore leaves out."
    ),
    parameters={
        "pattern": text("the regular expression"),
        "path": text("a file or folder, relative to the workspace or inside it", default="."),
        "glob": text("search only files that fit, such as `*.py`, `src/**`, `!*.min.js`"),
        "type": text("search only files of a kind", enum=sorted(FILE_TYPES)),
        "output_mode": text(
            "lines, paths of files, or how many lines in each file",
            enum=["content", "files", "count"],
            default="content",
        ),
        "context": number("lines to show before and after each", **_AROUND),
        "-A": number("lines to show after each", **_AROUND),
        "-B": number("lines to show before each", **_AROUND),
        "-i": switch("upper and lower case are the same"),
        "multiline": switch("a match may go over several lines"),
        "head_limit": number("lines or files to show at most", minimum=1, default=250),
        "offset": number("lines or files to leave out at the start", default=0),
    },
    required=("pattern",),
)


async def run(call: ToolCall) -> tuple[Answer, Ended]:
    """Search, and return one page of what was found."""
    return await search_with(call, ripgrep(call.terms.workspace))


async def search_with(call: ToolCall, program: str) -> tuple[Answer, Ended]:
    """Search with the ripgrep at `program`, or with Python when that is ""."""
    search = await asyncio.to_thread(_search, call)
    ended = await run_search(call, search, program)
    # In a thread: there may be a great deal to read.
    return await asyncio.to_thread(_answer, call, search, ended), ended


def _answer(call: ToolCall, search: Search, ended: Ended) -> Answer:
    found = _without_binary(call, read_found(ended.stdout.data, search.most), search.most)
    if search.globs or search.path != ".":
        found = _without_ignored(call, found, search.path)
    return page_of(found, call, partial=_is_partial(ended))


def _is_partial(ended: Ended) -> bool:
    return ended.exit_code == 2  # noqa: PLR2004 - ripgrep's word for a file it could not read


def _search(call: ToolCall) -> Search:
    given = call.arguments
    path = _start(call)
    around = given.get("context", 0)
    mode = given.get("output_mode", "content")
    return Search(
        pattern=given["pattern"],
        path=path,
        globs=_globs(given),
        ignore_case=given.get("-i", False),
        multiline=given.get("multiline", False),
        before=given.get("-B", around) if mode == "content" else 0,
        after=given.get("-A", around) if mode == "content" else 0,
        most=_most(given, mode),
    )


def _most(given: dict[str, Any], mode: str) -> int:
    """Return how many lines of one file can matter: one more than can be shown, to know it."""
    if mode == "files":
        return _ENOUGH
    if given.get("multiline", False):
        return 0  # matches would be counted, not lines
    return given.get("offset", 0) + given.get("head_limit", 250) + 1 if mode == "content" else 0


def _start(call: ToolCall) -> str:
    """Return the real path at which to begin."""
    path = call.arguments.get("path", ".")
    with find_place(call.terms.workspace, path) as place:
        if place.missing:
            raise not_found(place, path)
        return place.relative


def _globs(given: dict[str, Any]) -> list[str]:
    globs = [
        *FILE_TYPES.get(given.get("type", ""), ()),
        *([given["glob"]] if "glob" in given else []),
    ]
    for glob in globs:
        try:
            PathPattern(glob.removeprefix("!"))
        except PatternError as error:
            raise ToolFaultError("invalid_argument", f"{glob!r}: {error}") from None
    return globs


def _without_binary(call: ToolCall, found: list[FoundFile], most: int) -> list[FoundFile]:
    # Where ripgrep has found enough it does not say whether the file is text.
    files = files_of(call)
    return [file for file in found if not most or len(file.matches) < most or _is_text(files, file)]


def _is_text(files: WorkspaceFiles, found: FoundFile) -> bool:
    try:
        with files.reading(found.path) as opened:
            return not is_binary(opened.file.read(SNIFFED))
    except (ToolFaultError, OutsideWorkspaceError):
        return False  # it has just gone


def _without_ignored(call: ToolCall, found: list[FoundFile], start: str) -> list[FoundFile]:
    # A glob makes ripgrep search files that .gitignore leaves out, and so does a folder.
    with files_of(call).listing(".") as (top, _):
        return [
            file for file in found if file.path == start or not is_left_out(top, file.path, start)
        ]
