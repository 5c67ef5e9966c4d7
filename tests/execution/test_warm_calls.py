"""What a call finds and leaves on the warm path, and what happens when parts of it are killed."""

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch.execution.command import Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine, run_command
from tests.escapes.marks import marked
from tests.execution.warm_calls import (
    Skill,
    Warm,
    below,
    prefork_servers,
    sandboxes,
    until,
    waiting_children,
    zygotes,
)

pytestmark = [pytest.mark.slow, pytest.mark.escape, pytest.mark.timeout(240)]

MARK = "import ctypes, os, signal, sys, time\nctypes.CDLL(None).prctl(15, sys.argv[1].encode())\n"
# Daemons in sessions of their own: one that sleeps, one that is stopped, one that hops.
DAEMONS = """
for kind in ("sleep", "stop", "hop"):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for fd in range(3):
            os.close(fd)
        if kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        while kind == "hop":
            if os.fork():
                os._exit(0)
        time.sleep(1000)
"""


def inner_zygotes() -> list[int]:
    found = []
    for pid in zygotes():
        found += Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(pid) for pid in found]


LOOK = """
import json, os, subprocess
def links():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try: found[fd] = os.readlink("/proc/self/fd/" + fd).partition(":")[0]
        except OSError: pass  # the one that read the list
    return found
below = subprocess.run(["/bin/ls", "/proc/self/fd"], capture_output=True, close_fds=False)
print(json.dumps({
    "own": links(), "below": below.stdout.split().__len__(),
    "seen": len([p for p in os.listdir("/proc") if p.isdigit()]),
    "environment": sorted(os.environ), "folder": os.getcwd(),
    "shared": os.listdir("/dev/shm"),
    "leads": os.getpgid(0) == os.getpid() == os.getsid(0),
}))
"""


@pytest.mark.promise("warm-5")
async def test_a_forked_call_holds_what_a_fresh_one_holds(warm: Warm) -> None:
    cold = json.loads((await warm(LOOK, warm=False, stdin=b"x")).stdout.text)
    ended = [await warm(LOOK, stdin=b"x") for _ in range(3)]

    looked = [json.loads(each.stdout.text) for each in ended]
    assert [each.warm for each in ended] == [True] * 3
    # The parent of a fresh one is the sandbox; a forked one has none in its process table.
    assert [{**look, "seen": cold["seen"]} for look in looked] == [cold] * 3
    assert max(look["seen"] for look in looked) <= cold["seen"]
    assert (set(cold["own"]), cold["below"]) == ({"0", "1", "2"}, 4)  # one reads the list


@pytest.mark.promise("warm-5")
async def test_nothing_of_a_call_reaches_the_next_one(warm: Warm) -> None:
    script = """
import os, sys
if sys.argv[1] == "leave":
    os.environ["LEFT"] = sys.path[0] = "left"
    os.umask(0o777)
    os.write(3, b"left")
    os.nice(5)
    import json; json.left = True
else:
    import json
    size = os.fstat(3).st_size
    print(os.environ.get("LEFT"), os.environ.get("GIVEN"), size, hasattr(json, "left"),
          oct(os.umask(0)), os.nice(0), sys.path[0] == "left")
"""
    first = await warm(script, "leave", env={"GIVEN": "secret"}, answers=True)
    second = await warm(script, "look", answers=True)

    assert (first.warm, second.warm) == (True, True)
    assert (first.answer, second.answer) == (b"left", b"")
    assert second.stdout.text == "None None 0 False 0o22 0 False\n"


VARIABLES = """
import json, os, subprocess
here = sorted(f"{name}={value}" for name, value in os.environ.items())
below = subprocess.run(["/usr/bin/env", "-0"], capture_output=True).stdout.split(b"\\0")
print(json.dumps([[each[:99], len(each)] for each in here + sorted(map(os.fsdecode, below))]))
"""


@pytest.mark.promise("warm-5")
@pytest.mark.parametrize(
    "own",
    [
        {},
        {"TOKEN": "another"},
        {"TOKEN": None},
        {"TOKEN": None, "NEW": "x", "EMPTY": ""},
        {"NEW": "not \udcff text", "\udcfe": "a name", "Ünï": "cödé"},
        {"TZ": "Asia/Tokyo", "LONG": "x" * 90_000},
    ],
)
async def test_a_forked_call_and_what_it_starts_have_exactly_its_variables(
    warm: Warm, own: dict[str, str | None]
) -> None:
    cold = await warm(VARIABLES, warm=False, env=own)
    ended = [await warm(VARIABLES, env=own) for _ in range(3)]

    assert [each.warm for each in ended] == [True] * 3
    assert [json.loads(each.stdout.text) for each in ended] == [json.loads(cold.stdout.text)] * 3


@pytest.mark.promise("limit-6")
@pytest.mark.parametrize("path", ["warm", "cold"])
@pytest.mark.parametrize(
    "leave",
    [
        "open('/tmp/left', 'w'); open('/dev/shm/left', 'w')",
        "os.mkdir('/tmp/left')",
        "os.chmod('/tmp', 0o500); os.chmod('/dev/shm', 0)",
        "os.setxattr('/tmp', 'user.left', b'x')",
        "os.utime('/tmp', (1, 1))",
    ],
)
@pytest.mark.parametrize(
    "before", [[], ["rest"] * 3], ids=["at once", "after calls that left them alone"]
)
async def test_temporary_folders_are_as_new_for_every_call(
    warm: Warm, leave: str, path: str, before: list[str]
) -> None:
    # Folders whose times have been the same for a while are not looked through.
    script = f"""
import os, stat, sys, time
if sys.argv[1] == "rest":
    time.sleep(0.03)
elif sys.argv[1] == "leave":
    {leave}
else:
    open("/tmp/new", "w").close(); open("/dev/shm/new", "w").close()
    found = [oct(stat.S_IMODE(os.stat(f).st_mode)) for f in ("/tmp", "/dev/shm")]
    if os.stat("/tmp").st_atime == 1: found = "the time that was left"
    print(found, "left" in os.listdir("/tmp"), os.listdir("/dev/shm"), os.listxattr("/tmp"))
"""
    for what in before:
        await warm(script, what, warm=path == "warm")
    await warm(script, "leave", warm=path == "warm")
    ended = await warm(script, "look", warm=path == "warm")

    assert ended.stderr.text == ""
    assert ended.stdout.text == "['0o1777', '0o1777'] False ['new'] []\n"


@pytest.mark.promise("warm-5")
async def test_no_memory_that_calls_share_holds_what_one_of_them_left(warm: Warm) -> None:
    script = """
import ctypes
for line in open("/proc/self/maps"):
    if " rw-s " in line:
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        memory = (ctypes.c_char * (end - start)).from_address(start)
        if memory.raw.strip(b"\\0"): print("found", memory.raw.strip(b"\\0")[:20])
        ctypes.memmove(start, b"left" * ((end - start) // 4), end - start)
import os, sys; sys.stdout.flush(); os._exit(0)
"""
    ended = [await warm(script) for _ in range(9)]

    assert {(each.warm, each.stdout.text) for each in ended} == {(True, "")}


async def test_rubbish_in_the_memory_a_call_shares_with_its_prefork_is_only_a_bad_hint(
    warm: Warm,
) -> None:
    script = """
import ctypes
for line in open("/proc/self/maps"):
    if " rw-s " in line:
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        words = b"os.path\\n../../etc\\n\\xff\\xfe\\nantigravity\\nthis\\nno.such.module\\n" * 900
        ctypes.memmove(start, words, min(len(words), end - start))
        print("wrote")
import os; os._exit(0)
"""
    written = [await warm(script) for _ in range(6)]

    assert {(ended.outcome, ended.warm) for ended in written} == {("ok", True)}


_SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def swap(one, other):
    if libc.renameat2(-100, one.encode(), -100, other.encode(), 2):
        raise OSError(ctypes.get_errno(), "cannot be swapped")
"""


@pytest.mark.promise("watch-1")
@pytest.mark.promise("limit-6")
@pytest.mark.parametrize("path", ["warm", "cold"])
@pytest.mark.parametrize(
    "move",
    [
        "os.rename(above, above + '-aside'); os.symlink(work, above)",
        "os.rename(above, '/tmp/aside'); os.symlink(work, above)",
        "os.rename(top, '/tmp/aside'); os.symlink(work, top)",
        "os.rename(top, '/tmp/aside'); os.makedirs(above)",
        "os.mkdir('/tmp/other'); swap(top, '/tmp/other')",
        "os.mkdir(top + '/other'); swap(above, top + '/other')",
        "os.rmdir(top)",
        "os.symlink(work, top + '/link')",
        "open(above + '/planted.py', 'w')",
        "swap(skill, work)",
    ],
)
async def test_nothing_above_a_skill_in_a_temporary_folder_can_be_moved(
    warm: Warm, skill: Skill, move: str, path: str
) -> None:
    script = f"""{_SWAP}
work, skill = os.getcwd(), os.path.dirname(__file__)
above, top = os.path.dirname(skill), "/".join(skill.split("/")[:3])
try:
    {move}
except OSError as error:
    print("refused", error.errno)
"""
    assert str(skill.home).startswith("/tmp/")
    ended = [await warm(script, warm=path == "warm") for _ in range(3)]

    assert {each.stderr.text for each in ended} == {""}
    assert {each.stdout.text[:7] for each in ended} == {"refused"}


@pytest.mark.promise("limit-6")
@pytest.mark.parametrize("path", ["warm", "cold"])
async def test_what_a_call_puts_in_the_place_of_something_is_not_there_for_the_next(
    skill: Skill, engine: Engine, tmp_path: Path, path: str
) -> None:
    # A link right below /tmp is nothing that could be mounted; as many files as before.
    link = Path("/tmp", f"skillpouch-link-{tmp_path.parent.name}-{tmp_path.name}")
    link.symlink_to(tmp_path)
    script = f"""
import os, sys
print(os.readlink({str(link)!r}))
os.unlink({str(link)!r}); os.symlink(os.getcwd(), {str(link)!r})
"""
    (tmp_path / "programs").mkdir()
    sees_link = replace(skill.confinement, interpreters=(link / "programs",))
    command = skill.command(skill.write("swap", script), warm=path == "warm")
    try:
        ended = [await engine.run(command, sees_link) for _ in range(3)]
    finally:
        link.unlink()

    assert {(each.stdout.text, each.stderr.text) for each in ended} == {(f"{tmp_path}\n", "")}


# All that a process can change about itself, and try to have others inherit or find.
_CHANGES = """
import ctypes, fcntl, os, resource, signal, socket, sys
libc = ctypes.CDLL(None)
def flags(request, number):
    value = ctypes.c_ulong(number)
    libc.ioctl(os.open("/tmp", os.O_RDONLY), ctypes.c_ulong(request), ctypes.byref(value))
    return value.value
def change():
    os.umask(0); os.nice(5); os.chdir("/tmp")
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    libc.syscall(251, 1, 0, 3 << 13)  # ioprio_set
    libc.personality(0x0040000)  # ADDR_NO_RANDOMIZE
    libc.prctl(29, 12345, 0, 0, 0)  # PR_SET_TIMERSLACK
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
    named, _ = socket.socketpair()
    named.bind(chr(0) + "left")
    lock = open(__file__)
    fcntl.flock(lock, fcntl.LOCK_EX)
    flags(0x40086602, 0x40)  # FS_NODUMP_FL, where a tmpfs has flags: Linux 6.6
    if os.fork() == 0:
        os.setsid(); signal.pause()
def look():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    signals = [status[name].strip() for name in ("SigBlk", "SigIgn", "Seccomp", "NoNewPrivs")]
    lock = open(__file__)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    mask = os.umask(0)
    return [
        mask, os.getcwd(), os.nice(0), os.sched_getscheduler(0), os.sched_getaffinity(0),
        libc.syscall(252, 1, 0), libc.personality(-1), libc.prctl(30, 0, 0, 0, 0), signals,
        signal.getitimer(signal.ITIMER_REAL), resource.getrlimit(resource.RLIMIT_NOFILE),
        flags(0x80086601, 0),
        sorted(os.listdir("/tmp")), sorted(os.listdir("/proc/self/fd")),
        "left" in open("/proc/net/unix").read(),
    ]
print(change() if sys.argv[1] == "change" else look())
"""


@pytest.mark.promise("proc-5")
@pytest.mark.promise("limit-6")
@pytest.mark.parametrize("path", ["warm", "cold"])
async def test_whatever_a_call_changes_about_itself_the_next_is_as_the_first(
    warm: Warm, path: str
) -> None:
    async def call(what: str) -> tuple[str, str]:
        ended = await warm(_CHANGES, what, warm=path == "warm")
        return ended.stdout.text, ended.stderr.text

    first = await call("look")
    changed = [await call("change") for _ in range(3)]
    after = await call("look")

    assert set(changed) == {("None\n", "")}
    assert first[1] == ""
    assert after == first


@pytest.mark.promise("proc-5")
async def test_no_signal_of_a_call_moves_its_slot(warm: Warm) -> None:
    script = """
import os, signal
for number in signal.valid_signals():
    try: os.kill(1, number)
    except OSError: pass
print("still here", os.getppid())
"""
    ended = [await warm(script) for _ in range(3)]

    assert {(each.outcome, each.stdout.text, each.warm) for each in ended} == {
        ("ok", "still here 0\n", True)
    }


@pytest.mark.promise("proc-1")
@pytest.mark.promise("proc-2")
@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("print('left')", "ok"),
        ("os._exit(3)", "failed"),
        ("os.kill(os.getpid(), 9)", "failed"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "timed_out"),
        ("signal.signal(15, signal.SIG_IGN)\nwhile True: time.sleep(1)", "timed_out"),
    ],
)
async def test_however_a_warm_call_ends_its_daemons_end_first(
    skill: Skill, warm: Warm, end: str, outcome: str
) -> None:
    for _ in range(5):
        limits = {"timeout_seconds": 0.4 if outcome == "timed_out" else 20}
        ended = await warm(MARK + DAEMONS + end, skill.token, limits=limits)
        assert marked(skill.token) == []
        assert (ended.outcome, ended.warm) == (outcome, True)


@pytest.mark.promise("proc-4")
async def test_a_cancelled_warm_call_leaves_nothing(skill: Skill, warm: Warm) -> None:
    for _ in range(5):
        started = asyncio.Event()
        script = MARK + "print('go', flush=True)\n" + DAEMONS + "time.sleep(1000)"
        call = warm(script, skill.token, on_output=lambda *_: started.set())  # noqa: B023
        task = asyncio.ensure_future(call)
        await started.wait()

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert marked(skill.token) == []


VICTIMS: dict[str, Callable[[], list[int]]] = {
    "prefork": prefork_servers,
    "sandbox": sandboxes,
    "zygote": zygotes,
    "first process of the zygote": inner_zygotes,
}


@pytest.mark.promise("warm-6")
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_call_whose_keeper_is_killed_is_lost_when_all_of_it_is_dead(
    skill: Skill, warm: Warm, victim: str
) -> None:
    for _ in range(5):
        started = asyncio.Event()
        script = MARK + DAEMONS + "print('go', flush=True)\ntime.sleep(1000)"
        call = warm(script, skill.token, on_output=lambda *_: started.set())  # noqa: B023
        task = asyncio.ensure_future(call)
        await started.wait()

        for pid in VICTIMS[victim]():
            with contextlib.suppress(ProcessLookupError):  # it went with another
                os.kill(pid, signal.SIGKILL)
        ended = await task

        assert marked(skill.token) == []
        assert (ended.outcome, ended.code, ended.stdout.text) == ("killed", "zygote_lost", "go\n")


@pytest.mark.promise("warm-6")
@pytest.mark.parametrize("victim", [*VICTIMS, "waiting child"])
async def test_what_is_killed_while_nothing_runs_costs_a_call_each_at_most(
    warm: Warm, victim: str
) -> None:
    find = VICTIMS.get(victim, waiting_children)
    for _ in range(5):
        await warm("print('fine')")
        await until(lambda: bool(waiting_children()))
        killed = find()
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await until(lambda: not set(killed) & set(below()))  # noqa: B023

        async with asyncio.timeout(100):
            *first, last = [await warm("print('fine')") for _ in (*killed, "last")]

        # The first may come before the host knows.
        assert {each.code or each.outcome for each in first} <= {"ok", "zygote_lost"}
        assert (last.outcome, last.stdout.text) == ("ok", "fine\n")


@pytest.mark.promise("warm-6")
async def test_a_prefork_that_dies_takes_no_other_call_with_it(skill: Skill, warm: Warm) -> None:
    others = prefork_servers()  # of tests before this one
    started = [asyncio.Event(), asyncio.Event()]
    script = (
        "import pathlib, time\nprint('go', flush=True)\n"
        "while not pathlib.Path('end').exists():\n    time.sleep(0.01)\n"
    )
    calls = [
        warm(script, name=f"s{place}", on_output=lambda *_, e=event: e.set())
        for place, event in enumerate(started)
    ]
    tasks = [asyncio.ensure_future(call) for call in calls]
    for event in started:
        await event.wait()

    ours = [pid for pid in prefork_servers() if pid not in others]
    os.kill(ours[0], signal.SIGKILL)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    (skill.workspace / "end").touch()
    ended = await asyncio.gather(*tasks)

    assert sorted(each.code or each.outcome for each in ended) == ["ok", "zygote_lost"]


async def test_two_hundred_first_calls_of_a_script_that_cannot_be_warm_all_run_cold(
    warm: Warm,
) -> None:
    # `this` prints when it is imported.
    calls = (warm("import sys\nimport this\nprint(sys.argv[1])", str(n)) for n in range(200))
    ended = await asyncio.gather(*calls)

    assert [each.stdout.text.split()[-1] for each in ended] == [str(n) for n in range(200)]
    assert {(each.warm, each.cold_because) for each in ended} == {(False, "its imports print")}


async def test_an_engine_closed_while_calls_wait_loses_them_and_starts_nothing(
    skill: Skill,
) -> None:
    before = set(below())
    engine = Engine(most_running=20)
    warm = skill.caller(engine)
    started = asyncio.Event()
    script = "import time\nprint('go', flush=True)\ntime.sleep(1000)"
    calls = [warm(script, on_output=lambda *_: started.set()) for _ in range(40)]
    tasks = [asyncio.ensure_future(call) for call in calls]
    await started.wait()

    await engine.close()
    ended = await asyncio.gather(*tasks)

    assert {(each.outcome, each.code) for each in ended} == {("killed", "zygote_lost")}
    assert set(below()) <= before


async def test_a_closed_engine_can_be_used_again(skill: Skill) -> None:
    before = set(below())
    engine = Engine()
    for _ in range(2):
        assert (await skill.caller(engine)("print('fine')")).stdout.text == "fine\n"
        await engine.close()
        assert set(below()) <= before


async def test_cancelling_a_call_that_waits_for_a_slot_costs_the_others_nothing(
    warm: Warm,
) -> None:
    script = "import sys, time\nprint(sys.argv[1], flush=True)\ntime.sleep(0.05)"
    for _ in range(3):
        tasks = [asyncio.ensure_future(warm(script, str(n))) for n in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)

        assert all(isinstance(each, asyncio.CancelledError) for each in ended[::2])
        said = [each.stdout.text for each in ended[1::2] if isinstance(each, Ended)]
        assert said == [f"{n}\n" for n in range(1, 30, 2)]


async def test_a_call_cancelled_as_its_zygote_goes_does_not_run(skill: Skill) -> None:
    engine = Engine()
    warm = skill.caller(engine)
    script = "import time\nprint('go', flush=True)\ntime.sleep(1000)"
    started = asyncio.Event()
    tasks = [
        asyncio.ensure_future(warm(script, on_output=lambda *_: started.set())) for _ in range(9)
    ]
    await started.wait()
    (zygote,) = engine._pool._zygotes.values()

    # Told that there will be no sandbox and cancelled, before it can act on either.
    zygote.close()
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(each) for each in ended} == {asyncio.CancelledError}
    await engine.close()


async def test_no_more_warm_calls_run_at_once_than_allowed(skill: Skill) -> None:
    script = """
import os, sys, time
mine = os.getcwd() + "/running-" + sys.argv[1]
open(mine, "w").close()
print(len([name for name in os.listdir(".") if name.startswith("running-")]))
time.sleep(0.02)
os.unlink(mine)
"""
    async with Engine(most_running=3) as engine:
        warm = skill.caller(engine)
        ended = await asyncio.gather(*(warm(script, str(n)) for n in range(40)))

    assert {each.outcome for each in ended} == {"ok"}
    assert max(int(each.stdout.text) for each in ended) <= 3


def test_threads_with_loops_of_their_own_call_at_once(skill: Skill) -> None:
    script = skill.write("run", "import sys\nprint(sys.argv[1])")
    said: dict[str, str] = {}

    async def calls(thread: int) -> None:
        for number in range(10):
            word = f"{thread}-{number}"
            ended = await run_command(skill.command(script, word), skill.confinement)
            said[word] = ended.stdout.text

    threads = [threading.Thread(target=asyncio.run, args=(calls(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert said == {f"{t}-{n}": f"{t}-{n}\n" for t in range(8) for n in range(10)}


def test_a_forked_host_leaves_the_prefork_servers_to_its_parent(skill: Skill) -> None:
    script = skill.write("run", "import sys\nprint(sys.argv[1])")

    async def call(engine: Engine, word: str) -> str:
        ended = await engine.run(skill.command(script, word), skill.confinement)
        assert ended.warm
        return ended.stdout.text

    async def both() -> None:
        engine = Engine()
        assert await call(engine, "before") == "before\n"
        pid = os.fork()
        if pid == 0:
            right = asyncio.new_event_loop().run_until_complete
            os._exit(0 if _runs(right, call(engine, "child")) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert await call(engine, "after") == "after\n"
        await engine.close()

    def _runs(run: Callable[..., str], coroutine: object) -> bool:
        asyncio._set_running_loop(None)
        return run(coroutine) == "child\n"

    before = set(below())
    asyncio.run(both())

    assert set(below()) <= before


def test_an_engine_on_a_second_loop_starts_over(skill: Skill) -> None:
    before = set(below())
    engine = Engine()
    script = skill.write("run", "print('fine')")

    async def call() -> Ended:
        return await engine.run(skill.command(script), skill.confinement)

    async def close() -> None:
        await call()
        await engine.close()

    assert asyncio.run(call()).warm
    assert asyncio.run(call()).warm
    asyncio.run(close())

    assert set(below()) <= before


async def test_a_missing_interpreter_is_said_and_loses_nothing(
    skill: Skill, engine: Engine
) -> None:
    gone = Skill(
        home=skill.home, workspace=skill.workspace, python="/usr/bin/no-python", token=skill.token
    )

    with pytest.raises(Exception, match="no-python"):
        await gone.caller(engine)("print('fine')")


def test_the_confinement_of_these_calls_is_the_real_one(skill: Skill) -> None:
    assert skill.confinement.sandbox == Confinement(workspace=skill.workspace).sandbox == "on"
