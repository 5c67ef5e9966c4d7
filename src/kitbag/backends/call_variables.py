"""What every program that runs for a skill finds in its environment about its call."""

from pathlib import Path

from kitbag.backends.conventions import Delivery, variables
from kitbag.calls import ToolCall


def call_variables(call: ToolCall, delivery: Delivery, file: Path | None) -> dict[str, str]:
    """Return the arguments, where the skill is and where to work; `file` holds large arguments."""
    tool = call.tool
    found = variables(delivery, call.arguments) | {
        "SKILL_NAME": tool.skill,
        "SKILL_BASE_DIR": tool.home,
        "SKILL_VERSION": tool.version.replace("\0", ""),
        "KITBAG_WORKDIR": str(call.terms.workspace),
    }
    return found if file is None else found | {"TOOL_ARGS_FILE": str(file)}
