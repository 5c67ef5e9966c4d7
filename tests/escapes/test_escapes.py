import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.escapes.attacks import (
    EVERYTHING,
    LAYERED,
    LISTENING,
    METADATA,
    OWN_FOLDER,
    PRIVILEGES,
)

SaidIn = Callable[[str], dict[str, Any]]

pytestmark = [pytest.mark.slow, pytest.mark.escape, pytest.mark.timeout(120)]

COLD = ("full", "user", "no-landlock", "no-users", "user-masked")
WARM = tuple(f"{tier}+warm" for tier in COLD)
OVERLAID = tuple(f"{tier}+layered" for tier in (*COLD, *WARM))
WITH_MOUNTS = (*COLD, *WARM, *OVERLAID)
WITHOUT_NAMESPACES = ("container", "user-container")
TIERS = (*WITH_MOUNTS, *WITHOUT_NAMESPACES)
# Every way to confine once: by mounts, in a process that was forked, and without namespaces.
MAIN = ("full", "full+warm", "full+layered", "container", "full+own", "user+own", "container+own")
OWN = tuple(f"{tier}+own" for tier in (*COLD, *(f"{tier}+layered" for tier in COLD)))


def every(attempts: dict[str, tuple[str, str]], tiers: tuple[str, ...]) -> list[Any]:
    return [
        pytest.param(
            tier,
            name,
            marks=[pytest.mark.promise(promise), *on(tier)],
            id=f"{tier}: {name}",
        )
        for tier in tiers
        for name, (promise, _) in attempts.items()
    ]


def on(tier: str) -> list[pytest.MarkDecorator]:
    return [] if tier in MAIN else [pytest.mark.exhaustive]


def each(tiers: tuple[str, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("tier", [pytest.param(tier, marks=on(tier)) for tier in tiers])


SOMEWHERE = {**METADATA, **LISTENING}
ON_EVERY_TIER = {name: what for name, what in EVERYTHING.items() if name not in SOMEWHERE}


@pytest.mark.parametrize(("tier", "name"), every(ON_EVERY_TIER, TIERS))
def test_an_attempt_to_get_out_fails(said_in: SaidIn, tier: str, name: str) -> None:
    assert said_in(tier)[name].startswith("denied ")


@pytest.mark.parametrize(("tier", "name"), every(METADATA, WITH_MOUNTS))
def test_the_metadata_of_files_outside_cannot_be_changed_where_mounts_are_ours(
    said_in: SaidIn, tier: str, name: str
) -> None:
    assert said_in(tier)[name].startswith("denied ")


@pytest.mark.parametrize(("tier", "name"), every(LAYERED, OVERLAID))
def test_an_attempt_to_reach_a_layer_or_what_is_below_it_fails(
    said_in: SaidIn, tier: str, name: str
) -> None:
    assert said_in(tier)[name].startswith("denied ")


@each(OVERLAID)
@pytest.mark.promise("layer-1")
def test_a_layered_tier_was_really_layered(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier)["protections"]["writes"] == "overlay"


@pytest.mark.parametrize(("tier", "name"), every(OWN_FOLDER, OWN))
def test_an_attempt_to_change_a_skill_that_may_write_its_own_folder_fails(
    said_in: SaidIn, tier: str, name: str
) -> None:
    assert said_in(tier)[name].startswith("denied ")


@each(OWN)
@pytest.mark.promise("own-1")
def test_no_byte_of_a_skill_that_may_write_its_own_folder_changes(
    said_in: SaidIn, tier: str
) -> None:
    said = said_in(tier)

    assert said["is_unchanged"]
    assert "own-folder" in said["protections"]["profiles"].split("+")


@each(tuple(f"{tier}+own" for tier in WITHOUT_NAMESPACES))
@pytest.mark.promise("own-4")
def test_without_mounts_no_call_writes_its_own_folder(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier) == {"refused": ["own-folder"]}


@pytest.mark.parametrize(("tier", "name"), every(LISTENING, WITHOUT_NAMESPACES))
def test_a_tool_without_a_network_of_its_own_does_not_listen(
    said_in: SaidIn, tier: str, name: str
) -> None:
    assert said_in(tier)[name].startswith("denied ")


@pytest.mark.parametrize("name", LISTENING)
@each(WITH_MOUNTS)
@pytest.mark.promise("loop-1")
def test_a_tool_listens_on_loopback_of_its_own_network(
    said_in: SaidIn, tier: str, name: str
) -> None:
    assert said_in(tier)[name] == "ESCAPED"  # as far as its own loopback, which nobody else has


@each(WITH_MOUNTS)
@pytest.mark.promise("fs-3")
def test_the_devices_of_the_machine_are_as_they_were(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier)["devices"] == []


@each(TIERS)
@pytest.mark.promise("proc-9")
def test_a_call_into_the_kernel_is_refused_and_not_merely_wrong(said_in: SaidIn, tier: str) -> None:
    refused = {name: said_in(tier)[name] for name, (to, _) in PRIVILEGES.items() if to == "proc-9"}
    allowed = {"denied PermissionError"}

    del refused["make a user namespace by clone3"]  # ENOSYS, so that libraries fall back
    del refused["enter the namespaces of another"]  # not even in sight
    assert set(refused.values()) == allowed


@each(TIERS)
@pytest.mark.promise("net-1")
def test_nothing_outside_was_reached_as_seen_from_outside(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier)["reached"] == []


@each(TIERS)
@pytest.mark.promise("proc-1")
@pytest.mark.promise("proc-2")
def test_daemons_that_hop_are_dead_when_the_call_returns(said_in: SaidIn, tier: str) -> None:
    at_the_end: dict[str, Any] = {"outcome": "ok", "code": None, "said": "left", "alive": []}
    at_the_timeout: dict[str, Any] = {
        "outcome": "timed_out",
        "code": "timeout",
        "said": "",
        "alive": [],
    }

    assert said_in(tier)["daemon at the end"] == at_the_end
    assert said_in(tier)["daemon at the timeout"] == at_the_timeout


@each(TIERS)
@pytest.mark.promise("limit-3")
def test_two_gigabytes_are_not_to_be_had(said_in: SaidIn, tier: str) -> None:
    ended = said_in(tier)["allocation"]

    assert ended == {"outcome": "failed", "code": None, "said": "", "alive": []}


@each(TIERS)
@pytest.mark.promise("limit-5")
def test_a_file_cannot_grow_without_end(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier)["large file"]["said"] == ""


@each(TIERS)
@pytest.mark.promise("limit-2")
def test_endless_output_ends(said_in: SaidIn, tier: str) -> None:
    ended = said_in(tier)["endless output"]

    assert (ended["outcome"], ended["code"], ended["alive"]) == ("killed", "output_limit", [])


@each(WITH_MOUNTS)
@pytest.mark.promise("limit-4")
def test_a_fork_bomb_stays_below_its_limit(said_in: SaidIn, tier: str) -> None:
    ended = said_in(tier)["fork bomb"]

    counted_by = said_in(tier)["protections"]["processes"]
    assert counted_by == ("rlimit_nproc" if tier.startswith("user-masked") else "pid_max")
    assert (ended["outcome"], ended["alive"]) == ("ok", [])
    assert 100 < int(ended["said"]) < 128


@each(WITHOUT_NAMESPACES)
def test_where_processes_are_not_limited_the_result_says_so(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier)["protections"]["processes"] == "none"
    assert said_in(tier)["fork bomb"]["alive"] == []


@each(WITH_MOUNTS)
def test_a_tool_has_terminals_of_its_own(said_in: SaidIn, tier: str) -> None:
    assert said_in(tier)["terminal"] == "/dev/pts/0 True ['0', 'ptmx']"


@each(WARM)
@pytest.mark.promise("warm-1")
def test_every_attempt_of_a_warm_tier_was_really_forked(said_in: SaidIn, tier: str) -> None:
    assert {tuple(path) for path in said_in(tier)["paths"]} == {(True, "")}


def test_each_tier_names_what_protected_it(said_in: SaidIn) -> None:
    full = said_in("full")["protections"]
    container = said_in("container")["protections"]

    assert full["fs"].startswith("romount+landlock")
    assert (full["net"], full["tree"]) == ("netns+seccomp", "pidns")
    assert container["fs"].startswith("landlock")
    assert (container["net"], container["tree"]) == ("seccomp", "subreaper")


@pytest.mark.exhaustive
def test_a_tier_without_landlock_names_what_is_left(said_in: SaidIn) -> None:
    assert said_in("no-landlock")["protections"]["fs"] == "romount"


@pytest.mark.promise("fs-4")
def test_with_nothing_to_protect_files_nothing_runs(said_in: SaidIn) -> None:
    assert said_in("old-container") == {"refused": ["fs"]}


@each(TIERS)
@pytest.mark.promise("proc-8")
def test_a_host_killed_outright_leaves_nothing_running(hosts: Any, tier: str) -> None:
    host = hosts.start(tier, "hang")
    assert host.stdout.read(5) == b"ready"
    assert hosts.alive() != []

    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()

    # Nobody is left to wait for them on our behalf: look until they are gone.
    while hosts.alive():
        continue
