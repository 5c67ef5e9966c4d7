"""`grep`: finds lines that match a regular expression; same results with ripgrep and Python."""

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skillpouch.backends.programs import confinement_of
from skillpouch.builtins.workspace.context import (
    Definition,
    ToolAnswer,
    files_of,
    number,
    switch,
    text,
)
from skillpouch.builtins.workspace.search.patterns import NEVER, PathPattern, PatternError
from skillpouch.builtins.workspace.search.searching import SNIFFED, Search, is_binary, is_left_out
from skillpouch.builtins.workspace.search_results import FoundFile, page_of, read_found
from skillpouch.calls import ToolCall
from skillpouch.environment import base_environment
from skillpouch.errors import OutsideWorkspaceError, ToolFaultError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.engine import run_command
from skillpouch.execution.zygote_client import this_python
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.untrusted_files import find_place
from skillpouch.workspace.files import WorkspaceFiles, not_found

FILE_TYPES: dict[str, tuple[str, ...]] = {
    "c": ("*.c", "*.h"),
    "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.hxx", "*.h"),
    "csharp": ("*.cs",),
    "css": ("*.css", "*.scss", "*.sass", "*.less"),
    "docker": ("Dockerfile*", "*.dockerfile"),
    "go": ("*.go",),
    "html": ("*.html", "*.htm"),
    "java": ("*.java",),
    "js": ("*.js", "*.jsx", "*.mjs", "*.cjs"),
    "json": ("*.json", "*.jsonl"),
    "kotlin": ("*.kt", "*.kts"),
    "lua": ("*.lua",),
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "md": ("*.md", "*.markdown"),
    "php": ("*.php",),
    "proto": ("*.proto",),
    "py": ("*.py", "*.pyi"),
    "ruby": ("*.rb", "Rakefile", "Gemfile", "*.gemspec"),
    "rust": ("*.rs",),
    "sh": ("*.sh", "*.bash", "*.zsh"),
    "sql": ("*.sql",),
    "swift": ("*.swift",),
    "toml": ("*.toml",),
    "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "txt": ("*.txt",),
    "xml": ("*.xml",),
    "yaml": ("*.yaml", "*.yml"),
}


_ALONE = Path(__file__).with_name("search")
_NO_MATCH = 1
_TROUBLE = 2
# Only .gitignore files decide: the user's own settings for ripgrep and git do not count.
_RIPGREP = (
    "--no-config",
    "--json",
    "--hidden",
    "--no-mmap",
    "--no-messages",
    "--no-require-git",
    "--no-ignore-dot",
    "--no-ignore-exclude",
    "--no-ignore-global",
    # Before version 15, ripgrep misread anchored rules of parent folders; they are applied here.
    "--no-ignore-parent",
)


def ripgrep(workspace: Path) -> str:
    """Return the path of ripgrep, "" when it is missing or inside the workspace."""
    program = find_program("rg")
    return "" if workspace in Path(program).parents else program


async def run_search(call: ToolCall, search: Search, program: str) -> Ended:
    """Search with ripgrep at `program`, or with Python when that is ""."""
    ended = await _with_ripgrep(call, search, program) if program else None
    if ended is None or not _has_understood(ended):
        ended = await _with_python(call, search)
    if ended.outcome == "timed_out":
        hint = "name a folder or a glob, or simplify the pattern"
        seconds = call.limits.timeout_seconds
        raise ToolFaultError("timeout", f"the search was not done after {seconds:g} s", hint=hint)
    if ended.code == "output_limit":
        hint = "name a folder or a glob, or ask for output_mode `files`"
        raise ToolFaultError("too_much", "there is too much to show", hint=hint)
    if ended.exit_code == _TROUBLE and ended.stderr.text.strip():
        raise ToolFaultError("invalid_argument", _last_line(ended.stderr.text))
    if ended.exit_code not in (0, _NO_MATCH, _TROUBLE):
        raise ToolFaultError(
            "unsupported", f"the search failed: {ended.stderr.text[-500:].strip()}"
        )
    return ended


def _has_understood(ended: Ended) -> bool:
    """Tell whether ripgrep worked: an old version does not know an option, or crashes."""
    if ended.outcome not in ("ok", "failed"):
        return True
    is_unknown = ended.exit_code == _TROUBLE and "wasn't expected" in ended.stderr.text
    return ended.exit_code in (0, _NO_MATCH, _TROUBLE) and not is_unknown


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return f"not a regular expression: {lines[-1].removeprefix('error: ')}"


async def _with_ripgrep(call: ToolCall, search: Search, program: str) -> Ended:
    return await run_command(
        _command(call, (program, *ripgrep_words(search))),
        confinement_of(call, homes_of(program)),
    )


def ripgrep_words(search: Search) -> tuple[str, ...]:
    """Return the words of a ripgrep command; no value in them can be read as an option."""
    switches = [
        *(["--ignore-case"] if search.ignore_case else ["--case-sensitive"]),
        *(["--multiline"] if search.multiline else []),
        f"--before-context={search.before}",
        f"--after-context={search.after}",
        *([f"--max-count={search.most}"] if search.most else []),
        *(f"--glob={glob}" for glob in search.globs),
        *(f"--glob=!{name}" for name in NEVER),
    ]
    start = "./" if search.path == "." else f"./{search.path}"
    return (*_RIPGREP, *switches, f"--regexp={search.pattern}", "--", start)


async def _with_python(call: ToolCall, search: Search) -> Ended:
    argv = (this_python(), "-I", "-S", "-X", "utf8", str(_ALONE / "main.py"))
    command = _command(call, argv, json.dumps(asdict(search)).encode())
    visible = (*homes_of(this_python()), _ALONE)
    return await run_command(command, confinement_of(call, visible))


def _command(call: ToolCall, argv: tuple[str, ...], stdin: bytes = b"") -> Command:
    # The whole output is kept, because it is parsed before any of it is shown.
    limits = replace(call.limits, keep_bytes=call.limits.kill_bytes)
    env = {**base_environment(), "PYTHONDONTWRITEBYTECODE": "1"}
    return Command(argv=argv, env=env, cwd=call.terms.workspace, stdin=stdin, limits=limits)


# One match per file would be enough, but if ripgrep stops before the end of a file, the file must
# be opened here again, to check whether it is text.
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
        "-i": switch("ignore the difference between upper and lower case"),
        "multiline": switch("a match may span several lines"),
        "head_limit": number("lines or files to show at most", minimum=1, default=250),
        "offset": number("lines or files to leave out at the start", default=0),
    },
    required=("pattern",),
)


async def run(call: ToolCall) -> tuple[ToolAnswer, Ended]:
    """Search, and return one page of what was found."""
    return await search_with(call, ripgrep(call.terms.workspace))


async def search_with(call: ToolCall, program: str) -> tuple[ToolAnswer, Ended]:
    """Search with the ripgrep at `program`, or with Python when that is ""."""
    search = await asyncio.to_thread(_search, call)
    ended = await run_search(call, search, program)
    # In a thread, because there may be much to read.
    return await asyncio.to_thread(_answer, call, search, ended), ended


def _answer(call: ToolCall, search: Search, ended: Ended) -> ToolAnswer:
    found = _without_binary(call, read_found(ended.stdout.data, search.most), search.most)
    if search.globs or search.path != ".":
        found = _without_ignored(call, found, search.path)
    return page_of(found, call, partial=_is_partial(ended))


def _is_partial(ended: Ended) -> bool:
    return ended.exit_code == 2  # noqa: PLR2004 - ripgrep could not read a file


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
    """Return how many lines of a file to search for: one more than shown, to see if more exist."""
    if mode == "files":
        return _ENOUGH
    if given.get("multiline", False):
        return 0  # --max-count would count matches, not lines
    return given.get("offset", 0) + given.get("head_limit", 250) + 1 if mode == "content" else 0


def _start(call: ToolCall) -> str:
    """Return the real path at which the search begins."""
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
    # When ripgrep stops early, it does not report whether the file is text.
    files = files_of(call)
    return [file for file in found if not most or len(file.matches) < most or _is_text(files, file)]


def _is_text(files: WorkspaceFiles, found: FoundFile) -> bool:
    try:
        with files.reading(found.path) as opened:
            return not is_binary(opened.file.read(SNIFFED))
    except (ToolFaultError, OutsideWorkspaceError):
        return False  # the file was just removed


def _without_ignored(call: ToolCall, found: list[FoundFile], start: str) -> list[FoundFile]:
    # With a glob or an explicit folder, ripgrep searches files that .gitignore excludes.
    with files_of(call).listing(".") as (top, _):
        return [
            file for file in found if file.path == start or not is_left_out(top, file.path, start)
        ]
