"""Which kind of trouble an error is on a wire: one table, by its stable code, for every server."""

from typing import Literal

from skillpouch.errors import SkillpouchError

# What a client can do about it decides: ask for something else, write other arguments, get a
# permission, repair the machine, try again, or nothing.
Fault = Literal[
    "not_found",
    "invalid",
    "unauthenticated",
    "denied",
    "not_started",
    "exists",
    "ended",
    "cancelled",
    "busy",
    "stopping",
    "internal",
]

FAULTS: dict[str, Fault] = {
    "unknown_tool": "not_found",
    "ambiguous_name": "not_found",
    "skill_not_found": "not_found",
    "unknown_session": "not_found",
    "invalid_arguments": "invalid",
    "invalid_message": "invalid",
    "time_limit": "invalid",
    "session_name": "invalid",
    "skill_name": "invalid",
    "skill_text": "invalid",
    "outside_skill": "invalid",
    "template": "invalid",
    "template_value": "invalid",
    "unauthenticated": "unauthenticated",
    "denied": "denied",
    "bash_missing": "not_started",
    "session_policy": "not_started",
    "journal_unavailable": "not_started",
    "session_exists": "exists",
    "call_id_in_use": "exists",
    "session_ended": "ended",
    "cancelled": "cancelled",
    "sandbox_failed": "not_started",
    "sandbox_unavailable": "not_started",
    "cannot_start": "not_started",
    "dependency": "not_started",
    "skill_unreadable": "not_started",
    "policy_file": "not_started",
    "server_busy": "busy",
    "server_stopping": "stopping",
}


def fault_of(error: SkillpouchError) -> Fault:
    """Return the kind of an error: its own, or that of the nearest one it is a case of."""
    for kind in type(error).__mro__:
        fault = FAULTS.get(getattr(kind, "code", ""))
        if fault is not None:
            return fault
    return "internal"


def said(error: SkillpouchError) -> str:
    """Return what a model is told: the message and, if there is one, the next step."""
    return f"{error}\nhint: {error.advice}" if error.advice else str(error)
