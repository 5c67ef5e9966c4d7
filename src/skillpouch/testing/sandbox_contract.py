"""check_sandbox: checks that a sandbox protects every layer that it claims to protect."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

from skillpouch.errors import SkillpouchError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import NOTHING, Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.helper_process import HelperProcess
from skillpouch.execution.sandboxes import SandboxProvider
from skillpouch.execution.zygote_client import this_python
from skillpouch.limits import Limits
from skillpouch.provision.interpreters import homes_of
from skillpouch.testing.backend_contract import Rules, is_alive, started_processes

_MIB = 1024 * 1024
_ATTEMPTS = Path(__file__).with_name("sandbox_attempts.py")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GIVEN": "to it, = and ü"}
_TYPED = bytes(range(256)) * 512
_PROCESSES = 40


def check_sandbox(provider: SandboxProvider) -> None:
    """Run real programs under a provider; raise ContractError with every rule that it breaks.

    Only the layers that the provider claims to protect are attacked. Under every provider, programs
    must otherwise run as usual, and no process may outlive its call.
    """
    rules = Rules(type(provider).__name__)
    trial = threading.Thread(target=lambda: asyncio.run(_check(provider, rules)))
    trial.start()  # in a thread with its own loop: the caller may have a running loop
    trial.join()
    rules.settle()


async def _check(provider: SandboxProvider, rules: Rules) -> None:
    with TemporaryDirectory(prefix="skillpouch-contract-") as folder, _outside(folder) as outside:
        trial = _Trial(provider, rules, outside)
        _is_pure(trial)
        async with Engine(provider=provider) as engine:
            try:
                ended = await _attempts(trial, engine)
                await _answers_as_if_alone(trial, engine)
                await _ends(trial, engine)
                if ended.protections.get("memory", NOTHING) != NOTHING:
                    await _has_memory(trial, engine)
            except SkillpouchError as error:
                rules.broken(f"a program that may run is started: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outside:
    """What a confined program can reach, and what it must not reach."""

    workspace: Path
    skill: Path
    elsewhere: Path
    port: int
    process: HelperProcess  # a process of the same user, not confined
    marker: str


@contextmanager
def _outside(folder: str) -> Iterator[_Outside]:
    real = Path(folder).resolve()
    workspace, skill, elsewhere = (real / name for name in ("workspace", "skill", "elsewhere"))
    for each in (workspace, skill, elsewhere):
        each.mkdir()
        (each / "file.txt").write_text(f"of {each.name}")
    marker = f"skillpouch-contract-{token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        other = HelperProcess(_ATTEMPTS, ["waits"], {"HIDDEN": marker})
        try:
            yield _Outside(
                workspace=workspace,
                skill=skill,
                elsewhere=elsewhere,
                port=listening.getsockname()[1],
                process=other,
                marker=marker,
            )
        finally:
            other.end()


@dataclass(frozen=True, slots=True)
class _Trial:
    provider: SandboxProvider
    rules: Rules
    outside: _Outside

    @property
    def confinement(self) -> Confinement:
        workspace = self.outside.workspace
        interpreters = homes_of(this_python())
        return Confinement(
            workspace=workspace,
            skill=self.outside.skill,
            interpreters=interpreters,
            readable=(_ATTEMPTS,),
            sandbox="tried",
        )

    def python(self, *words: str, **changes: Any) -> Command:
        program = (this_python(), "-I", *words)
        command = Command(argv=program, env=_ENVIRONMENT, cwd=self.outside.workspace)
        return replace(command, **changes)


def _is_pure(trial: _Trial) -> None:
    command = replace(trial.python("-c", "pass"), confinement=trial.confinement)
    with started_processes() as started:
        try:
            first, second = trial.provider.confine(command), trial.provider.confine(command)
        except SkillpouchError:
            return  # reported when a program is run
    trial.rules.holds(not started, f"`confine` starts no process: it called {started[:1]}")
    trial.rules.holds(first == second, "`confine` gives the same for the same command")


async def _attempts(trial: _Trial, engine: Engine) -> Ended:
    """Let a program try what it may and may not do, and check its report."""
    outside, rules = trial.outside, trial.rules
    words = (outside.skill, outside.elsewhere, outside.port, outside.process.pid, _PROCESSES)
    command = trial.python(
        str(_ATTEMPTS),
        *map(str, words),
        limits=Limits(timeout_seconds=60, processes=_PROCESSES // 2),
    )
    ended = await engine.run(command, trial.confinement)
    try:
        report: dict[str, Any] = json.loads(ended.stdout.text)
    except ValueError:
        said = f"{ended.outcome}: {ended.stderr.text[-500:]}"
        rules.broken(f"a Python program of the machine runs in it, and ends by itself: {said}")
        return ended
    _does_what_it_may(trial, report)
    for layer in [layer for layer, by in ended.protections.items() if by != NOTHING]:
        _is_held(layer, trial, report)
    return ended


def _does_what_it_may(trial: _Trial, report: dict[str, Any]) -> None:
    outside, rules = trial.outside, trial.rules
    made = outside.workspace / "made.txt"
    rules.holds(report["folder"] == str(outside.workspace), "a program starts in `cwd`")
    rules.holds(made.exists() and made.read_text() == "made", "the workspace can be written")
    rules.holds(report["skill"] == "of skill", "the folder of the skill can be read")
    rules.holds(report["temporary"], "a program can make temporary files")
    given = {name: report["environment"].get(name) for name in _ENVIRONMENT}
    rules.holds(given == _ENVIRONMENT, "every variable of `env` has its value")
    ours = {name for name in os.environ if name not in _ENVIRONMENT}  # noqa: TID251 - only names
    leaked = sorted(ours & report["environment"].keys() - _USUAL)
    rules.holds(not leaked, f"no variable of the host is seen: {leaked[:3]} are")


# Variables that a shell sets by itself; TMPDIR is set if a program has no /tmp of its own.
_USUAL = {"PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "LC_CTYPE"}


def _is_held(layer: str, trial: _Trial, report: dict[str, Any]) -> None:
    outside, rules = trial.outside, trial.rules
    match layer:
        case "fs":
            rules.holds(report["elsewhere"] is None, "fs: a file that was not granted is not read")
            escaped = [each for each in ("skill", "elsewhere") if _was_written(outside, each)]
            rules.holds(not escaped, f"fs: outside the workspace nothing is written: {escaped} was")
        case "net":
            rules.holds(not report["connected"], "net: a port of this machine is not reached")
        case "signals":
            rules.holds(outside.process.is_alive, "signals: no process outside is killed")
            rules.holds(not report["seen"], "signals: of a process outside no variable is read")
        case "processes":
            forked = report["forked"]
            told = f"processes: no more run than {_PROCESSES // 2}: there were {forked}"
            rules.holds(forked < _PROCESSES, told)
        case "syscalls":
            rules.holds(report["filtered"], "syscalls: a filter of system calls is active")
        case _:
            pass  # `_ends` and `_has_memory` try tree and memory


def _was_written(outside: _Outside, name: str) -> bool:
    folder: Path = getattr(outside, name)
    return (folder / "escaped.txt").exists()


_ECHO = (
    "import os, sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data);"
    "sys.stderr.buffer.write(data[::-1]); sys.stdout.flush();"
    "os.write(int(os.environ['SKILLPOUCH_ANSWER']), b'answer'); sys.exit(int(sys.argv[1]))"
)


async def _answers_as_if_alone(trial: _Trial, engine: Engine) -> None:
    rules = trial.rules
    limits = Limits(keep_bytes=4 * len(_TYPED))
    for code in (0, 3):
        # As a backend does for a command that answers.
        env = {**_ENVIRONMENT, "SKILLPOUCH_ANSWER": "3"}
        command = trial.python("-c", _ECHO, str(code), stdin=_TYPED, answers=True, env=env)
        ended = await engine.run(replace(command, limits=limits), trial.confinement)
        told = f"an exit code is passed on: {code} became {ended.exit_code}"
        rules.holds(ended.exit_code == code, told)
        rules.holds(ended.stdout.data == _TYPED, "standard input and output pass unchanged")
        rules.holds(ended.stderr.data == _TYPED[::-1], "standard error passes unchanged")
        rules.holds(ended.answer == b"answer", "the descriptor in SKILLPOUCH_ANSWER can be written")


_LEAVES = (
    "import os, subprocess, sys, time\n"
    "words = [sys.executable, '-I', '-c', 'import time; time.sleep(1000)', sys.argv[1]]\n"
    "subprocess.Popen(words, start_new_session=True)\n"
    "print('begun', flush=True)\n"
    "if sys.argv[2] == 'waits': time.sleep(1000)\n"
)


async def _ends(trial: _Trial, engine: Engine) -> None:
    """Let a program end by itself, by its time limit and by its caller; no child may survive."""
    rules, marker = trial.rules, trial.outside.marker
    ended = await engine.run(trial.python("-c", _LEAVES, marker, "ends"), trial.confinement)
    rules.holds(ended.exit_code == 0, "a program that leaves a process behind ends by itself")
    rules.holds(not is_alive(marker), "tree: nothing of a program is alive when it has ended")
    waits = trial.python("-c", _LEAVES, marker, "waits")
    limits = Limits(timeout_seconds=1)
    ended = await engine.run(replace(waits, limits=limits), trial.confinement)
    rules.holds(ended.outcome == "timed_out", f"the time limit ends it: {ended.outcome}")
    rules.holds(not is_alive(marker), "tree: nothing of a program is alive after its time limit")
    begun = asyncio.Event()
    running = asyncio.create_task(engine.run(waits, trial.confinement, lambda _, __: begun.set()))
    await asyncio.wait({asyncio.create_task(begun.wait()), running}, return_when="FIRST_COMPLETED")
    running.cancel()
    await asyncio.wait({running})
    rules.holds(running.cancelled(), "a call that is cancelled is over")
    rules.holds(not is_alive(marker), "tree: nothing of a program is alive when it was cancelled")


async def _has_memory(trial: _Trial, engine: Engine) -> None:
    limits = Limits(memory_bytes=256 * _MIB)
    program = f"data = bytearray({512 * _MIB}); print(len(data))"
    ended = await engine.run(trial.python("-c", program, limits=limits), trial.confinement)
    trial.rules.holds(ended.outcome != "ok", "memory: no more is had than the limit")
