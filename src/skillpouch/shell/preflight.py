"""What can be said about a script before it runs: what it names, and what will not work."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillpouch.shell.tool_def import ToolDef

# A hostile script is read by these in the host itself: none looks at a character twice. A quote
# that is not closed goes to the end, or every quote after it would be tried again.
_QUOTED = re.compile(r"""'[^']*+(?:'|\Z)|"(?:\\.|[^"\\])*+(?:"|\\?\Z)|(?<!\S)#[^\n]*+""", re.DOTALL)
_COPROC = re.compile(r"(?:^|[;&|({]|\b(?:do|then|else)\b)[ \t]*+coproc\s", re.MULTILINE)
_COMMAND_ENDS = re.compile(r"[|;&\n]")
_XARGS = re.compile(r"\bxargs\b")
_AT_ONCE = re.compile(r"\s(?:-P|--max-procs)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a script would do, as far as its text tells. Nothing was run.

    `tools` are the tools it names, in order; `writes` are files it redirects into. An `opaque`
    script builds commands while it runs: what it will call is known only then. `error` is there
    when it is no bash. `notes` say what will not work as it is written.
    """

    commands: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    opaque: bool = False
    error: str = ""
    notes: tuple[str, ...] = ()


def preview_of(script: str, found: Mapping[str, Any], tools: Mapping[str, ToolDef]) -> Preview:
    """Return the preview of a script that an engine has read."""
    notes = (*filter(None, (refusal_of(script),)), *notes_on(script))
    if found.get("error"):
        return Preview(error=str(found["error"]), opaque=True, notes=notes)
    names = [str(name) for name in found["command_names"] if name]
    called = tuple(dict.fromkeys(name for name in names if name in tools))
    effects = dict.fromkeys(effect for name in called for effect in tools[name].effects)
    redirects = [each for each in found["redirects"] if each["is_write"]]
    return Preview(
        commands=tuple(dict.fromkeys(names)),
        tools=called,
        effects=tuple(effects),
        writes=tuple(str(each["path"]) for each in redirects),
        opaque=bool(found["is_opaque"]),
        notes=notes,
    )


def refusal_of(script: str) -> str:
    """Return why a script is not begun: what would only hang."""
    if "coproc" in script and _COPROC.search(_QUOTED.sub("''", script)):
        return "coproc is disabled: use `&` and `wait`, or `pmap -j N TOOL {}`"
    return ""


def notes_on(script: str) -> tuple[str, ...]:
    """Return what does not do here what its author may expect."""
    if "xargs" in script and any(map(_runs_at_once, _COMMAND_ENDS.split(script))):
        return ("xargs -P runs one at a time here; `pmap -j N TOOL {}` runs N",)
    return ()


def _runs_at_once(command: str) -> bool:
    found = _XARGS.search(command)
    return found is not None and _AT_ONCE.search(command, found.end()) is not None
