"""Tries each protection from inside a sandbox, and asks each interpreter for its version."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillpouch.environment import base_environment
from skillpouch.errors import SkillpouchError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import run_command
from skillpouch.execution.zygote_client import probe, this_python
from skillpouch.limits import Limits
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.runtime.loop_thread import run_blocking

_RUNNERS = Path(__file__).parents[1] / "backends" / "runners"
_PROGRAMS = ("bash", "zsh", "node", "ruby", "perl", "uv", "rg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """`protections`: layer → what enforces it; `proofs`: layer → the result of the attempt."""

    protections: Mapping[str, str]
    proofs: Mapping[str, str]
    missing: tuple[str, ...]
    interpreters: Mapping[str, tuple[str, str]]  # name → path, version


def diagnose() -> Diagnosis:
    """Run an attempt to get out, and ask every interpreter for its version."""
    missing = [f"{layer}: {why}" for layer, why in probe().reasons]
    with tempfile.TemporaryDirectory(prefix="skillpouch-doctor-") as folder:
        outside, workspace = Path(folder).resolve() / "outside", Path(folder).resolve() / "work"
        outside.write_text("out of sight")
        workspace.mkdir()
        limits = Limits(timeout_seconds=10)
        words = (str(outside), str(os.getpid()), str(2 * (limits.memory_bytes or 0)))
        attempt = (this_python(), str(_RUNNERS / "try_protections.py"), *words)
        try:
            ended = _run(attempt, workspace, limits)
        except SkillpouchError as error:
            missing.append(str(error))
            protections, proofs = dict[str, str](), dict[str, str]()
        else:
            protections, proofs = dict(ended.protections), _proofs(ended)
        programs = {"python": this_python()} | {name: find_program(name) for name in _PROGRAMS}
        found = {name: (path, _version(path, workspace)) for name, path in programs.items()}
    return Diagnosis(
        protections=protections, proofs=proofs, missing=tuple(missing), interpreters=found
    )


def _proofs(ended: Ended) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(ended.stdout.text)
    except ValueError:
        return {"fs": f"the attempt failed: {ended.stderr.text.strip()[-200:]}"}
    return found


def _version(program: str, workspace: Path) -> str:
    if not program:
        return "not installed"
    try:
        ended = _run((program, "--version"), workspace, Limits(timeout_seconds=5))
    except SkillpouchError as error:
        return f"cannot be run: {error}"
    lines = (ended.stdout.text or ended.stderr.text).strip().splitlines()
    return next((line.strip() for line in lines if line.strip()), f"exit code {ended.exit_code}")


def _run(argv: tuple[str, ...], workspace: Path, limits: Limits) -> Ended:
    command = Command(argv=argv, env=base_environment(), cwd=workspace, limits=limits)
    confinement = Confinement(
        workspace=workspace, interpreters=homes_of(argv[0]), readable=(_RUNNERS,)
    )
    return run_blocking(run_command(command, confinement))
