"""Finds reasons that refuse every call of a tool, whatever its arguments, for `Tool.ready`."""

import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.environment import POLICY_FILE, PROJECT_FILE, config_directory
from skillpouch.errors import SkillpouchError
from skillpouch.limits import Sandbox
from skillpouch.needs import Need
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.policy.policy import Policy
    from skillpouch.policy.rules import Request
    from skillpouch.trust.grant import Grant
    from skillpouch.trust.grants import Grants

# Effects that the default policy asks about.
_ASKED_ABOUT = frozenset(("destructive", "network"))


class Refusals:
    """Finds why tools would be refused, for the calls of one manager.

    Thousands of tools may be checked at once, and most of them need nothing: without rules,
    neither the policy nor grants are loaded for those. If there is an approver (`asks`), only a
    denial refuses a call. Rules about arguments refuse some calls, not the tool.
    """

    def __init__(
        self,
        policy: "Policy | None" = None,
        *,
        grants: "Grants | None" = None,
        asks: bool = False,
        sandbox: Sandbox = "on",
        workspace: Path | None = None,
    ) -> None:
        self._given = policy
        self._given_grants = grants
        self._asks = asks
        self._confined = sandbox != "off"
        self._workspace = workspace

    def of_skill(self, tools: Iterable[Tool]) -> dict[str, list[str]]:
        """Return id → reasons for the tools of a skill that would be refused."""
        suspected = [tool for tool in tools if self._has_rules or _is_suspect(tool)]
        if not suspected:
            return {}
        try:
            grant = self._grants.find(suspected[0].skill, suspected[0].place)
            found = {tool.id: self._reasons(tool, grant) for tool in suspected}
        except (
            SkillpouchError
        ) as error:  # a policy or grants that cannot be believed refuse all calls
            return {tool.id: [str(error)] for tool in suspected}
        return {name: reasons for name, reasons in found.items() if reasons}

    @cached_property
    def _has_rules(self) -> bool:
        """Whether there may be rules other than the default ones."""
        config = config_directory()
        named = self._given is not None or not self._confined
        is_users = config is not None and os.path.lexists(config / POLICY_FILE)
        return named or is_users or os.path.lexists(PROJECT_FILE)

    @cached_property
    def _policy(self) -> "Policy":
        # Imported here and below: loading the policy takes longer than listing skills.
        from skillpouch.policy.loading import load_policy

        return (self._given or load_policy(Path.cwd())).for_any_arguments()

    @cached_property
    def _grants(self) -> "Grants":
        from skillpouch.trust.grants import Grants

        return self._given_grants or Grants()

    def _reasons(self, tool: Tool, grant: "Grant | None") -> list[str]:
        if not self._has_rules and not _ASKED_ABOUT.intersection(tool.effects):
            return [*_restriction(tool), *(() if self._asks else _ungranted(tool, grant))]
        restriction = _restriction(tool) if self._policy.allowed_tools == "enforce" else []
        return [*restriction, *self._decided(tool, grant)]

    def _decided(self, tool: Tool, grant: "Grant | None") -> list[str]:
        from skillpouch.policy.rules import reason_for

        request = self._request(tool, grant)
        decision = self._policy.decide(request)
        said_yes = grant is not None and tool.id in grant.tools and not request.needs
        refused = decision.verdict == "deny" or not (self._asks or said_yes)
        if decision.verdict == "allow" or not refused:
            return []
        lacking = {reason_for(need): _is_not_granted(need) for need in request.needs}
        return [lacking.get(reason, reason) for reason in decision.reasons]

    def _request(self, tool: Tool, grant: "Grant | None") -> "Request":
        from skillpouch.policy.rules import Request
        from skillpouch.trust.call_needs import CallNeeds
        from skillpouch.trust.grant import missing, real_path

        said = () if self._confined else (Need(kind="unconfined"),)
        workspace = str(self._workspace or Path.cwd()) if self._policy.minds_places else ""
        return Request(
            tool=tool.id,
            skill=tool.skill,
            confined=self._confined,
            first_use=grant is None,
            effects=tool.effects,
            needs=missing(tool.asks, grant),
            granted=(*(CallNeeds().granted(tool, "", grant) if grant else ()), *said),
            name=tool.name,
            home=real_path(tool.place) if workspace else "",
            workspace=real_path(workspace) if workspace else "",
        )


def _is_suspect(tool: Tool) -> bool:
    """Tell whether the default policy might refuse a tool."""
    is_free = not tool.asks and tool.allowed_tools is None
    return not is_free or not _ASKED_ABOUT.isdisjoint(tool.effects)


def _restriction(tool: Tool) -> list[str]:
    if tool.allowed_tools is None:
        return []
    return [f"`allowed-tools` of {tool.skill} leaves out Bash, so its scripts do not run"]


def _ungranted(tool: Tool, grant: "Grant | None") -> list[str]:
    from skillpouch.trust.grant import missing

    return [_is_not_granted(need) for need in missing(tool.asks, grant)]


def _is_not_granted(need: Need) -> str:
    from skillpouch.trust.errors import describe

    return f"{describe(need)} is not granted"
