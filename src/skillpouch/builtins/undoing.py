"""Undoes, applies and discards what calls changed: each is a call of a tool, recorded like any."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from skillpouch.builtins.kept_calls import (
    APPLY,
    DIFF,
    DISCARD,
    UNDO,
    KeptCalls,
    diff_of,
    line_of,
    paths_below,
)
from skillpouch.errors import SkillpouchError, ToolFaultError
from skillpouch.policy.settling import files_of, to_its_end
from skillpouch.results import Conflict, FileChange, ToolResult, milliseconds
from skillpouch.tools import Effect, Hosted, Tool, qualified_wire_name
from skillpouch.workspace.change_store import ChangeStateError, KeptCall, KeptUndo

if TYPE_CHECKING:
    from skillpouch.calls import ToolCall
    from skillpouch.secrets.redaction import Redactor

_MANY = 1_000  # changes that take long enough to say that work goes on
_MOST_LINES = 50  # of changes and conflicts in a text; the result has all of them


@dataclass(slots=True)
class _Done:
    """What was done to some calls, as far as it came."""

    calls: list[str]
    changes: list[FileChange]
    conflicts: list[Conflict]
    lines: list[str]
    call_id: str = ""  # what undoes it
    trouble: SkillpouchError | None = None


Work = Callable[["ToolCall", KeptCalls], _Done]


def undo_tool() -> Tool:
    """Return the tool that undoes calls."""
    return _tool(
        UNDO,
        "Undo what a call changed in the workspace: files get back their content, permissions and"
        " times. Without `call`, the last call that changed something. What somebody else changed"
        " since is left alone, and named.",
        {
            "call": {"type": "string", "description": "the id of the call", "minLength": 1},
            "calls": {"type": "integer", "description": "how many calls back", "minimum": 1},
            "session": {"type": "string", "description": "undo all calls of this session"},
            "paths": _PATHS,
        },
        partial(_run, _undo),
    )


def apply_tool() -> Tool:
    """Return the tool that brings staged changes into the workspace."""
    return _tool(
        APPLY,
        "Bring what a staged call changed into the workspace, or what all calls of a session did.",
        {"call": _CALL, "session": _SESSION, "earlier": _EARLIER, "paths": _PATHS},
        partial(_run, _apply),
    )


def discard_tool() -> Tool:
    """Return the tool that drops staged changes."""
    return _tool(
        DISCARD,
        "Drop what a staged call changed, or all calls of a session: it never reaches the"
        " workspace.",
        {"call": _CALL, "session": _SESSION},
        partial(_run, _discard),
    )


def change_tool(tool_id: str) -> Tool:
    """Return one of the three tools by its id."""
    return {UNDO: undo_tool, APPLY: apply_tool, DISCARD: discard_tool}[tool_id]()


def tools_for_models(redactor: "Callable[[], Redactor]") -> list[Tool]:
    """Return the two tools that a model gets if the owner wants it: undo and diff.

    Not `apply`: a model that applies what was staged would make staging useless.
    """

    def work(call: "ToolCall", calls: KeptCalls) -> _Done:
        said = call.arguments
        text = diff_of(calls, said["call"], path=said.get("path"), redactor=redactor())
        return _Done([said["call"]], [], [], [text])

    path = {"type": "string", "description": "only this file", "minLength": 1}
    diff = _tool(
        DIFF,
        "Show what a call changed in the workspace, as a text diff.",
        {"call": _CALL, "path": path},
        partial(_run, work),
        required=["call"],
        effects=("read",),
    )
    return [undo_tool(), diff]


_CALL = {"type": "string", "description": "the id of the call", "minLength": 1}
_SESSION = {"type": "string", "description": "instead of one call: all that wait in it"}
_EARLIER = {"type": "boolean", "description": "before it, the calls that wait and it builds on"}
_PATHS = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "description": "only these files and folders of the workspace",
}


def _tool(
    tool_id: str,
    description: str,
    parameters: dict[str, Any],
    run: "Callable[[ToolCall], Awaitable[ToolResult]]",
    *,
    required: Sequence[str] = (),
    effects: tuple[Effect, ...] = ("read", "write"),
) -> Tool:
    verb = tool_id.partition(".")[2]
    return Tool(
        id=tool_id,
        name=qualified_wire_name("skillpouch", verb),
        skill="",
        description=description,
        input_schema={
            "type": "object",
            "properties": parameters,
            "required": list(required),
            "additionalProperties": False,
        },
        runs=Hosted(
            what=f"Skillpouch's own {verb}, in the workspace",
            run=run,
            writes_workspace="write" in effects,
            keeps_changes=True,
        ),
        effects=effects,
        declared_in="skillpouch",
        read_by="skillpouch",
    )


async def _run(work: Work, call: "ToolCall") -> ToolResult:
    started = time.monotonic()
    done = await to_its_end(lambda: work(call, KeptCalls(call.terms.workspace, call.terms.session)))
    problems = [str(done.trouble)] if done.trouble else []
    left = [f"left alone: {each}" for each in done.conflicts]
    text = "\n".join([*_some(done.lines), *problems, *_some(left)])
    is_whole = not done.conflicts and done.trouble is None
    return ToolResult(
        tool=call.tool.id,
        outcome="ok" if is_whole else "failed",
        content=text,
        structured={
            "calls": done.calls,
            "call_id": done.call_id,
            "changes": [each.facts for each in done.changes],
            "conflicts": [{"path": each.path, "reason": each.reason} for each in done.conflicts],
        },
        exit_code=0 if is_whole else 1,
        stdout=f"{text}\n",
        code=None if is_whole else done.trouble.code if done.trouble else "conflicts",
        duration_ms=milliseconds(time.monotonic() - started),
        changes=tuple(done.changes),
        conflicts=tuple(done.conflicts),
        files=files_of(done.changes),
        writes="undoable",
        call_id=done.call_id,
    )


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"and {more:,} more"]


def _undo(call: "ToolCall", calls: KeptCalls) -> _Done:
    said = call.arguments
    chosen = _to_undo(said, calls)
    for kept in chosen:
        if kept.state != "applied":
            raise ChangeStateError(kept.id, kept.state, "undone")
    done = _Done([], [], [], [])
    for kept in chosen:
        _tell(call, f"undoing call {kept.id}", kept)
        as_id = f"{done.call_id}.{len(done.calls)}" if done.call_id else call.id
        try:
            outcome = _undone(kept, said.get("paths"), as_id)
        except SkillpouchError as error:
            if not done.calls:
                raise
            done.trouble = error  # the calls before it are undone
            break
        done.call_id = done.call_id or outcome.call.id
        done.calls.append(kept.id)
        _add(done, f"undid call {kept.id} of {kept.tool}", outcome.changes, outcome.conflicts)
    return done


def _undone(kept: KeptCall, paths: Iterable[str] | None, as_id: str) -> KeptUndo:
    only = _only(kept, paths)
    try:
        return kept.undo(only, as_id=as_id)
    except FileExistsError:  # a journal that begins anew gives numbers a second time
        return kept.undo(only)


def _to_undo(said: dict[str, Any], calls: KeptCalls) -> list[KeptCall]:
    if "call" in said:
        return calls.parts(said["call"])
    session = said.get("session")
    count = said.get("calls") or (2**62 if session else 1)
    return calls.last(count, session)


def _apply(call: "ToolCall", calls: KeptCalls) -> _Done:
    chosen = _that_wait(call.arguments, calls)
    for kept in chosen:
        if kept.state not in ("staged", "refused", "undone"):
            raise ChangeStateError(kept.id, kept.state, "applied")
    done = _Done([], [], [], [])
    for kept in chosen:
        _tell(call, f"applying call {kept.id}", kept)
        try:
            outcome = kept.apply(_only(kept, call.arguments.get("paths")))
        except SkillpouchError as error:
            if not done.calls:
                raise
            done.trouble = error  # the calls before it are applied
            break
        done.call_id = kept.id
        done.calls.append(kept.id)
        _add(done, f"applied call {kept.id} of {kept.tool}", outcome.changes, outcome.conflicts)
    return done


def _discard(call: "ToolCall", calls: KeptCalls) -> _Done:
    chosen = _that_wait(call.arguments, calls)
    for kept in chosen:
        if kept.state not in ("staged", "refused"):
            raise ChangeStateError(kept.id, kept.state, "discarded")
    done = _Done([], [], [], [])
    for kept in reversed(chosen):
        total = _count(kept.changes.total)
        kept.discard()
        done.calls.append(kept.id)
        done.lines.append(f"discarded call {kept.id} of {kept.tool}: {total}")
    return done


def _that_wait(said: dict[str, Any], calls: KeptCalls) -> list[KeptCall]:
    """Return the call that is named, or all calls of a session that wait, in their order."""
    if ("call" in said) == ("session" in said):
        raise ToolFaultError("invalid_argument", "give either `call` or `session`")
    if "session" in said:
        return calls.waiting(said["session"])
    kept = calls.get(said["call"])
    earlier = [calls.get(each) for each in reversed(kept.facts.base)] if said.get("earlier") else []
    return [*(each for each in earlier if each.state == "staged"), kept]


def _add(
    done: _Done, what: str, changes: Iterable[FileChange], conflicts: Iterable[Conflict]
) -> None:
    made = tuple(changes)
    done.lines.append(f"{what}: {_count(len(made))}")
    done.lines += [f"  {line_of(each)}" for each in made]
    done.changes += made
    done.conflicts += sorted(conflicts, key=lambda each: each.path)


def _count(number: int) -> str:
    return "1 change" if number == 1 else f"{number:,} changes"


def _tell(call: "ToolCall", what: str, kept: KeptCall) -> None:
    if call.on_progress is not None and kept.changes.total >= _MANY:
        call.on_progress(f"{what}: {_count(kept.changes.total)}")


def _only(kept: KeptCall, paths: Iterable[str] | None) -> list[str] | None:
    """Return the changes at or below some paths; None for all of them."""
    if not paths:
        return None
    return list(dict.fromkeys(each for path in paths for each in paths_below(kept, path)))
