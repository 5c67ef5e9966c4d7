"""The engine behind blocking calls, as people without an event loop use it."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.runtime.loop_thread import run_blocking

pytestmark = pytest.mark.slow

Survivors = Callable[[], list[str]]


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    run_blocking(engine.close())


def bash(workspace: Path, script: str, **env: str) -> Command:
    env = {"PATH": "/usr/bin:/bin", **env}
    return Command(argv=("/bin/bash", "-c", script), env=env, cwd=workspace)


def test_many_threads_call_at_once(engine: Engine, workspace: Path) -> None:
    confinement = Confinement(workspace=workspace)

    def call(number: int) -> str:
        return run_blocking(engine.run(bash(workspace, f"echo {number}"), confinement)).stdout.text

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(call, range(100))) == [f"{n}\n" for n in range(100)]


def test_a_thread_that_ends_takes_no_running_call_with_it(engine: Engine, workspace: Path) -> None:
    confinement = Confinement(workspace=workspace)
    first = threading.Thread(
        target=lambda: run_blocking(engine.run(bash(workspace, "true"), confinement))
    )
    first.start()
    first.join()

    ended = run_blocking(engine.run(bash(workspace, "sleep 0.1; echo here"), confinement))

    assert ended.stdout.text == "here\n"


async def test_it_works_inside_a_running_loop(engine: Engine, workspace: Path) -> None:
    ended = run_blocking(engine.run(bash(workspace, "echo x"), Confinement(workspace=workspace)))

    assert ended.stdout.text == "x\n"


@pytest.mark.promise("proc-4")
def test_control_c_leaves_nothing_running(
    engine: Engine, workspace: Path, survivors: Survivors, token: str
) -> None:
    command = bash(workspace, "(setsid sleep 1000 &); echo go; sleep 1000", TOKEN=token)
    interrupt = threading.main_thread().ident
    assert interrupt is not None

    def press(_stream: str, _piece: bytes) -> None:
        signal.pthread_kill(interrupt, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_blocking(engine.run(command, Confinement(workspace=workspace), press))

    assert survivors() == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_engine_is_usable_on_both_sides_of_a_fork(engine: Engine, workspace: Path) -> None:
    confinement = Confinement(workspace=workspace)

    def call() -> str:
        return run_blocking(engine.run(bash(workspace, "echo x"), confinement)).stdout.text

    assert call() == "x\n"
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if call() == "x\n" else 1)
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert call() == "x\n"
