"""Which skills an agent is told of: all but those whose authors keep them for people."""

from collections.abc import Mapping

from skillpouch.skills import Skill

_KEY = "disable-model-invocation"


def is_offered(skill: Skill) -> bool:
    """Tell whether an agent may pick the skill by itself; a person can use it all the same."""
    value = skill.metadata.frontmatter.get(_KEY)
    return not (value is True or str(value).strip().lower() in ("true", "yes", "on"))


def offered_skill(skills: Mapping[str, Skill], name: str) -> Skill:
    """Return a skill that an agent was told of; it may have gone since, or be kept for people."""
    skill = skills.get(name)
    if skill is None or not is_offered(skill):
        # Here, as finding skills does not load what answers about them.
        from skillpouch.errors import ToolFaultError

        hint = "`search_tools` finds what there is now"
        raise ToolFaultError("not_found", f"there is no skill {name!r} any more", hint=hint)
    return skill
