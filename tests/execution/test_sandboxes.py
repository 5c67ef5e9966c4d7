"""What a tool can do to the sandbox that runs it: nothing that anybody else would notice."""

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from skillpouch.execution.command import Ended
from skillpouch.execution.engine import Engine

pytestmark = pytest.mark.slow

Bash = Callable[..., Awaitable[Ended]]
Survivors = Callable[[], list[str]]


@pytest.mark.promise("proc-5")
async def test_no_signal_of_a_tool_reaches_its_slot(bash: Bash) -> None:
    numbers = " ".join(str(n) for n in range(1, 65) if n not in {32, 33})

    ended = await bash(f"for n in {numbers}; do kill -$n 1; done; sleep 0.05; echo alive")
    after = await bash("echo next")

    assert (ended.outcome, ended.stdout.text) == ("ok", "alive\n")
    assert after.stdout.text == "next\n"


@pytest.mark.promise("proc-5")
@pytest.mark.parametrize(
    "slow_down",
    ["renice -n 19 -p $PPID", "ionice -c 3 -p $PPID", "chrt -ip 0 $PPID", "taskset -p 1 $PPID"],
)
async def test_a_slot_that_was_slowed_down_serves_no_other_call(bash: Bash, slow_down: str) -> None:
    # Nothing but that keeps an unconfined tool from it.
    look = "nice; ionice -p $$; chrt -p $$ | cut -d: -f2; taskset -p $$ | cut -d: -f2"
    off = {"sandbox": "off"}
    before = await bash(look, confinement=off)

    slowed = await bash(slow_down, confinement=off)
    after = await bash(look, confinement=off)

    assert slowed.outcome == "ok"
    assert after.stdout.text == before.stdout.text


async def test_what_programs_need_of_the_kernel_is_left_to_them(
    bash: Bash, workspace: Path
) -> None:
    (workspace / "needs.py").write_text("""
import asyncio, ctypes, mmap, multiprocessing, os, socket, tempfile
async def echo():
    process = await asyncio.create_subprocess_exec("/bin/echo", "one", stdout=-1)
    return (await process.communicate())[0]
if __name__ == "__main__":
    print(asyncio.run(echo()))
    with multiprocessing.Pool(2) as pool:
        print(pool.map(abs, [-1, -2]))
    print(multiprocessing.Value("i", 3).value, len(mmap.mmap(-1, 1 << 20)))
    print([len(socket.socketpair(type=kind)) for kind in (1, 5)])
    print(ctypes.CDLL(None).inotify_init1(0) >= 0)
    os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.chmod("needs.py", 0o1755); os.mkdir("shared", 0o1777)
    with tempfile.TemporaryFile() as unnamed, open("/dev/null", "w") as nothing:
        print(unnamed.write(b"x"), nothing.write("x"))
""")

    ended = await bash(
        "/usr/bin/python3 needs.py < /dev/null > said 2>&1; cat said >/dev/full; cat said"
    )

    assert ended.stdout.text.split("\n")[:-1] == [
        "b'one\\n'",
        "[1, 2]",
        "3 1048576",
        "[2, 2]",
        "True",
        "1 1",
    ]


async def test_stopped_processes_are_dead_when_the_call_ends(
    bash: Bash, survivors: Survivors
) -> None:
    ended = await bash("sleep 1000 & kill -STOP $!; echo done")

    assert ended.stdout.text == "done\n"
    assert survivors() == []


async def test_a_program_that_stops_itself_is_ended_by_the_timeout(
    bash: Bash, survivors: Survivors
) -> None:
    ended = await bash("kill -STOP $$", limits={"timeout_seconds": 0.2})

    assert ended.outcome == "timed_out"
    assert survivors() == []


async def test_orphans_that_end_during_the_call_do_not_use_up_its_processes(bash: Bash) -> None:
    script = "for i in {1..300}; do (true & true); done; echo done"

    ended = await bash(script, limits={"processes": 50})

    assert ended.stdout.text == "done\n"


async def test_an_unconfined_call_reaches_everything_and_still_leaves_nothing_behind(
    bash: Bash, survivors: Survivors, tmp_path: Path, engine: Engine
) -> None:
    (tmp_path / "outside").write_text("text")

    ended = await bash(
        f"cat {tmp_path}/outside; (setsid sleep 1000 &); mkdir -p $TMPDIR/a/b; echo $TMPDIR",
        confinement={"sandbox": "off"},
    )

    assert ended.stdout.text.startswith("text/")
    assert ended.protections["fs"] == ended.protections["net"] == "none"
    assert survivors() == []
    folder = Path(ended.stdout.text.strip().removeprefix("text"))
    assert list(folder.iterdir()) == []
    await engine.close()
    assert not folder.exists()


async def test_an_unconfined_tool_that_kills_its_slot_still_leaves_nothing_behind(
    bash: Bash, survivors: Survivors
) -> None:
    folders: list[str] = []

    ended = await bash(
        "echo $TMPDIR; (setsid sleep 1000 &); kill -9 $PPID; sleep 1000",
        confinement={"sandbox": "off"},
        on_output=lambda _, piece: folders.append(piece.decode().strip()),
    )

    assert (ended.outcome, ended.code) == ("killed", "zygote_lost")
    assert survivors() == []
    assert [Path(folder).exists() for folder in folders] == [False]


async def test_the_network_can_be_granted(bash: Bash) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"

        closed = await bash(script)
        granted = await bash(script, confinement={"network": "host"})

    assert "Connection refused" in closed.stderr.text
    assert granted.stdout.text == "reached\n"
    assert granted.protections["net"] == "none"


async def test_programs_find_what_they_expect_in_their_root(bash: Bash) -> None:
    ended = await bash(
        "cat <(echo substituted); echo x > /dev/null; echo err > /dev/stderr; ls /; "
        "echo shared > /dev/shm/x; mktemp -d > /dev/null && echo temp"
    )

    assert ended.outcome == "ok"
    assert ended.stderr.text == "err\n"
    assert {"substituted", "usr", "bin", "temp"} <= set(ended.stdout.text.split())
    assert "home" not in ended.stdout.text.split()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            "/usr/bin/python3",
            ("-c", "import multiprocessing as m; print(m.Pool(2).map(abs, [-1]))"),
        ),
        ("/usr/bin/node", ("-e", "console.log([require('os').cpus().length > 0, fetch ? 1 : 0])")),
        ("/usr/bin/perl", ("-e", "print 'perl'")),
        ("/usr/bin/ruby", ("-e", "puts `echo ruby`")),
    ],
)
async def test_interpreters_run(
    bash: Bash, program: str, words: tuple[str, ...], workspace: Path
) -> None:
    if not Path(program).exists():
        pytest.skip(f"no {program}")
    (workspace / "words").write_text("\0".join(words) + "\0")

    ended = await bash(f"xargs -0 -a words {program}")

    assert (ended.outcome, ended.stderr.text) == ("ok", "")
    assert ended.stdout.text.strip() in {"[1]", "[ true, 1 ]", "perl", "ruby"}


async def test_processor_time_can_be_limited(bash: Bash) -> None:
    ended = await bash("while :; do :; done", limits={"cpu_seconds": 1})

    assert (ended.outcome, ended.signal) == ("failed", 9)
