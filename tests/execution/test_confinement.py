from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch.errors import SandboxUnavailableError
from skillpouch.execution.confinement import Confinement, Plan, plan
from skillpouch.execution.machine import Machine, read_report
from skillpouch.limits import Limits
from skillpouch.net.hosts import HostError

FULL = Machine(
    landlock=7,
    seccomp=True,
    memory=True,
    namespaces=True,
    user_namespace=True,
    own_proc=True,
    pid_limit=True,
    adoption=True,
)
CONTAINER = Machine(landlock=7, seccomp=True, memory=True, adoption=True)
WORK = Confinement(workspace=Path("/workspace"))


def test_a_full_machine_uses_every_layer() -> None:
    chosen = plan(WORK, FULL)

    assert dict(chosen.protections) == {
        "fs": "romount+landlock7",
        "net": "netns+seccomp",
        "tree": "pidns",
        "signals": "pidns+landlock7",
        "memory": "rlimit_data",
        "processes": "pid_max",
        "syscalls": "seccomp",
        "temp": "private",
        "profiles": "loopback",
        "writes": "direct",
    }
    assert (chosen.namespaces, chosen.user, chosen.landlock, chosen.seccomp) == (
        True,
        True,
        7,
        True,
    )


def test_a_container_is_left_with_landlock_seccomp_and_adoption() -> None:
    assert dict(plan(WORK, CONTAINER).protections) == {
        "fs": "landlock7",
        "net": "seccomp",
        "tree": "subreaper",
        "signals": "landlock7",
        "memory": "rlimit_data",
        "processes": "none",
        "syscalls": "seccomp",
        "temp": "folder",
        "profiles": "none",
        "writes": "direct",
    }


def test_paths_carry_the_right_they_were_named_for() -> None:
    confinement = Confinement(
        workspace=Path("/workspace"),
        skill=Path("/workspace/skills/greet"),
        interpreters=(Path("/opt/python"),),
        readable=(Path("/data"), Path("/out")),
        writable=(Path("/out"),),
    )

    paths = plan(confinement, FULL).paths

    named = [entry for entry in paths if entry[2]]
    assert named == [
        ("/data", "read", True),
        ("/opt/python", "run", True),
        ("/out", "write", True),
        ("/workspace", "write", True),
        ("/workspace/skills/greet", "run", True),
    ]
    assert ("/dev/null", "device", False) in paths
    assert not [path for path, _, _ in paths if path in {"/", "/etc", "/root", "/home", "/tmp"}]


@pytest.mark.parametrize(
    ("machine", "missing"),
    [
        (Machine(), ("fs", "net")),
        (replace(CONTAINER, landlock=0), ("fs",)),
        (replace(CONTAINER, landlock=2), ("fs",)),
        (replace(CONTAINER, seccomp=False), ("net",)),
    ],
)
@pytest.mark.promise("fs-4")
@pytest.mark.promise("net-4")
def test_without_protection_of_files_or_network_nothing_runs(
    machine: Machine, missing: tuple[str, ...]
) -> None:
    with pytest.raises(SandboxUnavailableError) as caught:
        plan(WORK, machine)

    assert caught.value.missing == missing
    assert dict(plan(replace(WORK, sandbox="off"), machine).protections)["fs"] == "none"


def test_a_required_layer_must_be_there() -> None:
    strict = replace(WORK, required=frozenset({"processes", "tree"}))

    assert plan(strict, FULL).pid_limit
    with pytest.raises(SandboxUnavailableError, match="processes"):
        plan(strict, CONTAINER)


def test_a_granted_network_needs_no_protection_and_has_none() -> None:
    open_ = replace(WORK, network="host")

    assert dict(plan(open_, FULL).protections)["net"] == "none"
    with pytest.raises(SandboxUnavailableError, match="net"):
        plan(replace(open_, required=frozenset({"net"})), FULL)


@pytest.mark.promise("net-8")
def test_hosts_need_a_network_of_their_own() -> None:
    some = replace(WORK, network="hosts", hosts=("example.com",))

    assert dict(plan(some, FULL).protections)["net"] == "netns+seccomp+hosts"
    assert dict(plan(some, replace(FULL, seccomp=False)).protections)["net"] == "netns+hosts"
    with pytest.raises(SandboxUnavailableError, match="net"):
        plan(some, CONTAINER)
    unconfined = plan(replace(some, sandbox="off"), FULL)
    assert (dict(unconfined.protections)["net"], unconfined.proxy_port) == ("none", 0)


def test_hosts_are_part_of_the_plan_in_one_spelling() -> None:
    def granted(*hosts: str) -> Plan:
        return plan(replace(WORK, network="hosts", hosts=hosts), FULL)

    assert granted("B.com", "a.com.") == granted("a.com", "b.com", "b.com")
    assert granted("a.com") != granted("a.com", "b.com")
    assert granted("a.com") != granted("a.com:443")
    assert granted() != plan(WORK, FULL)
    assert "hosts" not in granted("a.com").fields(())


def test_hosts_that_are_none_or_are_not_asked_for_are_errors() -> None:
    with pytest.raises(HostError):
        replace(WORK, network="hosts", hosts=("127.1",))
    with pytest.raises(ValueError, match="hosts are named"):
        replace(WORK, hosts=("example.com",))


def test_plans_that_hold_alike_are_equal_and_others_are_not() -> None:
    assert plan(WORK, FULL) == plan(replace(WORK), FULL)
    assert hash(plan(WORK, FULL)) == hash(plan(replace(WORK), FULL))
    assert plan(WORK, FULL) != plan(replace(WORK, workspace=Path("/other")), FULL)
    assert plan(WORK, FULL) != plan(replace(WORK, network="host"), FULL)


def test_processes_are_counted_per_user_only_where_that_is_ours_to_do() -> None:
    old_kernel = replace(FULL, pid_limit=False)
    limits = Limits(processes=9)

    def counted(machine: Machine) -> int | None:
        return dict(plan(WORK, machine).limit_fields(limits))["user_processes"]

    assert counted(old_kernel) == 9
    assert counted(replace(old_kernel, root=True)) is None
    assert counted(FULL) is None
    assert counted(CONTAINER) is None


def test_the_root_folder_is_no_workspace() -> None:
    with pytest.raises(ValueError, match="workspace"):
        Confinement(workspace=Path("/"))
    with pytest.raises(ValueError, match="not absolute"):
        Confinement(workspace=Path("/workspace"), readable=(Path("data"),))


def test_a_report_becomes_a_machine_with_reasons() -> None:
    report = "landlock 7\nseccomp 1\nmemory 1\nuser_namespaces 0 not permitted\nadoption 1"

    assert read_report(report, root=False) == replace(
        CONTAINER, reasons=(("user_namespaces", "not permitted"),)
    )
    assert read_report("user_namespaces 7\nlandlock 7", root=True).pid_limit
    assert read_report("", root=False) == Machine()
