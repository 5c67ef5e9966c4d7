"""A yes that is remembered: never for a call that a rule, a secret or a folder could change."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, tool
from skillpouch.calls import Terms, ToolCall
from skillpouch.errors import CallDeniedError
from skillpouch.limits import Limits
from skillpouch.needs import Need
from skillpouch.policy import Condition, Equals, Rule
from skillpouch.policy.authorize import Authorizer, Permit
from skillpouch.policy.conditions import Absent, Present
from skillpouch.results import ToolResult
from skillpouch.tools import Hosted


@tool(effects=("read",))
def copy(source: str = "", target: str = "") -> None:
    del source, target


def call_of(workspace: Path, **arguments: Any) -> ToolCall:
    terms = Terms(workspace=workspace)
    return ToolCall(tool=copy, arguments=arguments, terms=terms, limits=Limits())


async def permit(permits: Authorizer, call: ToolCall) -> Permit:
    return permits.standing(call) or await permits.permit(call)


async def run(_: ToolCall) -> ToolResult:
    return ToolResult(tool="copy", outcome="ok")


async def test_the_permit_of_a_function_that_no_rule_is_about_is_one_for_all_its_calls(
    tmp_path: Path,
) -> None:
    permits = Authorizer(policy=Policy())

    first, second = [await permit(permits, call_of(tmp_path, source=s)) for s in ("a", "b")]

    assert first is second


@pytest.mark.parametrize(
    "conditions",
    [
        {"when": [Condition(argument="target", test=Equals("/etc"))]},
        {"when": [Condition(argument="target", test=Present())]},
        {"when": [Condition(argument="source", test=Absent())]},
        {"unless": [Condition(argument="source", test=Equals("a"))]},
    ],
)
@pytest.mark.parametrize("tools", [[], ["copy"]])
async def test_a_rule_about_arguments_refuses_also_after_other_arguments_were_allowed(
    conditions: dict[str, Any], tools: list[str], tmp_path: Path
) -> None:
    permits = Authorizer(policy=Policy(rules=[Rule(verdict="deny", tools=tools, **conditions)]))

    for _ in range(2):
        await permit(permits, call_of(tmp_path, source="a"))

        with pytest.raises(CallDeniedError):
            await permit(permits, call_of(tmp_path, target="/etc"))


async def test_a_tool_of_the_same_name_that_does_more_is_decided_by_itself(tmp_path: Path) -> None:
    permits = Authorizer(policy=Policy())
    call = call_of(tmp_path)
    await permit(permits, call)

    with pytest.raises(CallDeniedError):
        await permit(permits, replace(call, tool=replace(copy, effects=("destructive",))))


async def test_a_call_that_is_not_confined_is_given_what_it_says(tmp_path: Path) -> None:
    permits = Authorizer(policy=Policy())
    call = call_of(tmp_path)
    off = replace(call, terms=replace(call.terms, sandbox="off"))

    found = [(await permit(permits, each)).access.unconfined for each in (call, off, call, off)]

    assert found == [False, True, False, True]


async def test_a_secret_of_something_hosted_is_looked_up_for_each_call(tmp_path: Path) -> None:
    values = iter(("first value", "second value"))
    granted = (Need(kind="secret", value="K_1"),)
    hosted = replace(copy, runs=Hosted(what="a server", run=run, granted=granted))
    call = replace(call_of(tmp_path), tool=hosted)
    permits = Authorizer(policy=Policy(), secrets=lambda _, __: next(values))

    given = [(await permit(permits, call)).access.secrets for _ in range(2)]

    assert given == [{"K_1": "first value"}, {"K_1": "second value"}]
