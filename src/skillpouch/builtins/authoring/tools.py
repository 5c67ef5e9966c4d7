"""`define_tool` and `remove_tool`: their definitions, and what a call of each does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from skillpouch.backends.delivery import forget_skill
from skillpouch.builtins.authoring.author import Author
from skillpouch.builtins.authoring.request import (
    LANGUAGES,
    LONGEST_CODE,
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    NAME,
    read_request,
)
from skillpouch.builtins.workspace.context import Definition, ToolAnswer, text
from skillpouch.calls import ToolCall
from skillpouch.registry.registry import ToolOverlay
from skillpouch.tools import BuiltIn, Tool

_NAMED = {"pattern": NAME, "maxLength": LONGEST_NAME}

DEFINE = Definition(
    name="define_tool",
    description=(
        "Make a new tool from code, and call it by its name at once. It runs confined: it reads"
        " and writes files of the workspace, and has no network and no secrets."
    ),
    parameters={
        "name": text("lower-case letters, digits and '_', such as count_words", **_NAMED),
        "description": text("what the tool does", minLength=1, maxLength=LONGEST_DESCRIPTION),
        "parameters": {
            "type": ["string", "object"],
            "default": "{}",
            "description": (
                "what it takes, as JSON: each name with its type and description, such as"
                ' {"text": {"type": "string", "description": "the text"}};'
                ' "optional": true for what may be left out'
            ),
        },
        "code": text(
            "the body of a function: it finds its arguments in `args` and returns a JSON value,"
            " such as: return {'count': len(args['text'].split())}",
            minLength=1,
            maxLength=LONGEST_CODE,
        ),
        "persistent": {
            "type": ["string", "boolean"],
            "default": "false",
            "description": "'true' saves the tool as a skill, so that it is there next time",
        },
        "language": text("of the code; python, unless it looks like another", enum=[*LANGUAGES]),
    },
    required=("name", "description", "code"),
    effects=("write", "execute"),
)
REMOVE = Definition(
    name="remove_tool",
    description="Remove a tool that define_tool made. A saved tool is moved to another folder.",
    parameters={"name": text("the name of the tool", minLength=1)},
    required=("name",),
    effects=("write",),
)
_DEFINE, _REMOVE = DEFINE.tool(None), REMOVE.tool(None)


_Run = Callable[[Author, ToolCall], ToolAnswer]


def authoring_tools(author: Author) -> list[Tool]:
    """Return `define_tool` and `remove_tool`."""
    return [_bound(_DEFINE, author, _define), _bound(_REMOVE, author, _remove)]


def tools_that_save_in(
    root: Path, added: ToolOverlay, skills: Callable[[], list[str]], changed: Callable[[], None]
) -> list[Tool]:
    """Return the two tools for an agent whose skills are in folders, one of which is `root`."""
    author = Author(
        added, root, forget=forget_skill, is_skill=lambda name: name in skills(), changed=changed
    )
    author.make_root()
    return authoring_tools(author)


def _bound(tool: Tool, author: Author, run: _Run) -> Tool:
    runs = BuiltIn(name=tool.name, session=author, run=lambda call: run(author, call))
    return replace(tool, runs=runs)


def _define(author: Author, call: ToolCall) -> ToolAnswer:
    request = read_request(call.arguments)
    defined = author.define(request)
    takes = ", ".join(request.parameters) or "nothing"
    where = f"; saved as {defined.home}" if defined.home else ""
    return ToolAnswer(
        text=f"defined {defined.tool.name}, which takes {takes}{where}",
        structured={
            "name": defined.tool.name,
            "id": defined.tool.id,
            "language": request.language,
            "persistent": request.persistent,
            "path": str(defined.home) if defined.home else None,
        },
    )


def _remove(author: Author, call: ToolCall) -> ToolAnswer:
    name = call.arguments["name"]
    aside = author.remove(name)
    where = f"; it was moved to {aside}" if aside else ""
    return ToolAnswer(
        text=f"removed {name}{where}",
        structured={"name": name, "path": str(aside) if aside else None},
    )
