"""Adds notes to the result of a failed call: what it tried to use and was not granted."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from skillpouch.calls import ToolCall
from skillpouch.needs import Need
from skillpouch.policy.authorize import Permit
from skillpouch.results import ToolResult
from skillpouch.tools import Binary, InlineScript, Script
from skillpouch.trust.call_needs import skill_of
from skillpouch.trust.errors import trust_command
from skillpouch.trust.grant import covers_package
from skillpouch.trust.requested import kind_of, needs_no_grant
from skillpouch.trust.requested_packages import package_asks

# Messages of programs without a network: a name is not found, or there is no route to it.
_NO_NETWORK = re.compile(
    r"Name or service not known|resolve host|name resolution|[Nn]etwork is unreachable"
    r"|EAI_AGAIN|ENOTFOUND|getaddrinfo"
)
_NAME = r"([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)"
_WANTED = re.compile(
    rf"(?:resolve host:? '?|EAI_AGAIN |ENOTFOUND |host='|https?://(?:[^\s/@]*@)?){_NAME}"
)
_MOST_HOSTS = 5
_NO_MODULE = re.compile(r"No module named '|Cannot find (?:package|module) '")


def with_notes(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str] = ()
) -> ToolResult:
    """Add the commands that would grant what a script may have lacked.

    A host that the proxy refused is reported even if the call succeeded: a script may continue
    without what it could not fetch, and nobody would know.
    """
    notes = _refused(result, call, roots)
    if result.outcome == "failed":
        notes = notes or _network(result, call, permit, roots)
    if result.outcome == "failed" and isinstance(call.tool.runs, Script):
        notes += [*_variables(call, permit, roots), *_packages(result, call, permit, roots)]
    if not notes:
        return result
    return replace(result, content="\n".join(filter(None, [result.content, *notes])))


def _refused(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
    if not result.refused_hosts:
        return []
    needs = [Need(kind="host", value=host) for host in result.refused_hosts]
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it was not allowed to reach {', '.join(result.refused_hosts)}"
    return [f"{said}; the user can grant it: `{command}`"]


def _network(result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    """Name the hosts that the call wanted, if its output or its arguments contain them."""
    said = f"{result.stdout}\n{result.stderr}"
    runs_here = isinstance(call.tool.runs, Script | InlineScript | Binary)
    if not runs_here or call.is_unconfined or permit.access.hosts or not _NO_NETWORK.search(said):
        return []
    found = _WANTED.findall(said) or _WANTED.findall(json.dumps(call.arguments, default=str))
    hosts = list(dict.fromkeys(name.lower() for name in found))[:_MOST_HOSTS]
    needs = [Need(kind="host", value=host) for host in hosts or ["HOST"]]
    command = trust_command(call.tool.skill, needs, roots=roots)
    wanted = ", ".join(hosts) or "a host that it does not name"
    return [f"note: it wanted {wanted}, and was not granted any network: `{command}`"]


def _variables(call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    given = permit.access.variables
    wanted = [n for n in call.tool.variables if n not in given and not needs_no_grant(n)]
    if not wanted:
        return []
    needs = [Need(kind=kind_of(name), value=name) for name in wanted]
    verb = "was" if len(wanted) == 1 else "were"
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it reads {', '.join(wanted)}, which {verb} not granted to it"
    return [f"{said}; the user can grant it: `{command}`"]


def _packages(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    if not _NO_MODULE.search(result.stderr):
        return []
    skill = skill_of(call.tool)
    asked = package_asks(skill, [call.tool]) if skill else ()
    given = permit.access.packages
    lacking = [n for n in asked if not any(covers_package(each, n.value) for each in given)]
    if not lacking:
        return []
    command = trust_command(call.tool.skill, lacking, roots=roots)
    names = ", ".join(need.value for need in lacking)
    said = f"note: it imports packages that no file declares ({names})"
    return [f"{said}; the user can grant it: `{command}`"]
