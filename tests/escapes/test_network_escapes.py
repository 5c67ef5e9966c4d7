"""Every attempt to get out again, by tools that were granted a host, or a profile."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.escapes.attacks import EVERYTHING, LISTENING, LOCAL_SOCKETS, PROXIED

SaidIn = Callable[[str], dict[str, Any]]

pytestmark = [pytest.mark.slow, pytest.mark.escape, pytest.mark.timeout(120)]

TIERS = (
    *("full+hosts", "user+hosts", "no-landlock+hosts", "no-users+hosts", "user-masked+hosts"),
    *("full+warm+hosts", "user+warm+hosts", "no-users+warm+hosts"),
)


# The others have the same proxy, which knows nothing of tiers.
MAIN = ("full+hosts", "full+local", "full+warm+local")
LOCAL = (
    *("full+local", "full+warm+local", "user+local", "user+warm+local", "no-users+local"),
    *("no-landlock+local", "no-landlock+warm+local"),
    *("full+local+hosts", "full+warm+local+hosts"),
)


def on(tier: str) -> list[pytest.MarkDecorator]:
    return [] if tier in MAIN else [pytest.mark.exhaustive]


def every(attempts: dict[str, tuple[str, str]], tiers: tuple[str, ...] = TIERS) -> list[Any]:
    return [
        pytest.param(
            tier,
            name,
            marks=[pytest.mark.promise(promise), *on(tier)],
            id=f"{tier}: {name}",
        )
        for tier in tiers
        for name, (promise, _) in attempts.items()
        if name not in LISTENING
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


@pytest.mark.parametrize(("tier", "name"), every({**EVERYTHING, **LOCAL_SOCKETS}, LOCAL))
def test_an_attempt_to_get_out_with_local_sockets_fails(
    said_in: SaidIn, tier: str, name: str
) -> None:
    assert said_in(tier)[name].startswith("denied ")


@pytest.mark.parametrize("tier", [pytest.param(tier, marks=on(tier)) for tier in LOCAL])
@pytest.mark.promise("local-1")
def test_no_socket_of_others_was_reached_as_seen_from_outside(said_in: SaidIn, tier: str) -> None:
    said = said_in(tier)

    assert (said["reached"], said["protections"]["profiles"]) == ([], "loopback+local-sockets")
    assert {warm for warm, _ in said["paths"]} == {"warm" in tier}


@pytest.mark.parametrize(
    "tier",
    [
        "container+local",
        *(
            pytest.param(tier, marks=pytest.mark.exhaustive)
            for tier in ("user-container+local", "user-masked+local")
        ),
    ],
)
@pytest.mark.promise("local-3")
def test_where_local_sockets_cannot_be_held_nothing_runs(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier) == {"refused": ["local-sockets"]}


OTHERS = ("full+memory", "full+warm+memory", "full+gpu", "full+warm+gpu", "user+gpu")


@pytest.mark.parametrize(("tier", "name"), every(EVERYTHING, OTHERS))
def test_an_attempt_to_get_out_with_more_memory_or_a_device_fails(
    said_in: SaidIn, tier: str, name: str
) -> None:
    assert said_in(tier)[name].startswith("denied ")


@pytest.mark.parametrize("tier", [pytest.param(tier, marks=on(tier)) for tier in OTHERS])
@pytest.mark.promise("gpu-1")
def test_memory_and_devices_open_nothing_else(said_in: SaidIn, tier: str) -> None:
    said = said_in(tier)

    opened = "loopback+gpu" if "gpu" in tier else "loopback"
    assert (said["reached"], said["protections"]["profiles"]) == ([], opened)
    assert said["allocation"] == {"outcome": "failed", "code": None, "said": "", "alive": []}
