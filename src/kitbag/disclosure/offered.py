"""Which skills an agent is told of: all but those whose authors keep them for people."""

from kitbag.skills import Skill

_KEY = "disable-model-invocation"


def is_offered(skill: Skill) -> bool:
    """Tell whether an agent may pick the skill by itself; a person can use it all the same."""
    value = skill.metadata.frontmatter.get(_KEY)
    return not (value is True or str(value).strip().lower() in ("true", "yes", "on"))
