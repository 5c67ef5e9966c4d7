"""Decides about each call before it runs: by rules, needs and an approver."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillpouch.policy.approval import Answer, Approver, Question, ask
    from skillpouch.policy.change_rules import ChangeConditions, ChangeFacts
    from skillpouch.policy.command_test import CommandTest
    from skillpouch.policy.conditions import (
        Absent,
        Condition,
        Equals,
        Glob,
        Greater,
        Less,
        Present,
        Regex,
    )
    from skillpouch.policy.limit_rules import LimitRule
    from skillpouch.policy.loading import load_policy
    from skillpouch.policy.policy import Policy
    from skillpouch.policy.rules import Decision, Example, Request, Rule
    from skillpouch.policy.terminal import terminal_approver

_HOMES = {
    "approval": ("Answer", "Approver", "Question", "ask"),
    "change_rules": ("ChangeConditions", "ChangeFacts"),
    "command_test": ("CommandTest",),
    "conditions": ("Absent", "Condition", "Equals", "Glob", "Greater", "Less", "Present", "Regex"),
    "limit_rules": ("LimitRule",),
    "loading": ("load_policy",),
    "policy": ("Policy",),
    "rules": ("Decision", "Example", "Request", "Rule"),
    "terminal": ("terminal_approver",),
}
__all__ = [
    "Absent",
    "Answer",
    "Approver",
    "ChangeConditions",
    "ChangeFacts",
    "CommandTest",
    "Condition",
    "Decision",
    "Equals",
    "Example",
    "Glob",
    "Greater",
    "Less",
    "LimitRule",
    "Policy",
    "Present",
    "Question",
    "Regex",
    "Request",
    "Rule",
    "ask",
    "load_policy",
    "terminal_approver",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: most callers need no approver and no files."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"skillpouch.policy.{module}"), name)
    raise AttributeError(f"module 'skillpouch.policy' has no attribute {name!r}")
