"""Turns the output of a program into a result: content for a model, a value for programs."""

import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from shutil import which
from typing import Any, Literal

from skillpouch.calls import ToolCall
from skillpouch.environment import SYSTEM_PATH
from skillpouch.execution.command import Ended
from skillpouch.execution.confinement import NOTHING
from skillpouch.execution.streams import save_output
from skillpouch.execution.zygote import wire
from skillpouch.json_values import LARGEST_VALUE, NO_VALUE, json_text, json_value
from skillpouch.limits import size_text
from skillpouch.policy.package_hints import programs_missed
from skillpouch.results import Captured, ToolResult
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.signatures.shebang import lacks_typescript
from skillpouch.text import clean
from skillpouch.tools import BuiltIn, Script, Tool
from skillpouch.trust.requested import paths_in_home, settings_withheld
from skillpouch.trust.requested_packages import sources_of
from skillpouch.workspace.read_only import READ_ONLY_ERROR, run_later_named
from skillpouch.workspace.workspace import Before, changed_files

# How programs report that a file, a folder or the network was not accessible.
_DENIED = re.compile(
    r"[Pp]ermission denied|EACCES|EROFS"
    r"|[Rr]ead-only file system"
    r"|[Oo]peration not permitted|EPERM|resolve host|name resolution|[Nn]etwork is unreachable"
    r"|EAI_AGAIN|getaddrinfo"
)
_WINDOWS_LINES = re.compile(
    r"\$'[^'\n]*\\r'+: command not found|near unexpected token `\$'[^'\n]*\\r'"
)
# How programs report that a file was not found, with its absolute path.
_NO_FILE = re.compile(
    r"(?:^|[\s'\"])(/[^\s'\":]+)['\"]?: [Nn]o such file"  # cat, bash
    r"|[Nn]o such file or directory[^\n/]{0,80}[\s'\"](/[^\s'\":]+)",  # Python, Node, Ruby
    re.MULTILINE,
)
# How programs report that something was not found, whatever it is.
_MISSING = re.compile(
    r"no such file|not found|not exist|enoent|cannot find|can't (?:find|open)|cannot open|missing",
    re.IGNORECASE,
)
# Words of such a line that may be paths: between quotes, and between spaces and punctuation.
_PATHS = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"|`([^`\n]+)`|([^\s'\"`:,;=()<>\[\]{}]+)")
_MOST_PATHS = 64  # of one output or one set of arguments that are looked for
_MOST_TOLD = 3
_LONGEST_PATH = 512
_VISIBLE = ("/usr", "/bin", "/lib", "/etc")


def result_of(call: ToolCall, ended: Ended, *, before: Before | None) -> ToolResult:
    """Return the result of a script: the value that it returned, or what it printed.

    `before` is None if the workspace need not be searched for changes: a layer holds them.
    """
    stdout, stderr = ended.stdout.text, ended.stderr.text
    raw = call.redactor.data(ended.answer)
    # Redacted again, now that JSON escapes are characters: a cut below could split a secret.
    value = call.redactor.value(_returned(raw)) if raw else _printed(stdout, ended.stdout)
    said, is_cut = _said(call, stdout, raw, value)
    files, complete = ((), True) if before is None else changed_files(before)
    whole = _save(call, raw, value) if is_cut else None
    saved = (ended.stdout.saved_to, ended.stderr.saved_to, whole)
    return ToolResult(
        tool=call.tool.id,
        outcome=ended.outcome,
        script=call.tool.origin.removeprefix(f"{call.tool.place}/"),
        content=clean(_content(call, ended, said, stderr)),
        structured=None if value is NO_VALUE else value,
        returned=bool(raw),
        exit_code=ended.exit_code,
        stdout=stdout,
        stderr=stderr,
        truncated=ended.stdout.truncated or ended.stderr.truncated or is_cut,
        duration_ms=round(ended.duration_seconds * 1000, 3),
        protections=_protections(call, ended),
        warm=ended.warm,
        cold_because=ended.cold_because,
        code=ended.code,
        signal=ended.signal,
        saved=tuple(path for path in saved if path is not None),
        files=files,
        files_complete=complete,
        refused_hosts=ended.refused_hosts,
        refused_sockets=bool(ended.traces & wire.TRIED_SOCKETS),
        refused_network=bool(ended.traces & wire.TRIED_NETWORK),
        looked_up=ended.looked_up,
        found_nobody=bool(ended.traces & wire.FOUND_NOBODY),
        left_in_home=bool(ended.traces & wire.LEFT_HOME),
        left_running=_left_running(ended),
        timeout_seconds=call.limits.timeout_seconds,
    )


def _left_running(ended: Ended) -> Literal["", "processes", "server"]:
    if ended.traces & wire.LEFT_SERVER:
        return "server"
    return "processes" if ended.traces & wire.LEFT_PROCESSES else ""


def _protections(call: ToolCall, ended: Ended) -> Mapping[str, str]:
    """Return what protected the call, with the memory that it was granted among its profiles."""
    memory = call.limits.memory_bytes
    if call.access.memory_bytes is None or memory is None:
        return ended.protections
    others = ended.protections.get("profiles", NOTHING)
    named = f"memory-{size_text(memory)}"
    both = named if others == NOTHING else f"{others}+{named}"
    return {**ended.protections, "profiles": both}


def _returned(raw: bytes) -> Any:
    return json_value(raw.decode("utf-8", "replace")) if len(raw) <= LARGEST_VALUE else NO_VALUE


def _save(call: ToolCall, raw: bytes, value: Any) -> Path | None:
    """Save an answer that is too long for a model where long output is saved."""
    file = save_output(call.terms.workspace, "answer.json")
    if file is None:
        return None
    is_secretive = call.access.secrets and value is not NO_VALUE
    file.write(json.dumps(value).encode() if is_secretive else raw)
    return file.close()


def _printed(stdout: str, captured: Captured) -> Any:
    return NO_VALUE if captured.truncated else json_value(stdout)


def _said(call: ToolCall, stdout: str, raw: bytes, value: Any) -> tuple[str, bool]:
    """Return the answer as a model reads it, and whether it had to be cut."""
    if not raw:
        return stdout.removesuffix("\n"), False
    if value is NO_VALUE:
        text = raw.decode("utf-8", "replace")
    else:
        text = value if isinstance(value, str) else json_text(value)
    data, keep = text.encode("utf-8", "replace"), call.limits.keep_bytes
    if len(data) <= keep and len(raw) <= keep:
        return text, False
    return Captured.of(data, keep).text, True


def _content(call: ToolCall, ended: Ended, said: str, stderr: str) -> str:
    """Return the answer; of a failure also its errors, so that nothing is lost."""
    if ended.outcome == "ok":
        return said
    output = said + stderr
    notes = (_note(call, output), _note_on_paths(call, output))
    parts = [said, stderr.removesuffix("\n"), _why(call, ended), *notes]
    return "\n".join(part for part in parts if part)


def _note(call: ToolCall, output: str) -> str:
    """Say that a tool was confined, if its error looks like a consequence of that."""
    if lacks_typescript(output, getattr(call.tool.runs, "language", None)):
        return "note: this Node does not run TypeScript; node 22.18 or newer does"
    if _WINDOWS_LINES.search(output):
        return "note: its lines end as on Windows, with \\r\\n, which a shell cannot read"
    if program := _program_not_installed(call, output):
        return f"note: {program} is not installed, or tools cannot see it"
    is_denied = _DENIED.search(output) or _lacks_hidden_file(call, output)
    if call.is_unconfined or not is_denied or run_later_named(call, output):
        return ""  # of what others run later, another note tells
    if call.tool.home and READ_ONLY_ERROR.search(output):
        folders = ", ".join(map(str, (call.terms.workspace, *call.access.writable)))
        said = "note: the files of a skill are read-only for its tools; they write in the workspace"
        return f"{said} {folders} and /tmp"
    network = (
        f"of the network only {', '.join(call.access.hosts)}" if call.access.hosts else "no network"
    )
    return f"note: it ran confined: {network}, and of your files only the workspace and its skill"


def _note_on_paths(call: ToolCall, output: str) -> str:
    """Say which paths of the call lie below the skill, while it runs in the workspace."""
    tool = call.tool
    if not tool.home or tool.cwd == "skill":
        return ""
    workspace = str(call.terms.workspace)
    # An argument counts if something is said to be missing, or nothing is said at all: a script may
    # fail for other reasons, and never look for the file.
    # A command for the skill finds its files itself: there the output alone tells.
    may_be_paths = _MISSING.search(output) or not output.strip()
    named = _texts(call.arguments) if may_be_paths and not isinstance(tool.runs, BuiltIn) else ()
    words = [*named, *_missing_paths(output)]
    # What the call itself made is still in its layer.
    words = [word for word in words if not _is_in(call.layers, _relative(word, workspace))]
    return note_on_skill_paths(words, home=tool.home, workspace=workspace)


def _is_in(layers: Iterable[Path], path: str) -> bool:
    return bool(path) and any(os.path.lexists(layer / path) for layer in layers)


def note_on_skill_paths(words: Iterable[str], *, home: str, workspace: str) -> str:
    """Say which words are paths of files below `home` that do not exist below the workspace."""
    paths = dict.fromkeys(filter(None, (_relative(word, workspace) for word in words)))
    found = [path for path in list(paths)[:_MOST_PATHS] if _is_only_in(home, path, workspace)]
    notes = [
        f"note: {path} lies in the folder of the skill, not in the workspace; "
        f"the path that works is {home}/{path}"
        for path in found[:_MOST_TOLD]
    ]
    return "\n".join(notes)


def _texts(value: Any) -> Iterator[str]:
    """Return the texts in arguments, also those after the equals sign of an option."""
    if isinstance(value, str):
        yield value
        if value.startswith("-") and "=" in value:
            yield value.partition("=")[2]
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _missing_paths(output: str) -> Iterator[str]:
    for line in output.splitlines():
        if _MISSING.search(line):
            for match in _PATHS.finditer(line):
                yield match[match.lastindex or 0]


def _relative(word: str, workspace: str) -> str:
    """Return a path below the current folder in its plain spelling, "" if the word is none."""
    path = word.removeprefix(f"{workspace}/")
    # A word without a slash or a dot is more often a word than a path.
    if not ("/" in path or "." in path) or len(path) > _LONGEST_PATH or "\0" in path:
        return ""
    path = os.path.normpath(path)
    return "" if path.startswith(("/", "../", "-")) or path in (".", "..") else path


def _is_only_in(home: str, path: str, workspace: str) -> bool:
    real = os.path.realpath(f"{home}/{path}")
    is_inside = real.startswith(f"{os.path.realpath(home)}/")
    try:
        return is_inside and os.path.exists(real) and not os.path.lexists(f"{workspace}/{path}")
    except (OSError, ValueError):
        return False  # not a path that this system can have


# As the error of Python that a script prints itself: it may be about a file.
_NO_FILE_OR_PROGRAM = re.compile(r"\[Errno 2\] No such file or directory: '([\w+-]+)'")


def _program_not_installed(call: ToolCall, output: str) -> str:
    """Return the program that the output reports as not found, if it is really not installed."""
    missed = [*programs_missed(output)]
    named = dict.fromkeys(_NO_FILE_OR_PROGRAM.findall(output)) if call.tool.home else ()
    missed += [name for name in named if _is_started(name, call.tool.home)]
    return next((name for name in missed if not which(name, path=SYSTEM_PATH)), "")


def _is_started(name: str, home: str) -> bool:
    """Tell whether code of a skill has a command that begins with this name."""
    command = re.compile(rf"\[\s*['\"]{re.escape(name)}['\"]")
    return any(map(command.search, sources_of(home).values()))


def _lacks_hidden_file(call: ToolCall, output: str) -> bool:
    """Tell whether a file was not found that may exist where the tool cannot see it.

    This does not look for the file: an error text must not tell a skill which files exist. A path
    that the tool can see, or a relative one, is simply wrong.
    """
    visible = (str(call.terms.workspace), call.tool.place or "/usr", *_VISIBLE)
    paths = [match[1] or match[2] for match in _NO_FILE.finditer(output)]
    return not all(path.startswith(tuple(f"{folder}/" for folder in visible)) for path in paths)


def _why(call: ToolCall, ended: Ended) -> str:
    if ended.outcome == "timed_out":
        return f"timed out after {call.limits.timeout_seconds:g} s"
    if ended.code == "output_limit":
        return f"killed: it printed more than {call.limits.kill_bytes:,} bytes"
    if ended.code == "memory_limit":
        return "killed: its processes together used more memory than a call may"
    if ended.code is not None:
        return f"killed: {ended.code.replace('_', ' ')}"
    if ended.signal is not None:
        return f"killed by signal {ended.signal}"
    return f"exit code {ended.exit_code}"


# Parts of every message from which a note to a call that ended well is made.
_LACKING = (
    *("EROFS", "ead-only file system"),
    *("service not known", "resolve host", "name resolution", "etwork is unreachable"),
    *("EAI_AGAIN", "ENOTFOUND", "ECONNREFUSED", "onnection refused", "EUNATCH", "not attached"),
    *("environment variable", "not set", "not configured", " found", "exist", "/tmp/."),  # noqa: S108
    *("No module named", "`Import ", "optional dependency", "install"),
)


def may_lack(result: ToolResult, tool: Tool, given: Container[str] = ()) -> bool:
    """Tell whether a program that ended well may have gone on without what it was refused.

    `given` are the variables that it had.
    """
    if result.refused_hosts or result.refused_sockets or result.refused_network:
        return True
    if result.found_nobody or result.left_in_home or result.left_running:
        return True
    if not result.protections:
        return False
    if _uses_home(tool) or (tool.variables and settings_withheld(tool.variables, given)):
        return True
    said = (result.stdout, result.stderr)
    parts = (*_LACKING, *tool.variables)
    return any(part in text for text in said for part in parts)


# A file of a script, as it is now → whether it names paths of the user's home. Not by the tool: a
# tool keeps its manager alive.
_MOST_FILES = 4_096
_with_home: BoundedCache[tuple[str, int, int], bool] = BoundedCache(_MOST_FILES)


def _uses_home(tool: Tool) -> bool:
    if not isinstance(tool.runs, Script):
        # Of a command for a skill: who makes the notes reads the scripts that it names.
        return isinstance(tool.runs, BuiltIn) and bool(tool.home)
    try:
        status = os.stat(tool.runs.file)
    except OSError:
        return False
    key = (tool.runs.file, status.st_ino, status.st_mtime_ns)
    known = _with_home.get(key)
    if known is None:
        known = _with_home[key] = bool(paths_in_home(tool))
    return known
