"""What a failed call is told besides its own words: what it read and was not given."""

import re
from collections.abc import Sequence
from dataclasses import replace

from kitbag.call_needs import skill_of
from kitbag.calls import ToolCall
from kitbag.needs import Need
from kitbag.permit import Permit
from kitbag.results import ToolResult
from kitbag.tools import Script
from kitbag.trust.asks import needs_no_grant
from kitbag.trust.errors import trust_command
from kitbag.trust.package_asks import package_asks
from kitbag.trust.packages import covers_package

_NO_MODULE = re.compile(r"No module named '|Cannot find (?:package|module) '")


def with_notes(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str] = ()
) -> ToolResult:
    """Add the commands that would give a failed script what it may have lacked."""
    if result.outcome != "failed" or not isinstance(call.tool.runs, Script):
        return result
    notes = [*_variables(call, permit, roots), *_packages(result, call, permit, roots)]
    return replace(result, content="\n".join([result.content, *notes])) if notes else result


def _variables(call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    given = permit.given.secrets
    wanted = [n for n in call.tool.variables if n not in given and not needs_no_grant(n)]
    if not wanted:
        return []
    needs = [Need(kind="secret", value=name) for name in wanted]
    verb = "was" if len(wanted) == 1 else "were"
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it reads {', '.join(wanted)}, which {verb} not given to it"
    return [f"{said}; the user can grant it: `{command}`"]


def _packages(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    if not _NO_MODULE.search(result.stderr):
        return []
    skill = skill_of(call.tool)
    asked = package_asks(skill, [call.tool]) if skill else ()
    given = permit.given.packages
    lacking = [n for n in asked if not any(covers_package(each, n.value) for each in given)]
    if not lacking:
        return []
    command = trust_command(call.tool.skill, lacking, roots=roots)
    names = ", ".join(need.value for need in lacking)
    said = f"note: it imports what no file declares ({names})"
    return [f"{said}; the user can grant it: `{command}`"]
