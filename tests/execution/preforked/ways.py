"""Runs one script three ways: by a bare Python, confined afresh, and preforked."""

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from skillpouch.backends.programs import RUNNERS, warm_process_for
from skillpouch.backends.script import _shared
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.sandbox_client import PROGRAM
from skillpouch.limits import Limits
from skillpouch.provision.interpreters import homes_of, interpreter_for
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.tools import Script

WORDS = ("a1", "b 2")
STDIN = b"line1\nline2\n"
EXTRA = {"K": "kval", "TZ": "America/New_York"}
SIBLING = 'X = 42\n\n\ndef f():\n    raise ValueError("from sibling")\n'
_KEEP_ALL = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a caller can tell of a run; a signal is a negative status, as in subprocess."""

    status: int | None
    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes]  # left in the workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a script is run with."""

    words: tuple[str, ...] = WORDS
    stdin: bytes = STDIN
    env: Mapping[str, str] = field(default_factory=lambda: EXTRA)
    shebang: tuple[str, ...] = ()
    convention: Literal["argv", "handler", "main"] = "argv"
    timeout_seconds: float = 30.0
    installed: bool = False  # run by a Python that has what `Ways.install` has written


PLAINLY = Given()


class Ways:
    """One engine, one workspace that is empty before every run, a folder for each skill."""

    def __init__(self, root: Path) -> None:
        self._engine = Engine(grace_seconds=0.2)
        self.skills = root / "skills"
        self.workspace = root / "workspace"
        self.skills.mkdir()
        self._python = root / "python"

    def write(self, name: str, text: str | bytes, files: Mapping[str, str | bytes] = {}) -> Path:
        """Write a skill's script, a sibling module and other files; return the script."""
        scripts = self.skills / name / "scripts"
        for path, content in {"sibling.py": SIBLING, **files, "script.py": text}.items():
            file = scripts / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return scripts / "script.py"

    def install(self, name: str, text: str) -> None:
        """Write a module that belongs to no skill."""
        if not self._python.exists():
            venv.create(self._python, symlinks=True)
        folder = sysconfig.get_path("purelib", vars={"base": str(self._python)})
        (Path(folder) / f"{name}.py").write_text(text)

    def bare(self, script: Path, given: Given = PLAINLY) -> Ran:
        self._empty_workspace()
        command = self._command(script, given)
        ran = subprocess.run(
            command.argv,
            input=command.stdin,
            env=dict(command.env),
            cwd=command.cwd,
            capture_output=True,
            timeout=given.timeout_seconds,
            start_new_session=True,
            check=False,
        )
        return self._ran(ran.returncode, ran.stdout, ran.stderr)

    def cold(self, script: Path, given: Given = PLAINLY) -> Ran:
        return self.seen(self.end(script, given, warm=False))

    def warm(self, script: Path, given: Given = PLAINLY) -> Ran:
        """Run it warm, and be sure that it was."""
        ended = self.end(script, given)
        assert (ended.warm, ended.cold_because) == (True, "")
        return self.seen(ended)

    def end(self, script: Path, given: Given = PLAINLY, *, warm: bool = True) -> Ended:
        """Run it as Skillpouch does, with or without the prefork server that it would choose."""
        self._empty_workspace()
        command = self._command(script, given)
        if not warm:
            command = replace(command, warm=None)
        homes = (*homes_of(sys.executable), *((self._python,) if given.installed else ()))
        confinement = Confinement(
            workspace=self.workspace,
            skill=self.skills,
            interpreters=homes,
            readable=(RUNNERS, PROGRAM.parents[1]),
        )
        return run_blocking(self._engine.run(command, confinement))

    def seen(self, ended: Ended) -> Ran:
        status = ended.exit_code if ended.signal is None else -ended.signal
        return self._ran(status, ended.stdout.data, ended.stderr.data)

    def _ran(self, status: int | None, stdout: bytes, stderr: bytes) -> Ran:
        files = {
            str(file.relative_to(self.workspace)): file.read_bytes()
            for file in self.workspace.rglob("*")
            if file.is_file()
        }
        return Ran(status=status, stdout=_still(stdout), stderr=_still(stderr), files=files)

    def _empty_workspace(self) -> None:
        # The folder itself stays: a zygote shows the one it was started with.
        self.workspace.mkdir(exist_ok=True)
        for entry in self.workspace.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _command(self, file: Path, given: Given) -> Command:
        script = Script(
            file=str(file), language="python", convention=given.convention, shebang=given.shebang
        )
        program = interpreter_for(script)
        if given.installed:
            program = (str(self._python / "bin/python"), *program[1:])
        function = given.convention != "argv"
        runner = (str(RUNNERS / "call_python.py"), given.convention) if function else ()
        shared = _shared(script, ())
        own = {"SKILLPOUCH_SCRIPTS": str(file.parent), "SKILLPOUCH_ARGUMENTS": "stdin"}
        own |= {"SKILLPOUCH_ANSWER": "3"}
        env = {**shared, **(own if function else {"PYTHONPATH": str(file.parent)}), **given.env}
        return Command(
            argv=(*program, *runner, str(file), *(() if function else given.words)),
            env=env,
            cwd=self.workspace,
            stdin=given.stdin,
            limits=Limits(keep_bytes=_KEEP_ALL, timeout_seconds=given.timeout_seconds),
            answers=function,
            warm=warm_process_for(
                script,
                program=program,
                runner=runner[0] if runner else "",
                env=env,
                shared_env=shared,
                cwd=self.workspace,
            ),
        )

    def close(self) -> None:
        run_blocking(self._engine.close())


def _still(text: bytes) -> bytes:
    """Take out addresses: no two runs of any Python have the same."""
    return re.sub(rb"0x[0-9a-f]{6,}", b"0x...", text)


def merged(*tables: Mapping[str, str | bytes]) -> dict[str, str | bytes]:
    """Put tables of cases together; no name may be used twice."""
    names = [name for table in tables for name in table]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice
    return {name: text for table in tables for name, text in table.items()}
