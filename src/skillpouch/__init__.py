"""Turns folders of agent skills into typed tools that run confined and are recorded."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillpouch.controls import Controls
    from skillpouch.errors import SkillpouchError
    from skillpouch.executor import ToolExecutor
    from skillpouch.functions import tool
    from skillpouch.limits import Limits
    from skillpouch.manager import SkillManager
    from skillpouch.policy.policy import Policy
    from skillpouch.registry.registry import ToolRegistry
    from skillpouch.results import ToolResult
    from skillpouch.sessions.manager import SessionManager
    from skillpouch.shell.limits import ExecutionLimits
    from skillpouch.shell.scripted_tool import ScriptedTool
    from skillpouch.shell.toolbox import ToolArgs, ToolCallback, ToolDef
    from skillpouch.skills import Skill
    from skillpouch.tools import Tool

__version__ = "0.1.0.dev0"
__all__ = [
    "Controls",
    "ExecutionLimits",
    "Limits",
    "Policy",
    "ScriptedTool",
    "SessionManager",
    "Skill",
    "SkillManager",
    "SkillpouchError",
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
    "Controls": "skillpouch.controls",
    "ExecutionLimits": "skillpouch.shell.limits",
    "SkillpouchError": "skillpouch.errors",
    "Limits": "skillpouch.limits",
    "Policy": "skillpouch.policy.policy",
    "ScriptedTool": "skillpouch.shell.scripted_tool",
    "SessionManager": "skillpouch.sessions.manager",
    "Skill": "skillpouch.skills",
    "SkillManager": "skillpouch.manager",
    "Tool": "skillpouch.tools",
    "ToolArgs": "skillpouch.shell.toolbox",
    "ToolCallback": "skillpouch.shell.toolbox",
    "ToolDef": "skillpouch.shell.toolbox",
    "ToolExecutor": "skillpouch.executor",
    "ToolRegistry": "skillpouch.registry.registry",
    "ToolResult": "skillpouch.results",
    "tool": "skillpouch.functions",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import skillpouch` costs nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'skillpouch' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
