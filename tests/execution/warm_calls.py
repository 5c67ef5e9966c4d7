"""Scripts called warm: a skill with one script, and an interpreter with a module of a stranger."""

import asyncio
import os
import venv
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillpouch.execution.command import Command, Ended, PreforkSpec
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.sandbox_client import PROGRAM
from skillpouch.limits import Limits

Warm = Callable[..., Awaitable[Ended]]
PYTHON = "/usr/bin/python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A folder with scripts, run by `python`, whose home is `interpreter`."""

    home: Path
    workspace: Path
    python: str = PYTHON
    interpreter: Path | None = None
    token: str = ""

    def write(self, name: str, text: str) -> str:
        file = self.home / "scripts" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        return str(file)

    @property
    def confinement(self) -> Confinement:
        return Confinement(
            workspace=self.workspace,
            skill=self.home,
            interpreters=(self.interpreter,) if self.interpreter else (),
            readable=(PROGRAM.parents[1],),
        )

    def command(self, script: str, *words: str, **options: Any) -> Command:
        """Return the command that runs a script of this skill, warm unless `warm=False`.

        A variable that is None in `env` is one that the call does not have.
        """
        shared = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TOKEN": self.token}
        prefork = PreforkSpec(
            program=(self.python,),
            script=script,
            runner="",
            folders=(str(Path(script).parent),),
            env=tuple(shared.items()),
            cwd=self.workspace,
        )
        env = shared | options.get("env", {})
        return Command(
            argv=(self.python, script, *words),
            env={name: value for name, value in env.items() if value is not None},
            cwd=self.workspace,
            stdin=options.get("stdin", b""),
            limits=Limits(**{"timeout_seconds": 20, **options.get("limits", {})}),
            answers=options.get("answers", False),
            warm=prefork if options.get("warm", True) else None,
        )

    def caller(self, engine: Engine) -> Warm:
        """Return a function that writes a script and calls it."""

        async def call(text: str, *words: str, name: str = "run", **options: Any) -> Ended:
            on_output = options.pop("on_output", None)
            command = self.command(self.write(name, text), *words, **options)
            return await engine.run(command, self.confinement, on_output)

        return call


def with_module(skill: Skill, name: str, text: str, folder: Path) -> Skill:
    """Return the skill with an interpreter of its own that has a stranger's module installed."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    python = folder / "bin" / "python3"
    python.unlink()
    python.symlink_to(PYTHON)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / f"{name}.py").write_text(text)
    return Skill(
        home=skill.home,
        workspace=skill.workspace,
        python=str(python),
        interpreter=folder,
        token=skill.token,
    )


def processes() -> dict[int, tuple[int, str, bytes]]:
    """Return parent, state and command line of this process and all that descend from it."""
    seen: dict[int, tuple[int, str, bytes]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            seen[int(entry.name)] = (int(parent), state, (entry / "cmdline").read_bytes())
        except OSError:
            continue
    found = {os.getpid()}
    while more := {pid for pid, what in seen.items() if what[0] in found} - found:
        found |= more
    return {pid: seen[pid] for pid in found if pid in seen}


_OTHERS: set[int] = set()  # children that were there before the test: a shell that waits, say


def _children() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children]


def count_from_here() -> None:
    """Let `zygotes` count only what is started from now on."""
    _OTHERS.clear()
    _OTHERS.update(_children())


def zygotes() -> list[int]:
    """Return the zygotes that this test has started and not reaped."""
    return [pid for pid in _children() if pid not in _OTHERS]


def below() -> list[int]:
    """Return the processes that descend from this one and are not waiting to be reaped."""
    return [pid for pid, what in processes().items() if pid != os.getpid() and what[1] != "Z"]


def prefork_servers() -> list[int]:
    """Return the prefork servers below this process; what they fork is one process table deeper."""
    return [pid for pid in _of_prefork_servers() if _depth(pid) == _depth(os.getpid()) + 1]


def waiting_children() -> list[int]:
    """Return what prefork servers have forked: waiting for a call, or running one."""
    return [pid for pid in _of_prefork_servers() if _depth(pid) == _depth(os.getpid()) + 2]


def _of_prefork_servers() -> list[int]:
    found = processes().items()
    return [pid for pid, what in found if what[1] != "Z" and str(PROGRAM).encode() in what[2]]


def sandboxes() -> list[int]:
    """Return the first processes of process tables inside others: sandboxes, not zygotes."""
    return [pid for pid in below() if _depth(pid) > _depth(os.getpid()) + 1 and _is_first(pid)]


def _numbers(pid: int) -> list[str]:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    return next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]


def _depth(pid: int) -> int:
    return len(_numbers(pid))


def _is_first(pid: int) -> bool:
    return _numbers(pid)[-1:] == ["1"]


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not fact():
            await asyncio.sleep(0.01)
