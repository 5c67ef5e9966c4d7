"""Folders of agent skills become tools: found, typed, checked, confined, recorded."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kitbag.errors import KitbagError
    from kitbag.executor import ToolExecutor
    from kitbag.functions import tool
    from kitbag.limits import Limits
    from kitbag.manager import SkillManager
    from kitbag.policy.policy import Policy
    from kitbag.registry import ToolRegistry
    from kitbag.results import ToolResult
    from kitbag.sessions.manager import SessionManager
    from kitbag.shell.limits import ExecutionLimits
    from kitbag.shell.scripted_tool import ScriptedTool
    from kitbag.shell.tool_def import ToolArgs, ToolCallback, ToolDef
    from kitbag.skills import Skill
    from kitbag.tools import Tool

__version__ = "0.1.0.dev0"
__all__ = [
    "ExecutionLimits",
    "KitbagError",
    "Limits",
    "Policy",
    "ScriptedTool",
    "SessionManager",
    "Skill",
    "SkillManager",
    "Tool",
    "ToolArgs",
    "ToolCallback",
    "ToolDef",
    "ToolExecutor",
    "ToolRegistry",
    "ToolResult",
    "tool",
]

_HOMES = {
    "ExecutionLimits": "kitbag.shell.limits",
    "KitbagError": "kitbag.errors",
    "Limits": "kitbag.limits",
    "Policy": "kitbag.policy.policy",
    "ScriptedTool": "kitbag.shell.scripted_tool",
    "SessionManager": "kitbag.sessions.manager",
    "Skill": "kitbag.skills",
    "SkillManager": "kitbag.manager",
    "Tool": "kitbag.tools",
    "ToolArgs": "kitbag.shell.tool_def",
    "ToolCallback": "kitbag.shell.tool_def",
    "ToolDef": "kitbag.shell.tool_def",
    "ToolExecutor": "kitbag.executor",
    "ToolRegistry": "kitbag.registry",
    "ToolResult": "kitbag.results",
    "tool": "kitbag.functions",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import kitbag` costs nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'kitbag' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
