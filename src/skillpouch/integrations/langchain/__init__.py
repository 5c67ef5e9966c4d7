"""Skills in LangChain: tools for any agent, and middleware for `create_agent`."""

from typing import TYPE_CHECKING, Any

from skillpouch.runtime.extras import require_extra

require_extra("langchain")

from skillpouch.integrations.langchain.create_tools import (  # noqa: E402 - comes first
    create_langchain_tools,
    get_skill_tools,
)
from skillpouch.integrations.langchain.tool import (  # noqa: E402 - the check
    RawJsonInput,
    SkillInput,
    SkillpouchTool,
)

if TYPE_CHECKING:
    from skillpouch.integrations.langchain.middleware import SkillpouchMiddleware

__all__ = [
    "RawJsonInput",
    "SkillInput",
    "SkillpouchMiddleware",
    "SkillpouchTool",
    "create_langchain_tools",
    "get_skill_tools",
]


def __getattr__(name: str) -> Any:
    """Import the middleware when it is used: it needs all of LangChain, the tools do not."""
    if name != "SkillpouchMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("langchain-agents")
    from skillpouch.integrations.langchain.middleware import SkillpouchMiddleware

    return SkillpouchMiddleware
