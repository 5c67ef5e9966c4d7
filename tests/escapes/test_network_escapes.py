"""Every attempt to get out again, by a tool that was granted a host and so has a proxy."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.escapes.attacks import EVERYTHING, PROXIED

SaidIn = Callable[[str], dict[str, Any]]

pytestmark = [pytest.mark.slow, pytest.mark.escape, pytest.mark.timeout(120)]

TIERS = (
    *("full+hosts", "user+hosts", "no-landlock+hosts", "no-users+hosts", "user-masked+hosts"),
    *("full+warm+hosts", "user+warm+hosts", "no-users+warm+hosts"),
)


# The others have the same proxy, which knows nothing of tiers.
MAIN = ("full+hosts",)


def on(tier: str) -> list[pytest.MarkDecorator]:
    return [] if tier in MAIN else [pytest.mark.exhaustive]


def every(attempts: dict[str, tuple[str, str]]) -> list[Any]:
    return [
        pytest.param(
            tier,
            name,
            marks=[pytest.mark.promise(promise), *on(tier)],
            id=f"{tier}: {name}",
        )
        for tier in TIERS
        for name, (promise, _) in attempts.items()
    ]


@pytest.mark.parametrize(("tier", "name"), every({**EVERYTHING, **PROXIED}))
def test_an_attempt_to_get_out_fails(said_in: SaidIn, tier: str, name: str) -> None:
    assert said_in(tier)[name].startswith("denied ")


@pytest.mark.parametrize("tier", [pytest.param(tier, marks=on(tier)) for tier in TIERS])
@pytest.mark.promise("net-5")
def test_nothing_outside_was_reached_as_seen_from_outside(said_in: SaidIn, tier: str) -> None:
    said = said_in(tier)

    assert (said["reached"], said["protections"]["net"]) == ([], "netns+seccomp+hosts")
    assert {warm for warm, _ in said["paths"]} == {"warm" in tier}


@pytest.mark.parametrize(
    "tier",
    ["container+hosts", pytest.param("user-container+hosts", marks=pytest.mark.exhaustive)],
)
@pytest.mark.promise("net-8")
def test_where_a_tool_could_go_round_its_proxy_nothing_runs(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier) == {"refused": ["net"]}
