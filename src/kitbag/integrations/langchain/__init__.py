"""Skills in LangChain: tools for any agent, and middleware for `create_agent`."""

from typing import TYPE_CHECKING, Any

from kitbag.integrations.extras import require_extra

require_extra("langchain_core", "langchain-core", "pip install 'kitbag[langchain]'")

from kitbag.integrations.langchain.inputs import RawJsonInput, SkillInput  # noqa: E402 - the check
from kitbag.integrations.langchain.making import (  # noqa: E402 - comes first
    create_langchain_tools,
    get_skill_tools,
)
from kitbag.integrations.langchain.tool import KitbagTool  # noqa: E402

if TYPE_CHECKING:
    from kitbag.integrations.langchain.middleware import KitbagMiddleware

__all__ = [
    "KitbagMiddleware",
    "KitbagTool",
    "RawJsonInput",
    "SkillInput",
    "create_langchain_tools",
    "get_skill_tools",
]


def __getattr__(name: str) -> Any:
    """Import the middleware when it is used: it needs all of LangChain, the tools do not."""
    if name != "KitbagMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("langchain.agents", "langchain", "pip install 'kitbag[langchain-agents]'")
    from kitbag.integrations.langchain.middleware import KitbagMiddleware

    return KitbagMiddleware
