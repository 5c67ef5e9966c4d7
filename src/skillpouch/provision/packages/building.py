"""Builds an environment once: locked, confined, with progress, and nothing half-finished left."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skillpouch.environment import base_environment
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.shared import run_command
from skillpouch.limits import Limits
from skillpouch.provision.packages.errors import InstallError
from skillpouch.provision.packages.failures import install_error
from skillpouch.provision.packages.locks import hold
from skillpouch.provision.packages.pythons import Sandbox
from skillpouch.provision.packages.ready import Environment, environment_at
from skillpouch.provision.packages.recipe import Recipe, Step
from skillpouch.provision.packages.store import (
    downloads_folder,
    find_ready,
    leftovers,
    remove,
    write_ready,
)

OnProgress = Callable[[str], None]

_GIB = 1024 * 1024 * 1024
_TICK_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One environment to build in `store`, and for whom."""

    recipe: Recipe
    skill: str
    store: Path
    say: OnProgress
    timeout_seconds: float
    sandbox: Sandbox = "on"

    @property
    def what(self) -> str:
        return f"{', '.join(self.recipe.names)} for {self.skill}"


async def build(job: Job) -> Environment:
    """Build an environment, or wait for whoever is building it.

    Raises:
        InstallError: it could not be built, or not in time; the next call tries again.
        SandboxUnavailableError: this machine cannot confine the installer.
    """
    started = time.monotonic()
    try:
        async with asyncio.timeout(job.timeout_seconds):
            return await _build_locked(job, started)
    except TimeoutError:
        raise InstallError(
            job.skill,
            job.recipe.names,
            f"it was not done after {job.timeout_seconds:g} s",
            hint="call again: what was fetched is kept",
        ) from None


async def _build_locked(job: Job, started: float) -> Environment:
    place = job.store / job.recipe.digest

    def waiting() -> None:
        job.say(f"waiting for another process that is installing {job.what}")

    async with hold(place, waiting):
        found = find_ready(place)
        if found is not None:
            return found
        # Each by its name, which is never used again: a removal that is cancelled here goes on
        # beside the next builder, and an installer that is still dying writes where nobody looks.
        await asyncio.to_thread(remove, leftovers(place))
        folder = place / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            await _with_progress(job, folder, started)
            return await _finish(job, place, folder, time.monotonic() - started)
        finally:
            if find_ready(place) is None:
                await asyncio.to_thread(remove, [folder])


async def _with_progress(job: Job, folder: Path, started: float) -> None:
    job.say(f"installing {job.what}")
    running = asyncio.ensure_future(_install(job, folder))
    try:
        while not (await asyncio.wait({running}, timeout=_TICK_SECONDS))[0]:
            job.say(f"installing {job.what} … {time.monotonic() - started:.0f} s")
        running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})


async def _install(job: Job, folder: Path) -> None:
    downloads = downloads_folder(job.store)
    (folder / "tmp").mkdir()
    for step in job.recipe.steps(folder, downloads):
        ended = await run_step(job, step, folder, downloads)
        if ended.outcome != "ok" and not step.optional:
            raise install_error(job.skill, job.recipe, ended)
    objection = job.recipe.objection(folder)
    if objection:
        hint = "ask whoever publishes the package, or use another"
        raise InstallError(job.skill, job.recipe.names, objection, hint=hint)


async def run_step(job: Job, step: Step, folder: Path, downloads: Path) -> Ended:
    """Run one program of a recipe: it writes the environment and the downloads, nothing else."""
    own = {"TMPDIR": str(folder / "tmp"), **dict(step.settings.variables), **dict(step.variables)}
    command = Command(
        argv=step.argv,
        env=base_environment() | own,
        cwd=folder,
        # Time is watched over by whoever builds; large packages are larger than any tool's output.
        limits=Limits(
            timeout_seconds=2 * job.timeout_seconds,
            memory_bytes=4 * _GIB,
            file_bytes=16 * _GIB,
            open_files=4096,
            processes=256,
        ),
    )
    confinement = Confinement(
        workspace=folder,
        interpreters=step.interpreters,
        readable=step.settings.readable,
        writable=(downloads,),
        # The user's own folders and settings, which may lie behind links of theirs.
        followed=(folder, downloads, *step.settings.readable),
        network=step.network,
        sandbox=job.sandbox,
    )
    return await run_command(command, confinement)


async def _finish(job: Job, place: Path, folder: Path, seconds: float) -> Environment:
    # What the installer unpacked, and its output if it was long.
    await asyncio.to_thread(remove, [folder / "tmp", folder / ".skillpouch"])
    names = list(job.recipe.names)
    record = {"folder": folder.name, "requirements": names, **job.recipe.record()}
    found = environment_at(folder, record)
    if found is None:
        reason = "the installer said it was done, and nothing is there"
        raise InstallError(job.skill, names, reason, hint="look at the installer's settings")
    write_ready(place, record)
    job.say(f"installed {job.what} in {seconds:.0f} s")
    return found
