"""The filter as the kernel would run it, for both tables: a few lines of BPF machine."""

import errno
import struct

import pytest

from skillpouch.execution.zygote.seccomp import (
    AF_INET,
    AF_UNIX,
    AUDIT,
    DENIED,
    NUMBERS,
    arms,
    assemble,
)
from skillpouch.execution.zygote_client import probe

ALLOW, KILL, ERRNO, NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
MACHINES = ("x86_64", "aarch64")


def evaluate(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run the filter over one system call; return what it decides."""
    padded = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    data = struct.pack("<IIQ6Q", number, audit, 0, *padded)
    value, place = 0, 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("HBBI", program, place * 8)
        place += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
            continue
        holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
        place += if_true if holds else if_false


def decide(machine: str, name: str, *arguments: int, **options: object) -> int:
    chosen = {"network": "none", "guarded": (1,), "shared_pids": False, **options}
    program = assemble(machine, arms(**chosen))  # type: ignore[arg-type]  # as named above
    return evaluate(program, AUDIT[machine], NUMBERS[machine][name], *arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_dangerous_calls_are_refused_whatever_they_say(machine: str) -> None:
    for name in DENIED:
        if name in NUMBERS[machine]:
            assert decide(machine, name, 1, 2, 3) == ERRNO | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_made_by_family(machine: str) -> None:
    # A unix socket has an error of its own, which tells what the call lacked.
    assert decide(machine, "socket", AF_INET) == ERRNO | errno.EACCES
    assert decide(machine, "socket", AF_UNIX) == ERRNO | errno.EUNATCH
    assert decide(machine, "socket", AF_INET, network="host") == ALLOW
    assert decide(machine, "socket", AF_UNIX, network="host") == ERRNO | errno.EUNATCH
    assert decide(machine, "socket", 40, network="host") == ERRNO | errno.EACCES


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "options", [{"network": "hosts"}, {"opened": ("loopback",)}], ids=["hosts", "loopback"]
)
def test_with_hosts_or_loopback_only_streams_of_the_internet_are_made(
    machine: str, options: dict[str, object]
) -> None:
    stream, datagram, raw, flags = 1, 2, 3, 0x80800
    refused = ERRNO | errno.EACCES

    def made(*arguments: int) -> int:
        return decide(machine, "socket", *arguments, **options)

    assert {made(AF_INET, stream | extra) for extra in (0, 0x800, 0x80000, flags)} == {ALLOW}
    assert made(10, stream, 6) == ALLOW
    assert {made(AF_INET, kind) for kind in (datagram, raw, datagram | flags, 5, 0)} == {refused}
    assert {made(AF_INET, stream, protocol) for protocol in (262, 132, 1)} == {refused}
    assert {made(family, stream) for family in (16, 17, 38, 40)} == {refused}
    assert made(AF_UNIX, stream) == ERRNO | errno.EUNATCH
    assert decide(machine, "connect", 3, **options) == ALLOW
    assert decide(machine, "listen", 3, **options) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("opened", [("local-sockets",), ("loopback", "local-sockets")])
@pytest.mark.promise("local-1")
def test_with_local_sockets_connects_are_handed_over_and_no_datagrams_are_made(
    machine: str, opened: tuple[str, ...]
) -> None:
    stream, datagram, raw, packets, flags = 1, 2, 3, 5, 0x80800
    refused = ERRNO | errno.EACCES

    def made(*arguments: int) -> int:
        return decide(machine, "socket", *arguments, opened=opened)

    assert {made(AF_UNIX, kind | extra) for kind in (stream, packets) for extra in (0, flags)} == {
        ALLOW
    }
    assert {made(AF_UNIX, kind) for kind in (datagram, raw, datagram | flags, 0)} == {refused}
    assert {made(family, stream) for family in (16, 17, 38, 40)} == {refused}
    assert made(AF_INET, stream) == (ALLOW if "loopback" in opened else refused)
    assert decide(machine, "connect", 3, opened=opened) == NOTIFY
    assert decide(machine, "listen", 3, opened=opened) == NOTIFY


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.promise("net-3")
def test_socketpairs_are_connected_for_good(machine: str) -> None:
    stream, datagram, raw, packets = 1, 2, 3, 5
    flags = (0, 0x800, 0x80000, 0x80800)

    def made(kind: int) -> set[int]:
        return {decide(machine, "socketpair", AF_UNIX, kind | extra) for extra in flags}

    assert made(stream) == made(packets) == {ALLOW}
    assert made(datagram) == made(raw) == {ERRNO | errno.EACCES}
    assert decide(machine, "socketpair", 30, stream) == ERRNO | errno.EACCES


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("bit", [0o4000, 0o2000])
@pytest.mark.promise("proc-10")
def test_no_file_is_marked_setuid_or_setgid(machine: str, bit: int) -> None:
    at, path, refused = 3, 0x1000, ERRNO | errno.EPERM
    creates, unnamed = 0o101, 0o20200001

    for name in ("chmod", "fchmod", "creat", "mkdir", "mknod"):
        if name in NUMBERS[machine]:
            assert decide(machine, name, path, 0o755 | bit) == refused
            assert decide(machine, name, path, 0o1755) == ALLOW
    for name in ("fchmodat", "fchmodat2", "mkdirat", "mknodat"):
        assert decide(machine, name, at, path, 0o755 | bit) == refused
        assert decide(machine, name, at, path, 0o1755) == ALLOW
    for flags in (creates, unnamed):
        assert decide(machine, "openat", at, path, flags, 0o755 | bit) == refused
        assert decide(machine, "openat", at, path, flags, 0o755) == ALLOW
    # Without either flag the kernel does not look at the mode, and it may be anything.
    assert decide(machine, "openat", at, path, 0o1, 0o755 | bit) == ALLOW
    assert decide(machine, "openat2", at, path) == ERRNO | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.promise("limit-3")
def test_memory_that_no_limit_counts_is_refused(machine: str) -> None:
    private, shared, validated, of_file = 0x22, 0x21, 0x23, 0x1

    def mapped(size: int, flags: int) -> int:
        return decide(machine, "mmap", 0, size, 3, flags, -1, 0, most_shared=1 << 20)

    for flags in (shared, validated):
        assert mapped(1 << 20, flags) == ALLOW
        assert mapped((1 << 20) + 1, flags) == ERRNO | errno.ENOMEM
        assert mapped(1 << 32, flags) == ERRNO | errno.ENOMEM
    assert {mapped(1 << 40, flags) for flags in (private, of_file)} == {ALLOW}
    assert decide(machine, "memfd_create") == ERRNO | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.promise("sess-1")
def test_where_a_tool_counts_as_its_user_it_watches_no_file(machine: str) -> None:
    assert decide(machine, "inotify_init1", 0) == ALLOW
    assert decide(machine, "inotify_init1", 0, shared_user=True) == ERRNO | errno.EMFILE


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.promise("proc-5")
def test_a_process_changes_its_own_priorities_only(machine: str) -> None:
    refused = ERRNO | errno.EPERM

    for name in ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
        assert (decide(machine, name, 0), decide(machine, name, 1)) == (ALLOW, refused)
    process, group, user = 0, 1, 2
    assert decide(machine, "setpriority", process, 0) == ALLOW
    assert decide(machine, "setpriority", process, 1) == refused
    assert {decide(machine, "setpriority", kind, 0) for kind in (group, user)} == {refused}
    assert decide(machine, "ioprio_set", process + 1, 0) == ALLOW
    assert decide(machine, "ioprio_set", process + 1, 1) == refused
    assert {decide(machine, "ioprio_set", kind + 1, 0) for kind in (group, user)} == {refused}


@pytest.mark.parametrize("machine", MACHINES)
def test_processes_are_made_without_namespaces_only(machine: str) -> None:
    assert decide(machine, "clone", 17) == ALLOW
    assert decide(machine, "clone", 0x10000000 | 17) == ERRNO | errno.EPERM
    assert decide(machine, "clone3") == ERRNO | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_signals_are_watched_only_where_processes_are_shared(machine: str) -> None:
    assert decide(machine, "kill", 77, 9, guarded=(77,)) == ALLOW
    shared = {"guarded": (77,), "shared_pids": True}
    assert decide(machine, "kill", 77, 9, **shared) == ERRNO | errno.EPERM
    assert decide(machine, "kill", -77, 9, **shared) == ERRNO | errno.EPERM
    assert decide(machine, "kill", -1, 9, **shared) == ERRNO | errno.EPERM
    assert decide(machine, "kill", 78, 9, **shared) == ALLOW
    assert decide(machine, "prlimit64", 77, **shared) == ERRNO | errno.EPERM
    assert decide(machine, "prlimit64", 0, **shared) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_another_architecture_is_killed(machine: str) -> None:
    program = assemble(machine, arms("none", (1,), shared_pids=False))

    assert evaluate(program, 0x40000003, 1) == KILL
    assert evaluate(program, AUDIT[machine], 1) == ALLOW
    if machine == "x86_64":
        assert evaluate(program, AUDIT[machine], 0x40000000) == KILL


def test_what_was_found_out_about_this_machine_is_kept() -> None:
    machine = probe()

    assert probe() is machine
    assert machine.adoption
    assert (machine.landlock > 0) == ("landlock" not in dict(machine.reasons))
