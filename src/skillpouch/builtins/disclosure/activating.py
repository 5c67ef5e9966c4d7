"""`activate_skill`: the instructions of one skill, its files, and which tools it has."""

from dataclasses import replace
from typing import TYPE_CHECKING

from skillpouch.builtins.disclosure.activation import activate
from skillpouch.builtins.disclosure.marking import element, marked
from skillpouch.builtins.disclosure.offered import offered_skill
from skillpouch.builtins.workspace.answer import Answer
from skillpouch.calls import ToolCall
from skillpouch.errors import SkillUnreadableError, ToolFaultError
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.builtins.disclosure.tools import Skills


def activate_one(call: ToolCall, found: "Skills") -> Answer:
    """Return what `SkillManager.invoke_skill` does, marked, with the tools of the skill."""
    # A copy: what was read for somebody before is read again.
    skill = replace(offered_skill(found.skills, call.arguments["name"]))
    try:
        instructions = activate(skill, call.arguments.get("arguments", ""))
    except SkillUnreadableError as error:
        raise ToolFaultError("not_found", str(error), hint=error.advice) from None
    tools = found.tools_of([skill])
    listed = "\n".join(_line(tool) for tool in tools)
    text = marked("skill_content", instructions, name=skill.name)
    return Answer(
        text="\n".join([text, f"<skill_tools>\n{listed}\n</skill_tools>"]) if tools else text,
        structured={
            "skill": skill.name,
            "instructions": instructions,
            "tools": [tool.name for tool in tools],
        },
    )


def _line(tool: Tool) -> str:
    missing = {} if tool.ready else {"not_ready": ", ".join(tool.missing)}
    return element("tool", tool.description, name=tool.name, **missing)
