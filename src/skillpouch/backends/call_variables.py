"""What every program that runs for a skill finds in its environment about its call."""

from pathlib import Path

from skillpouch.backends.conventions import Delivery, variables
from skillpouch.calls import ToolCall


def call_variables(call: ToolCall, delivery: Delivery, file: Path | None) -> dict[str, str]:
    """Return the arguments, where the skill is and where to work; `file` holds large arguments."""
    return given_variables(call, delivery, file) | skill_variables(call)


def given_variables(call: ToolCall, delivery: Delivery, file: Path | None) -> dict[str, str]:
    """Return those that are another call's otherwise: its arguments."""
    found = variables(delivery, call.arguments)
    return found if file is None else found | {"TOOL_ARGS_FILE": str(file)}


def skill_variables(call: ToolCall) -> dict[str, str]:
    """Return those that are the same for every call of a skill in a workspace."""
    tool = call.tool
    return {
        "SKILL_NAME": tool.skill,
        "SKILL_BASE_DIR": tool.home,
        "SKILL_VERSION": tool.version.replace("\0", ""),
        "SKILLPOUCH_WORKDIR": str(call.terms.workspace),
    }
