"""Running a search, confined: by ripgrep where there is one, else by Python, with equal results."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from skillpouch.backends.interpreters import find_program, homes_of
from skillpouch.builtins.workspace.confined import confinement_of
from skillpouch.builtins.workspace.search.ignoring import NEVER
from skillpouch.builtins.workspace.search.searching import Search
from skillpouch.calls import ToolCall
from skillpouch.environment import base_environment
from skillpouch.errors import ToolFaultError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.interpreter import this_python
from skillpouch.execution.shared import run_command

_ALONE = Path(__file__).with_name("search")
_NO_MATCH = 1
_TROUBLE = 2
# Only .gitignore files decide: what the user's own settings say elsewhere is out of sight.
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
    # Before version 15 it misread anchored rules of the folders above; they are applied here.
    "--no-ignore-parent",
)


def ripgrep(workspace: Path) -> str:
    """Return where ripgrep is, "" when it is not, or where a tool could have put it."""
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
            "unsupported", f"the search ended badly: {ended.stderr.text[-500:].strip()}"
        )
    return ended


def _has_understood(ended: Ended) -> bool:
    """Tell whether ripgrep did its work: one too old does not know an option, or breaks down."""
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
        confinement_of(call, *homes_of(program)),
    )


def ripgrep_words(search: Search) -> tuple[str, ...]:
    """Return the words of a ripgrep command; nothing in them can be taken for an option."""
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
    return await run_command(command, confinement_of(call, *visible))


def _command(call: ToolCall, argv: tuple[str, ...], stdin: bytes = b"") -> Command:
    # All of it is read here before any of it is shown, so all of it is kept.
    limits = replace(call.limits, keep_bytes=call.limits.kill_bytes)
    env = {**base_environment(), "PYTHONDONTWRITEBYTECODE": "1"}
    return Command(argv=argv, env=env, cwd=call.terms.workspace, stdin=stdin, limits=limits)
