"""`search_tools`: skills and tools found by what they do."""

from typing import TYPE_CHECKING, Any

from skillpouch.builtins.disclosure.marking import element
from skillpouch.builtins.disclosure.offered import is_offered
from skillpouch.builtins.disclosure.ranking import Ranking
from skillpouch.builtins.workspace.answer import Answer
from skillpouch.calls import ToolCall
from skillpouch.registry.names import model_schema
from skillpouch.skills import Skill
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillpouch.builtins.disclosure.tools import Skills

_NOTHING = "[nothing was found; other words may find more]"


def search(call: ToolCall, found: "Skills") -> Answer:
    """Return the skills and tools that the words are about, best first."""
    skills = [skill for skill in found.skills.values() if is_offered(skill)]
    things: list[Skill | Tool] = [*skills, *found.tools_of(skills)]
    ranking = Ranking([_searched(thing, found.skills) for thing in things])
    best = [things[place] for place in ranking.best(call.arguments["query"])]
    shown = best[: call.arguments.get("limit", 8)]
    notes = [f"[{len(shown):,} of {len(best):,}]"] if len(best) > len(shown) else []
    rows = [_line(thing) for thing in shown] or [_NOTHING]
    return Answer(
        text="\n".join([*rows, *notes]),
        structured={
            "skills": [each.name for each in shown if isinstance(each, Skill)],
            "tools": [_facts(each) for each in shown if isinstance(each, Tool)],
            "total": len(best),
        },
        truncated=len(best) > len(shown),
    )


def _searched(thing: Skill | Tool, skills: "Mapping[str, Skill]") -> dict[str, float]:
    if isinstance(thing, Skill):
        return {thing.name: 3.0, thing.description: 1.0}
    takes = " ".join(thing.input_schema.get("properties", {}))
    parts = (
        (thing.id, 3.0),
        (thing.description, 1.0),
        (takes, 0.5),
        (skills[thing.skill].description, 0.3),
    )
    return dict(reversed(parts))  # where two say the same, it counts as the first of them


def _line(thing: Skill | Tool) -> str:
    if isinstance(thing, Skill):
        return element("skill", thing.description, name=thing.name)
    takes = ", ".join(model_schema(thing.input_schema).get("properties", {}))
    missing = {} if thing.ready else {"not_ready": ", ".join(thing.missing)}
    return element(
        "tool", thing.description, name=thing.name, skill=thing.skill, takes=takes, **missing
    )


def _facts(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "id": tool.id,
        "skill": tool.skill,
        "description": tool.description,
        "input_schema": model_schema(tool.input_schema),
        "ready": tool.ready,
        "missing": list(tool.missing),
    }
